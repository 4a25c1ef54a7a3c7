//! Checkpoints: where everything stood when a turn ended, kept for a while.

use crate::StoreError;
use cortex_types::{Event, Millis};
use rusqlite::{Connection, params};

/// How long a checkpoint is kept.
const KEPT_MS: i64 = 7 * 24 * 60 * 60 * 1_000;

/// Records the end of an event's turn, inside its transaction, and takes a few old ones away.
pub(crate) fn record(
    connection: &Connection,
    event: &Event,
    topic: i64,
    last_turn: i64,
    now: Millis,
) -> Result<(), StoreError> {
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO checkpoints(event_seq, topic_id, last_turn_id, created_at) VALUES (?1, ?2, ?3, ?4)",
        )?
        .execute(params![event.seq, topic, last_turn, now.0])?;
    // The oldest events have the oldest checkpoints, but for some that waited. More than one, so that a backlog shrinks;
    // few, so that no turn pays for a week.
    connection
        .prepare_cached(
            "DELETE FROM checkpoints WHERE created_at < ?1 AND event_seq IN
               (SELECT event_seq FROM checkpoints ORDER BY event_seq LIMIT 4)",
        )?
        .execute([now.0 - KEPT_MS])?;
    Ok(())
}
