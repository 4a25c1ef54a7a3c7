//! An aged database, written straight to disk: what months of use leave behind, in seconds.
//!
//! The rows are those that the store would have written, checksums and all; the store itself proves it whenever it
//! reads one. Going through the store would take minutes for a million events.

pub(crate) mod facts;

use crate::BenchError;
use cortex_store::{Store, StoreConfig};
use cortex_types::{
    ChatReply, Clock, EventId, FinishReason, Millis, OutboxId, Priority, StepBody, SystemClock, TokenUsage,
};
use rusqlite::{Connection, ErrorCode, Transaction, params};
use std::path::Path;
use std::time::Duration;
use ulid::Ulid;

/// The channel all of it came through.
pub(crate) const SOURCE: &str = "bench";
pub(crate) const REPLY: &str =
    "You said that you want to be reminded every weekday at nine, and so it will be.";
const TEXT: &str = "Remind me every weekday at nine, please";
const USER: &str = "user-998877";
const HOUR_MS: i64 = 60 * 60 * 1_000;

/// Conversations that are going on; all the others are history.
pub(crate) const ACTIVE_TOPICS: u64 = 10;

/// How much there is of what.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fill {
    /// Answered events, spread over all topics; each left a turn and a delivered message.
    pub(crate) done: u64,
    /// Events that wait, spread over the active topics.
    pub(crate) open: u64,
    /// At least as many as are active.
    pub(crate) topics: u64,
    /// Messages that are due, from the answered events in turn.
    pub(crate) messages: u64,
}

impl Fill {
    /// Creates the database at `path` through the store and fills it.
    pub(crate) fn write(&self, path: &Path) -> Result<(), BenchError> {
        let mut connection = opened_to_fill(path)?;
        connection.pragma_update(None, "cache_size", -64_000)?;
        let now = Millis(SystemClock::start().now().0 - HOUR_MS);
        let transaction = connection.transaction()?;
        self.write_topics(&transaction)?;
        self.write_events(&transaction, now)?;
        self.write_ends(&transaction, now)?;
        self.write_messages(&transaction, now)?;
        transaction.commit()?;
        drop(connection);
        // What follows is timed on the disk: nothing of this may still be on its way there.
        Ok(std::fs::File::open(path)?.sync_all()?)
    }

    /// Topics from 1; the head of each is its oldest waiting event.
    fn write_topics(&self, transaction: &Transaction<'_>) -> Result<(), BenchError> {
        let mut insert =
            transaction.prepare("INSERT INTO topics(id, source, topic_key) VALUES (?1, ?2, ?3)")?;
        for topic in 0..self.topics {
            insert.execute(params![topic + 1, SOURCE, topic_key(topic)])?;
        }
        let mut head =
            transaction.prepare("UPDATE topics SET head_seq = ?2, head_priority = 1 WHERE id = ?1")?;
        for number in 0..self.open.min(ACTIVE_TOPICS) {
            head.execute([active_topic(number, self.topics) + 1, self.done + number + 1])?;
        }
        Ok(())
    }

    /// Events from 1 in order of arrival.
    fn write_events(&self, transaction: &Transaction<'_>, now: Millis) -> Result<(), BenchError> {
        let mut insert = transaction.prepare(
            "INSERT INTO inbox_messages(seq, id, source, external_message_id, topic_key, user_id, text, occurred_at,
               idempotency_key, status, attempts, created_at, updated_at, topic_id, claimed_at, checksum)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?8, ?8, ?12, ?13, ?14)",
        )?;
        for seq in 1..=self.done + self.open {
            let (topic, claimed_at) = match seq.checked_sub(self.done + 1) {
                Some(waiting) => (active_topic(waiting, self.topics), None),
                None => (self.topic_of_done(seq), Some(now.0)),
            };
            let (key, external_id) = (topic_key(topic), external_id(seq));
            let id = EventId::from_ulid(ulid(now, seq));
            let idempotency_key = format!("{SOURCE}:{external_id}");
            let texts = [id.as_str(), SOURCE, &key, &external_id, &idempotency_key, USER, TEXT, ""];
            insert.execute(params![
                seq,
                id.as_str(),
                SOURCE,
                external_id,
                key,
                USER,
                TEXT,
                now.0,
                idempotency_key,
                if claimed_at.is_some() { "done" } else { "pending" },
                u64::from(claimed_at.is_some()),
                topic + 1,
                claimed_at,
                checksum(&texts, &[now.0, Priority::Normal.rank(), now.0]),
            ])?;
        }
        Ok(())
    }

    fn topic_of_done(&self, seq: u64) -> u64 {
        (seq - 1) % self.topics
    }

    /// What the turns of the finished events left.
    fn write_ends(&self, transaction: &Transaction<'_>, now: Millis) -> Result<(), BenchError> {
        let step = step_body()?;
        let mut steps = transaction.prepare(
            "INSERT INTO turn_steps(event_seq, number, kind, body_json, created_at, checksum)
             VALUES (?1, 0, 'model_answered', ?2, ?3, ?4)",
        )?;
        let mut usage = transaction.prepare(
            "INSERT INTO usage(event_seq, started_at, profile, provider, model, input_tokens, output_tokens,
               cached_tokens, cost_micros, latency_ms) VALUES (?1, ?2, 'offline', 'offline', 'offline', 90, 20, 0, 0, 1)",
        )?;
        let mut history = transaction.prepare(
            "INSERT INTO turns(topic_key, role, content, timestamp, topic_id, event_seq, checksum, tokens)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 17)",
        )?;
        for seq in 1..=self.done {
            let topic = self.topic_of_done(seq);
            let key = topic_key(topic);
            let event = i64::try_from(seq).unwrap_or(i64::MAX);
            steps.execute(params![seq, step, now.0, checksum(&[&step], &[event, 0, now.0])])?;
            usage.execute(params![seq, now.0])?;
            for (role, content) in [("user", TEXT), ("assistant", REPLY)] {
                let sum = checksum(&[SOURCE, &key, role, content], &[now.0]);
                history.execute(params![key, role, content, now.0, topic + 1, seq, sum])?;
            }
        }
        Ok(())
    }

    /// Messages from 1: one delivered for each answered event, then those that are due.
    fn write_messages(&self, transaction: &Transaction<'_>, now: Millis) -> Result<(), BenchError> {
        let mut insert = transaction.prepare(
            "INSERT INTO outbox_messages(seq, id, source, topic_key, text, status, attempts, next_attempt_at,
               created_at, updated_at, topic_id, event_seq, delivered_at, checksum)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8, ?8, ?9, ?10, ?11, ?12)",
        )?;
        for seq in 1..=self.done + self.messages {
            let (event, delivered_at) = match seq.checked_sub(self.done) {
                Some(due) if due > 0 => ((due - 1) % self.done + 1, None),
                Some(_) | None => (seq, Some(now.0)),
            };
            let topic = self.topic_of_done(event);
            let (key, id) = (topic_key(topic), OutboxId::from_ulid(ulid(now, seq)));
            let event = i64::try_from(event).unwrap_or(i64::MAX);
            insert.execute(params![
                seq,
                id.as_str(),
                SOURCE,
                key,
                REPLY,
                if delivered_at.is_some() { "delivered" } else { "pending" },
                u64::from(delivered_at.is_some()),
                now.0,
                topic + 1,
                event,
                delivered_at,
                checksum(&[id.as_str(), SOURCE, &key, REPLY, ""], &[event, now.0]),
            ])?;
        }
        Ok(())
    }
}

