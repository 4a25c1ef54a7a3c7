//! L3: fault points. The process ends at each named point between two durable steps; then nothing may be half done.

use super::checker::{Stage, check};
use super::report::Findings;
use super::server::Home;
use super::{Extent, Programs, database};
use anyhow::{Result, ensure};
use scan::fault_points;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::Mutex;
use std::time::Duration;
use work::{SCHEDULED, Work};

mod memory;
mod scan;
mod work;

const SIGABRT: i32 = 6;
/// The shortest time between two looks at the schedules.
const TICK: &str = "CORTEX_SCHEDULER_TICK_SECONDS";
/// Runs beside each other; they mostly wait.
const RUNNERS: usize = 4;
/// Which hit of a point ends the process; the first must be reached, later ones find other states where they are.
const HITS_FULL: &[u32] = &[1, 2, 3, 7];
const HITS_SHORT: &[u32] = &[1];
/// A lease of ten seconds may have to run out.
const DRAIN_PATIENCE: Duration = Duration::from_secs(40);

/// A point that needs another embedding model, and the test that kills there on a clock of its own.
const ON_ANOTHER_CLOCK: &[(&str, &str)] =
    &[("memory_index.vectors.before_commit", "crates/runtime/tests/it/reembedding.rs")];

/// One process that is to end at one point.
struct Attempt<'a> {
    point: &'a str,
    hit: u32,
}

enum Outcome {
    /// The process ended at the point; these promises were broken.
    Reached(Vec<String>),
    NotReached,
    /// The run could not go on; what the others found counts all the same.
    Broken(String),
}

pub(crate) fn run(root: &Path, programs: &Programs, extent: Extent) -> Result<Findings> {
    let mut points = fault_points(root)?;
    points.retain(|point| !ON_ANOTHER_CLOCK.iter().any(|(other, _)| other == point));
    ensure!(!points.is_empty(), "no fault point found below {}", root.display());
    let hits = match extent {
        Extent::Full => HITS_FULL,
        Extent::Short => HITS_SHORT,
    };
    let attempts = hits.iter().flat_map(|hit| points.iter().map(|point| Attempt { point, hit: *hit }));
    let outcomes = attempt_all(&programs.with_points, attempts.collect())?;
    let mut findings = Findings::default();
    let mut reached = Vec::new();
    let ended = outcomes.iter().filter(|(_, outcome)| matches!(outcome, Outcome::Reached(_))).count();
    for (attempt, outcome) in outcomes {
        let broken = match outcome {
            Outcome::Reached(broken) => {
                reached.push(attempt.point);
                broken
            }
            Outcome::Broken(error) => vec![error],
            Outcome::NotReached => Vec::new(),
        };
        for violation in broken {
            findings.violation(format!("{}:{}: {violation}", attempt.point, attempt.hit));
        }
    }
    reached.sort_unstable();
    reached.dedup();
    for point in unreached(&points, &reached) {
        findings.violation(format!("no run reaches the fault point {point}"));
    }
    findings.figure("points", points.len());
    findings.figure("hit", reached.len());
    findings.figure("crashes", ended);
    Ok(findings)
}

/// A point that nothing reaches proves nothing.
fn unreached<'a>(points: &'a [String], reached: &[&str]) -> impl Iterator<Item = &'a String> {
    points.iter().filter(|point| !reached.contains(&point.as_str()))
}

fn attempt_all<'a>(program: &Path, attempts: Vec<Attempt<'a>>) -> Result<Vec<(Attempt<'a>, Outcome)>> {
    let waiting = Mutex::new(attempts.into_iter());
    let next = || waiting.lock().ok().and_then(|mut waiting| waiting.next());
    std::thread::scope(|scope| {
        let runner = || {
            let mut outcomes = Vec::new();
            while let Some(attempt) = next() {
                let outcome =
                    crash_at(program, &attempt).unwrap_or_else(|error| Outcome::Broken(format!("{error:#}")));
                outcomes.push((attempt, outcome));
            }
            outcomes
        };
        let runners: Vec<_> = (0..RUNNERS).map(|_| scope.spawn(runner)).collect();
        let mut outcomes = Vec::new();
        for runner in runners {
            outcomes.extend(runner.join().map_err(|_| anyhow::anyhow!("a runner panicked"))?);
        }
        Ok(outcomes)
    })
}

/// Lets a server end at the point, looks at what it left, and lets the next one finish the work.
fn crash_at(program: &Path, attempt: &Attempt<'_>) -> Result<Outcome> {
    let fault = format!("{}:{}", attempt.point, attempt.hit);
    let mut home = Home::new(program, 1)?.with(TICK, "1").with("CORTEX_FAULT", &fault);
    let mut work = Work::new();
    let ended = match home.start()? {
        Ok(mut server) => {
            work.until_it_ends(&mut server)?;
            if server.has_ended()? { server.ended_within(Duration::ZERO)? } else { None }
        }
        Err(refused) => refused.ended,
    };
    let said_so = home.stderr().contains(&format!("fault point {} reached", attempt.point));
    if !(said_so && ended.is_some_and(is_abort)) {
        return Ok(Outcome::NotReached);
    }
    let mut broken =
        complaints("after the crash", &work, &database::read_copy(&home.path())?, Stage::Crashed);
    home.variables.retain(|(name, _)| name == TICK);
    let server = home.started()?;
    work.finish(&server)?;
    broken.extend(work.memory_complaints(server.port).into_iter().map(|line| format!("at the end: {line}")));
    let stopped = server.terminate(DRAIN_PATIENCE)?;
    if stopped.and_then(|stopped| stopped.code()) != Some(0) {
        broken.push(format!("the healed server did not stop well: {stopped:?}"));
    }
    let rows = database::read(&home.path())?;
    broken.extend(complaints("at the end", &work, &rows, Stage::Drained));
    let fires = rows.events.iter().filter(|event| event.text == SCHEDULED).count();
    if fires != 1 {
        broken.push(format!("at the end: the schedule fired {fires} times"));
    }
    Ok(Outcome::Reached(broken))
}

fn is_abort(ended: ExitStatus) -> bool {
    ended.signal() == Some(SIGABRT)
}

fn complaints(when: &str, work: &Work, rows: &database::Rows, stage: Stage) -> Vec<String> {
    let found = check(&work.client.history, rows, stage);
    found.into_iter().map(|violation| format!("{when}: {violation:?}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_that_no_run_reaches_is_told() {
        let points = ["ingest.a", "ingest.b"].map(str::to_owned);
        assert_eq!(unreached(&points, &["ingest.b"]).collect::<Vec<_>>(), ["ingest.a"]);
    }

    #[test]
    fn a_point_of_another_clock_is_there_and_its_test_kills_there() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let points = fault_points(&root).unwrap();
        for (point, test) in ON_ANOTHER_CLOCK {
            assert!(points.iter().any(|known| known == point), "{point} is gone");
            let text = std::fs::read_to_string(root.join(test)).unwrap();
            assert!(text.contains(&format!("\"{point}\"")) && text.contains("take_images"), "{test}");
        }
    }

    #[test]
    fn only_an_abort_is_the_end_at_a_fault_point() {
        assert!(is_abort(ExitStatus::from_raw(SIGABRT)));
        assert!(!is_abort(ExitStatus::from_raw(9)) && !is_abort(ExitStatus::from_raw(1 << 8)));
    }
}
