//! Turn throughput: ingest → turn with a model that takes no time → outbox → ack, over 64 topics at once.
//!
//! A is answered events a second, each of them posted, answered, polled and acked over HTTP. Up to `WINDOW` events of
//! a topic are on their way, so that order can go wrong. B is the storage of the same turns and nothing else: 64
//! writers, each row a request of its own to a group commit with `synchronous=FULL`, `ROWS_PER_TURN` rows a turn.

use crate::BenchError;
use crate::baseline::RawRows;
use crate::bed::{Bed, Turns};
use crate::client::{
    Connection, Connectors, Empty, Routes, Target, event_body, is_event_accepted, on_client_thread,
};
use crate::report::{Check, Findings, Goal, Measured, SideFigure};
use crate::run::Run;
use cortex_api::PolledMessage;
use futures::future::{try_join, try_join_all};
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

const TOPICS: usize = 64;
const SOURCES: usize = 4;
/// What a connector polls at a time and delivers side by side.
const BATCH: u32 = 20;
/// Events of one topic on their way at a time.
const WINDOW: usize = 8;
/// What one turn writes, each a row of the database: the event; the claim (topic, event); the end (usage, step, two
/// lines of history, reply, event, topic, the line of its channel, checkpoint); the lease; the ack. The topic's head,
/// which only some events move, is not counted.
const ROWS_PER_TURN: usize = 14;
/// The same rows as the five commits that an event waits for carry them.
const ROWS_PER_COMMIT: [usize; 5] = [1, 2, 9, 1, 1];
const PATIENCE: Duration = Duration::from_secs(60);
const SCRIPT: &str = r#"{"model": "at-once", "otherwise": {"say": "{{user}}"}}"#;

pub(crate) fn turn_throughput(run: &Run<'_>) -> Result<Findings, BenchError> {
    let script = run.folder.join("script.json");
    std::fs::write(&script, SCRIPT)?;
    let turns = Turns::Scripted { parallel_topics: TOPICS as u32, script };
    let bed = Bed::start(run.folder, turns, axum::Router::new())?;
    let raw = RawRows::open(&run.folder.join("raw.db"))?;
    run.begins(run.rounds() * 2);
    let (mut series, mut answered, mut violations) = (0, 0, 0);
    let pairs = run.side_by_side(
        |time| {
            series += 1;
            let target = bed.target();
            let told = on_client_thread(|| async { Conversation::new(target, series, time).hold().await })?;
            answered += told.answered;
            violations += told.violations;
            Ok(told.rate)
        },
        |time| raw_turns(&raw, &[1; ROWS_PER_TURN], time),
    )?;
    let as_committed = raw_turns(&raw, &ROWS_PER_COMMIT, run.time())?;
    bed.stop();
    raw.close()?;
    let check = Check { what: "order violations", of: answered, violations };
    let judged = Measured::ratio("turns / raw rows, 64 topics", Goal::at_least(0.4), "turns/s", pairs);
    let fact = SideFigure::new("raw rows in the flow's own five commits", as_committed, "turns/s");
    Ok(Findings { checks: vec![check], facts: vec![fact], ..Findings::of(judged) })
}

struct Told {
    rate: f64,
    answered: u64,
    violations: u64,
}

/// 64 topics that are talked to for a while, and the connectors that bring the answers.
struct Conversation {
    target: Target,
    /// Makes the topics of this conversation new.
    series: u32,
    time: Duration,
    started: Instant,
    topics: Vec<Topic>,
    /// Which topic a key names.
    by_key: HashMap<String, usize>,
    posting: Cell<usize>,
    posted: Cell<u64>,
    violations: Cell<u64>,
}

struct Topic {
    source: String,
    key: String,
    window: Semaphore,
    /// The number the next answer of this topic must carry.
    awaited: Cell<u64>,
}

