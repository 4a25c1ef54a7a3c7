//! What was said, on every channel and topic: one history, read by page, by id and by place.

use crate::engine::row::readable;
use crate::mind::gardener::BY_PEOPLE;
use crate::{Store, StoreError, flow::topic};
use cortex_types::{EventId, Millis, SILENCE_MARK, Standing, TopicRef, TurnPlace};
use rusqlite::types::Value;
use rusqlite::{OptionalExtension, Row, params, params_from_iter};

/// Reads the history; turns write it.
pub struct History<'a>(pub(crate) &'a Store);

/// A line of the history as it is recalled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SaidTurn {
    pub id: i64,
    pub event: EventId,
    pub topic: TopicRef,
    pub channel: String,
    pub role: String,
    /// Whose conversation it is.
    pub user_id: String,
    pub content: String,
    pub at: Millis,
    /// What the user is to the owner; the assistant is nothing of that kind.
    pub relationship: Option<String>,
    /// The lines that say what came with it.
    pub attachments: Option<String>,
    /// Its turn had read what others wrote, or it was said by somebody who proved nothing. Whether it holds others' words is
    /// for `holds_others` to say, which knows what came with it too.
    pub untrusted: bool,
}

impl SaidTurn {
    /// The user, or the assistant by its role.
    pub fn speaker(&self) -> &str {
        if self.role == "user" { &self.user_id } else { &self.role }
    }
}

/// Which part of the history; `None` is all of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HistoryFilter {
    pub channel: Option<String>,
    /// Of the topic.
    pub source: Option<String>,
    pub topic_key: Option<String>,
    pub before_id: Option<i64>,
    pub before: Option<Millis>,
    /// What was said to these users.
    pub people: Option<Vec<String>>,
}

