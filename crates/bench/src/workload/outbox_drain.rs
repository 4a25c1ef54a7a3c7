//! Outbox drain: four connectors of one source poll 20 messages at a time and ack each of them.
//!
//! A is messages a second through `/outbox/poll` and `/outbox/ack`, one connection a connector, one ack after the
//! other. B is the same connectors against echo routes that lease and ack nothing. All four ask for the same source,
//! so they are rivals for every message.

use crate::BenchError;
use crate::baseline::{ECHO_CONNECTOR, echo_routes};
use crate::bed::{Bed, Turns, database};
use crate::client::{Connectors, Drained, Empty, Routes, Target, on_client_thread};
use crate::fill::{Fill, Replies, SOURCE};
use crate::options::Scale;
use crate::report::{Check, Findings, Goal, Measured};
use crate::run::Run;
use std::cell::RefCell;
use std::collections::HashSet;
use std::time::{Duration, Instant};

const CONNECTORS: usize = 4;
const BATCH: u32 = 20;
/// More than any connector drained so far; a round that runs dry ends early and is measured by its own time.
const MESSAGES_PER_SECOND: f64 = 16_000.0;

pub(crate) fn outbox_drain(run: &Run<'_>) -> Result<Findings, BenchError> {
    let seconds = run.time().as_secs_f64() * (run.rounds() as f64 + 0.2);
    let messages = match run.options.scale {
        Scale::Full => (seconds * MESSAGES_PER_SECOND) as u64,
        Scale::Smoke => 5_000,
    };
    Fill { events: messages, done: messages, topics: 64, replies: Replies::OneOpen }
        .write(&database(run.folder))?;
    let bed = Bed::start(run.folder, Turns::HeldBack, echo_routes())?;
    run.begins(run.rounds() * 2);
    let (mut seen, mut total) = (HashSet::new(), Drained::default());
    let pairs = run.side_by_side(
        |time| {
            let (rate, drained) = drain(&bed.target(), Routes::OUTBOX, time, &mut seen)?;
            total.messages += drained.messages;
            total.double_leases += drained.double_leases;
            Ok(rate)
        },
        // An echo has no leases to keep apart.
        |time| drain(&bed.target(), ECHO_CONNECTOR, time, &mut HashSet::new()).map(|(rate, _)| rate),
    )?;
    bed.stop();
    let check = Check { what: "double leases", of: total.messages, violations: total.double_leases };
    let judged = Measured::ratio("drain / echo, 4 connectors", Goal::at_least(0.3), "messages/s", pairs);
    Ok(Findings { checks: vec![check], ..Findings::of(judged) })
}

fn drain(
    target: &Target,
    routes: Routes,
    time: Duration,
    seen: &mut HashSet<cortex_types::OutboxId>,
) -> Result<(f64, Drained), BenchError> {
    let before = std::mem::take(seen);
    let (rate, drained, after) = on_client_thread(|| async {
        let connectors = Connectors {
            target: target.clone(),
            routes,
            sources: vec![SOURCE.to_owned(); CONNECTORS],
            batch: BATCH,
            ordered: false,
            empty: Empty::Ends,
            seen: RefCell::new(before),
        };
        let started = Instant::now();
        let drained = connectors.run(|| started.elapsed() < time, |_| {}).await?;
        if drained.messages == 0 {
            return Err(BenchError::Broken("the outbox ran dry before the last round".to_owned()));
        }
        let rate = drained.messages as f64 / started.elapsed().as_secs_f64();
        Ok((rate, drained, connectors.seen.into_inner()))
    })?;
    *seen = after;
    Ok((rate, drained))
}
