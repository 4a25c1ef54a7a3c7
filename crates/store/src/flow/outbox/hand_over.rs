//! Hands a conversation all that waits for it, for a door to which people come instead of being called on.

use super::claim::{candidate, held_back, lease_or_bury};
use super::{OutboxMessage, OutboxPoll, bell, of_event, outbox_row, select_where};
use crate::flow::trace::{self, NoteKind};
use crate::{
    StoreError,
    flow::{channel, inbox, topic},
};
use cortex_types::{ChannelMode, EventId, LeaseToken, Millis, OutboxStatus, TopicRef};
use rusqlite::{Connection, Row, params};
use std::time::Duration;

/// More than a person reads at once; the rest comes with the next request.
const OPEN_MAX: u32 = 128;

/// What stands at a message whose reader stopped its stream.
const STOPPED: &str = "its reader stopped the stream";

/// Which conversation is here, and for how long its messages are lent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandOver {
    pub topic: TopicRef,
    /// Events whose replies are wanted even when somebody else has them.
    pub replies_of: Vec<RepliesOf>,
    pub lease: Duration,
    pub attempts_max: u32,
}

/// Whether somebody follows the event of this source and external id. Asked inside the transaction, so that an event
/// that was claimed before it was taken in is never missed.
pub(super) type IsFollowed = dyn Fn(&str, &str) -> bool;

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
/// What an event led to that somebody else follows is left for him.
pub(super) fn hand_over(
    connection: &Connection,
    request: &HandOver,
    is_followed: &IsFollowed,
    now: Millis,
) -> Result<Vec<HandedOver>, StoreError> {
    let Some(topic) = topic::find(connection, &request.topic)? else { return Ok(Vec::new()) };
    let source = request.topic.source.clone();
    let is_live = channel::mode_of(connection, &source)? == ChannelMode::Live;
    let (lease, attempts_max) = (request.lease, request.attempts_max);
    let poll = OutboxPoll {
        source,
        max: OPEN_MAX,
        lease,
        ordered: true,
        attempts_max,
        pushed: true,
        topic_key: None,
        holder: None,
    };
    let mut handed = Vec::new();
    for candidate in open_in(connection, request, is_followed, topic, now)? {
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
    request: &HandOver,
    is_followed: &IsFollowed,
    topic: i64,
    now: Millis,
) -> Result<Vec<super::claim::Candidate>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT outbox_messages.seq, outbox_messages.topic_id, event_seq, outbox_messages.attempts, next_attempt_at,
           outbox_messages.created_at, outbox_messages.status = 'leased', inbox_messages.id, inbox_messages.source,
           external_message_id
         FROM outbox_messages LEFT JOIN inbox_messages ON inbox_messages.seq = event_seq
         WHERE outbox_messages.topic_id = ?1 AND outbox_messages.status IN ('pending', 'leased')
           AND (outbox_messages.status = 'pending' OR lease_expires_at <= ?2)
         ORDER BY outbox_messages.seq",
    )?;
    let mut rows = statement.query(params![topic, now.0])?;
    let mut open = Vec::new();
    while let Some(row) = rows.next()?
        && open.len() < OPEN_MAX as usize
    {
        if is_for(row, request, is_followed)? {
            open.push(candidate(row, row.get(6)?)?);
        }
    }
    Ok(open)
}

/// What nobody follows is for whoever comes.
fn is_for(row: &Row<'_>, request: &HandOver, is_followed: &IsFollowed) -> rusqlite::Result<bool> {
    let (Some(event), Some(source), Some(name)) = (
        row.get::<_, Option<String>>(7)?,
        row.get::<_, Option<String>>(8)?,
        row.get::<_, Option<String>>(9)?,
    ) else {
        return Ok(true);
    };
    let is_own = request.replies_of.iter().any(|wanted| wanted.event.as_str() == event);
    Ok(is_own || !is_followed(&source, &name))
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
        OutboxStatus::Leased | OutboxStatus::Delivered | OutboxStatus::Dead => true,
        // Who asks again for what he stopped wants it after all; what a person gave up stays so.
        OutboxStatus::Discarded => reply.last_error.as_deref() == Some(STOPPED),
        OutboxStatus::Pending | OutboxStatus::Suppressed => false,
    };
    let is_wanted = |reply: &OutboxMessage| {
        is_shown(reply)
            && reply.topic == request.topic
            && reply.created_at >= wanted.since
            && handed.iter().all(|known| known.message.seq != reply.seq)
    };
    let replies = of_event(connection, event)?.into_iter().filter(is_wanted);
    Ok(replies.map(|message| HandedOver { message, lease: None }).collect())
}

/// Gives up the words that an event led to in its reader's topic: he stopped listening to them. What asks him something
/// keeps waiting. Returns how many there were.
pub(super) fn stop(connection: &Connection, wanted: &RepliesOf, now: Millis) -> Result<usize, StoreError> {
    let Some(event) = inbox::seq_of(connection, &wanted.event)? else { return Ok(0) };
    let stopped = connection
        .prepare_cached(
            "UPDATE outbox_messages SET status = 'discarded', lease_token = NULL, lease_expires_at = NULL,
               last_error = ?4, updated_at = ?3
             WHERE event_seq = ?1 AND created_at >= ?2 AND status IN ('pending', 'leased') AND payload_json IS NULL
               AND topic_id = (SELECT topic_id FROM inbox_messages WHERE seq = ?1)",
        )?
        .execute(params![event, wanted.since.0, now.0, STOPPED])?;
    if stopped > 0 {
        trace::note(connection, event, now, NoteKind::Discarded, STOPPED)?;
        let topic = connection
            .prepare_cached("SELECT source, topic_key FROM inbox_messages WHERE seq = ?1")?
            .query_row([event], |row| Ok(TopicRef { source: row.get(0)?, topic_key: row.get(1)? }))?;
        // Whoever asks for order may now get what stood behind it.
        bell::queued_for(&topic);
    }
    Ok(stopped)
}
