//! The watchdog's look at the rows: events that nobody will end, and how each is ended or put back.

use crate::inbox::fail_at_recovery;
use crate::trace::{self, NoteKind};
use crate::turn::{claimed_topic, shorten};
use crate::{Store, StoreError, approval, outbox, topic};
use cortex_types::{Event, EventId, InboxStatus, Millis, NewReply};
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::BTreeSet;

/// Most stranded events and topics that one look names; the rest follow with the next.
const STRANDED_MAX: usize = 256;

/// What a watchdog asks the store.
pub struct Watchdog<'a>(pub(crate) &'a Store);

/// What would wait for ever.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stranded {
    /// Events that hold their topic and that no task works on, by their place in the inbox.
    pub events: Vec<i64>,
    /// Topics in which an event is pending while nothing holds them.
    pub topics: Vec<i64>,
    /// Events that wait for a person although nobody is asked anything.
    pub unasked: Vec<i64>,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rescued {
    /// Events that are tried again.
    pub requeued: Vec<EventId>,
    /// Topics that go on, with the event that nothing held or that waited for nobody.
    pub topics: usize,
    /// Events that were tried too often; their users are told.
    pub failed: Vec<EventId>,
}

impl Stranded {
    pub fn is_empty(&self) -> bool {
        self.events.is_empty() && self.topics.is_empty() && self.unasked.is_empty()
    }

    pub fn count(&self) -> usize {
        self.events.len() + self.topics.len() + self.unasked.len()
    }
}

impl Watchdog<'_> {
    /// Looks for what would wait for ever; `running` are the events that this process works on. Only whoever claims
    /// events knows them all, and only between two claims.
    pub async fn look(&self, running: BTreeSet<i64>) -> Result<Stranded, StoreError> {
        self.0.read(move |connection| look(connection, &running)).await
    }

    /// Puts back what a look found, or fails it when it was tried too often; the user is then told by `notice`.
    pub async fn rescue(
        &self,
        stranded: Stranded,
        attempts_max: u32,
        now: Millis,
        notice: impl Fn(&Event) -> NewReply + Send + 'static,
    ) -> Result<Rescued, StoreError> {
        self.0.write(move |connection| rescue(connection, &stranded, attempts_max, now, &notice)).await
    }

    /// The last resort for a turn whose end cannot be written: the event fails, its user is told, and its topic goes
    /// on. It needs nothing of what failed, and does without the notice rather than fail too.
    pub async fn give_up(
        &self,
        event: &Event,
        reason: String,
        notice: NewReply,
        now: Millis,
    ) -> Result<(), StoreError> {
        let event = event.clone();
        self.0.write(move |connection| give_up(connection, &event, &reason, &notice, now)).await
    }
}

fn look(connection: &Connection, running: &BTreeSet<i64>) -> Result<Stranded, StoreError> {
    let mut in_flight =
        connection.prepare_cached("SELECT in_flight FROM topics WHERE in_flight IS NOT NULL")?;
    let mut events = Vec::new();
    for seq in in_flight.query_map([], |row| row.get::<_, i64>(0))? {
        let seq = seq?;
        if !running.contains(&seq) && events.len() < STRANDED_MAX {
            events.push(seq);
        }
    }
    let mut idle = connection.prepare_cached(
        "SELECT DISTINCT topic_id FROM inbox_messages
         JOIN topics ON topics.id = topic_id AND topics.in_flight IS NULL AND topics.head_seq IS NULL
         WHERE status = 'pending'",
    )?;
    let mut topics = Vec::new();
    for topic in idle.query_map([], |row| row.get::<_, i64>(0))? {
        let topic = topic?;
        if topics.len() < STRANDED_MAX && topic::has_next(connection, topic)? {
            topics.push(topic);
        }
    }
    Ok(Stranded { events, topics, unasked: unasked(connection)? })
}

