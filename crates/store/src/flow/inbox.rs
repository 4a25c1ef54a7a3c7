//! The inbox: an event is accepted once, claimed in order, and recovered after a crash.

use crate::engine::listing::{Listed, Page, PageRequest, ROW_BYTES, read_page};
use crate::engine::row::{EVENT_COLUMNS, event, event_checksum};
use crate::flow::topic::Places;
use crate::flow::trace::{self, NoteKind};
use crate::{
    Store, StoreError,
    engine::capacity,
    flow::{channel, step, topic},
};
use cortex_types::{
    AcceptedEvent, Decision, Event, EventId, InboxStatus, Millis, NewEvent, NewReply, Step, TopicRef,
};
use fail::fail_point;
use rusqlite::{Connection, OptionalExtension, params};
use std::time::Duration;

mod admission;
mod recover;

pub(crate) use recover::{fail_at_recovery, fail_damaged};

/// Transitions of the inbox.
pub struct Inbox<'a>(pub(crate) &'a Store);

/// An event whose turn this process now runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    pub event: Event,
    /// What earlier attempts already learned.
    pub steps: Vec<Step>,
}

/// What the heads of topics came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Claims {
    pub whole: Vec<Claimed>,
    /// Those that were found damaged and failed; their users are told.
    pub damaged: Vec<EventId>,
}

/// What the start found in flight from the process before.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Recovered {
    pub requeued: usize,
    pub failed: usize,
}

/// Rows by status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InboxCounts {
    pub pending: u64,
    pub processing: u64,
    pub waiting: u64,
    pub failed: u64,
    pub done: u64,
}

/// Why a person's retry was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryRefused {
    NotFound,
    /// Only a failed event can be retried.
    Is(InboxStatus),
}

impl Inbox<'_> {
    /// Keeps a new event; returns after it is on disk. The same source and external id is kept once (D6).
    pub async fn accept(&self, new: NewEvent, now: Millis) -> Result<AcceptedEvent, StoreError> {
        admission::accept(self.0, new, now).await
    }

    /// Claims the heads of topics that have a place: by priority, then by arrival, one in flight a topic (D7).
    pub async fn claim_next(&self, places: impl Into<Places>, now: Millis) -> Result<Claims, StoreError> {
        let mut places = places.into();
        self.0
            .write(move |connection| {
                let mut claims = Claims::default();
                // The place of a damaged event goes to the next one now: nothing would ring for it later.
                while places.free > 0 {
                    let heads = topic::take(connection, places, now)?;
                    places.free = 0;
                    for seq in heads {
                        match claim(connection, seq, now)? {
                            Head::Whole(claimed) => claims.whole.push(*claimed),
                            Head::Held => places.free += 1,
                            Head::Damaged(event) => {
                                places.free += 1;
                                claims.damaged.extend(event);
                            }
                        }
                    }
                }
                fail_point!("inbox.claim.before_commit");
                Ok(claims)
            })
            .await
    }

    /// When the earliest retry is due, so that nobody needs to poll.
    pub async fn next_due(&self) -> Result<Option<Millis>, StoreError> {
        self.0.read(topic::next_due).await
    }

    /// Puts back what a dead process left in flight, eligible at once. Only the holder of the home's lock may
    /// call it, and only before its first claim. Restarts alone fail an event only after `restarts_max`; the
    /// user is then told by `notice`.
    pub async fn recover(
        &self,
        restarts_max: u32,
        now: Millis,
        notice: impl Fn(&Event) -> NewReply + Send + 'static,
    ) -> Result<Recovered, StoreError> {
        self.0.write(move |connection| recover::recover(connection, restarts_max, now, &notice)).await
    }

    /// Planned retries lie at most `horizon` ahead; a clock that was set back before this start must not hold a
    /// topic for longer. A time that cannot be read is now.
    pub async fn clamp_future(&self, horizon: Duration, now: Millis) -> Result<usize, StoreError> {
        let latest = now.after(horizon).0;
        self.0
            .write(move |connection| {
                let events = connection.execute(
                    "UPDATE inbox_messages SET due_at = iif(typeof(due_at) = 'integer', ?1, 0)
                     WHERE status = 'pending' AND (due_at > ?1 OR typeof(due_at) <> 'integer')",
                    [latest],
                )?;
                connection.execute(
                    "UPDATE topics SET head_due_at = iif(typeof(head_due_at) = 'integer', ?1, 0)
                     WHERE in_flight IS NULL AND head_seq IS NOT NULL AND head_due_at > 0 AND head_due_at > ?1",
                    [latest],
                )?;
                Ok(events)
            })
            .await
    }

    /// A person wants a failed event tried again.
    pub async fn retry_failed(
        &self,
        id: EventId,
        now: Millis,
    ) -> Result<Result<(), RetryRefused>, StoreError> {
        self.0.write(move |connection| retry_failed(connection, &id, now)).await
    }

    pub async fn find(&self, id: EventId) -> Result<Option<Event>, StoreError> {
        self.0.read(move |connection| find(connection, &id)).await
    }

    /// The metadata of the event that was accepted under this name; empty where it has none, nothing where there is no event.
    pub async fn metadata_of(
        &self,
        source: String,
        external_message_id: String,
    ) -> Result<Option<String>, StoreError> {
        self.0.read(move |connection| admission::metadata_of(connection, &source, &external_message_id)).await
    }

    /// The newest event that a person sent in a topic, if it came at `since` or later and lately: a client that asks
    /// again is told by it from one that asks anew.
    pub async fn newest_said(&self, topic: TopicRef, since: Millis) -> Result<Option<Event>, StoreError> {
        self.0.read(move |connection| newest_said(connection, &topic, since)).await
    }

    pub async fn list(
        &self,
        status: Option<InboxStatus>,
        page: PageRequest,
    ) -> Result<Page<Event>, StoreError> {
        self.0.read(move |connection| list(connection, status, page)).await
    }

    pub async fn counts(&self) -> Result<InboxCounts, StoreError> {
        self.0.read(counts).await
    }
}

