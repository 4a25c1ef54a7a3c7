//! The outbox: a message is leased to one connector at a time, retried with backoff, and never silently lost.

use crate::engine::listing::{Listed, Page, PageRequest, ROW_BYTES, read_page};
use crate::{
    Store, StoreError,
    engine::checksum,
    flow::{channel, topic},
};
use cortex_types::{
    Delivery, Event, EventId, LeaseToken, Millis, NewReply, OutboxId, OutboxStatus, TopicRef,
};
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::time::Duration;
use ulid::Ulid;

pub(crate) mod bell;
mod blank;
mod claim;
mod hand_over;
mod push;
mod receipt;
mod settle;

pub use bell::{OutboxListener, Ring};
pub(crate) use blank::{Prompt, blank_prompt};
pub use hand_over::{HandOver, HandedOver, RepliesOf};
pub use push::{MessageCause, ReturnedLease};
pub use receipt::EndedEvent;
pub use settle::{Acked, DiscardOutcome, LeaseRefused, Nack, Nacked, RequeueOutcome};

/// Transitions of the outbox.
pub struct Outbox<'a>(pub(crate) &'a Store);

/// Which messages a connector wants, and for how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxPoll {
    pub source: String,
    pub max: u32,
    pub lease: Duration,
    /// Never hand out a message while an earlier one of its topic is still open (D5).
    pub ordered: bool,
    /// Exactly this many claims, then dead (D2).
    pub attempts_max: u32,
    /// The holder is a part of this process: its leases end with it.
    pub pushed: bool,
    /// Only what goes to this topic of the source.
    pub topic_key: Option<String>,
    /// The name that the poller gave itself; under it a later life of the same connector gives its leases back.
    pub holder: Option<String>,
}

/// A message as the outbox keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxMessage {
    pub seq: i64,
    pub id: OutboxId,
    pub topic: TopicRef,
    pub text: String,
    pub payload_json: Option<String>,
    pub status: OutboxStatus,
    pub attempts: u32,
    pub next_attempt_at: Millis,
    pub lease_expires_at: Option<Millis>,
    pub last_error: Option<String>,
    pub event: Option<EventId>,
    pub created_at: Millis,
    pub updated_at: Millis,
    pub leased_at: Option<Millis>,
    pub delivered_at: Option<Millis>,
}

/// Open and ended messages by status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OutboxCounts {
    pub pending: u64,
    pub leased: u64,
    pub dead: u64,
    pub suppressed: u64,
    pub discarded: u64,
    pub delivered: u64,
}

