//! Open questions: how many there may be at a time, and since when a person has one before them.

use super::{Approvals, SELECT, read};
use crate::StoreError;
use cortex_types::limits::{OPEN_QUESTIONS_MAX, STRANGERS_QUESTIONS_MAX};
use cortex_types::{Approval, ApprovalId, ApprovalStatus, Millis, TopicRef, is_local};
use rusqlite::{Connection, OptionalExtension, params};

/// A question that is open, and since when the person has it before them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenQuestion {
    pub approval: Approval,
    /// `None` while its message is not delivered.
    pub shown_at: Option<Millis>,
}

/// The open questions to a person in a topic.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenQuestions {
    /// Those that can be read, the oldest first.
    pub readable: Vec<OpenQuestion>,
    /// How many more there may be.
    pub unreadable: usize,
    /// Whether nobody can say which of them the person has seen.
    pub is_damaged: bool,
}

impl OpenQuestions {
    pub fn count(&self) -> usize {
        self.readable.len() + self.unreadable
    }
}

impl Approvals<'_> {
    /// At most `limit` open questions to a person in a topic. One that cannot be read, or has lost its event or whom it asks,
    /// counts as open: nobody can say that it is not the one that is meant.
    pub async fn open_for(
        &self,
        topic: TopicRef,
        user_id: String,
        now: Millis,
        limit: u32,
    ) -> Result<OpenQuestions, StoreError> {
        self.0.read(move |connection| open_for(connection, &topic, &user_id, now, limit)).await
    }
}

/// Those that say whom they ask, and those whose event says so.
const PLACES: &str = "SELECT rowid FROM pending_approvals
      WHERE status = 'pending' AND source = ?2 AND topic_key = ?3 AND user_id = ?4
    UNION SELECT asked.rowid FROM inbox_messages AS waiting
      JOIN pending_approvals AS asked ON asked.event_seq = waiting.seq
      WHERE waiting.status = 'waiting' AND waiting.source = ?2 AND waiting.topic_key = ?3 AND waiting.user_id = ?4
        AND asked.status NOT IN ('approved', 'denied', 'expired')";

fn open_for(
    connection: &Connection,
    topic: &TopicRef,
    user_id: &str,
    now: Millis,
    limit: u32,
) -> Result<OpenQuestions, StoreError> {
    let places = connection
        .prepare_cached(&format!(
            "SELECT rowid FROM pending_approvals WHERE rowid IN ({PLACES}) AND expires_at > ?1
             ORDER BY created_at, rowid LIMIT ?5"
        ))?
        .query_map(params![now.0, topic.source, topic.topic_key, user_id, limit], |row| row.get(0))?
        .collect::<Result<Vec<i64>, _>>()?;
    let mut open = OpenQuestions::default();
    for place in places {
        match at(connection, place) {
            Ok(Some(approval))
                if approval.topic == *topic
                    && approval.user_id == user_id
                    && approval.status == ApprovalStatus::Pending =>
            {
                let shown_at = match shown_at(connection, &approval.id) {
                    Err(StoreError::Damaged(reason)) => {
                        tracing::error!(place, reason, "When a question was shown cannot be read");
                        open.is_damaged = true;
                        None
                    }
                    known => known?,
                };
                open.readable.push(OpenQuestion { approval, shown_at });
            }
            Ok(_) | Err(StoreError::Damaged(_)) => {
                tracing::error!(place, "An open question cannot be read");
                open.unreadable += 1;
                open.is_damaged = true;
            }
            Err(other) => return Err(other),
        }
    }
    Ok(open)
}

fn at(connection: &Connection, place: i64) -> Result<Option<Approval>, StoreError> {
    let sql = format!("{SELECT} WHERE a.rowid = ?1");
    connection.prepare_cached(&sql)?.query_row([place], |row| Ok(read(row))).optional()?.transpose()
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