pub(crate) fn accept(
    connection: &Connection,
    new: &NewEvent,
    now: Millis,
) -> Result<AcceptedEvent, StoreError> {
    // In the transaction that keeps the event: no topic holds events of two channels because a name was forgotten between.
    if let Some(named) = new.channel.as_deref()
        && let Err(refusal) = channel::learn_of_event(connection, &new.source, named)?
    {
        return Ok(AcceptedEvent::NameRefused(refusal));
    }
    // Before anything is added: whoever sends an event again, perhaps with another topic, fills nothing.
    if let Some((first, same_body)) = admission::first_of(connection, new)? {
        return Ok(AcceptedEvent::Duplicate { first, same_body });
    }
    let topic = topic::find_or_add(connection, &new.source, &new.topic_key)?;
    connection
        .prepare_cached(
            "INSERT INTO inbox_messages(id, source, external_message_id, topic_key, user_id, text, occurred_at,
               idempotency_key, metadata_json, created_at, updated_at, topic_id, priority, checksum, channel,
               relationship, standing, answer_sha256, answer_decision)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)",
        )?
        .execute(params![
            new.id.as_str(),
            new.source,
            new.external_message_id,
            new.topic_key,
            new.user_id,
            new.text,
            new.occurred_at.0,
            new.idempotency_key,
            new.metadata_json,
            now.0,
            topic.id,
            new.priority.rank(),
            event_checksum(new, now),
            new.channel,
            new.relationship,
            new.standing.as_str(),
            new.answer.as_ref().map(|answer| answer.token_sha256),
            new.answer.as_ref().and_then(|answer| answer.decision).map(Decision::as_str),
        ])?;
    let seq = connection.last_insert_rowid();
    fail_point!("inbox.accept.after_insert");
    capacity::count_strangers(connection, new)?;
    topic::note_audience(connection, &topic, new)?;
    topic::offer(connection, &topic, seq, new)?;
    Ok(AcceptedEvent::Queued(new.id.clone()))
}

/// What the head of a topic came to.
enum Head {
    Whole(Box<Claimed>),
    /// Nothing can be said of it; its topic waits for the next start.
    Held,
    /// It failed by its damage; none when even its id cannot be read.
    Damaged(Option<EventId>),
}

fn claim(connection: &Connection, seq: i64, now: Millis) -> Result<Head, StoreError> {
    let steps = step::count(connection, seq)?;
    // One statement, which is undone by itself: a note that cannot be kept holds up nothing.
    match trace::note_earlier_claim(connection, seq) {
        Err(error) if error.spoils_batch() => return Err(error),
        Err(error) => tracing::error!(seq, %error, "An earlier claim of an event is not noted"),
        Ok(()) => {}
    }
    let claimed = connection
        .prepare_cached(
            "UPDATE inbox_messages SET status = 'processing', attempts = coalesce(attempts, 0) + 1, claimed_at = ?2,
               updated_at = ?2, steps_at_claim = ?3 WHERE seq = ?1 AND status = 'pending'",
        )?
        .execute(params![seq, now.0, steps])?;
    if claimed == 0 {
        // A damaged head must not run a finished event again. Its topic stays held: the next start looks anew.
        tracing::error!(seq, "The head of a topic is damaged; the topic is held until the next start");
        return Ok(Head::Held);
    }
    let claimed = by_seq(connection, seq).and_then(|event| {
        let steps = if steps == 0 { Vec::new() } else { step::load(connection, seq)? };
        Ok(Claimed { event, steps })
    });
    match claimed {
        Ok(claimed) => Ok(Head::Whole(Box::new(claimed))),
        // A damaged row must neither be answered from nor hold its topic for ever.
        Err(StoreError::Damaged(reason)) => fail_damaged(connection, seq, &reason, now).map(Head::Damaged),
        Err(other) => Err(other),
    }
}

