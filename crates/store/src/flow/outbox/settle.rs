//! How a message leaves the lease: acked, nacked, tried again or given up by a person.

use super::{bell, suppress};
use crate::flow::trace::{self, NoteKind};
use crate::flow::turn::shorten;
use crate::{StoreError, flow::channel};
use cortex_types::{LeaseToken, Millis, OutboxId, OutboxStatus, TopicRef};
use fail::fail_point;
use rusqlite::{Connection, OptionalExtension, params};
use std::time::Duration;

/// A good ack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acked {
    Delivered,
    AlreadyDelivered,
}

/// Why an ack or nack changed nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseRefused {
    NotFound,
    /// The lease ended or is somebody else's.
    Conflict,
}

/// A connector's report that a delivery failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nack {
    pub id: OutboxId,
    pub lease: LeaseToken,
    pub error: Option<String>,
    pub retry_after: Option<Duration>,
    /// No later attempt can help.
    pub permanent: bool,
}

/// What a nack did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nacked {
    Pending {
        next_attempt_at: Millis,
    },
    Dead,
    /// A channel is no longer live: it is not tried again.
    Suppressed,
}

/// What asking for another try did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequeueOutcome {
    Requeued,
    NotFound,
    /// Only a dead or discarded message can be tried again.
    Is(OutboxStatus),
    /// A channel is not live; the message stays as it is.
    HeldBack(String),
}

/// What giving a message up did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiscardOutcome {
    Discarded,
    NotFound,
    /// Delivered and suppressed messages have ended already.
    Is(OutboxStatus),
}

struct Held {
    seq: i64,
    topic: TopicRef,
    topic_id: i64,
    event_seq: Option<i64>,
    status: OutboxStatus,
    attempts: u32,
    lease: Option<String>,
    lease_expires_at: Option<i64>,
}

impl Held {
    fn is_leased_to(&self, lease: &LeaseToken, now: Millis) -> bool {
        self.status == OutboxStatus::Leased
            && self.lease.as_deref() == Some(lease.as_str())
            && self.lease_expires_at.is_some_and(|expires_at| expires_at > now.0)
    }
}

pub(super) fn ack(
    connection: &Connection,
    id: &OutboxId,
    lease: &LeaseToken,
    now: Millis,
) -> Result<Result<Acked, LeaseRefused>, StoreError> {
    let Some(held) = held(connection, id)? else { return Ok(Err(LeaseRefused::NotFound)) };
    if held.status == OutboxStatus::Delivered && held.lease.as_deref() == Some(lease.as_str()) {
        return Ok(Ok(Acked::AlreadyDelivered));
    }
    if !held.is_leased_to(lease, now) {
        return Ok(Err(LeaseRefused::Conflict));
    }
    connection
        .prepare_cached(
            "UPDATE outbox_messages SET status = 'delivered', delivered_at = ?2, updated_at = ?2 WHERE seq = ?1",
        )?
        .execute([held.seq, now.0])?;
    let_follow(connection, &held)?;
    fail_point!("outbox.ack.before_commit");
    Ok(Ok(Acked::Delivered))
}

pub(super) fn nack(
    connection: &Connection,
    nack: &Nack,
    delay_for: &dyn Fn(u32) -> Duration,
    now: Millis,
) -> Result<Result<Nacked, LeaseRefused>, StoreError> {
    let Some(held) = held(connection, &nack.id)? else { return Ok(Err(LeaseRefused::NotFound)) };
    if !held.is_leased_to(&nack.lease, now) {
        return Ok(Err(LeaseRefused::Conflict));
    }
    let error = shorten(nack.error.as_deref().unwrap_or("the connector could not deliver it"));
    // The modes may have changed while the connector held it: back in the queue it would be sent.
    let refusal = channel::refusal_of_queued(connection, held.event_seq, &held.topic.source)?;
    if let (Some(reason), false) = (refusal, nack.permanent) {
        suppress(connection, held.seq, &reason, now)?;
        note(connection, &held, NoteKind::Nacked, &error, now)?;
        let_follow(connection, &held)?;
        return Ok(Ok(Nacked::Suppressed));
    }
    let (outcome, status, next_attempt_at, kind) = if nack.permanent {
        (Nacked::Dead, OutboxStatus::Dead, now, NoteKind::Dead)
    } else {
        let delay = delay_for(held.attempts).max(nack.retry_after.unwrap_or_default());
        let next_attempt_at = now.after(delay);
        (Nacked::Pending { next_attempt_at }, OutboxStatus::Pending, next_attempt_at, NoteKind::Nacked)
    };
    connection
        .prepare_cached(
            "UPDATE outbox_messages SET status = ?2, lease_token = NULL, lease_expires_at = NULL, last_error = ?3,
               next_attempt_at = ?4, updated_at = ?5 WHERE seq = ?1",
        )?
        .execute(params![held.seq, status.as_str(), error, next_attempt_at.0, now.0])?;
    note(connection, &held, kind, &error, now)?;
    let_follow(connection, &held)?;
    fail_point!("outbox.nack.before_commit");
    Ok(Ok(outcome))
}