impl Conversation {
    fn new(target: Target, series: u32, time: Duration) -> Self {
        let topics: Vec<Topic> = (0..TOPICS)
            .map(|number| Topic {
                source: source(number),
                key: format!("chat-{series}-{number}"),
                window: Semaphore::new(WINDOW),
                awaited: Cell::new(0),
            })
            .collect();
        let by_key = topics.iter().enumerate().map(|(number, topic)| (topic.key.clone(), number)).collect();
        Self {
            target,
            series,
            time,
            started: Instant::now(),
            topics,
            by_key,
            posting: Cell::new(TOPICS),
            posted: Cell::new(0),
            violations: Cell::new(0),
        }
    }

    async fn hold(self) -> Result<Told, BenchError> {
        let connectors = Connectors {
            target: self.target.clone(),
            routes: Routes::OUTBOX,
            sources: (0..SOURCES).map(source).collect(),
            batch: BATCH,
            lanes: BATCH as usize,
            ordered: true,
            empty: Empty::Waits,
            seen: RefCell::new(HashSet::new()),
            acked: Cell::new(0),
            double_leases: Cell::new(0),
        };
        let posting = try_join_all(self.topics.iter().map(|topic| self.post(topic)));
        let goes_on =
            || self.is_open(connectors.acked.get()) && self.started.elapsed() < self.time + PATIENCE;
        try_join(posting, connectors.run(goes_on, |message| self.received(message))).await?;
        let (elapsed, answered) = (self.started.elapsed(), connectors.acked.get());
        if self.is_open(answered) {
            let missing = self.posted.get() - answered;
            return Err(BenchError::Broken(format!("{missing} events were not answered in time")));
        }
        let violations = self.violations.get() + connectors.double_leases.get();
        Ok(Told { rate: answered as f64 / elapsed.as_secs_f64(), answered, violations })
    }

    async fn post(&self, topic: &Topic) -> Result<(), BenchError> {
        let mut connection = Connection::open(self.target.clone()).await?;
        let mut body = Vec::new();
        let mut number: u64 = 0;
        while self.started.elapsed() < self.time {
            // The answer to an earlier event of this topic gives the place back.
            match tokio::time::timeout(PATIENCE, topic.window.acquire()).await {
                Ok(Ok(place)) => place.forget(),
                Ok(Err(_)) | Err(_) => return Err(BenchError::Broken("no answer came".to_owned())),
            }
            let external_id = format!("{}-{}-{number:09}", self.series, topic.key);
            event_body(&mut body, &topic.source, &topic.key, &external_id, &number.to_string())?;
            let answer = connection.post("/ingest", &body).await?;
            if !is_event_accepted(&answer) {
                return Err(answer.wrong("202 and an event id"));
            }
            number += 1;
            self.posted.set(self.posted.get() + 1);
        }
        self.posting.set(self.posting.get() - 1);
        Ok(())
    }

    /// Whether events are still to be posted, or posted ones to be answered.
    fn is_open(&self, answered: u64) -> bool {
        self.posting.get() > 0 || answered < self.posted.get()
    }

    fn received(&self, message: &PolledMessage) {
        let Some(topic) = self.by_key.get(&message.topic_key).map(|number| &self.topics[*number]) else {
            self.violations.set(self.violations.get() + 1);
            return;
        };
        let awaited = topic.awaited.get();
        if message.text.parse() != Ok(awaited) {
            self.violations.set(self.violations.get() + 1);
        }
        topic.awaited.set(awaited + 1);
        topic.window.add_permits(1);
    }
}

fn source(number: usize) -> String {
    format!("bench-{}", number % SOURCES)
}

/// Turns a second when the rows of each are all that is written, in requests of these sizes.
fn raw_turns(raw: &RawRows, requests: &[usize], time: Duration) -> Result<f64, BenchError> {
    on_client_thread(|| async {
        let started = Instant::now();
        let writers = (0..TOPICS).map(|_| async {
            let mut turns = 0_u64;
            while started.elapsed() < time {
                for rows in requests {
                    raw.write(*rows).await?;
                }
                turns += 1;
            }
            Ok::<u64, BenchError>(turns)
        });
        let turns: u64 = try_join_all(writers).await?.into_iter().sum();
        Ok(turns as f64 / started.elapsed().as_secs_f64())
    })
}
