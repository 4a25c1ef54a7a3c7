//! What a start does with what it finds in flight, and how an event that cannot be read is set aside.

use super::{Recovered, by_seq};
use crate::engine::savepoint::apart;
use crate::flow::trace::{self, NoteKind};
use crate::{
    StoreError,
    flow::{outbox, topic},
};
use cortex_types::{Event, EventId, InboxStatus, Millis, NewReply, TopicRef};
use rusqlite::{Connection, OptionalExtension, params};

/// However damaged an event or a topic is, a server starts and takes up all the others.
pub(super) fn recover(
    connection: &Connection,
    restarts_max: u32,
    now: Millis,
    notice: &dyn Fn(&Event) -> NewReply,
) -> Result<Recovered, StoreError> {
    let held = connection
        .prepare_cached("SELECT id FROM topics WHERE in_flight IS NOT NULL")?
        .query_map([], |row| row.get(0))?
        .collect::<Result<Vec<i64>, _>>()?;
    let mut recovered = Recovered::default();
    for topic in held {
        for seq in in_flight(connection, topic)? {
            // Where the name was damaged: what tells the user finds the topic by it.
            topic::hold_for(connection, topic, seq)?;
            recover_or_fail(connection, seq, restarts_max, now, notice, &mut recovered)?;
        }
        topic::release(connection, topic)?;
    }
    for seq in unnamed(connection)? {
        tracing::error!(seq, "An event ran that no stored topic names");
        let topic = topic_of(connection, seq)?;
        if let Some(topic) = topic {
            topic::hold_for(connection, topic, seq)?;
        }
        recover_or_fail(connection, seq, restarts_max, now, notice, &mut recovered)?;
        if let Some(topic) = topic {
            topic::release(connection, topic)?;
        }
    }
    Ok(recovered)
}

fn recover_or_fail(
    connection: &Connection,
    seq: i64,
    restarts_max: u32,
    now: Millis,
    notice: &dyn Fn(&Event) -> NewReply,
    recovered: &mut Recovered,
) -> Result<(), StoreError> {
    match apart(connection, || recover_one(connection, seq, restarts_max, now, notice))? {
        Ok(Outcome::Requeued) => recovered.requeued += 1,
        Ok(Outcome::Failed) => recovered.failed += 1,
        Err(error) => {
            fail_damaged(connection, seq, &error.to_string(), now)?;
            recovered.failed += 1;
        }
    }
    Ok(())
}

/// Events that say they run, once every topic was looked at: a damaged topic named another, or none.
fn unnamed(connection: &Connection) -> Result<Vec<i64>, StoreError> {
    let mut running =
        connection.prepare_cached("SELECT seq FROM inbox_messages WHERE status = 'processing'")?;
    let running = running.query_map([], |row| row.get(0))?;
    Ok(running.collect::<Result<_, _>>()?)
}

/// The topic of an event, by its number or else by its names.
fn topic_of(connection: &Connection, seq: i64) -> Result<Option<i64>, StoreError> {
    Ok(connection
        .prepare_cached(
            "SELECT coalesce((SELECT id FROM topics WHERE topics.id = event.topic_id),
               (SELECT id FROM topics WHERE topics.source = event.source AND topics.topic_key = event.topic_key))
             FROM inbox_messages AS event WHERE seq = ?1",
        )?
        .query_row([seq], |row| row.get(0))?)
}

enum Outcome {
    Requeued,
    Failed,
}

/// The event that a topic names as the one in flight. When that is none of its own that runs, the name is damaged: then those
/// of its own that say they run.
fn in_flight(connection: &Connection, topic: i64) -> Result<Vec<i64>, StoreError> {
    let named: Option<(i64, Option<String>)> = connection
        .prepare_cached(
            "SELECT seq, status FROM topics JOIN inbox_messages ON seq = in_flight
             WHERE topics.id = ?1 AND (topic_id = topics.id OR topic_id NOT IN (SELECT id FROM topics))",
        )?
        .query_row([topic], |row| Ok((row.get(0)?, row.get(1).ok())))
        .optional()?;
    if let Some((seq, status)) = named {
        match status.and_then(|status| status.parse().ok()) {
            Some(InboxStatus::Processing) | None => return Ok(vec![seq]),
            Some(InboxStatus::Pending | InboxStatus::Waiting | InboxStatus::Done | InboxStatus::Failed) => {}
        }
    }
    tracing::error!(
        topic,
        "A stored topic names no event of its own that runs; what runs in it is looked up"
    );
    let mut own = connection
        .prepare_cached("SELECT seq FROM inbox_messages WHERE topic_id = ?1 AND status = 'processing'")?;
    let own = own.query_map([topic], |row| row.get(0))?;
    Ok(own.collect::<Result<_, _>>()?)
}

