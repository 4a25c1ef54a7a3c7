//! Whether an event is let into the inbox: it is there already, or there is room for it.

use super::accept as keep;
use crate::{
    Store, StoreError,
    engine::{audit, capacity},
};
use cortex_types::{AcceptedEvent, EventId, Millis, NewEvent};
use rusqlite::{Connection, OptionalExtension, params};

/// Keeps an event for which there is room.
pub(super) async fn accept(store: &Store, new: NewEvent, now: Millis) -> Result<AcceptedEvent, StoreError> {
    // Whoever sends an event again gets the same answer, however little room there is.
    if let Err(full) = store.capacity().admit(&new)
        && !is_there(store, &new).await?
    {
        return Err(StoreError::Full(full));
    }
    let capacity = store.capacity().clone();
    store
        .write(move |connection| {
            let full = capacity.full_beside_staged(connection, &new)?;
            if let Some(full) = full
                && first_of(connection, &new)?.is_none()
            {
                return Err(StoreError::Full(full));
            }
            let accepted = keep(connection, &new, now)?;
            match &accepted {
                AcceptedEvent::Queued(_) => capacity::arrived(&new),
                // Nothing deletes these lines: there is one for an event, and none when there is no room.
                AcceptedEvent::Duplicate { first, same_body: false }
                    if full.is_none() && capacity.full().is_none() =>
                {
                    let detail =
                        format!("{} {} came again with another body", new.source, new.external_message_id);
                    audit::record_once(connection, now, "payload_mismatch", first.as_str(), &detail)?;
                }
                AcceptedEvent::Duplicate { .. }
                | AcceptedEvent::ChannelOff
                | AcceptedEvent::NameRefused(_) => {}
            }
            Ok(accepted)
        })
        .await
}

async fn is_there(store: &Store, new: &NewEvent) -> Result<bool, StoreError> {
    let (source, external_id) = (new.source.clone(), new.external_message_id.clone());
    store
        .read(move |connection| {
            let mut found = connection.prepare_cached(
                "SELECT 1 FROM inbox_messages WHERE source = ?1 AND external_message_id = ?2",
            )?;
            Ok(found.exists([source, external_id])?)
        })
        .await
}

pub(super) fn metadata_of(
    connection: &Connection,
    source: &str,
    external_message_id: &str,
) -> Result<Option<String>, StoreError> {
    let mut found = connection.prepare_cached(
        "SELECT metadata_json FROM inbox_messages WHERE source = ?1 AND external_message_id = ?2",
    )?;
    // What cannot be read says nothing, and the event still came before.
    let metadata = found.query_row([source, external_message_id], |row| Ok(row.get(0).unwrap_or_default()));
    Ok(metadata.optional()?)
}

/// The event that was accepted under this name before, and whether it said the same.
pub(super) fn first_of(
    connection: &Connection,
    new: &NewEvent,
) -> Result<Option<(EventId, bool)>, StoreError> {
    let first: Option<(String, bool)> = connection
        .prepare_cached(
            "SELECT id, topic_key = ?3 AND user_id = ?4 AND text = ?5 AND metadata_json IS ?6 AND answer_sha256 IS ?7
             FROM inbox_messages WHERE source = ?1 AND external_message_id = ?2",
        )?
        .query_row(
            params![
                new.source,
                new.external_message_id,
                new.topic_key,
                new.user_id,
                new.text,
                new.metadata_json,
                new.answer.as_ref().map(|answer| answer.token_sha256),
            ],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .optional()?;
    let Some((first, same_body)) = first else { return Ok(None) };
    let first = first.parse().map_err(|error| StoreError::Damaged(format!("{error}")))?;
    Ok(Some((first, same_body)))
}