impl History<'_> {
    /// The topics in which something was said last, newest first.
    pub async fn topics_lately(&self, limit: u32) -> Result<Vec<TopicRef>, StoreError> {
        self.0
            .read(move |connection| {
                let sql = "SELECT source, topic_key FROM topics ORDER BY \
                           coalesce((SELECT max(turns.id) FROM turns WHERE turns.topic_id = topics.id), 0) DESC, \
                           id DESC LIMIT ?1";
                let mut statement = connection.prepare_cached(sql)?;
                let topics = statement.query_map([limit], |row| {
                    Ok(TopicRef { source: row.get(0)?, topic_key: row.get(1)? })
                })?;
                Ok(topics.collect::<Result<_, _>>()?)
            })
            .await
    }

    /// The newest `limit` lines of a part of the history, oldest first.
    pub async fn newest(&self, filter: HistoryFilter, limit: u32) -> Result<Vec<SaidTurn>, StoreError> {
        self.0
            .read(move |connection| {
                let (conditions, values) = conditions(filter);
                let sql = format!("{TURN} WHERE {conditions} ORDER BY turns.id DESC LIMIT {limit}");
                let mut statement = connection.prepare_cached(&sql)?;
                let rows = statement.query_map(params_from_iter(values), |row| Ok(said_turn(row)))?;
                let mut turns: Vec<SaidTurn> = rows.map(|row| row?).collect::<Result<_, _>>()?;
                turns.reverse();
                Ok(turns)
            })
            .await
    }

    /// The turns with these ids that are still there, in no order.
    pub async fn by_id(&self, ids: Vec<i64>) -> Result<Vec<SaidTurn>, StoreError> {
        self.0
            .read(move |connection| {
                let sql = format!("{TURN} WHERE turns.id = ?1");
                let mut statement = connection.prepare_cached(&sql)?;
                let mut turns = Vec::with_capacity(ids.len());
                for id in ids {
                    if let Some(turn) = statement.query_row([id], |row| Ok(said_turn(row))).optional()? {
                        turns.push(turn?);
                    }
                }
                Ok(turns)
            })
            .await
    }

    /// The newest `limit` messages that a person wrote in a topic.
    pub async fn words_of(
        &self,
        topic: TopicRef,
        user_id: String,
        limit: u32,
    ) -> Result<Vec<String>, StoreError> {
        self.0
            .read(move |connection| {
                let Some(topic_id) = topic::find(connection, &topic)? else { return Ok(Vec::new()) };
                let sql = format!(
                    "SELECT turns.content FROM turns JOIN inbox_messages ON inbox_messages.seq = turns.event_seq
                     WHERE turns.topic_id = ?1 AND inbox_messages.user_id = ?2 AND {BY_PEOPLE}
                     ORDER BY turns.id DESC LIMIT ?3"
                );
                let mut statement = connection.prepare_cached(&sql)?;
                let rows = statement.query_map(params![topic_id, user_id, limit], |row| row.get(0))?;
                readable("turn", rows.map(|row| Ok(row?)))
            })
            .await
    }

    /// What the assistant wrote among the newest `lines` of a topic without having read what others wrote, the newest first:
    /// no more once it comes to `bytes`.
    pub async fn own_words(
        &self,
        topic: TopicRef,
        lines: u32,
        bytes: usize,
    ) -> Result<Vec<String>, StoreError> {
        self.0
            .read(move |connection| {
                let Some(topic_id) = topic::find(connection, &topic)? else { return Ok(Vec::new()) };
                // The bound is on what is looked at, not on what is found: a topic may hold a year of marked answers.
                let mut statement = connection.prepare_cached(
                    "SELECT content FROM turns WHERE topic_id = ?1 AND role = 'assistant' AND untrusted = 0 AND id >=
                       (SELECT min(id) FROM (SELECT id FROM turns WHERE topic_id = ?1 ORDER BY id DESC LIMIT ?2))
                     ORDER BY id DESC",
                )?;
                let rows = statement.query_map(params![topic_id, lines], |row| row.get::<_, String>(0))?;
                up_to(bytes, rows.map(|row| Ok(row?)))
            })
            .await
    }

    /// The texts among the newest `messages` of a topic that its own events led to, so far as neither the event nor anything
    /// it read is others' words, the newest first: questions and notices stand here alone. A question that is only shown again
    /// says the words of another event, and what that one read is not known from here.
    pub async fn own_messages(
        &self,
        topic: TopicRef,
        messages: u32,
        bytes: usize,
    ) -> Result<Vec<String>, StoreError> {
        self.0
            .read(move |connection| {
                let Some(topic_id) = topic::find(connection, &topic)? else { return Ok(Vec::new()) };
                let mut statement = connection.prepare_cached(
                    "SELECT m.text, e.standing FROM outbox_messages m JOIN inbox_messages e ON e.seq = m.event_seq
                     WHERE m.topic_id = ?1 AND e.topic_id = ?1 AND m.seq >= (SELECT min(seq) FROM
                         (SELECT seq FROM outbox_messages WHERE topic_id = ?1 ORDER BY seq DESC LIMIT ?2))
                       AND NOT EXISTS (SELECT 1 FROM turn_steps s
                         WHERE s.event_seq = m.event_seq AND s.kind = 'untrusted_read')
                       AND (m.payload_json IS NULL OR EXISTS (SELECT 1 FROM turn_steps s
                         WHERE s.event_seq = m.event_seq AND s.kind = 'approval_asked'))
                     ORDER BY m.seq DESC",
                )?;
                let rows = statement.query_map(params![topic_id, messages], |row| {
                    let standing: String = row.get(1)?;
                    Ok((standing.parse().is_ok_and(Standing::is_proven), row.get::<_, String>(0)?))
                })?;
                let own = rows.filter_map(|row| match row {
                    Ok((is_proven, text)) => is_proven.then_some(Ok(text)),
                    Err(error) => Some(Err(error.into())),
                });
                up_to(bytes, own)
            })
            .await
    }

    /// Where these turns stand among the others of their topics; those that are gone are left out.
    pub async fn places(&self, ids: Vec<i64>) -> Result<Vec<TurnPlace>, StoreError> {
        self.0
            .read(move |connection| {
                let mut statement = connection.prepare_cached(
                    "SELECT turns.id,
                       (SELECT max(id) FROM turns AS other WHERE other.topic_id = turns.topic_id AND other.id < turns.id
                          AND other.content <> ?2),
                       (SELECT min(id) FROM turns AS other WHERE other.topic_id = turns.topic_id AND other.id > turns.id
                          AND other.content <> ?2),
                       CASE role WHEN 'user' THEN user_id ELSE role END
                     FROM turns JOIN inbox_messages ON inbox_messages.seq = turns.event_seq WHERE turns.id = ?1",
                )?;
                let place = |row: &Row<'_>| {
                    Ok(TurnPlace { id: row.get(0)?, before: row.get(1)?, after: row.get(2)?, speaker: row.get(3)? })
                };
                let mut places = Vec::with_capacity(ids.len());
                for id in ids {
                    places.extend(statement.query_row(params![id, SILENCE_MARK], place).optional()?);
                }
                Ok(places)
            })
            .await
    }
}

