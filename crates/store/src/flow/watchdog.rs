//! The watchdog's look at the rows: events that nobody will end, and how each is ended or put back.

use crate::engine::savepoint::{apart, or_nothing};
use crate::flow::inbox::{fail_at_recovery, fail_damaged};
use crate::flow::trace::{self, NoteKind};
use crate::flow::turn::{claimed_topic, shorten};
use crate::{
    Store, StoreError,
    flow::{approval, inbox, outbox, topic},
};
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
    /// Topics in which an event is pending while nothing holds them and nothing leads them, or its time never comes.
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
    for seq in in_flight.query_map([], |row| Ok(row.get::<_, i64>(0).ok()))? {
        // Which event runs in such a topic is for the next start to find out; the others need not wait for it.
        let Some(seq) = seq? else {
            tracing::error!("A stored topic is damaged; it is held until the next start");
            continue;
        };
        if !running.contains(&seq) && events.len() < STRANDED_MAX {
            events.push(seq);
        }
    }
    let mut idle = connection.prepare_cached(
        "SELECT DISTINCT topic_id FROM inbox_messages
         JOIN topics ON topics.id = topic_id AND topics.in_flight IS NULL
           AND (topics.head_seq IS NULL OR typeof(topics.head_due_at) <> 'integer' OR topics.head_due_at < 0)
         WHERE status = 'pending'",
    )?;
    let mut topics = Vec::new();
    for topic in idle.query_map([], |row| row.get::<_, i64>(0))? {
        let topic = topic?;
        if topics.len() == STRANDED_MAX {
            break;
        }
        match topic::has_next(connection, topic) {
            Ok(true) => topics.push(topic),
            Ok(false) => {}
            Err(error) if error.spoils_batch() => return Err(error),
            Err(error) => tracing::error!(topic, %error, "The watchdog cannot look at a topic"),
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
        let done = apart(connection, || rescue_event(connection, *seq, attempts_max, now, notice))?;
        match done {
            Ok(Some(Put::Back(id))) => rescued.requeued.extend(id),
            Ok(Some(Put::Aside(id))) => rescued.failed.extend(id),
            Ok(Some(Put::Free)) => rescued.topics += 1,
            Ok(None) => {}
            Err(error) => {
                rescued.failed.extend(fail_damaged(connection, *seq, &error.to_string(), now)?);
            }
        }
    }
    for topic in &stranded.topics {
        match apart(connection, || topic::refresh(connection, *topic))? {
            Ok(()) => rescued.topics += 1,
            Err(error) => tracing::error!(topic, %error, "A topic cannot be put back"),
        }
    }
    // An answer may have come since the look: then it goes on already.
    let still = if stranded.unasked.is_empty() { Vec::new() } else { unasked(connection)? };
    for seq in stranded.unasked.iter().filter(|seq| still.contains(seq)) {
        match apart(connection, || rescue_unasked(connection, *seq, now, notice))? {
            Ok(None) => rescued.topics += 1,
            Ok(Some(failed)) => rescued.failed.push(failed),
            Err(error) => tracing::error!(seq, %error, "A waiting event cannot be put back"),
        }
    }
    Ok(rescued)
}

/// Wakes an event that nobody is asked about any more, or fails it and gives its id. A turn whose journal has a question open
/// would only rest again, so it hears first that none is.
fn rescue_unasked(
    connection: &Connection,
    seq: i64,
    now: Millis,
    notice: &dyn Fn(&Event) -> NewReply,
) -> Result<Option<EventId>, StoreError> {
    match apart(connection, || approval::journal_ended(connection, seq, now))? {
        // Where the journal cannot be read, the claim finds that out too, and tells the user.
        Ok(()) | Err(StoreError::Damaged(_)) => {
            approval::wake(connection, seq, "it waited for an answer, and nobody is asked", now)?;
            Ok(None)
        }
        Err(error) => {
            let reason = format!("it waited for an answer that nobody can give: {error}");
            fail_at_recovery(connection, seq, &shorten(&reason), now, notice)?;
            Ok(Some(inbox::by_seq(connection, seq)?.id))
        }
    }
}

/// What became of an event that held its topic for nobody. One whose id is damaged has none: nobody can watch it.
enum Put {
    Back(Option<EventId>),
    Aside(Option<EventId>),
    /// The head of the topic was no event that waits: only the topic was held.
    Free,
}

fn rescue_event(
    connection: &Connection,
    seq: i64,
    attempts_max: u32,
    now: Millis,
    notice: &dyn Fn(&Event) -> NewReply,
) -> Result<Option<Put>, StoreError> {
    let topic: Option<i64> = connection
        .prepare_cached("SELECT id FROM topics WHERE in_flight = ?1")?
        .query_row([seq], |row| row.get(0))
        .optional()?;
    let Some(topic) = topic else { return Ok(None) };
    let found: Option<(u32, String)> = connection
        .prepare_cached("SELECT attempts, id FROM inbox_messages WHERE seq = ?1 AND status = 'processing'")?
        .query_row([seq], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let put = match found {
        Some((attempts, id)) if attempts >= attempts_max => {
            fail_at_recovery(connection, seq, "its turn was lost every time", now, notice)?;
            Put::Aside(id.parse().ok())
        }
        Some((_, id)) => {
            connection
                .prepare_cached(
                    "UPDATE inbox_messages SET status = 'pending', due_at = 0, updated_at = ?2 WHERE seq = ?1",
                )?
                .execute([seq, now.0])?;
            trace::note(connection, seq, now, NoteKind::Rescued, "no task worked on this turn any more")?;
            Put::Back(id.parse().ok())
        }
        // The name was damaged: the next look finds out whether a task works on the event.
        None if topic::hold_for_running(connection, topic)? => return Ok(None),
        None => Put::Free,
    };
    topic::release(connection, topic)?;
    Ok(Some(put))
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