pub(super) fn requeue(
    connection: &Connection,
    id: &OutboxId,
    now: Millis,
) -> Result<RequeueOutcome, StoreError> {
    let Some(held) = held(connection, id)? else { return Ok(RequeueOutcome::NotFound) };
    match held.status {
        OutboxStatus::Dead | OutboxStatus::Discarded => {}
        OutboxStatus::Pending | OutboxStatus::Leased | OutboxStatus::Delivered | OutboxStatus::Suppressed => {
            return Ok(RequeueOutcome::Is(held.status));
        }
    }
    if let Some(reason) = channel::refusal_of_queued(connection, held.event_seq, &held.topic.source)? {
        return Ok(RequeueOutcome::HeldBack(reason));
    }
    // From here on the attempts are counted anew.
    trace::note_earlier_lease(connection, held.seq)?;
    connection
        .prepare_cached(
            "UPDATE outbox_messages SET status = 'pending', attempts = 0, next_attempt_at = ?2, lease_token = NULL,
               lease_expires_at = NULL, leased_at = NULL, updated_at = ?2 WHERE seq = ?1",
        )?
        .execute([held.seq, now.0])?;
    note(connection, &held, NoteKind::Requeued, "a person asked for another try", now)?;
    bell::queued_for(&held.topic);
    Ok(RequeueOutcome::Requeued)
}

pub(super) fn discard(
    connection: &Connection,
    id: &OutboxId,
    now: Millis,
) -> Result<DiscardOutcome, StoreError> {
    let Some(held) = held(connection, id)? else { return Ok(DiscardOutcome::NotFound) };
    match held.status {
        OutboxStatus::Pending | OutboxStatus::Leased | OutboxStatus::Dead => {}
        OutboxStatus::Delivered | OutboxStatus::Suppressed | OutboxStatus::Discarded => {
            return Ok(DiscardOutcome::Is(held.status));
        }
    }
    connection
        .prepare_cached(
            "UPDATE outbox_messages SET status = 'discarded', lease_token = NULL, lease_expires_at = NULL,
               updated_at = ?2 WHERE seq = ?1",
        )?
        .execute([held.seq, now.0])?;
    note(connection, &held, NoteKind::Discarded, "a person gave it up", now)?;
    let_follow(connection, &held)?;
    Ok(DiscardOutcome::Discarded)
}

fn held(connection: &Connection, id: &OutboxId) -> Result<Option<Held>, StoreError> {
    let found = connection
        .prepare_cached(
            "SELECT seq, event_seq, status, attempts, lease_token, lease_expires_at, source, topic_id, topic_key
             FROM outbox_messages WHERE id = ?1",
        )?
        .query_row([id.as_str()], |row| {
            let status: String = row.get(2)?;
            let held = |status| -> rusqlite::Result<Held> {
                Ok(Held {
                    seq: row.get(0)?,
                    event_seq: row.get(1)?,
                    status,
                    attempts: row.get(3)?,
                    lease: row.get(4)?,
                    lease_expires_at: row.get(5)?,
                    topic: TopicRef { source: row.get(6)?, topic_key: row.get(8)? },
                    topic_id: row.get(7)?,
                })
            };
            Ok(match status.parse() {
                Ok(status) => Ok(held(status)?),
                Err(error) => Err(StoreError::Damaged(format!("{id}: {error}"))),
            })
        })
        .optional()?;
    found.transpose()
}

/// Whoever asks for order may now get what stood behind this message.
fn let_follow(connection: &Connection, held: &Held) -> Result<(), StoreError> {
    let mut behind = connection.prepare_cached(
        "SELECT 1 FROM outbox_messages WHERE topic_id = ?1 AND status IN ('pending', 'leased') AND seq > ?2",
    )?;
    if behind.exists([held.topic_id, held.seq])? {
        bell::queued_for(&held.topic);
    }
    Ok(())
}

fn note(
    connection: &Connection,
    held: &Held,
    kind: NoteKind,
    detail: &str,
    now: Millis,
) -> Result<(), StoreError> {
    match held.event_seq {
        Some(event_seq) => trace::note(connection, event_seq, now, kind, detail),
        None => Ok(()),
    }
}
