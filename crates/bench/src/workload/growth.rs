//! Growth: what ingest, claim, poll and context cost over a long history against a short one.
//!
//! A is the time of an operation of the store over 1,000,000 events and as many messages, B the same over 1,000. Both
//! have the same 500 events and 500 messages open, and the same ten topics talk: what grows is what an old server has
//! more of. How a backlog of 50,000 costs is told beside it. Small batches take turns, and after each the database is
//! put back to its size. The operations are called on the store itself, on disk and with `synchronous=FULL`: HTTP costs
//! the same at every size and would hide what grows.

use crate::BenchError;
use crate::fill::{Fill, SOURCE, active_topic, external_id, topic_key};
use crate::options::Scale;
use crate::report::{Findings, Goal, Measured, SideFigure};
use crate::run::Run;
use crate::sample::median;
use cortex_bus::Bus;
use cortex_runtime::{ContextDesk, Runtime, RuntimeConfig};
use cortex_store::{OutboxPoll, Store, StoreConfig, StoreThread, TurnEnd};
use cortex_tools::Registry;
use cortex_types::{
    AcceptedEvent, Clock, EventId, Millis, NewEvent, Priority, Standing, SystemClock, TopicRef,
};
use futures::future::try_join_all;
use futures::{StreamExt, TryStreamExt, stream};
use rusqlite::Connection;
use std::sync::Arc;
use std::time::{Duration, Instant};
use ulid::Ulid;

const OPEN: u64 = 500;
/// Events of a topic.
const EVENTS_PER_TOPIC: u64 = 50;
const CONCURRENT: usize = 64;
const GOAL: Goal = Goal::at_most(1.3);

/// How much of each operation one batch does; the small database has room for it.
const INGESTS: u64 = 256;
const CLAIMS: usize = 8;
const CLAIMED: u32 = 4;
const POLLS: usize = 8;
const POLLED: u32 = 20;
const CONTEXTS: u64 = 64;
/// A prompt has at least the lines of ten exchanges.
const CONTEXT_LINES: usize = 20;

/// What is measured; none may grow by more than the goal.
const OPERATIONS: [&str; 4] = ["ingest", "claim", "poll", "context"];

/// The mean time of each operation, in the order of `OPERATIONS`, in milliseconds.
type Costs = [f64; 4];

pub(crate) fn growth(run: &Run<'_>) -> Result<Findings, BenchError> {
    let (long, backlog) = match run.options.scale {
        Scale::Full => (1_000_000, 50_000),
        Scale::Smoke => (20_000, 2_500),
    };
    let small = Aged::new(run, OPEN, OPEN)?;
    let waiting = Aged::new(run, backlog, backlog)?;
    let large = Aged::new(run, long - OPEN, OPEN)?;
    let stores = [&small, &waiting, &large];
    run.begins(run.rounds());
    measure(stores, run.time() / 10)?;
    let mut rounds = Vec::new();
    for _ in 0..run.rounds() {
        rounds.push(measure(stores, run.time())?);
        run.stepped();
    }
    let findings = findings(&rounds, stores.map(Aged::events), backlog);
    for aged in [small, waiting, large] {
        aged.close();
    }
    Ok(findings)
}

fn findings(rounds: &[[Costs; 3]], [small, waiting, large]: [u64; 3], backlog: u64) -> Findings {
    let growth = |operation: usize, size: usize| {
        rounds.iter().map(move |costs| (costs[size][operation], costs[0][operation]))
    };
    let mut judged = Vec::new();
    let mut facts = Vec::new();
    for (at, operation) in OPERATIONS.into_iter().enumerate() {
        let with_backlog = median(growth(at, 1).map(|(large, small)| large / small));
        let what = format!("{operation}, {waiting} / {small} events, {backlog} open");
        facts.push(SideFigure::new(what, with_backlog, "×"));
        let what = format!("{operation}, {large} / {small} events");
        judged.push(Measured::ratio(what, GOAL, "ms", growth(at, 2)));
    }
    let headline = judged.remove(0);
    Findings { more: judged, facts, ..Findings::of(headline) }
}

/// Batches over the three stores in turn until the time is up; the median batch of each.
fn measure(stores: [&Aged; 3], time: Duration) -> Result<[Costs; 3], BenchError> {
    let started = Instant::now();
    let mut batches: [Vec<Costs>; 3] = Default::default();
    // Every store has as much time as one side of any other benchmark.
    while batches[0].is_empty() || started.elapsed() < time * 3 {
        for (batches, aged) in batches.iter_mut().zip(stores) {
            batches.push(aged.batch()?);
            aged.put_back()?;
        }
    }
    Ok(batches
        .map(|batches| std::array::from_fn(|operation| median(batches.iter().map(|costs| costs[operation])))))
}