/// Texts until they come to `bytes`.
fn up_to(
    bytes: usize,
    texts: impl Iterator<Item = Result<String, StoreError>>,
) -> Result<Vec<String>, StoreError> {
    let mut left = bytes;
    let texts = texts.take_while(|text| {
        let has_room = left > 0;
        left = left.saturating_sub(text.as_ref().map_or(0, String::len));
        has_room
    });
    readable("line", texts)
}

/// `said_in` is the channel of a line: its event's, or that of the other topic it was said in.
pub(crate) const TURN: &str = "SELECT turns.id, inbox_messages.id, topics.source, topics.topic_key, turns.role,
    inbox_messages.user_id, turns.content, turns.timestamp,
    CASE turns.topic_id WHEN inbox_messages.topic_id THEN coalesce(inbox_messages.channel, inbox_messages.source)
      ELSE topics.source END AS said_in,
    CASE turns.role WHEN 'user' THEN coalesce(inbox_messages.relationship, 'owner') END, turns.attachments,
    turns.untrusted, inbox_messages.standing
    FROM turns JOIN inbox_messages ON inbox_messages.seq = turns.event_seq JOIN topics ON topics.id = turns.topic_id";

pub(crate) fn said_turn(row: &Row<'_>) -> Result<SaidTurn, StoreError> {
    let (event, standing): (String, String) = (row.get(1)?, row.get(12)?);
    let is_proven = standing.parse().is_ok_and(Standing::is_proven);
    Ok(SaidTurn {
        id: row.get(0)?,
        event: event.parse().map_err(|_| StoreError::Damaged(format!("event {event}: its id is no id")))?,
        topic: TopicRef { source: row.get(2)?, topic_key: row.get(3)? },
        role: row.get(4)?,
        user_id: row.get(5)?,
        content: row.get(6)?,
        at: Millis(row.get(7)?),
        channel: row.get(8)?,
        relationship: row.get(9)?,
        attachments: row.get(10)?,
        untrusted: row.get::<_, bool>(11)? || !is_proven,
    })
}

fn conditions(filter: HistoryFilter) -> (String, Vec<Value>) {
    let mut parts = vec!["1".to_owned()];
    let mut values = Vec::new();
    let mut add = |condition: &str, value: Value| {
        parts.push(condition.to_owned());
        values.push(value);
    };
    if let Some(topic_key) = filter.topic_key {
        add("turns.topic_id IN (SELECT id FROM topics WHERE topic_key = ?)", Value::Text(topic_key));
    }
    if let Some(source) = filter.source {
        add("topics.source = ?", Value::Text(source));
    }
    if let Some(channel) = filter.channel {
        add("said_in = ?", Value::Text(channel));
    }
    if let Some(id) = filter.before_id {
        add("turns.id < ?", Value::Integer(id));
    }
    if let Some(at) = filter.before {
        add("turns.timestamp < ?", Value::Integer(at.0));
    }
    if let Some(people) = filter.people {
        parts.push(format!("inbox_messages.user_id IN ({})", vec!["?"; people.len()].join(", ")));
        values.extend(people.into_iter().map(Value::Text));
    }
    (parts.join(" AND "), values)
}
