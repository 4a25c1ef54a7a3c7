//! Hands a conversation all that waits for it, for a door to which people come instead of being called on.

use super::claim::{candidate, held_back, lease_or_bury};
use super::{OutboxMessage, OutboxPoll, of_event, outbox_row, select_where};
use crate::{StoreError, channel, inbox, topic};
use cortex_types::{ChannelMode, EventId, LeaseToken, Millis, OutboxStatus, TopicRef};
use rusqlite::{Connection, params};
use std::time::Duration;

/// More than a person reads at once; the rest comes with the next request.
const OPEN_MAX: u32 = 128;

/// Which conversation is here, and for how long its messages are lent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandOver {
    pub topic: TopicRef,
    /// Events whose replies are wanted even when somebody else has them.
    pub replies_of: Vec<RepliesOf>,
    pub lease: Duration,
    pub attempts_max: u32,
}

/// The replies of an event that were queued at `since` or later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepliesOf {
    pub event: EventId,
    pub since: Millis,
}

/// A message that was handed over; without a lease it is somebody else's and only shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandedOver {
    pub message: OutboxMessage,
    pub lease: Option<LeaseToken>,
}

/// Leases what is open in the topic, also what would wait for its next attempt: the reader is here now. Oldest first.
pub(super) fn hand_over(
    connection: &Connection,
    request: &HandOver,
    now: Millis,
) -> Result<Vec<HandedOver>, StoreError> {
    let Some(topic) = topic::find(connection, &request.topic)? else { return Ok(Vec::new()) };
    let source = request.topic.source.clone();
    let is_live = channel::mode_of(connection, &source)? == ChannelMode::Live;
    let (lease, attempts_max) = (request.lease, request.attempts_max);
    let poll =
        OutboxPoll { source, max: OPEN_MAX, lease, ordered: true, attempts_max, pushed: true, holder: None };
    let mut handed = Vec::new();
    for candidate in open_in(connection, topic, now)? {
        if (candidate.was_leased || !is_live) && held_back(connection, &poll, &candidate, now)? {
            continue;
        }
        if let Some(delivery) = lease_or_bury(connection, &poll, &candidate, now)? {
            let message = by_seq(connection, candidate.seq)?;
            handed.push(HandedOver { message, lease: Some(delivery.lease) });
        }
    }
    // What others hold is shown only where something may be said at all.
    let shown = if is_live { request.replies_of.as_slice() } else { &[] };
    for wanted in shown {
        handed.extend(held_by_others(connection, request, wanted, &handed)?);
    }
    handed.sort_by_key(|handed| handed.message.seq);
    Ok(handed)
}

fn open_in(
    connection: &Connection,
    topic: i64,
    now: Millis,
) -> Result<Vec<super::claim::Candidate>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT seq, topic_id, event_seq, attempts, next_attempt_at, created_at, status = 'leased' FROM outbox_messages
         WHERE topic_id = ?1 AND status IN ('pending', 'leased') AND (status = 'pending' OR lease_expires_at <= ?2)
         ORDER BY seq LIMIT ?3",
    )?;
    let rows = statement.query_map(params![topic, now.0, OPEN_MAX], |row| candidate(row, row.get(6)?))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn by_seq(connection: &Connection, seq: i64) -> Result<OutboxMessage, StoreError> {
    let sql = select_where("outbox_messages.seq = ?1");
    connection.prepare_cached(&sql)?.query_row([seq], |row| Ok(outbox_row(row)))?
}

fn held_by_others(
    connection: &Connection,
    request: &HandOver,
    wanted: &RepliesOf,
    handed: &[HandedOver],
) -> Result<Vec<HandedOver>, StoreError> {
    let Some(event) = inbox::seq_of(connection, &wanted.event)? else { return Ok(Vec::new()) };
    let is_shown = |reply: &OutboxMessage| match reply.status {
        OutboxStatus::Leased | OutboxStatus::Delivered | OutboxStatus::Dead => {
            reply.topic == request.topic
                && reply.created_at >= wanted.since
                && handed.iter().all(|known| known.message.seq != reply.seq)
        }
        OutboxStatus::Pending | OutboxStatus::Suppressed | OutboxStatus::Discarded => false,
    };
    let replies = of_event(connection, event)?.into_iter().filter(is_shown);
    Ok(replies.map(|message| HandedOver { message, lease: None }).collect())
}
