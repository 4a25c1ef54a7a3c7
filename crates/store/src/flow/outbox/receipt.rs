//! How events ended, for whoever follows many of them: a status and a number each, and never a text.

use crate::StoreError;
use cortex_types::{EventId, InboxStatus};
use rusqlite::{Connection, OptionalExtension, params};

/// An event whose turn has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedEvent {
    pub event: EventId,
    pub status: InboxStatus,
    pub external_message_id: String,
    pub topic_key: String,
    /// Messages to its own topic that were not held back.
    pub replies: u64,
}

/// Those of the events that have ended.
pub(super) fn ended(connection: &Connection, events: &[EventId]) -> Result<Vec<EndedEvent>, StoreError> {
    let mut find = connection.prepare_cached(
        "SELECT seq, topic_id, status, external_message_id, topic_key FROM inbox_messages
         WHERE id = ?1 AND status IN ('done', 'failed')",
    )?;
    let mut count = connection.prepare_cached(
        "SELECT count(*) FROM outbox_messages
         WHERE event_seq = ?1 AND topic_id = ?2 AND status IN ('pending', 'leased', 'delivered', 'dead')",
    )?;
    let mut ended = Vec::new();
    for event in events {
        let found = find
            .query_row([event.as_str()], |row| {
                let place: (i64, i64) = (row.get(0)?, row.get(1)?);
                Ok((place, row.get::<_, String>(2)?, row.get(3)?, row.get(4)?))
            })
            .optional()?;
        let Some(((seq, topic), status, external_message_id, topic_key)) = found else { continue };
        let status =
            status.parse().map_err(|error| StoreError::Damaged(format!("event {event}: {error}")))?;
        let replies = count.query_row(params![seq, topic], |row| row.get(0))?;
        ended.push(EndedEvent { event: event.clone(), status, external_message_id, topic_key, replies });
    }
    Ok(ended)
}
