//! Growth: what ingest, claim, poll and context cost over a large database against a small one.
//!
//! A is the time of an operation of the store over 1,000,000 events and as many messages, half of them finished and
//! half open; B is the same over 1,000. Small batches take turns, and the small database is a fresh copy for each, so
//! that it stays small. The operations are called on the store itself, on disk and with `synchronous=FULL`: HTTP
//! costs the same at every size and would hide what grows.

use crate::BenchError;
use crate::fill::{Fill, Replies, SOURCE, external_id, topic_key};
use crate::options::Scale;
use crate::report::{Fact, Findings, Goal, Measured};
use crate::run::Run;
use crate::sample::median;
use cortex_store::{OutboxPoll, Store, StoreConfig, TurnEnd};
use cortex_types::{AcceptedEvent, Clock, EventId, Millis, NewEvent, Priority, SystemClock, TopicRef};
use futures::future::try_join_all;
use futures::{StreamExt, TryStreamExt, stream};
use rusqlite::Connection;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use ulid::Ulid;

const SMALL: u64 = 1_000;
/// Events of a topic.
const EVENTS_PER_TOPIC: u64 = 100;
const CONCURRENT: usize = 64;
const GOAL: Goal = Goal::at_most(1.3);

/// How much of each operation one batch does; the small database has room for it.
const INGESTS: u64 = 256;
const CLAIMS: usize = 8;
const CLAIMED: u32 = 4;
const POLLS: usize = 8;
const POLLED: u32 = 20;
const CONTEXTS: u64 = 64;
const CONTEXT_LINES: u32 = 20;

/// What is measured, and how much it may grow. A history is scattered: each of its lines is on a page of its own, and
/// only a small database has all of them at hand. So its growth is told and not judged.
const OPERATIONS: [(&str, Option<Goal>); 4] =
    [("ingest", Some(GOAL)), ("claim", Some(GOAL)), ("poll", Some(GOAL)), ("context", None)];

/// As long as the log of a store gets before it starts anew.
const LOG_BYTES: u64 = 20_000_000;
/// As long as the log of a small database gets in its short life.
const SMALL_LOG_BYTES: u64 = 4_000_000;

/// The mean time of each operation, in the order of `OPERATIONS`, in milliseconds.
type Costs = [f64; 4];

pub(crate) fn growth(run: &Run<'_>) -> Result<Findings, BenchError> {
    let (middle, large) = match run.options.scale {
        Scale::Full => (100_000, 1_000_000),
        Scale::Smoke => (5_000, 20_000),
    };
    let template = filled(run, SMALL)?;
    let open = |events| Aged::open(&filled(run, events)?, events, LOG_BYTES);
    let (middle, large) = (open(middle)?, open(large)?);
    run.begins(run.rounds());
    let mut rounds: Vec<[Costs; 3]> = Vec::new();
    measure(&template, &middle, &large, run.time() / 10)?;
    for _ in 0..run.rounds() {
        rounds.push(measure(&template, &middle, &large, run.time())?);
        run.stepped();
    }
    let sizes = [SMALL, middle.events, large.events];
    for aged in [middle, large] {
        aged.close();
    }
    Ok(findings(&rounds, sizes))
}

fn findings(rounds: &[[Costs; 3]], [small, middle, large]: [u64; 3]) -> Findings {
    let growth = |operation: usize, size: usize| {
        rounds.iter().map(move |costs| (costs[size][operation], costs[0][operation]))
    };
    let mut judged = Vec::new();
    let mut facts = Vec::new();
    for (at, (operation, goal)) in OPERATIONS.into_iter().enumerate() {
        let factor = |size| median(growth(at, size).map(|(large, small)| large / small));
        facts.push(Fact::new(format!("{operation}, {middle} / {small} events"), factor(1), "×"));
        let what = format!("{operation}, {large} / {small} events");
        match goal {
            Some(goal) => judged.push(Measured::ratio(what, goal, "ms", growth(at, 2))),
            None => facts.push(Fact::new(what, factor(2), "×")),
        }
    }
    let headline = judged.remove(0);
    Findings { more: judged, facts, ..Findings::of(headline) }
}

/// Batches over the three sizes in turn until the time is up; the median batch of each size.
fn measure(template: &Path, middle: &Aged, large: &Aged, time: Duration) -> Result<[Costs; 3], BenchError> {
    let started = Instant::now();
    let mut batches: [Vec<Costs>; 3] = Default::default();
    // Every size has as much time as one side of any other benchmark.
    while batches[0].is_empty() || started.elapsed() < time * 3 {
        let small = Aged::copy_of(template)?;
        // Once for nothing: the others are warm too.
        small.batch()?;
        for (batches, aged) in batches.iter_mut().zip([&small, middle, large]) {
            batches.push(aged.batch()?);
        }
        small.close();
    }
    Ok(batches
        .map(|batches| std::array::from_fn(|operation| median(batches.iter().map(|costs| costs[operation])))))
}

fn filled(run: &Run<'_>, events: u64) -> Result<PathBuf, BenchError> {
    let path = run.folder.join(format!("{events}.db"));
    let topics = events / EVENTS_PER_TOPIC;
    Fill { events, done: events / 2, topics, replies: Replies::OneOpen }.write(&path)?;
    Ok(path)
}

/// A store over a database of a known size.
struct Aged {
    store: Store,
    thread: cortex_store::StoreThread,
    clock: SystemClock,
    events: u64,
    runtime: tokio::runtime::Runtime,
    /// Keeps the log in place; the last connection to go would remove it.
    log: Connection,
}

