//! Ingest: new events over HTTP, answered after a FULL commit, against echo and against the naive way.
//!
//! A is `POST /ingest`; every event is new and every answer is checked. Turns are held back, so that the figure is
//! of the intake alone. B is the same request to a baseline route of the same server.

use crate::BenchError;
use crate::baseline::{ECHO_INGEST, NAIVE_INGEST, echo_routes, naive_routes};
use crate::bed::{Bed, Turns};
use crate::client::IngestLoad;
use crate::report::{Findings, Goal, Measured, SideFigure};
use crate::run::Run;
use crate::sample::{Load, median};
use std::cell::Cell;
use std::time::Duration;

const INGEST: &str = "/ingest";
const CONNECTIONS: [usize; 2] = [64, 256];

pub(crate) fn ingest_throughput(run: &Run<'_>) -> Result<Findings, BenchError> {
    let bed = Bed::start(run.folder, Turns::HeldBack, echo_routes())?;
    run.begins(CONNECTIONS.len() * run.rounds() * 2);
    let mut judged = Vec::new();
    for (connections, goal) in CONNECTIONS.into_iter().zip([0.35, 0.55]) {
        let loads = compare(run, &bed, ECHO_INGEST, connections)?;
        let what = format!("ingest / echo, c = {connections}");
        judged.push(Measured::ratio(what, Goal::at_least(goal), "req/s", rates(&loads)));
    }
    bed.stop();
    Ok(findings(judged, Vec::new()))
}

pub(crate) fn ingest_vs_naive(run: &Run<'_>) -> Result<Findings, BenchError> {
    let baseline = naive_routes(&run.folder.join("naive.db"))?;
    let bed = Bed::start(run.folder, Turns::HeldBack, baseline)?;
    run.begins(CONNECTIONS.len() * run.rounds() * 2);
    let mut judged = Vec::new();
    for (connections, goal) in CONNECTIONS.into_iter().zip([5.0, 7.0]) {
        let loads = compare(run, &bed, NAIVE_INGEST, connections)?;
        let what = format!("ingest / naive, c = {connections}");
        judged.push(Measured::ratio(what, Goal::at_least(goal), "req/s", rates(&loads)));
        let p99 = loads.iter().map(|(a, b)| (milliseconds(a.p99), milliseconds(b.p99)));
        let what = format!("p99 ingest / naive, c = {connections}");
        judged.push(Measured::ratio(what, Goal::at_most(0.4), "ms", p99));
    }
    bed.stop();
    Ok(findings(judged, Vec::new()))
}

pub(crate) fn ingest_idle_latency(run: &Run<'_>) -> Result<Findings, BenchError> {
    let baseline = naive_routes(&run.folder.join("naive.db"))?;
    let bed = Bed::start(run.folder, Turns::HeldBack, baseline)?;
    run.begins(run.rounds() * 2);
    let loads = compare(run, &bed, NAIVE_INGEST, 1)?;
    bed.stop();
    let p50 = loads.iter().map(|(a, b)| (milliseconds(a.p50), milliseconds(b.p50)));
    let judged = Measured::ratio("p50 ingest / naive, c = 1", Goal::at_most(1.2), "ms", p50);
    let p99 = median(loads.iter().map(|(a, _)| milliseconds(a.p99)));
    Ok(findings(vec![judged], vec![SideFigure::new("p99 ingest, c = 1", p99, "ms")]))
}

fn compare(
    run: &Run<'_>,
    bed: &Bed,
    baseline: &'static str,
    connections: usize,
) -> Result<Vec<(Load, Load)>, BenchError> {
    // Starts high enough that no two calls of a run share a series.
    let series = Cell::new(u32::try_from(connections).unwrap_or_default());
    let load = |route: &'static str, time: Duration| {
        series.set(series.get() + 1_000);
        IngestLoad { target: bed.target(), route, connections, time, series: series.get() }.run()
    };
    run.side_by_side(|time| load(INGEST, time), |time| load(baseline, time))
}

fn findings(mut judged: Vec<Measured>, facts: Vec<SideFigure>) -> Findings {
    let headline = judged.remove(0);
    Findings { more: judged, facts, ..Findings::of(headline) }
}

fn rates(loads: &[(Load, Load)]) -> impl Iterator<Item = (f64, f64)> + '_ {
    loads.iter().map(|(a, b)| (a.rate, b.rate))
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}