impl Outbox<'_> {
    /// Leases the due messages of a source; each row goes to at most one poller at a time.
    pub async fn claim_due(&self, request: OutboxPoll, now: Millis) -> Result<Vec<Delivery>, StoreError> {
        self.0.write(move |connection| claim::claim_due(connection, &request, now)).await
    }

    /// Leases all that waits in a conversation, in order, and shows the replies that somebody else has. What an event
    /// led to that others follow, by its source and external id, is theirs.
    pub async fn hand_over(
        &self,
        request: HandOver,
        is_followed: impl Fn(&str, &str) -> bool + Send + 'static,
        now: Millis,
    ) -> Result<Vec<HandedOver>, StoreError> {
        self.0.write(move |connection| hand_over::hand_over(connection, &request, &is_followed, now)).await
    }

    /// The reader of these replies stopped them: their words are given up. Returns how many there were.
    pub async fn stop(&self, replies: RepliesOf, now: Millis) -> Result<usize, StoreError> {
        self.0.write(move |connection| hand_over::stop(connection, &replies, now)).await
    }

    /// The connector delivered the message.
    pub async fn ack(
        &self,
        id: OutboxId,
        lease: LeaseToken,
        now: Millis,
    ) -> Result<Result<Acked, LeaseRefused>, StoreError> {
        self.0.write(move |connection| settle::ack(connection, &id, &lease, now)).await
    }

    /// The connector could not deliver it. `delay_for` gives the backoff of the attempts so far.
    pub async fn nack(
        &self,
        nack: Nack,
        delay_for: impl Fn(u32) -> Duration + Send + 'static,
        now: Millis,
    ) -> Result<Result<Nacked, LeaseRefused>, StoreError> {
        self.0.write(move |connection| settle::nack(connection, &nack, &delay_for, now)).await
    }

    /// A person wants a dead message tried again.
    pub async fn requeue(&self, id: OutboxId, now: Millis) -> Result<RequeueOutcome, StoreError> {
        self.0.write(move |connection| settle::requeue(connection, &id, now)).await
    }

    /// A person gives a message up.
    pub async fn discard(&self, id: OutboxId, now: Millis) -> Result<DiscardOutcome, StoreError> {
        self.0.write(move |connection| settle::discard(connection, &id, now)).await
    }

    /// Holders end without having delivered: the messages are due again at once. Returns how many still were theirs.
    pub async fn give_back(&self, leases: Vec<ReturnedLease>, now: Millis) -> Result<usize, StoreError> {
        self.0.write(move |connection| push::give_back(connection, &leases, now)).await
    }

    /// A connector starts again: what an earlier life of it held is due at once, and the old leases settle nothing any
    /// more. The attempts count, so that a message that kills its connector ends as a dead letter.
    pub async fn release(&self, source: String, holder: String, now: Millis) -> Result<usize, StoreError> {
        self.0.write(move |connection| push::release(connection, &source, &holder, now)).await
    }

    /// Messages that doors of the process before held: nobody has them any more. Only for the holder of the home's lock.
    pub async fn take_back_pushed(&self, now: Millis) -> Result<usize, StoreError> {
        self.0
            .write(move |connection| {
                let mut statement = connection.prepare_cached(
                    "UPDATE outbox_messages SET status = 'pending', lease_token = NULL, lease_expires_at = NULL,
                       updated_at = ?1 WHERE status = 'leased' AND pushed = 1",
                )?;
                Ok(statement.execute([now.0])?)
            })
            .await
    }

    /// What each of these messages answers; none for one that is not there.
    pub async fn causes(&self, ids: Vec<OutboxId>) -> Result<Vec<Option<MessageCause>>, StoreError> {
        self.0.read(move |connection| push::causes(connection, &ids)).await
    }

    /// When something of this source becomes claimable by time alone after now, so that nobody needs to poll.
    pub async fn next_due(&self, source: String, now: Millis) -> Result<Option<Millis>, StoreError> {
        self.0.read(move |connection| push::next_due(connection, &source, None, now)).await
    }

    /// The same of one topic alone.
    pub async fn next_due_in(&self, topic: TopicRef, now: Millis) -> Result<Option<Millis>, StoreError> {
        let TopicRef { source, topic_key } = topic;
        self.0.read(move |connection| push::next_due(connection, &source, Some(&topic_key), now)).await
    }

    /// An event with everything it led to.
    pub async fn replies_to(
        &self,
        event: EventId,
    ) -> Result<Option<(Event, Vec<OutboxMessage>)>, StoreError> {
        self.0.read(move |connection| push::replies_to(connection, &event)).await
    }

    /// How those of the events ended that have; no text is read.
    pub async fn ended(&self, events: Vec<EventId>) -> Result<Vec<EndedEvent>, StoreError> {
        self.0.read(move |connection| receipt::ended(connection, &events)).await
    }

    /// Hears which topics have something to claim.
    pub fn listen(&self) -> OutboxListener {
        self.0.bell().listen()
    }

    /// Leases and waits reach at most `horizon` ahead; a clock that was set back before this start must not hide
    /// messages for longer. A time that cannot be read is now.
    pub async fn clamp_future(&self, horizon: Duration, now: Millis) -> Result<usize, StoreError> {
        let latest = now.after(horizon).0;
        self.0
            .write(move |connection| {
                let leases = connection.execute(
                    "UPDATE outbox_messages SET lease_expires_at = iif(typeof(lease_expires_at) = 'integer', ?1, ?2)
                     WHERE status = 'leased' AND (lease_expires_at > ?1 OR typeof(lease_expires_at) <> 'integer')",
                    [latest, now.0],
                )?;
                let waits = connection.execute(
                    "UPDATE outbox_messages SET next_attempt_at = iif(typeof(next_attempt_at) = 'integer', ?1, 0)
                     WHERE status IN ('pending', 'leased')
                       AND (next_attempt_at > ?1 OR typeof(next_attempt_at) <> 'integer')",
                    [latest],
                )?;
                Ok(leases + waits)
            })
            .await
    }

    pub async fn find(&self, id: OutboxId) -> Result<Option<OutboxMessage>, StoreError> {
        self.0
            .read(move |connection| {
                connection
                    .prepare_cached(&select_where("outbox_messages.id = ?1"))?
                    .query_row([id.as_str()], |row| Ok(outbox_row(row)))
                    .optional()?
                    .transpose()
            })
            .await
    }

    pub async fn list(
        &self,
        status: Option<OutboxStatus>,
        source: Option<String>,
        page: PageRequest,
    ) -> Result<Page<OutboxMessage>, StoreError> {
        self.0.read(move |connection| list(connection, status, source.as_deref(), page)).await
    }

    pub async fn counts(&self) -> Result<OutboxCounts, StoreError> {
        self.0
            .read(|connection| {
                let count = |sql: &str| -> Result<u64, StoreError> {
                    Ok(connection.prepare_cached(sql)?.query_row([], |row| row.get(0))?)
                };
                let total = count("SELECT count(*) FROM outbox_messages")?;
                let pending = count("SELECT count(*) FROM outbox_messages WHERE status = 'pending'")?;
                let leased = count("SELECT count(*) FROM outbox_messages WHERE status = 'leased'")?;
                let dead = count("SELECT count(*) FROM outbox_messages WHERE status = 'dead'")?;
                let suppressed = count("SELECT count(*) FROM outbox_messages WHERE status = 'suppressed'")?;
                let discarded = count("SELECT count(*) FROM outbox_messages WHERE status = 'discarded'")?;
                let delivered = total.saturating_sub(pending + leased + dead + suppressed + discarded);
                Ok(OutboxCounts { pending, leased, dead, suppressed, discarded, delivered })
            })
            .await
    }
}

