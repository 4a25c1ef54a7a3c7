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
    last_turn: i64,
    now: Millis,
) -> Result<(), StoreError> {
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO checkpoints(event_seq, created_at, session_snapshot, channel_states, pending_ops)
             VALUES (?1, ?2,
               json_object('source', ?3, 'topicKey', ?4, 'lastTurn', ?5),
               (SELECT json_group_array(json_object('channel', channel, 'lastMessageAt', last_message_at, 'layer', layer))
                FROM (SELECT channel, max(last_message_at) AS last_message_at, layer FROM
                      (SELECT channel, last_message_at, layer FROM channel_states WHERE layer <> 'archived'
                       ORDER BY last_message_at DESC LIMIT 16)
                      GROUP BY channel ORDER BY 2 DESC)),
               (SELECT json_group_array(json_object('id', id, 'status', status))
                FROM (SELECT id, status FROM ops
                      WHERE acknowledged_at IS NULL AND status IN ('pending', 'completed', 'failed')
                      ORDER BY dispatched_at LIMIT 100)))",
        )?
        .execute(params![event.seq, now.0, event.topic.source, event.topic.topic_key, last_turn])?;
    // More than one, so that a backlog shrinks; few, so that no turn pays for a week.
    connection
        .prepare_cached(
            "DELETE FROM checkpoints WHERE id IN (
               SELECT id FROM checkpoints WHERE created_at < ?1 ORDER BY created_at LIMIT 4)",
        )?
        .execute([now.0 - KEPT_MS])?;
    Ok(())
}
