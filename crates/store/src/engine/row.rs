//! Rows to values: the columns of an event in one order, with its checksum compared.

use crate::{StoreError, engine::checksum};
use cortex_types::{
    Audience, Decision, Event, EventId, GivenAnswer, InboxStatus, Millis, NewEvent, Priority, Standing,
    TopicRef,
};
use rusqlite::Row;

pub(crate) const EVENT_COLUMNS: &str = "seq, id, source, topic_key, external_message_id, idempotency_key, user_id, \
    text, occurred_at, metadata_json, priority, status, attempts, error, created_at, updated_at, checksum, channel, \
    standing, answer_sha256, answer_decision, (SELECT is_group FROM topics WHERE topics.id = inbox_messages.topic_id)";

pub(crate) fn event_checksum(event: &NewEvent, created_at: Millis) -> u32 {
    let mut texts = vec![
        event.id.as_str(),
        &event.source,
        &event.topic_key,
        &event.external_message_id,
        &event.idempotency_key,
        &event.user_id,
        &event.text,
        event.metadata_json.as_deref().unwrap_or_default(),
    ];
    texts.extend(event.channel.as_deref());
    // Rows from before have neither, and their sums stay right.
    if event.standing != Standing::Owner {
        texts.push(event.standing.as_str());
    }
    let digest = event.answer.as_ref().map(|answer| hex(&answer.token_sha256));
    texts.extend(digest.as_deref());
    texts.extend(event.answer.as_ref().and_then(|answer| answer.decision).map(Decision::as_str));
    checksum::of(&texts, &[event.occurred_at.0, event.priority.rank(), created_at.0])
}

/// Reads `EVENT_COLUMNS`; a row that does not match its checksum is `Damaged`.
pub(crate) fn event(row: &Row<'_>) -> Result<Event, StoreError> {
    let id: String = row.get(1)?;
    let damaged = |what: &str| StoreError::Damaged(format!("event {id}: {what}"));
    let standing: String = row.get(18)?;
    let as_it_came = NewEvent {
        id: id.parse::<EventId>().map_err(|_| damaged("its id is no id"))?,
        source: row.get(2)?,
        topic_key: row.get(3)?,
        external_message_id: row.get(4)?,
        idempotency_key: row.get(5)?,
        user_id: row.get(6)?,
        text: row.get(7)?,
        occurred_at: Millis(row.get(8)?),
        metadata_json: row.get(9)?,
        priority: Priority::from_rank(row.get(10)?),
        channel: row.get(17)?,
        relationship: None,
        standing: standing.parse().map_err(|_| damaged("its standing is unknown"))?,
        answer: answer(row).map_err(|()| damaged("its answer cannot be read"))?,
    };
    let status: String = row.get(11)?;
    let created_at = Millis(row.get(14)?);
    let stored: u32 = row.get(16)?;
    if stored != event_checksum(&as_it_came, created_at) {
        return Err(damaged("it does not match its checksum"));
    }
    let of_topic = if row.get(21)? { Audience::Group } else { Audience::Private };
    let metadata = as_it_came.metadata_json.as_deref();
    Ok(Event {
        seq: row.get(0)?,
        audience: Audience::of_event(as_it_came.standing, metadata, of_topic),
        id: as_it_came.id,
        channel: as_it_came.channel.unwrap_or_else(|| as_it_came.source.clone()),
        topic: TopicRef { source: as_it_came.source, topic_key: as_it_came.topic_key },
        external_message_id: as_it_came.external_message_id,
        idempotency_key: as_it_came.idempotency_key,
        user_id: as_it_came.user_id,
        text: as_it_came.text,
        occurred_at: as_it_came.occurred_at,
        metadata_json: as_it_came.metadata_json,
        priority: as_it_came.priority,
        status: status.parse::<InboxStatus>().map_err(|_| damaged("its status is unknown"))?,
        attempts: row.get(12)?,
        error: row.get(13)?,
        created_at,
        updated_at: Millis(row.get(15)?),
        standing: as_it_came.standing,
        answer: as_it_came.answer,
    })
}

fn answer(row: &Row<'_>) -> Result<Option<GivenAnswer>, ()> {
    let digest: Option<[u8; 32]> = row.get(19).map_err(drop)?;
    let Some(token_sha256) = digest else { return Ok(None) };
    let word: Option<String> = row.get(20).map_err(drop)?;
    let decision = word.map(|word| Decision::from_word(&word).ok_or(())).transpose()?;
    Ok(Some(GivenAnswer { token_sha256, decision }))
}

/// The rows that can be read. One that is damaged is logged and left out: those beside it are whole (D92).
pub(crate) fn readable<T>(
    what: &str,
    rows: impl Iterator<Item = Result<T, StoreError>>,
) -> Result<Vec<T>, StoreError> {
    let mut whole = Vec::new();
    for row in rows {
        match row {
            Ok(row) => whole.push(row),
            Err(StoreError::Damaged(reason)) => {
                tracing::error!(what, reason, "A stored row is damaged and is left out");
            }
            Err(other) => return Err(other),
        }
    }
    Ok(whole)
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