pub(crate) fn seq_of(connection: &Connection, id: &EventId) -> Result<Option<i64>, StoreError> {
    let mut statement = connection.prepare_cached("SELECT seq FROM inbox_messages WHERE id = ?1")?;
    Ok(statement.query_row([id.as_str()], |row| row.get(0)).optional()?)
}

pub(crate) fn by_seq(connection: &Connection, seq: i64) -> Result<Event, StoreError> {
    let sql = format!("SELECT {EVENT_COLUMNS} FROM inbox_messages WHERE seq = ?1");
    connection.prepare_cached(&sql)?.query_row([seq], |row| Ok(event(row)))?
}

pub(crate) fn find(connection: &Connection, id: &EventId) -> Result<Option<Event>, StoreError> {
    let sql = format!("SELECT {EVENT_COLUMNS} FROM inbox_messages WHERE id = ?1");
    connection.prepare_cached(&sql)?.query_row([id.as_str()], |row| Ok(event(row))).optional()?.transpose()
}

/// Looks at so many events from the end, so that a topic nobody knows costs no walk through the table.
const LATELY_EVENTS: i64 = 4_096;

fn newest_said(
    connection: &Connection,
    topic: &TopicRef,
    since: Millis,
) -> Result<Option<Event>, StoreError> {
    let sql = format!(
        "SELECT {EVENT_COLUMNS} FROM inbox_messages
         WHERE seq > (SELECT max(seq) FROM inbox_messages) - ?1
           AND +source = ?2 AND topic_key = ?3 AND channel IS NULL AND created_at >= ?4
         ORDER BY seq DESC LIMIT 1"
    );
    connection
        .prepare_cached(&sql)?
        .query_row(params![LATELY_EVENTS, topic.source, topic.topic_key, since.0], |row| Ok(event(row)))
        .optional()?
        .transpose()
}

fn retry_failed(
    connection: &Connection,
    id: &EventId,
    now: Millis,
) -> Result<Result<(), RetryRefused>, StoreError> {
    let Some(event) = find(connection, id)? else { return Ok(Err(RetryRefused::NotFound)) };
    if event.status != InboxStatus::Failed {
        return Ok(Err(RetryRefused::Is(event.status)));
    }
    connection
        .prepare_cached(
            "UPDATE inbox_messages SET status = 'pending', attempts = 0, restarts = 0, due_at = 0, error = NULL,
               updated_at = ?2 WHERE seq = ?1",
        )?
        .execute(params![event.seq, now.0])?;
    trace::note(connection, event.seq, now, NoteKind::Requeued, "a person asked for another try")?;
    let topic = topic::find_or_add(connection, &event.topic.source, &event.topic.topic_key)?;
    topic::refresh(connection, topic.id)?;
    Ok(Ok(()))
}

fn list(
    connection: &Connection,
    status: Option<InboxStatus>,
    page: PageRequest,
) -> Result<Page<Event>, StoreError> {
    let (before, limit) = page.bounds();
    let filter = match status {
        Some(status) => format!("AND status = '{status}'"),
        None => String::new(),
    };
    let sql = format!(
        "SELECT {EVENT_COLUMNS} FROM inbox_messages WHERE seq < ?1 {filter} ORDER BY seq DESC LIMIT ?2"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map([before, limit], |row| Ok(event(row)))?;
    read_page(rows.map(|row| row?), limit)
}

impl Listed for Event {
    fn place(&self) -> i64 {
        self.seq
    }

    fn bytes(&self) -> usize {
        let (metadata, error) = (self.metadata_json.as_ref(), self.error.as_ref());
        ROW_BYTES + self.text.len() + metadata.map_or(0, String::len) + error.map_or(0, String::len)
    }
}

fn counts(connection: &Connection) -> Result<InboxCounts, StoreError> {
    let count = |sql: &str| -> Result<u64, StoreError> {
        Ok(connection.prepare_cached(sql)?.query_row([], |row| row.get(0))?)
    };
    let total = count("SELECT count(*) FROM inbox_messages")?;
    let pending = count("SELECT count(*) FROM inbox_messages WHERE status = 'pending'")?;
    let waiting = count("SELECT count(*) FROM inbox_messages WHERE status = 'waiting'")?;
    let failed = count("SELECT count(*) FROM inbox_messages WHERE status = 'failed'")?;
    let processing = count("SELECT count(*) FROM topics WHERE in_flight IS NOT NULL")?;
    let done = total.saturating_sub(pending + waiting + failed + processing);
    Ok(InboxCounts { pending, processing, waiting, failed, done })
}
