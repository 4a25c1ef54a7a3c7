//! The claim inside a poll: due rows in order, dead letters sorted out, each row leased to one poller.

use super::{OutboxPoll, QUEUED_COLUMNS, as_queued, mint, suppress};
use crate::flow::trace::{self, NoteKind};
use crate::{StoreError, flow::channel};
use cortex_types::{ChannelMode, Delivery, LeaseToken, Millis, NewReply};
use fail::fail_point;
use rusqlite::{Connection, Row, params};
use std::collections::HashMap;
use std::collections::hash_map::Entry;

pub(super) struct Candidate {
    pub(super) seq: i64,
    topic_id: i64,
    event_seq: Option<i64>,
    attempts: u32,
    pub(super) was_leased: bool,
    is_readable: bool,
    /// The seed's claim order; ties go by insertion. None when a time cannot be read.
    order: Option<(i64, i64, i64)>,
}

pub(super) fn claim_due(
    connection: &Connection,
    request: &OutboxPoll,
    now: Millis,
) -> Result<Vec<Delivery>, StoreError> {
    give_unreadable_times(connection, &request.source, now)?;
    let mut deliveries = Vec::new();
    let is_live = channel::mode_of(connection, &request.source)? == ChannelMode::Live;
    let mut topics = OpenTopics::default();
    let mut after = (i64::MIN, i64::MIN, i64::MIN);
    let wanted = request.max as usize;
    while deliveries.len() < wanted {
        let candidates = due_candidates(connection, request, after, now)?;
        let Some(last) = candidates.last().and_then(|candidate| candidate.order) else { break };
        after = last;
        for candidate in candidates {
            if deliveries.len() == wanted {
                break;
            }
            let must_wait = request.ordered && candidate.is_readable;
            if must_wait && !topics.lets_through(connection, &candidate)? {
                continue;
            }
            // What waits was looked at when the modes changed; what a connector held then was not.
            if (candidate.was_leased || !is_live) && held_back(connection, request, &candidate, now)? {
                continue;
            }
            deliveries.extend(lease_or_bury(connection, request, &candidate, now)?);
        }
    }
    fail_point!("outbox.claim.before_commit");
    Ok(deliveries)
}

/// A time that is no number would never come, and what stands behind it in its topic would wait as long: it is the first.
fn give_unreadable_times(connection: &Connection, source: &str, now: Millis) -> Result<(), StoreError> {
    // Whatever is no number sorts behind all that are, so that one step in the index finds it.
    connection
        .prepare_cached(
            "UPDATE outbox_messages SET next_attempt_at = 0
             WHERE source = ?1 AND status = 'pending' AND next_attempt_at >= ''",
        )?
        .execute([source])?;
    connection
        .prepare_cached(
            "UPDATE outbox_messages SET next_attempt_at = iif(next_attempt_at < '', next_attempt_at, 0),
               lease_expires_at = iif(typeof(lease_expires_at) = 'integer', lease_expires_at, ?2)
             WHERE source = ?1 AND status = 'leased'
               AND (typeof(lease_expires_at) <> 'integer' OR next_attempt_at >= '')",
        )?
        .execute(params![source, now.0])?;
    Ok(())
}

/// Pending rows that are due and leased rows whose lease ended, merged in claim order. One whose times cannot be read is due
/// now; where its age was damaged, its checksum says so when it is leased.
fn due_candidates(
    connection: &Connection,
    request: &OutboxPoll,
    after: (i64, i64, i64),
    now: Millis,
) -> Result<Vec<Candidate>, StoreError> {
    let candidates = in_order(connection, request, after, now)?;
    if candidates.iter().all(|candidate| candidate.order.is_some()) {
        return Ok(candidates);
    }
    // Before all that it may be ahead of in its topic, but not before what this poll has passed already.
    let due = after.0.saturating_add(1).min(now.0).max(0);
    let age = after.1.saturating_add(1).max(0);
    for candidate in candidates.iter().filter(|candidate| candidate.order.is_none()) {
        tracing::error!(seq = candidate.seq, "A time of a stored outbox message is damaged; it is due now");
        connection
            .prepare_cached(
                "UPDATE outbox_messages SET
                   next_attempt_at = iif(typeof(next_attempt_at) = 'integer', next_attempt_at, ?2),
                   created_at = iif(typeof(created_at) = 'integer', created_at, ?3) WHERE seq = ?1",
            )?
            .execute([candidate.seq, due, age])?;
    }
    let mut candidates = in_order(connection, request, after, now)?;
    candidates.retain(|candidate| candidate.order.is_some());
    Ok(candidates)
}