fn unasked(connection: &Connection) -> Result<Vec<i64>, StoreError> {
    let mut waiting = connection.prepare_cached(
        "SELECT seq FROM inbox_messages WHERE status = 'waiting' AND NOT EXISTS
           (SELECT 1 FROM pending_approvals WHERE event_seq = seq AND status = 'pending') LIMIT ?1",
    )?;
    let rows = waiting.query_map([STRANDED_MAX], |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn rescue(
    connection: &Connection,
    stranded: &Stranded,
    attempts_max: u32,
    now: Millis,
    notice: &dyn Fn(&Event) -> NewReply,
) -> Result<Rescued, StoreError> {
    let mut rescued = Rescued::default();
    for seq in &stranded.events {
        let topic: Option<i64> = connection
            .prepare_cached("SELECT id FROM topics WHERE in_flight = ?1")?
            .query_row([seq], |row| row.get(0))
            .optional()?;
        let Some(topic) = topic else { continue };
        let found: Option<(u32, String)> = connection
            .prepare_cached(
                "SELECT attempts, id FROM inbox_messages WHERE seq = ?1 AND status = 'processing'",
            )?
            .query_row([seq], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        match found {
            Some((attempts, id)) if attempts >= attempts_max => {
                fail_at_recovery(connection, *seq, "its turn was lost every time", now, notice)?;
                // Nobody can watch an event whose id is damaged.
                rescued.failed.extend(id.parse::<EventId>().ok());
            }
            Some((_, id)) => {
                connection
                    .prepare_cached(
                        "UPDATE inbox_messages SET status = 'pending', due_at = 0, updated_at = ?2 WHERE seq = ?1",
                    )?
                    .execute([*seq, now.0])?;
                trace::note(
                    connection,
                    *seq,
                    now,
                    NoteKind::Rescued,
                    "no task worked on this turn any more",
                )?;
                rescued.requeued.extend(id.parse::<EventId>().ok());
            }
            // The head of the topic was no event that waits: only the topic is held.
            None => rescued.topics += 1,
        }
        topic::release(connection, topic)?;
    }
    for topic in &stranded.topics {
        topic::refresh(connection, *topic)?;
        rescued.topics += 1;
    }
    // An answer may have come since the look: then it goes on already.
    let still = if stranded.unasked.is_empty() { Vec::new() } else { unasked(connection)? };
    for seq in stranded.unasked.iter().filter(|seq| still.contains(seq)) {
        approval::wake(connection, *seq, "it waited for an answer, and nobody is asked", now)?;
        rescued.topics += 1;
    }
    Ok(rescued)
}

fn give_up(
    connection: &Connection,
    event: &Event,
    reason: &str,
    notice: &NewReply,
    now: Millis,
) -> Result<(), StoreError> {
    let topic = claimed_topic(connection, event)?;
    connection
        .prepare_cached("UPDATE inbox_messages SET status = ?2, error = ?3, updated_at = ?4 WHERE seq = ?1")?
        .execute(params![event.seq, InboxStatus::Failed.as_str(), shorten(reason), now.0])?;
    let told = or_nothing(connection, || outbox::queue(connection, notice, event.seq, now).map(drop));
    if let Err(error) = unless_damaged(told)? {
        tracing::error!(event = %event.id, %error, "The user could not be told that an event failed");
    }
    let released = or_nothing(connection, || topic::release(connection, topic));
    if let Err(error) = unless_damaged(released)? {
        // The watchdog finds the topic and looks for its next event anew.
        tracing::error!(event = %event.id, %error, "A topic goes on without its next event");
        connection
            .prepare_cached(
                "UPDATE topics SET in_flight = NULL, head_seq = NULL, head_priority = NULL WHERE id = ?1",
            )?
            .execute([topic])?;
    }
    Ok(())
}

/// In a damaged file nothing more is written, so the event stays as it is.
fn unless_damaged(done: Result<(), StoreError>) -> Result<Result<(), StoreError>, StoreError> {
    match done {
        Err(error @ StoreError::FileDamaged(_)) => Err(error),
        done => Ok(done),
    }
}

/// Runs a part whose failure must not undo the rest.
fn or_nothing(
    connection: &Connection,
    part: impl FnOnce() -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    connection.execute_batch("SAVEPOINT part")?;
    let done = part();
    if done.is_err() {
        connection.execute_batch("ROLLBACK TO part")?;
    }
    connection.execute_batch("RELEASE part")?;
    done
}
