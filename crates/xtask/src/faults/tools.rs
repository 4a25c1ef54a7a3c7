//! A tool that counts its calls, behind an approval, on a server that is killed before, during and after the call: it
//! runs at most once, and where nobody can know whether it ran, its user is told.

use super::report::Findings;
use super::{Extent, Programs};
use anyhow::Result;
use counter::Counter;
use kill::{Kill, POINTS};
use runner::{Runner, Trial};
use std::sync::Mutex;
use verdict::{Progress, Seen, judge};

mod counter;
mod kill;
mod runner;
mod setting;
mod verdict;

/// Runs beside each other; they mostly wait.
const RUNNERS: usize = 4;

/// What the next server finds of a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Journal {
    Kept,
    /// The control: everything since the approval is forgotten, as if nothing had been synced before the call ran.
    Forgotten,
}

pub(crate) fn run(programs: &Programs, extent: Extent) -> Result<Findings> {
    let (kills, rounds) = match extent {
        Extent::Full => (200, 3),
        Extent::Short => (16, 1),
    };
    let by_signal = (0..kills).map(Kill::by_signal);
    let by_point = (0..rounds).flat_map(|_| POINTS.iter().map(|point| Kill::Point(*point)));
    let trials: Vec<Trial> = by_signal.chain(by_point).enumerate().map(Trial::new).collect();
    let count = trials.len();
    let seen = perform(programs, trials, Journal::Kept)?;
    let mut findings = Findings::default();
    for (trial, seen) in &seen {
        findings.violations(&trial.to_string(), &judge(trial.kill.expected(), seen));
    }
    findings.demand(seen.len() == count, || format!("{} of {count} trials ended", seen.len()));
    findings.figure("kills", kills);
    findings.figure("fault_points", count - kills);
    for (name, progress) in Progress::NAMED {
        findings.figure(name, seen.iter().filter(|(_, seen)| seen.at_crash == progress).count());
    }
    findings.figure("told_unknown", seen.iter().filter(|(_, seen)| seen.notices > 0).count());
    findings.figure("runs", seen.iter().map(|(_, seen)| seen.runs).sum());
    findings.figure("run_twice", seen.iter().filter(|(_, seen)| seen.runs > 1).count());
    Ok(findings)
}

/// Servers that forget what they started: each must be seen to run its tool twice.
pub(crate) fn control(programs: &Programs) -> Result<Findings> {
    let after_run = POINTS.iter().filter(|point| point.name == "tool.after_run");
    let trials: Vec<Trial> =
        after_run.cycle().take(4).map(|point| Kill::Point(*point)).enumerate().map(Trial::new).collect();
    let count = trials.len();
    let seen = perform(programs, trials, Journal::Forgotten)?;
    let caught = seen.iter().filter(|(trial, seen)| {
        judge(trial.kill.expected(), seen).iter().any(|complaint| complaint.contains("it ran 2 times"))
    });
    let caught = caught.count();
    let mut findings = Findings::default();
    findings.figure("trials", count);
    findings.figure("doubled_runs_caught", caught);
    findings.demand(caught == count, || format!("only {caught} of {count} doubled runs were seen"));
    Ok(findings)
}

fn perform(programs: &Programs, trials: Vec<Trial>, journal: Journal) -> Result<Vec<(Trial, Seen)>> {
    let counter = Counter::listen()?;
    let names: Vec<String> = trials.iter().map(|trial| trial.name.clone()).collect();
    let waiting = Mutex::new(trials.into_iter());
    let next = || waiting.lock().ok().and_then(|mut waiting| waiting.next());
    let work = || {
        let mut runner = Runner::new(&programs.with_points, &counter, &names, journal)?;
        let mut seen = Vec::new();
        while let Some(trial) = next() {
            let found = runner.run(&trial)?;
            seen.push((trial, found));
        }
        runner.end()?;
        Ok::<_, anyhow::Error>(seen)
    };
    std::thread::scope(|scope| {
        let runners: Vec<_> = (0..RUNNERS).map(|_| scope.spawn(work)).collect();
        let mut all = Vec::new();
        for runner in runners {
            all.extend(runner.join().map_err(|_| anyhow::anyhow!("a runner panicked"))??);
        }
        // Counted at the very end: a run that comes late is a run too.
        for (trial, seen) in &mut all {
            seen.runs = counter.count(&trial.name);
        }
        Ok(all)
    })
}