pub(crate) fn mint_id(now: Millis) -> OutboxId {
    OutboxId::new_at(now, rand::random())
}

fn mint(now: Millis) -> Ulid {
    Ulid::from_parts(u64::try_from(now.0).unwrap_or(0), rand::random())
}

/// What became of a message that was to be queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Queued {
    Due,
    /// Recorded and never sent.
    Suppressed,
}

/// Puts what an event leads to into the outbox, due at once. It waits in the topic it goes to, which another channel's
/// may be. Unless the channel of the event and that of the topic are live, it is suppressed instead.
pub(crate) fn queue(
    connection: &Connection,
    reply: &NewReply,
    event_seq: i64,
    now: Millis,
) -> Result<Queued, StoreError> {
    insert(connection, reply, Some(event_seq), now)
}

/// The same for a line that no event led to.
pub(crate) fn queue_unasked(
    connection: &Connection,
    reply: &NewReply,
    now: Millis,
) -> Result<Queued, StoreError> {
    insert(connection, reply, None, now)
}

fn insert(
    connection: &Connection,
    reply: &NewReply,
    event_seq: Option<i64>,
    now: Millis,
) -> Result<Queued, StoreError> {
    let topic = topic::find_or_add(connection, &reply.topic.source, &reply.topic.topic_key)?.id;
    let refusal = channel::refusal(connection, event_seq, &reply.topic.source)?;
    let (status, queued) = match refusal {
        None => (OutboxStatus::Pending, Queued::Due),
        Some(_) => (OutboxStatus::Suppressed, Queued::Suppressed),
    };
    connection
        .prepare_cached(
            "INSERT INTO outbox_messages(id, source, topic_key, text, payload_json, next_attempt_at, created_at,
               updated_at, topic_id, event_seq, checksum, status, last_error)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6, ?6, ?7, ?8, ?9, ?10, ?11)",
        )?
        .execute(params![
            reply.id.as_str(),
            reply.topic.source,
            reply.topic.topic_key,
            reply.text,
            reply.payload_json,
            now.0,
            topic,
            event_seq,
            row_checksum(reply, event_seq, now),
            status.as_str(),
            refusal,
        ])?;
    if queued == Queued::Due {
        bell::queued_for(&reply.topic);
    }
    Ok(queued)
}

/// Ends an open message that may not leave; it is never claimed again.
pub(crate) fn suppress(
    connection: &Connection,
    seq: i64,
    reason: &str,
    now: Millis,
) -> Result<(), StoreError> {
    connection
        .prepare_cached(
            "UPDATE outbox_messages SET status = 'suppressed', lease_token = NULL, lease_expires_at = NULL,
               last_error = ?2, updated_at = ?3 WHERE seq = ?1 AND status IN ('pending', 'leased')",
        )?
        .execute(params![seq, reason, now.0])?;
    Ok(())
}

pub(crate) fn of_event(connection: &Connection, event_seq: i64) -> Result<Vec<OutboxMessage>, StoreError> {
    let mut statement =
        connection.prepare_cached(&select_where("event_seq = ?1 ORDER BY outbox_messages.seq"))?;
    let rows = statement.query_map([event_seq], |row| Ok(outbox_row(row)))?;
    rows.map(|row| row?).collect()
}

