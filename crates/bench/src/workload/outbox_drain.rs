//! Outbox drain: four connectors of one source poll 20 messages at a time and ack each of them.
//!
//! A is messages a second through `/outbox/poll` and `/outbox/ack`; a connector delivers the messages of a batch side
//! by side, each acked on a connection of its own. B is the same connectors against echo routes that lease and ack
//! nothing. All four ask for the same source, so they are rivals for every message. What connectors reach that ack one
//! message after the other is told too: it is the time of a commit, not of our code.

use crate::BenchError;
use crate::baseline::{ECHO_CONNECTOR, echo_routes};
use crate::bed::{Bed, Turns, database};
use crate::client::{Connectors, Empty, Routes, Target, on_client_thread};
use crate::fill::{Fill, SOURCE};
use crate::options::Scale;
use crate::report::{Check, Findings, Goal, Measured, SideFigure};
use crate::run::Run;
use cortex_types::OutboxId;
use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::time::{Duration, Instant};

const CONNECTORS: usize = 4;
const BATCH: u32 = 20;
/// What the messages answer.
const EVENTS: u64 = 1_000;
/// More than any connector drained so far; a round that runs dry ends early and is measured by its own time.
const MESSAGES_PER_SECOND: f64 = 60_000.0;

pub(crate) fn outbox_drain(run: &Run<'_>) -> Result<Findings, BenchError> {
    // The rounds, their warm-up, and one more for the connectors that ack one by one.
    let seconds = run.time().as_secs_f64() * (run.rounds() as f64 + 1.2);
    let messages = match run.options.scale {
        Scale::Full => (seconds * MESSAGES_PER_SECOND) as u64,
        Scale::Smoke => 20_000,
    };
    Fill { done: EVENTS, open: 0, topics: 64, messages }.write(&database(run.folder))?;
    let bed = Bed::start(run.folder, Turns::HeldBack, echo_routes())?;
    run.begins(run.rounds() * 2);
    let mut real = Drain::new(bed.target(), Routes::OUTBOX);
    let mut echo = Drain::new(bed.target(), ECHO_CONNECTOR);
    let side_by_side = BATCH as usize;
    let pairs = run.side_by_side(|time| real.run(side_by_side, time), |time| echo.run(side_by_side, time))?;
    let one_by_one = real.run(1, run.time())?;
    bed.stop();
    let check = Check { what: "double leases", of: real.messages, violations: real.double_leases };
    let judged = Measured::ratio("drain / echo, 4 connectors", Goal::at_least(0.3), "messages/s", pairs);
    let fact = SideFigure::new("4 connectors that ack one by one", one_by_one, "messages/s");
    Ok(Findings { checks: vec![check], facts: vec![fact], ..Findings::of(judged) })
}

/// Connectors that come back round after round.
struct Drain {
    target: Target,
    routes: Routes,
    seen: HashSet<OutboxId>,
    messages: u64,
    double_leases: u64,
}

impl Drain {
    fn new(target: Target, routes: Routes) -> Self {
        Self { target, routes, seen: HashSet::new(), messages: 0, double_leases: 0 }
    }

    /// Messages a second.
    fn run(&mut self, lanes: usize, time: Duration) -> Result<f64, BenchError> {
        let (target, routes, seen) = (self.target.clone(), self.routes, std::mem::take(&mut self.seen));
        let (rate, connectors) = on_client_thread(|| async {
            let connectors = Connectors {
                target,
                routes,
                sources: vec![SOURCE.to_owned(); CONNECTORS],
                batch: BATCH,
                lanes,
                ordered: false,
                empty: Empty::Ends,
                seen: RefCell::new(seen),
                acked: Cell::new(0),
                double_leases: Cell::new(0),
            };
            let started = Instant::now();
            connectors.run(|| started.elapsed() < time, |_| {}).await?;
            let rate = connectors.acked.get() as f64 / started.elapsed().as_secs_f64();
            Ok((rate, connectors))
        })?;
        if connectors.acked.get() == 0 {
            return Err(BenchError::Broken("the outbox ran dry before the last round".to_owned()));
        }
        self.seen = connectors.seen.into_inner();
        self.messages += connectors.acked.get();
        self.double_leases += connectors.double_leases.get();
        Ok(rate)
    }
}
