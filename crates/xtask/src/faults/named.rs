//! Named regressions: single faults of the matrix, each with the run that would show it coming back.

use super::report::Findings;
use super::{Extent, Programs};
use anyhow::Result;
use std::sync::Mutex;

mod failed_sync;
mod full_disk;
mod queued;
mod stop;
mod unusable_home;

/// Runs beside each other; they mostly wait.
const RUNNERS: usize = 4;

/// What a case is given.
pub(crate) struct Setting<'a> {
    programs: &'a Programs,
    extent: Extent,
    has_strace: bool,
}

struct Case {
    name: &'static str,
    run: fn(&Setting<'_>) -> Result<Findings>,
}

const CASES: &[Case] = &[
    Case { name: "openclaw #135880, SIGTERM", run: queued::stopped },
    Case { name: "openclaw #135880, SIGKILL", run: queued::killed },
    Case { name: "F-X3 SIGTERM under load", run: stop::under_load },
    Case { name: "F-X5 sync fails at the start", run: failed_sync::at_start },
    Case { name: "F-I3 one sync fails under load", run: failed_sync::one_sync },
    Case { name: "F-I3 several syncs fail under load", run: failed_sync::several_syncs },
    Case { name: "F-I3 one write fails under load", run: failed_sync::one_write },
    Case { name: "F-I3 several writes fail under load", run: failed_sync::several_writes },
    Case { name: "F-I3 control: no fault", run: failed_sync::no_fault },
    Case { name: "F-I3 full disk", run: full_disk::under_load },
    Case { name: "F-X4 unusable home", run: unusable_home::all },
];

pub(crate) fn run(programs: &Programs, extent: Extent, has_strace: bool) -> Result<Findings> {
    let setting = Setting { programs, extent, has_strace };
    let waiting = Mutex::new(CASES.iter());
    let next = || waiting.lock().ok().and_then(|mut waiting| waiting.next());
    let runner = || {
        let mut found = Findings::default();
        while let Some(case) = next() {
            found.add(Findings::or_error((case.run)(&setting)).named(case.name));
        }
        found
    };
    std::thread::scope(|scope| {
        let runners: Vec<_> = (0..RUNNERS).map(|_| scope.spawn(runner)).collect();
        let mut findings = Findings::default();
        findings.figure("cases", CASES.len());
        for runner in runners {
            findings.add(runner.join().map_err(|_| anyhow::anyhow!("a runner panicked"))?);
        }
        Ok(findings)
    })
}