fn row_checksum(reply: &NewReply, event_seq: Option<i64>, created_at: Millis) -> u32 {
    checksum::of(
        &[
            reply.id.as_str(),
            &reply.topic.source,
            &reply.topic.topic_key,
            &reply.text,
            reply.payload_json.as_deref().unwrap_or_default(),
        ],
        &[event_seq.unwrap_or_default(), created_at.0],
    )
}

fn list(
    connection: &Connection,
    status: Option<OutboxStatus>,
    source: Option<&str>,
    page: PageRequest,
) -> Result<Page<OutboxMessage>, StoreError> {
    let (before, limit) = page.bounds();
    let filter = match status {
        Some(status) => format!("AND outbox_messages.status = '{status}'"),
        None => String::new(),
    };
    let condition = format!(
        "outbox_messages.seq < ?1 {filter} AND (?3 IS NULL OR outbox_messages.source = ?3)
         ORDER BY outbox_messages.seq DESC LIMIT ?2"
    );
    let mut statement = connection.prepare_cached(&select_where(&condition))?;
    let rows = statement.query_map(params![before, limit, source], |row| Ok(outbox_row(row)))?;
    read_page(rows.map(|row| row?), limit)
}

impl Listed for OutboxMessage {
    fn place(&self) -> i64 {
        self.seq
    }

    fn bytes(&self) -> usize {
        let Self { text, payload_json, last_error, .. } = self;
        let (payload, error) = (payload_json.as_ref(), last_error.as_ref());
        ROW_BYTES + text.len() + payload.map_or(0, String::len) + error.map_or(0, String::len)
    }
}

/// What a message was queued with, and the checksum over it.
const QUEUED_COLUMNS: &str = "outbox_messages.id, outbox_messages.source, outbox_messages.topic_key, \
    outbox_messages.text, payload_json, event_seq, outbox_messages.created_at, outbox_messages.checksum";

const STATE_COLUMNS: &str = "outbox_messages.seq, outbox_messages.status, outbox_messages.attempts, \
    next_attempt_at, lease_expires_at, last_error, inbox_messages.id, outbox_messages.updated_at, leased_at, \
    delivered_at";

fn select_where(condition: &str) -> String {
    format!(
        "SELECT {QUEUED_COLUMNS}, {STATE_COLUMNS} FROM outbox_messages
         LEFT JOIN inbox_messages ON inbox_messages.seq = event_seq WHERE {condition}"
    )
}

/// Reads `QUEUED_COLUMNS`; a row that does not match its checksum is `Damaged`.
fn as_queued(row: &Row<'_>) -> Result<NewReply, StoreError> {
    let id: String = row.get(0)?;
    let reply = NewReply {
        id: id.parse().map_err(|error| StoreError::Damaged(format!("{error}")))?,
        topic: TopicRef { source: row.get(1)?, topic_key: row.get(2)? },
        text: row.get(3)?,
        payload_json: row.get(4)?,
    };
    let stored: u32 = row.get(7)?;
    if stored == row_checksum(&reply, row.get(5)?, Millis(row.get(6)?)) {
        Ok(reply)
    } else {
        Err(StoreError::Damaged(format!("outbox message {id}: it does not match its checksum")))
    }
}

fn outbox_row(row: &Row<'_>) -> Result<OutboxMessage, StoreError> {
    let NewReply { id, topic, text, payload_json } = as_queued(row)?;
    let damaged = |what: &str| StoreError::Damaged(format!("outbox message {id}: {what}"));
    let status: String = row.get(9)?;
    let status = status.parse().map_err(|_| damaged("its status is unknown"))?;
    let event: Option<String> = row.get(14)?;
    let event = event.map(|id| id.parse()).transpose().map_err(|_| damaged("its event id is no id"))?;
    Ok(OutboxMessage {
        seq: row.get(8)?,
        id,
        topic,
        text,
        payload_json,
        status,
        attempts: row.get(10)?,
        next_attempt_at: Millis(row.get(11)?),
        lease_expires_at: row.get::<_, Option<i64>>(12)?.map(Millis),
        last_error: row.get(13)?,
        event,
        created_at: Millis(row.get(6)?),
        updated_at: Millis(row.get(15)?),
        leased_at: row.get::<_, Option<i64>>(16)?.map(Millis),
        delivered_at: row.get::<_, Option<i64>>(17)?.map(Millis),
    })
}