fn in_order(
    connection: &Connection,
    request: &OutboxPoll,
    after: (i64, i64, i64),
    now: Millis,
) -> Result<Vec<Candidate>, StoreError> {
    let mut candidates = Vec::new();
    for (status, free) in [("pending", "1"), ("leased", "lease_expires_at <= ?2")] {
        let sql = format!(
            "SELECT seq, topic_id, event_seq, attempts, next_attempt_at, created_at FROM outbox_messages
             WHERE source = ?1 AND status = '{status}' AND next_attempt_at <= ?2 AND {free}
               AND (next_attempt_at, created_at, seq) > (?3, ?4, ?5) AND (?7 IS NULL OR topic_key = ?7)
             ORDER BY next_attempt_at, created_at, seq LIMIT ?6"
        );
        let mut statement = connection.prepare_cached(&sql)?;
        let rows = statement.query_map(
            params![request.source, now.0, after.0, after.1, after.2, request.max, request.topic_key],
            |row| candidate(row, status == "leased"),
        )?;
        for row in rows {
            candidates.push(row?);
        }
    }
    candidates.sort_by_key(|candidate| candidate.order);
    // Past the first `max` the other list may have rows in between; they come with the next round.
    candidates.truncate(request.max as usize);
    Ok(candidates)
}

/// A row that cannot be read must not end the poll: it would end every later one too.
pub(super) fn candidate(row: &Row<'_>, was_leased: bool) -> rusqlite::Result<Candidate> {
    let seq = row.get(0)?;
    let order = row.get(4).and_then(|due| Ok((due, row.get(5)?, seq))).ok();
    let (topic_id, event_seq, attempts) = (row.get(1), row.get(2), row.get(3));
    let is_readable = topic_id.is_ok() && event_seq.is_ok() && attempts.is_ok();
    Ok(Candidate {
        seq,
        topic_id: topic_id.unwrap_or_default(),
        event_seq: event_seq.unwrap_or_default(),
        attempts: attempts.unwrap_or_default(),
        was_leased,
        is_readable,
        order,
    })
}

/// Which messages of a topic may go, when order is asked for.
#[derive(Default)]
struct OpenTopics {
    /// The open messages of a topic still ahead, oldest last.
    ahead: HashMap<i64, Vec<i64>>,
}

impl OpenTopics {
    /// A message goes only as the oldest open one of its topic, or right behind those in this same answer.
    fn lets_through(&mut self, connection: &Connection, candidate: &Candidate) -> Result<bool, StoreError> {
        let ahead = match self.ahead.entry(candidate.topic_id) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(open_in_topic(connection, candidate.topic_id)?),
        };
        Ok(ahead.pop_if(|oldest| *oldest == candidate.seq).is_some())
    }
}

fn open_in_topic(connection: &Connection, topic: i64) -> Result<Vec<i64>, StoreError> {
    /// More of one topic than an answer can hold never helps.
    const OPEN_MAX: i64 = 128;
    let mut statement = connection.prepare_cached(
        "SELECT seq FROM outbox_messages WHERE topic_id = ?1 AND status IN ('pending', 'leased')
         ORDER BY seq LIMIT ?2",
    )?;
    let mut open =
        statement.query_map([topic, OPEN_MAX], |row| row.get(0))?.collect::<Result<Vec<i64>, _>>()?;
    open.reverse();
    Ok(open)
}

