//! A question that ended: its prompt keeps no button and no token (SECURITY 19).

use super::{QUEUED_COLUMNS, as_queued, row_checksum};
use crate::StoreError;
use crate::flow::trace::{self, NoteKind};
use crate::flow::turn::shorten;
use cortex_types::{Millis, NewReply, OutboxId, TopicRef, blank_tokens};
use rusqlite::{Connection, OptionalExtension, Row, params};

/// What is said in place of a prompt that cannot be read.
const DAMAGED: &str = "The words of this question were damaged on disk and are gone. The question is closed; ask again \
                       if it is still to be done.";

/// The message that asks a question, as the question itself knows it: what is damaged about it is written anew.
pub(crate) struct Prompt<'a> {
    pub(crate) id: &'a str,
    pub(crate) topic: &'a TopicRef,
    pub(crate) event_seq: i64,
    pub(crate) asked_at: Millis,
}

/// Takes the buttons and every token out of a question's prompt, with its checksum made anew.
pub(crate) fn blank_prompt(
    connection: &Connection,
    prompt: &Prompt<'_>,
    now: Millis,
) -> Result<(), StoreError> {
    let sql = format!("SELECT {QUEUED_COLUMNS} FROM outbox_messages WHERE id = ?1");
    let found = connection.prepare_cached(&sql)?.query_row([prompt.id], |row| Ok(queued(row))).optional()?;
    match found {
        None => Ok(()),
        Some(Ok((reply, event_seq, created_at))) => {
            let text = blank_tokens(&reply.text).into_owned();
            let blanked = NewReply { payload_json: None, text, ..reply };
            connection
                .prepare_cached(
                    "UPDATE outbox_messages SET payload_json = NULL, text = ?3, checksum = ?2 WHERE id = ?1",
                )?
                .execute(params![prompt.id, row_checksum(&blanked, event_seq, created_at), blanked.text])?;
            Ok(())
        }
        Some(Err(StoreError::Damaged(reason))) => blank_blindly(connection, prompt, &reason, now),
        Some(Err(other)) => Err(other),
    }
}

fn queued(row: &Row<'_>) -> Result<(NewReply, Option<i64>, Millis), StoreError> {
    Ok((as_queued(row)?, row.get(5)?, Millis(row.get(6)?)))
}

/// A prompt that cannot be read may hold its token anywhere, so none of it stays. One that was not delivered is dead: nobody
/// could answer what it would say.
fn blank_blindly(
    connection: &Connection,
    prompt: &Prompt<'_>,
    reason: &str,
    now: Millis,
) -> Result<(), StoreError> {
    let Prompt { id, topic, event_seq, asked_at } = prompt;
    tracing::error!(id, reason, "The message of a question is damaged; its words are gone");
    let blanked = NewReply {
        id: id.parse::<OutboxId>().map_err(|error| StoreError::Damaged(format!("{error}")))?,
        topic: (*topic).clone(),
        text: DAMAGED.to_owned(),
        payload_json: None,
    };
    connection
        .prepare_cached(
            "UPDATE outbox_messages SET payload_json = NULL, text = ?2, source = ?3, topic_key = ?4, event_seq = ?5,
               created_at = ?6, checksum = ?7, updated_at = ?8 WHERE id = ?1",
        )?
        .execute(params![
            id,
            blanked.text,
            topic.source,
            topic.topic_key,
            event_seq,
            asked_at.0,
            row_checksum(&blanked, Some(*event_seq), *asked_at),
            now.0,
        ])?;
    let reason = shorten(&format!("damaged on disk: {reason}"));
    let ended = connection
        .prepare_cached(
            "UPDATE outbox_messages SET status = 'dead', lease_token = NULL, lease_expires_at = NULL, last_error = ?2
             WHERE id = ?1 AND status IN ('pending', 'leased')",
        )?
        .execute(params![id, reason])?;
    if ended == 1 { trace::note(connection, *event_seq, now, NoteKind::Dead, &reason) } else { Ok(()) }
}