/// A store over a database of a known size.
struct Aged {
    fill: Fill,
    store: Store,
    prompts: ContextDesk,
    thread: StoreThread,
    clock: SystemClock,
    runtime: tokio::runtime::Runtime,
    /// Undoes what a batch did.
    undo: Connection,
}

impl Aged {
    fn new(run: &Run<'_>, done: u64, open: u64) -> Result<Self, BenchError> {
        let fill = Fill { done, open, topics: (done + open) / EVENTS_PER_TOPIC, messages: open };
        let path = run.folder.join(format!("{done}-{open}.db"));
        fill.write(&path)?;
        let (store, thread) = Store::open(StoreConfig::at(&path))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let flow = Runtime::new(
            RuntimeConfig::for_workspace(run.folder.join("workspace")),
            store.clone(),
            Bus::default(),
            Arc::new(SystemClock::start()),
            Registry::builder(),
        );
        let prompts = flow.map_err(|error| BenchError::Broken(error.to_string()))?.context();
        let undo = Connection::open(&path)?;
        // The store is to pay for its own checkpoints, and nobody for the safety of an undo.
        undo.execute_batch(
            "PRAGMA wal_autocheckpoint = 0; PRAGMA synchronous = off; PRAGMA foreign_keys = off",
        )?;
        Ok(Self { fill, store, prompts, thread, clock: SystemClock::start(), runtime, undo })
    }

    fn events(&self) -> u64 {
        self.fill.done + self.fill.open
    }

    /// Makes the database what it was before the batch: no events of its own, all messages due again.
    fn put_back(&self) -> Result<(), BenchError> {
        let (events, done) = (self.events(), self.fill.done);
        self.undo.execute_batch("BEGIN IMMEDIATE; DELETE FROM trace_notes")?;
        self.undo.execute(
            "UPDATE topics SET head_seq = NULL, head_priority = NULL WHERE head_seq > ?1",
            [events],
        )?;
        self.undo.execute("DELETE FROM inbox_messages WHERE seq > ?1", [events])?;
        self.undo.execute(
            "UPDATE outbox_messages SET status = 'pending', attempts = 0, lease_token = NULL, lease_expires_at = NULL,
               leased_at = NULL, delivered_at = NULL WHERE seq > ?1 AND status = 'delivered'",
            [done],
        )?;
        Ok(self.undo.execute_batch("COMMIT")?)
    }

    fn close(self) {
        drop((self.store, self.prompts));
        self.thread.close();
        drop(self.undo);
    }

    fn batch(&self) -> Result<Costs, BenchError> {
        self.runtime.block_on(async {
            Ok([self.ingest().await?, self.claim().await?, self.poll().await?, self.context().await?])
        })
    }

    async fn ingest(&self) -> Result<f64, BenchError> {
        let now = self.clock.now();
        // Above every id that was given before, as a channel goes on counting.
        let first = u64::try_from(now.0).unwrap_or_default() * 1_000;
        let started = Instant::now();
        let accepting = (0..INGESTS).map(|number| {
            let event = self.event(external_id(first + number), active_topic(number, self.fill.topics), now);
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
            channel: None,
            relationship: None,
            standing: Standing::Owner,
            answer: None,
        }
    }

    /// Claims are timed; putting the events back is not.
    async fn claim(&self) -> Result<f64, BenchError> {
        let mut spent = Duration::ZERO;
        for _ in 0..CLAIMS {
            let now = self.clock.now();
            let started = Instant::now();
            let claimed = self.store.inbox().claim_next(CLAIMED, now).await?.whole;
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
                pushed: false,
                holder: None,
                topic_key: None,
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

    /// The prompt of a turn, over topics all through the database.
    async fn context(&self) -> Result<f64, BenchError> {
        let started = Instant::now();
        for number in 0..CONTEXTS {
            // A step that shares no factor with the number of topics meets them all.
            let topic_key = topic_key(number * 7_919 % self.fill.topics);
            let topic = TopicRef { source: SOURCE.to_owned(), topic_key };
            let prompt = self.prompts.show(topic).await?;
            let lines: usize = prompt.sections.iter().map(|section| section.text.lines().count()).sum();
            if lines < CONTEXT_LINES {
                return Err(broken("a prompt has less history than it should"));
            }
        }
        Ok(mean(started.elapsed(), CONTEXTS as usize))
    }
}

fn mean(spent: Duration, operations: usize) -> f64 {
    spent.as_secs_f64() * 1_000.0 / operations as f64
}

fn broken(what: &str) -> BenchError {
    BenchError::Broken(what.to_owned())
}
