//! The modes in force, as they are on disk: what may leave, and what is run.

use crate::StoreError;
use cortex_types::{ChannelMode, ModeTable};
use rusqlite::{Connection, OptionalExtension};
use std::borrow::Cow;

/// Why nothing may leave for `target` on behalf of this event, if one led to it; `None` when it may (invariant 6).
pub(crate) fn refusal(
    connection: &Connection,
    event_seq: Option<i64>,
    target: &str,
) -> Result<Option<String>, StoreError> {
    if all_are_live(connection)? {
        return Ok(None);
    }
    let refused = not_live(connection, target, "target")?;
    match event_seq {
        Some(event_seq) if refused.is_none() => {
            not_live(connection, &origin_of(connection, event_seq)?, "source")
        }
        Some(_) | None => Ok(refused),
    }
}

/// The same for a message that was queued already. Where the channel of its event cannot be read it does not leave, for that
/// channel may be one that is not live; the others go on. What is wrong with the target's is no fault of the message.
pub(crate) fn refusal_of_queued(
    connection: &Connection,
    event_seq: Option<i64>,
    target: &str,
) -> Result<Option<String>, StoreError> {
    match refusal(connection, event_seq, target) {
        Err(StoreError::Damaged(reason)) => {
            match (mode_of(connection, target), event_seq) {
                (Err(error), Some(event_seq)) if !error.spoils_batch() => {
                    // What may not leave for its event's sake is never sent, whatever the target turns out to be.
                    let origin = origin_of(connection, event_seq);
                    return match origin.and_then(|origin| not_live(connection, &origin, "source")) {
                        Ok(Some(refused)) => Ok(Some(refused)),
                        // A disk or a file that fails says nothing of the row.
                        Err(failed) if failed.spoils_batch() => Err(failed),
                        Ok(None) | Err(_) => Err(error),
                    };
                }
                (Err(error), _) => return Err(error),
                (Ok(_), _) => {}
            }
            tracing::error!(event_seq, reason, "The channel of a message's event cannot be read");
            Ok(Some("the source channel cannot be read: it was damaged on disk".to_owned()))
        }
        known => known,
    }
}

fn not_live(connection: &Connection, channel: &str, role: &str) -> Result<Option<String>, StoreError> {
    let mode = mode_of(connection, channel)?;
    Ok((mode != ChannelMode::Live).then(|| format!("the {role} channel {channel} is {mode}")))
}

/// The name whose mode what an event led to has.
fn origin_of(connection: &Connection, event_seq: i64) -> Result<String, StoreError> {
    let found: Option<(String, String)> = connection
        .prepare_cached("SELECT coalesce(channel, source), source FROM inbox_messages WHERE seq = ?1")?
        .query_row([event_seq], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let missing = || StoreError::Damaged(format!("event {event_seq}: it is not there"));
    let (channel, source) = found.ok_or_else(missing)?;
    Ok(StoredModes(connection).origin_of(&channel, &source)?.to_owned())
}

/// So it is in most homes; then no channel has to be looked up.
fn all_are_live(connection: &Connection) -> Result<bool, StoreError> {
    let mut other = connection.prepare_cached("SELECT 1 FROM channel_modes WHERE mode <> 'live'")?;
    Ok(!other.exists([])?)
}

/// The modes as they are on disk.
pub(super) struct StoredModes<'a>(pub(super) &'a Connection);

impl ModeTable for StoredModes<'_> {
    type Error = StoreError;

    fn listed(&self, channel: &str) -> Result<Option<ChannelMode>, StoreError> {
        let word: Option<String> = self
            .0
            .prepare_cached("SELECT mode FROM channel_modes WHERE channel = ?1")?
            .query_row([channel], |row| row.get(0))
            .optional()?;
        let mode = word.map(|word| word.parse()).transpose();
        mode.map_err(|error| StoreError::Damaged(format!("the mode of channel {channel:?}: {error}")))
    }

    fn unlisted(&self) -> Result<ChannelMode, StoreError> {
        Ok(self.listed(UNLISTED)?.unwrap_or(ChannelMode::Live))
    }

    fn learned(&self, source: &str) -> Result<Option<Cow<'_, str>>, StoreError> {
        let channel: Option<String> = self
            .0
            .prepare_cached("SELECT channel FROM channel_sources WHERE source = ?1")?
            .query_row([source], |row| row.get(0))
            .optional()?;
        Ok(channel.map(Cow::Owned))
    }
}

pub(crate) fn mode_of(connection: &Connection, channel: &str) -> Result<ChannelMode, StoreError> {
    StoredModes(connection).mode_of(channel)
}

/// Whether no event of this channel is run: it is off itself, or the channel of its topic is. Where that cannot be read, what
/// came waits until its mode is set or its name is learned anew.
pub(crate) fn is_off(
    connection: &Connection,
    channel: Option<&str>,
    source: &str,
) -> Result<bool, StoreError> {
    if all_are_live(connection)? {
        return Ok(false);
    }
    match StoredModes(connection).is_off(channel.unwrap_or(source), source) {
        Err(StoreError::Damaged(reason)) => {
            tracing::error!(source, reason, "The mode of a channel cannot be read; its events wait");
            Ok(true)
        }
        known => known,
    }
}

/// The name of the row for all channels that have none.
pub(super) const UNLISTED: &str = "";

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// A database in which the mode of `b` is damaged.
    fn with_a_damaged_mode(path: &Path) -> Connection {
        let connection = Connection::open(path).unwrap();
        let schema = "CREATE TABLE channel_modes(channel, mode); INSERT INTO channel_modes VALUES ('b', 'livf');
            CREATE TABLE channel_sources(source, channel);
            CREATE TABLE inbox_messages(seq, channel, source); INSERT INTO inbox_messages VALUES (1, NULL, 'a')";
        connection.execute_batch(schema).unwrap();
        connection
    }

    #[test]
    fn a_file_that_fails_is_not_told_as_a_damaged_row() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cortex.db");
        let connection = with_a_damaged_mode(&path);
        assert!(matches!(refusal_of_queued(&connection, Some(1), "b"), Err(StoreError::Damaged(_))));
        drop(connection);
        cortex_testkit::damage_first_page(&path, "inbox_messages");
        let connection = Connection::open(&path).unwrap();
        let refused = refusal_of_queued(&connection, Some(1), "b");
        assert!(matches!(refused, Err(StoreError::FileDamaged(_))), "{refused:?}");
    }
}
