//! Open questions: how many there may be at a time, and since when a person has one before them.

use super::{Approvals, SELECT, read};
use crate::StoreError;
use crate::row::readable;
use cortex_types::limits::{OPEN_QUESTIONS_MAX, STRANGERS_QUESTIONS_MAX};
use cortex_types::{Approval, ApprovalId, Millis, TopicRef, is_local};
use rusqlite::{Connection, OptionalExtension, params};

/// A question that is open, and since when the person has it before them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenQuestion {
    pub approval: Approval,
    /// `None` while its message is not delivered.
    pub shown_at: Option<Millis>,
}

impl Approvals<'_> {
    /// At most `limit` open questions to a person in a topic, the oldest first.
    pub async fn open_for(
        &self,
        topic: TopicRef,
        user_id: String,
        now: Millis,
        limit: u32,
    ) -> Result<Vec<OpenQuestion>, StoreError> {
        self.0
            .read(move |connection| {
                let sql = format!(
                    "{SELECT} WHERE a.status = 'pending' AND a.expires_at > ?1 AND a.source = ?2 AND a.topic_key = ?3
                     AND a.user_id = ?4 ORDER BY a.created_at, a.rowid LIMIT ?5"
                );
                let mut statement = connection.prepare_cached(&sql)?;
                let bound = params![now.0, topic.source, topic.topic_key, user_id, limit];
                let rows = statement.query_map(bound, |row| Ok(read(row)))?;
                let open = |approval: Approval| {
                    let shown_at = shown_at(connection, &approval.id)?;
                    Ok(OpenQuestion { approval, shown_at })
                };
                readable("question", rows.map(|row| row?.and_then(open)))
            })
            .await
    }
}

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

/// When the message that asks was delivered.
fn shown_at(connection: &Connection, id: &ApprovalId) -> Result<Option<Millis>, StoreError> {
    let delivered: Option<Option<i64>> = connection
        .prepare_cached(
            "SELECT delivered_at FROM pending_approvals JOIN outbox_messages ON outbox_messages.id = prompt_id
             WHERE pending_approvals.id = ?1 AND outbox_messages.status = 'delivered'",
        )?
        .query_row([id.as_str()], |row| row.get(0))
        .optional()?;
    Ok(delivered.flatten().map(Millis))
}
