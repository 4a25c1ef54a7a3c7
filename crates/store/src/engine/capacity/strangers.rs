//! What sources without a key have filled of the database: one number that their rows keep, and counting them where it is lost.

use crate::StoreError;
use cortex_types::{NewEvent, is_local};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension};

/// What an event of a stranger takes beside its words, roughly: rows of its turn, its topic and its channel, and indexes.
const STRANGERS_EVENT_BYTES: usize = 2_048;
/// How often its names stand in those.
const NAMES_KEPT: usize = 4;

/// The same of all rows that are there, as migration 15 counted them once; the triggers there add and take the same.
const COUNT_ALL: &str = "SELECT
  (SELECT coalesce(sum(2048 + octet_length(text) + coalesce(octet_length(metadata_json), 0)
     + 4 * (octet_length(source) + octet_length(external_message_id) + octet_length(topic_key)
     + octet_length(user_id) + octet_length(idempotency_key))), 0) FROM inbox_messages WHERE source GLOB 'local:*')
  + (SELECT coalesce(sum(2 * octet_length(content)), 0) FROM turns WHERE event_seq IN theirs)
  + (SELECT coalesce(sum(256 + octet_length(body_json)), 0) FROM turn_steps WHERE event_seq IN theirs)
  + (SELECT coalesce(sum(64 + octet_length(detail)), 0) FROM trace_notes WHERE event_seq IN theirs)
  + (SELECT coalesce(sum(512 + octet_length(text) + coalesce(octet_length(payload_json), 0)), 0)
     FROM outbox_messages WHERE source GLOB 'local:*')
  + (SELECT coalesce(sum(512 + octet_length(tool_arguments_json) + coalesce(octet_length(question), 0)
     + coalesce(octet_length(preview), 0)), 0) FROM pending_approvals WHERE source GLOB 'local:*')";

/// An event is kept: if nobody's key stands for its source, it adds itself to what strangers fill. What comes of it does so
/// by triggers of the schema.
pub(crate) fn count_strangers(connection: &Connection, new: &NewEvent) -> Result<(), StoreError> {
    if !is_local(&new.source) {
        return Ok(());
    }
    let names = [&new.source, &new.external_message_id, &new.topic_key, &new.user_id, &new.idempotency_key];
    let names: usize = names.iter().map(|name| name.len()).sum();
    let metadata = new.metadata_json.as_ref().map_or(0, String::len);
    let bytes = STRANGERS_EVENT_BYTES + new.text.len() + metadata + NAMES_KEPT * names;
    connection
        .prepare_cached("UPDATE strangers_room SET bytes = bytes + ?1")?
        .execute([i64::try_from(bytes).unwrap_or(i64::MAX)])?;
    Ok(())
}

/// The number, or what a count of the rows says where there is none that can be: nothing is written.
pub(super) fn bytes(connection: &Connection) -> Result<u64, StoreError> {
    match kept(connection)? {
        Some(bytes) => Ok(bytes),
        None => count(connection),
    }
}

/// The same, and the number is there again.
pub(super) fn bytes_mended(connection: &Connection) -> Result<u64, StoreError> {
    if let Some(bytes) = kept(connection)? {
        return Ok(bytes);
    }
    let bytes = count(connection)?;
    tracing::error!(
        bytes,
        "The number of what connectors without a key have filled was damaged, and was counted anew"
    );
    connection
        .prepare_cached("INSERT OR REPLACE INTO strangers_room(only_row, bytes) VALUES (1, ?1)")?
        .execute([i64::try_from(bytes).unwrap_or(i64::MAX)])?;
    Ok(bytes)
}

fn kept(connection: &Connection) -> Result<Option<u64>, StoreError> {
    let mut row = connection.prepare_cached("SELECT bytes FROM strangers_room WHERE only_row = 1")?;
    let found = row.query_row([], |row| match row.get_ref(0)? {
        ValueRef::Integer(bytes) => Ok(u64::try_from(bytes).ok()),
        ValueRef::Null | ValueRef::Real(_) | ValueRef::Text(_) | ValueRef::Blob(_) => Ok(None),
    });
    Ok(found.optional()?.flatten())
}

fn count(connection: &Connection) -> Result<u64, StoreError> {
    let sql = format!(
        "WITH theirs AS MATERIALIZED (SELECT seq FROM inbox_messages WHERE source GLOB 'local:*') {COUNT_ALL}"
    );
    Ok(connection.prepare(&sql)?.query_row([], |row| row.get(0))?)
}