fn recover_one(
    connection: &Connection,
    seq: i64,
    restarts_max: u32,
    now: Millis,
    notice: &dyn Fn(&Event) -> NewReply,
) -> Result<Outcome, StoreError> {
    // A count that cannot be read begins anew: written back below, it is bounded again.
    let restarts: u32 = connection
        .prepare_cached("SELECT restarts FROM inbox_messages WHERE seq = ?1")?
        .query_row([seq], |row| Ok(row.get(0).unwrap_or(0)))?;
    let restarts = restarts.saturating_add(1);
    if restarts >= restarts_max {
        let reason = format!("given up after {restarts} restarts in the middle of its turn");
        fail_at_recovery(connection, seq, &reason, now, notice)?;
        return Ok(Outcome::Failed);
    }
    requeue_at_recovery(connection, seq, restarts, now)?;
    Ok(Outcome::Requeued)
}

/// An attempt that recorded a new step made progress, so its end by a restart does not count (D7).
fn requeue_at_recovery(
    connection: &Connection,
    seq: i64,
    restarts: u32,
    now: Millis,
) -> Result<(), StoreError> {
    let requeued = connection
        .prepare_cached(
            "UPDATE inbox_messages SET status = 'pending', due_at = 0, restarts = ?3, updated_at = ?2,
               attempts = coalesce(attempts, 0)
                 - ((SELECT count(*) FROM turn_steps WHERE event_seq = ?1) > coalesce(steps_at_claim, 0))
             WHERE seq = ?1 AND status = 'processing' AND topic_id IN (SELECT id FROM topics)",
        )?
        .execute(params![seq, now.0, restarts])?;
    if requeued == 0 {
        return Err(StoreError::Damaged(format!("event {seq}: its status or its topic is unknown")));
    }
    trace::note(connection, seq, now, NoteKind::Restarted, "the server restarted during this turn")
}

pub(crate) fn fail_at_recovery(
    connection: &Connection,
    seq: i64,
    reason: &str,
    now: Millis,
    notice: &dyn Fn(&Event) -> NewReply,
) -> Result<(), StoreError> {
    let event = match by_seq(connection, seq) {
        Ok(event) => event,
        Err(StoreError::Damaged(damage)) => return fail_damaged(connection, seq, &damage, now).map(drop),
        Err(other) => return Err(other),
    };
    connection
        .prepare_cached(
            "UPDATE inbox_messages SET status = 'failed', error = ?2, restarts = coalesce(restarts, 0) + 1,
               updated_at = ?3 WHERE seq = ?1",
        )?
        .execute(params![seq, reason, now.0])?;
    outbox::queue(connection, &notice(&event), seq, now)?;
    Ok(())
}

/// Fails an event in flight that cannot be read, tells its user and lets its topic go on.
pub(crate) fn fail_damaged(
    connection: &Connection,
    seq: i64,
    reason: &str,
    now: Millis,
) -> Result<Option<EventId>, StoreError> {
    tracing::error!(seq, reason, "A stored event is damaged and was set aside");
    connection
        .prepare_cached(
            "UPDATE inbox_messages SET status = 'failed', error = ?2, updated_at = ?3 WHERE seq = ?1",
        )?
        .execute(params![seq, reason, now.0])?;
    let held = connection
        .prepare_cached("SELECT id, source, topic_key FROM topics WHERE in_flight = ?1")?
        .query_row([seq], |row| Ok((row.get::<_, i64>(0)?, row.get(1), row.get(2))))
        .optional()?;
    if let Some((topic, source, topic_key)) = held {
        if let (Ok(source), Ok(topic_key)) = (source, topic_key) {
            say_it_was_damaged(connection, TopicRef { source, topic_key }, seq, now)?;
        }
        topic::release(connection, topic)?;
    }
    let mut id = connection.prepare_cached("SELECT CAST(id AS TEXT) FROM inbox_messages WHERE seq = ?1")?;
    // An id that is none is nobody's: no one can wait for it.
    Ok(id.query_row([seq], |row| row.get::<_, String>(0)).ok().and_then(|id| id.parse().ok()))
}

/// Where the event's channel cannot be read, the notice goes by the mode of its topic's channel alone: it holds nothing of the
/// event.
fn say_it_was_damaged(
    connection: &Connection,
    topic: TopicRef,
    seq: i64,
    now: Millis,
) -> Result<(), StoreError> {
    let notice = NewReply {
        id: outbox::mint_id(now),
        topic,
        text: "One of your messages was damaged on disk and could not be answered. Please send it again."
            .to_owned(),
        payload_json: None,
    };
    if apart(connection, || outbox::queue(connection, &notice, seq, now))?.is_ok() {
        return Ok(());
    }
    if let Err(error) = apart(connection, || outbox::queue_unasked(connection, &notice, now))? {
        tracing::error!(seq, %error, "The user could not be told that an event is damaged");
    }
    Ok(())
}