/// Suppresses a row that may no longer leave (invariant 6).
pub(super) fn held_back(
    connection: &Connection,
    request: &OutboxPoll,
    candidate: &Candidate,
    now: Millis,
) -> Result<bool, StoreError> {
    let refusal = channel::refusal_of_queued(connection, candidate.event_seq, &request.source)?;
    if let Some(reason) = &refusal {
        suppress(connection, candidate.seq, reason, now)?;
    }
    Ok(refusal.is_some())
}

/// Leases the row, or makes it dead when its claims are used up or its text is damaged.
pub(super) fn lease_or_bury(
    connection: &Connection,
    request: &OutboxPoll,
    candidate: &Candidate,
    now: Millis,
) -> Result<Option<Delivery>, StoreError> {
    let attempts = candidate.attempts.saturating_add(1);
    if attempts > request.attempts_max {
        let reason = format!("not delivered in {} attempts", request.attempts_max);
        bury(connection, candidate, attempts, &reason, now)?;
        return Ok(None);
    }
    match lease(connection, request, candidate, attempts, now) {
        Ok(delivery) => Ok(Some(delivery)),
        Err(StoreError::Damaged(reason)) => {
            tracing::error!(
                seq = candidate.seq,
                reason,
                "A stored outbox message is damaged and was set aside"
            );
            bury(connection, candidate, attempts, &format!("damaged on disk: {reason}"), now)?;
            Ok(None)
        }
        Err(other) => Err(other),
    }
}

fn lease(
    connection: &Connection,
    request: &OutboxPoll,
    candidate: &Candidate,
    attempts: u32,
    now: Millis,
) -> Result<Delivery, StoreError> {
    let sql = format!("SELECT {QUEUED_COLUMNS} FROM outbox_messages WHERE seq = ?1");
    let reply = connection.prepare_cached(&sql)?.query_row([candidate.seq], |row| Ok(as_queued(row)))??;
    let lease = LeaseToken::from_ulid(mint(now));
    let lease_expires_at = now.after(request.lease);
    trace::note_earlier_lease(connection, candidate.seq)?;
    let leased = connection
        .prepare_cached(
            "UPDATE outbox_messages SET status = 'leased', attempts = ?2, lease_token = ?3, lease_expires_at = ?4,
               leased_at = ?5, updated_at = ?5, pushed = ?6, holder = ?7
             WHERE seq = ?1 AND status IN ('pending', 'leased')",
        )?
        .execute(params![
            candidate.seq,
            attempts,
            lease.as_str(),
            lease_expires_at.0,
            now.0,
            request.pushed,
            request.holder
        ])?;
    if leased == 0 {
        // A damaged index must not send an ended message again.
        return Err(StoreError::Damaged(format!("{} is not open", reply.id)));
    }
    if let (true, Some(event_seq)) = (candidate.was_leased, candidate.event_seq) {
        trace::note(connection, event_seq, now, NoteKind::LeaseExpired, "the connector never answered")?;
    }
    let NewReply { id, topic, text, payload_json } = reply;
    Ok(Delivery { id, lease, lease_expires_at, topic, text, payload_json, attempts })
}

fn bury(
    connection: &Connection,
    candidate: &Candidate,
    attempts: u32,
    reason: &str,
    now: Millis,
) -> Result<(), StoreError> {
    // The attempts count this claim from here on, and it leases nothing.
    let seq = candidate.seq;
    trace::apart_from(connection, seq, || trace::note_earlier_lease(connection, seq))?;
    connection
        .prepare_cached(
            "UPDATE outbox_messages SET status = 'dead', attempts = ?2, lease_token = NULL, lease_expires_at = NULL,
               leased_at = NULL, updated_at = ?4,
               last_error = CASE WHEN last_error IS NULL THEN ?3 ELSE ?3 || '; last: ' || last_error END
             WHERE seq = ?1 AND status IN ('pending', 'leased')",
        )?
        .execute(params![seq, attempts, reason, now.0])?;
    let Some(event_seq) = candidate.event_seq else { return Ok(()) };
    trace::apart_from(connection, seq, || trace::note(connection, event_seq, now, NoteKind::Dead, reason))
}
