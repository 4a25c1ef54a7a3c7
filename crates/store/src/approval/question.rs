//! How many questions may be open at a time.

use crate::StoreError;
use cortex_types::is_local;
use cortex_types::limits::{OPEN_QUESTIONS_MAX, STRANGERS_QUESTIONS_MAX};
use rusqlite::Connection;

/// How many more questions a turn of this source may ask. Programs without a key could ask the owner without end, turn after
/// turn and under one name after the other. Counted where they are written: two that ask at once must not both find room.
pub(super) fn room(connection: &Connection, source: &str) -> Result<usize, StoreError> {
    if !is_local(source) {
        return Ok(usize::MAX);
    }
    let (all, own) = connection
        .prepare_cached(
            "SELECT count(*), count(*) FILTER (WHERE source = ?1) FROM pending_approvals
             WHERE status = 'pending' AND source GLOB 'local:*'",
        )?
        .query_row([source], |row| Ok((row.get::<_, usize>(0)?, row.get::<_, usize>(1)?)))?;
    Ok(STRANGERS_QUESTIONS_MAX.saturating_sub(all).min(OPEN_QUESTIONS_MAX.saturating_sub(own)))
}
