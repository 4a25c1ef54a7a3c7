//! The names of channels: which source is on which, and that no source takes the name of another.

use super::mode::StoredModes;
use crate::{StoreError, door::connector, flow::topic};
use cortex_types::{ModeTable, NameRefusal, is_machine_channel};
use rusqlite::{Connection, OptionalExtension};

/// What an event says of the channel that its source is. One that comes from inside, or is on the channel of its source's
/// own name, says nothing of it.
pub(crate) fn learn_of_event(
    connection: &Connection,
    source: &str,
    channel: &str,
) -> Result<Result<(), NameRefusal>, StoreError> {
    if channel == source || is_machine_channel(channel) {
        return Ok(Ok(()));
    }
    learn_source(connection, source, channel)
}

pub(super) fn learn_source(
    connection: &Connection,
    source: &str,
    channel: &str,
) -> Result<Result<(), NameRefusal>, StoreError> {
    let modes = StoredModes(connection);
    let known = match modes.learned(source) {
        // A name that cannot be read is learned anew: else nothing of the source would be accepted or sent any more.
        Err(StoreError::Damaged(reason)) => {
            tracing::error!(source, reason, "The channel of a source cannot be read; it is learned anew");
            None
        }
        known => known?,
    };
    if let Some(known) = known {
        let bound = || NameRefusal::Bound { of: source.to_owned(), channel: known.to_string() };
        return Ok(if *known == *channel { Ok(()) } else { Err(bound()) });
    }
    if let refused @ Err(_) = check_name(connection, source, channel)? {
        return Ok(refused);
    }
    connection
        .prepare_cached(
            "INSERT INTO channel_sources(source, channel) VALUES (?1, ?2)
             ON CONFLICT(source) DO UPDATE SET channel = excluded.channel",
        )?
        .execute([source, channel])?;
    topic::refresh_all(connection)?;
    Ok(Ok(()))
}

/// A name is in use when another source was learned to be it, or when there is a source of that name: it spoke or was
/// spoken to, or it has a key and will.
pub(super) fn check_name(
    connection: &Connection,
    source: &str,
    channel: &str,
) -> Result<Result<(), NameRefusal>, StoreError> {
    let taken = |by: String| NameRefusal::Taken { channel: channel.to_owned(), by };
    let learned: Option<String> = connection
        .prepare_cached("SELECT source FROM channel_sources WHERE channel = ?2 AND source <> ?1")?
        .query_row([source, channel], |row| row.get(0))
        .optional()?;
    if let Some(by) = learned {
        return Ok(Err(taken(by)));
    }
    let mut topics = connection.prepare_cached("SELECT 1 FROM topics WHERE source = ?1 LIMIT 1")?;
    let is_anothers =
        source != channel && (topics.exists([channel])? || connector::is_guarded(connection, channel)?);
    Ok(if is_anothers { Err(taken(channel.to_owned())) } else { Ok(()) })
}