impl Aged {
    fn open(path: &Path, events: u64, log_bytes: u64) -> Result<Self, BenchError> {
        let log = with_long_log(path, log_bytes)?;
        let (store, thread) = Store::open(StoreConfig::at(path))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Self { store, thread, clock: SystemClock::start(), events, runtime, log })
    }

    fn copy_of(template: &Path) -> Result<Self, BenchError> {
        let path = template.with_extension("copy.db");
        std::fs::copy(template, &path)?;
        std::fs::File::open(&path)?.sync_all()?;
        Self::open(&path, SMALL, SMALL_LOG_BYTES)
    }

    fn close(self) {
        drop(self.store);
        self.thread.close();
        drop(self.log);
    }

    fn batch(&self) -> Result<Costs, BenchError> {
        self.runtime.block_on(async {
            Ok([self.ingest().await?, self.claim().await?, self.poll().await?, self.context().await?])
        })
    }

    fn topics(&self) -> u64 {
        self.events / EVENTS_PER_TOPIC
    }

    async fn ingest(&self) -> Result<f64, BenchError> {
        let now = self.clock.now();
        // Above every id that was given before, as a channel goes on counting.
        let first = u64::try_from(now.0).unwrap_or_default() * 1_000;
        let started = Instant::now();
        let accepting = (0..INGESTS).map(|number| {
            let event = self.event(external_id(first + number), number % self.topics(), now);
            async move { self.store.inbox().accept(event, now).await }
        });
        let accepted: Vec<AcceptedEvent> =
            stream::iter(accepting).buffer_unordered(CONCURRENT).try_collect().await?;
        let cost = mean(started.elapsed(), INGESTS as usize);
        let is_new = |accepted: &AcceptedEvent| matches!(accepted, AcceptedEvent::Queued(_));
        if accepted.iter().all(is_new) { Ok(cost) } else { Err(broken("an event was not new")) }
    }

    fn event(&self, external_message_id: String, topic: u64, now: Millis) -> NewEvent {
        let time = u64::try_from(now.0).unwrap_or_default();
        NewEvent {
            id: EventId::from_ulid(Ulid::from_parts(time, rand::random())),
            source: SOURCE.to_owned(),
            idempotency_key: format!("{SOURCE}:{external_message_id}"),
            external_message_id,
            topic_key: topic_key(topic),
            user_id: "user-998877".to_owned(),
            text: "Remind me every weekday at nine, please".to_owned(),
            occurred_at: now,
            metadata_json: None,
            priority: Priority::Normal,
        }
    }

    /// Claims are timed; putting the events back is not.
    async fn claim(&self) -> Result<f64, BenchError> {
        let mut spent = Duration::ZERO;
        for _ in 0..CLAIMS {
            let now = self.clock.now();
            let started = Instant::now();
            let claimed = self.store.inbox().claim_next(CLAIMED, now).await?;
            spent += started.elapsed();
            if claimed.len() != CLAIMED as usize {
                return Err(broken("a claim found fewer events than wait"));
            }
            let turns = self.store.turns();
            let parking =
                claimed.iter().map(|claim| turns.finish_turn(&claim.event, TurnEnd::Parked, Vec::new(), now));
            try_join_all(parking).await?;
        }
        Ok(mean(spent, CLAIMS))
    }

    /// Polls are timed; acks are not.
    async fn poll(&self) -> Result<f64, BenchError> {
        let mut spent = Duration::ZERO;
        for _ in 0..POLLS {
            let now = self.clock.now();
            let poll = OutboxPoll {
                source: SOURCE.to_owned(),
                max: POLLED,
                lease: Duration::from_secs(60),
                ordered: false,
                attempts_max: 10,
            };
            let started = Instant::now();
            let polled = self.store.outbox().claim_due(poll, now).await?;
            spent += started.elapsed();
            if polled.len() != POLLED as usize {
                return Err(broken("a poll found fewer messages than are due"));
            }
            let outbox = self.store.outbox();
            let acks = polled.into_iter().map(|delivery| outbox.ack(delivery.id, delivery.lease, now));
            if try_join_all(acks).await?.iter().any(Result::is_err) {
                return Err(broken("an ack was refused"));
            }
        }
        Ok(mean(spent, POLLS))
    }

    /// The history that a turn reads, over topics all through the database.
    async fn context(&self) -> Result<f64, BenchError> {
        let started = Instant::now();
        for number in 0..CONTEXTS {
            // A step that shares no factor with the number of topics meets them all.
            let topic_key = topic_key(number * 7_919 % self.topics());
            let topic = TopicRef { source: SOURCE.to_owned(), topic_key };
            let lines = self.store.turns().history(topic, CONTEXT_LINES).await?;
            if lines.len() != CONTEXT_LINES as usize {
                return Err(broken("a history is shorter than it should be"));
            }
        }
        Ok(mean(started.elapsed(), CONTEXTS as usize))
    }
}

/// Writes the log of a database once as long as it will get: a file that grows takes longer to sync than one that is
/// written over, and the log of an old server has long stopped growing.
fn with_long_log(path: &Path, bytes: u64) -> Result<Connection, BenchError> {
    let connection = Connection::open(path)?;
    connection.execute_batch("PRAGMA journal_mode = wal; CREATE TABLE padding(body)")?;
    connection.execute("INSERT INTO padding VALUES (zeroblob(?1))", [bytes])?;
    connection.execute_batch("DROP TABLE padding; PRAGMA wal_checkpoint(RESTART)")?;
    Ok(connection)
}

fn mean(spent: Duration, operations: usize) -> f64 {
    spent.as_secs_f64() * 1_000.0 / operations as f64
}

fn broken(what: &str) -> BenchError {
    BenchError::Broken(what.to_owned())
}