/// The topic of the `number`th of many events that come in now; the active topics lie all through the table.
pub(crate) fn active_topic(number: u64, topics: u64) -> u64 {
    number % ACTIVE_TOPICS * (topics / ACTIVE_TOPICS)
}

/// The database, made by the store, in a hurry: a crash in the middle costs the file, and the file is ours alone.
fn opened_to_fill(path: &Path) -> Result<Connection, BenchError> {
    let (store, thread) = Store::open(StoreConfig::at(path))?;
    drop(store);
    thread.close();
    let connection = Connection::open(path)?;
    without_log(&connection)?;
    connection.pragma_update(None, "synchronous", "off")?;
    Ok(connection)
}

/// Leaves the write-ahead log, once the store's readers are gone: they end a moment after it.
fn without_log(connection: &Connection) -> Result<(), BenchError> {
    const TRIES: usize = 500;
    for _ in 0..TRIES {
        match connection.pragma_update(None, "journal_mode", "memory") {
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => {
                std::thread::sleep(Duration::from_millis(10));
            }
            done => return Ok(done?),
        }
    }
    Err(BenchError::Broken("somebody else holds the new database".to_owned()))
}

/// The external id of an event; rising, as channels count.
pub(crate) fn external_id(seq: u64) -> String {
    format!("{seq:012}")
}

pub(crate) fn topic_key(topic: u64) -> String {
    format!("chat-{topic:06}")
}

fn ulid(now: Millis, number: u64) -> Ulid {
    Ulid::from_parts(u64::try_from(now.0).unwrap_or_default(), u128::from(number))
}

fn step_body() -> Result<String, BenchError> {
    let reply = ChatReply {
        text: REPLY.to_owned(),
        tool_calls: Vec::new(),
        finish: FinishReason::Stop,
        usage: TokenUsage { input: 90, output: 20, cached: 0 },
    };
    let step = StepBody::ModelAnswered { reply, profile: "offline".to_owned(), model: "offline".to_owned() };
    serde_json::to_string(&step).map_err(|error| BenchError::Broken(error.to_string()))
}

/// The store's checksum of a row: texts, each ended by a zero byte, then numbers.
fn checksum(texts: &[&str], numbers: &[i64]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    for text in texts {
        hasher.update(text.as_bytes());
        hasher.update(&[0]);
    }
    for number in numbers {
        hasher.update(&number.to_le_bytes());
    }
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cortex_store::{OutboxPoll, PageRequest};
    use cortex_types::TopicRef;

    /// The store compares every checksum it reads, so reading is the proof that the rows are its own.
    #[tokio::test]
    async fn the_store_reads_every_filled_row_as_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cortex.db");
        Fill { done: 60, open: 23, topics: 20, messages: 7 }.write(&path).unwrap();
        let (store, thread) = Store::open(StoreConfig::at(&path)).unwrap();
        store.check_integrity().await.unwrap();
        let events = store.inbox().list(None, PageRequest::newest(100)).await.unwrap().rows;
        assert_eq!(events.len(), 83);
        let trace = store.trace(events[82].id.clone()).await.unwrap().unwrap();
        assert_eq!((trace.steps.len(), trace.replies.len()), (1, 2));
        let topic = TopicRef { source: SOURCE.to_owned(), topic_key: topic_key(3) };
        assert_eq!(store.turns().history(topic, 100).await.unwrap().len(), 6);
        let now = SystemClock::start().now();
        let claimed = store.inbox().claim_next(20, now).await.unwrap().whole;
        assert!(claimed.iter().map(|claim| claim.event.seq).eq(61..=70), "{claimed:?}");
        let lease = Duration::from_secs(60);
        let poll = OutboxPoll {
            source: SOURCE.to_owned(),
            max: 100,
            lease,
            ordered: true,
            attempts_max: 3,
            pushed: false,
            holder: None,
            topic_key: None,
        };
        assert_eq!(store.outbox().claim_due(poll, now).await.unwrap().len(), 7);
        drop(store);
        thread.close();
    }
}
