//! Context: putting a turn's prompt together over a long history, against a short one.
//!
//! A is the time of one prompt over 100,000 turns and 10,000 facts, B the same over 1,000 and 100: the floor's files, the
//! hot facts, the topic's history, the lines of other channels. Both go the way of a turn, through the runtime, one after the other over topics all through
//! the database. The median of single prompts is judged, since it is what a user waits for before the model is asked.

use crate::BenchError;
use crate::fill::facts::write_facts;
use crate::fill::{Fill, SOURCE, topic_key};
use crate::options::Scale;
use crate::report::{Findings, Goal, Measured, Round, Unit};
use crate::run::Run;
use crate::sample::median;
use cortex_bus::Bus;
use cortex_runtime::{ContextDesk, Runtime, RuntimeConfig};
use cortex_store::{Store, StoreConfig, StoreThread};
use cortex_tools::Registry;
use cortex_types::{SystemClock, TopicRef};
use rusqlite::{Connection, params};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Events of a topic; each left two lines of history.
const EVENTS_PER_TOPIC: u64 = 50;
/// Prompts of one side before the other has its turn.
const BATCH: u64 = 50;
const OTHER_CHANNELS: u64 = 8;
/// Turns for each fact that is known.
const TURNS_PER_FACT: u64 = 10;
/// The floor lists so many facts, and both sides have them.
const KNOWN_FACTS: usize = 50;
const SOUL: &str =
    "You are a careful assistant. You keep what people tell you and say what you do not know.\n";

pub(crate) fn context(run: &Run<'_>) -> Result<Findings, BenchError> {
    let turns = match run.options.scale {
        Scale::Full => 100_000,
        Scale::Smoke => 10_000,
    };
    let large = Session::new(run.folder, turns)?;
    let small = Session::new(run.folder, 1_000)?;
    run.begins(run.rounds());
    measure(&large, &small, run.time() / 10)?;
    let mut rounds = Vec::new();
    for _ in 0..run.rounds() {
        rounds.push(measure(&large, &small, run.time())?);
        run.stepped();
    }
    let absolute = Measured {
        what: format!("one prompt over {turns} turns and {} facts, median", turns / TURNS_PER_FACT),
        goal: Goal::at_most(2.0),
        unit: Unit::Milliseconds,
        of: "ms",
        rounds: rounds.iter().map(|(a, b)| Round { a: *a, b: Some(*b), ratio: *a }).collect(),
    };
    let what = format!("one prompt, {turns} / 1000 turns");
    let growth = Measured::ratio(what, Goal::at_most(1.3), "ms", rounds);
    for session in [large, small] {
        session.close();
    }
    Ok(Findings { more: vec![growth], ..Findings::of(absolute) })
}

/// Batches of both in turn until the time is up; the median prompt of each in milliseconds.
fn measure(large: &Session, small: &Session, time: Duration) -> Result<(f64, f64), BenchError> {
    let started = Instant::now();
    let (mut a, mut b) = (Vec::new(), Vec::new());
    while a.is_empty() || started.elapsed() < time * 2 {
        large.batch(&mut a)?;
        small.batch(&mut b)?;
    }
    Ok((median(a), median(b)))
}

/// A runtime over a session of a known length.
struct Session {
    topics: u64,
    next: std::cell::Cell<u64>,
    desk: ContextDesk,
    store: Store,
    thread: StoreThread,
    runtime: tokio::runtime::Runtime,
}

impl Session {
    fn new(folder: &Path, turns: u64) -> Result<Self, BenchError> {
        let events = turns / 2;
        let topics = events / EVENTS_PER_TOPIC;
        let home = folder.join(turns.to_string());
        let workspace = home.join("workspace");
        std::fs::create_dir_all(&workspace)?;
        std::fs::write(workspace.join("SOUL.md"), SOUL.repeat(40))?;
        let path = home.join("cortex.db");
        Fill { done: events, open: 0, topics, messages: 0 }.write(&path)?;
        write_facts(&path, turns / TURNS_PER_FACT)?;
        other_channels(&path)?;
        let (store, thread) = Store::open(StoreConfig::at(&path))?;
        let config = RuntimeConfig::for_workspace(workspace);
        let clock = Arc::new(SystemClock::start());
        let flow = Runtime::new(config, store.clone(), Bus::default(), clock, Registry::builder())
            .map_err(|error| BenchError::Broken(error.to_string()))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Self { topics, next: std::cell::Cell::new(0), desk: flow.context(), store, thread, runtime })
    }

    fn batch(&self, spent: &mut Vec<f64>) -> Result<(), BenchError> {
        self.runtime.block_on(async {
            for _ in 0..BATCH {
                let number = self.next.replace(self.next.get() + 1);
                // A step that shares no factor with the number of topics meets them all.
                let topic_key = topic_key(number * 7_919 % self.topics);
                let topic = TopicRef { source: SOURCE.to_owned(), topic_key };
                let started = Instant::now();
                let shown = self.desk.show(topic).await?;
                spent.push(started.elapsed().as_secs_f64() * 1_000.0);
                let lines: usize = shown.sections.iter().map(|section| section.text.lines().count()).sum();
                if lines < 20 + KNOWN_FACTS + SOUL.lines().count() {
                    return Err(BenchError::Broken("a prompt lacks history or facts".to_owned()));
                }
            }
            Ok(())
        })
    }

    fn close(self) {
        drop((self.desk, self.store));
        self.thread.close();
    }
}

/// Every topic has its line, and there are other channels of the same person.
fn other_channels(path: &Path) -> Result<(), BenchError> {
    let connection = Connection::open(path)?;
    connection.execute(
        "INSERT INTO channel_states(channel, user_id, topic_id, last_message_at, summary)
         SELECT source, 'user-998877', id, (SELECT max(created_at) FROM inbox_messages), 'And on Sunday? → So it will be.'
         FROM topics",
        [],
    )?;
    let mut insert = connection.prepare(
        "INSERT INTO channel_states(channel, user_id, topic_id, last_message_at, summary)
         SELECT ?1, 'user-998877-' || ?1, ?2, max(created_at), 'Remind me every weekday → So it will be.' FROM inbox_messages",
    )?;
    for number in 1..=OTHER_CHANNELS {
        insert.execute(params![format!("channel-{number}"), number])?;
    }
    Ok(())
}
