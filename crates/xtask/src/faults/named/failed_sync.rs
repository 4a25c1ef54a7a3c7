//! F-X5 and F-I3: the disk refuses a sync or a write. Then nothing is promised until the file was opened anew.

use super::Setting;
use crate::faults::Extent;
use crate::faults::history::{Ingested, Known, Operation, Record};
use crate::faults::kills::{end_well, judge, wait_until_drained};
use crate::faults::load::{self, Door, Shape};
use crate::faults::power::{Happening, Promised, losses, promises, read_trace, tracer};
use crate::faults::report::Findings;
use crate::faults::server::{Home, Server};
use anyhow::{Context, Result};
use std::path::Path;
use std::time::{Duration, Instant};

const SYNCS: &str = "fsync,fdatasync";
/// The syncs of a start: keys, journal, folder, database, log. SQLite itself passes over a folder that fails.
const START_CALLS_FULL: &[u32] = &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13];
const START_CALLS_SHORT: &[u32] = &[1, 3, 4];
/// Disks that are rebuilt from each recording.
const IMAGES: usize = 12;
/// What fails under load, and which calls of the writer it is. They are counted for each thread, and a start has some 190
/// writes and 13 syncs of its own before the writer's first: below that the start would fail instead.
struct Fault {
    calls: &'static str,
    error: &'static str,
    when: &'static str,
    seen: Seen,
}

/// Whether a client that sends events is refused one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    Surely,
    /// The commit may have been that of a turn, which tries again by itself.
    Perhaps,
    Never,
}

pub(super) fn at_start(setting: &Setting<'_>) -> Result<Findings> {
    let mut findings = Findings::default();
    if !setting.has_strace {
        findings.skip("F-X5", "strace");
        return Ok(findings);
    }
    let calls = match setting.extent {
        Extent::Full => START_CALLS_FULL,
        Extent::Short => START_CALLS_SHORT,
    };
    for call in calls {
        let mut home = Home::new(&setting.programs.shipped, 1)?;
        let trace = home.beside("trace");
        home.wrapper = tracer(&trace, &[&format!("inject={SYNCS}:error=EIO:when={call}")]);
        let started = home.start()?;
        match started {
            Err(refused) => {
                findings
                    .demand(refused.is_one_line(), || format!("sync {call} fails at the start: {refused:?}"));
            }
            Ok(server) => {
                let epoch = Instant::now();
                let history = work(&home, server, epoch)?;
                check_promises(setting, &home, &trace, &mut findings)?;
                finish(home, history, epoch, &mut findings)?;
            }
        }
    }
    Ok(findings)
}

pub(super) fn one_sync(setting: &Setting<'_>) -> Result<Findings> {
    under_load(setting, &Fault { calls: SYNCS, error: "EIO", when: "18", seen: Seen::Perhaps })
}

pub(super) fn several_syncs(setting: &Setting<'_>) -> Result<Findings> {
    under_load(setting, &Fault { calls: SYNCS, error: "EIO", when: "24..27", seen: Seen::Surely })
}

pub(super) fn one_write(setting: &Setting<'_>) -> Result<Findings> {
    under_load(setting, &Fault { calls: "pwrite64", error: "EIO", when: "303", seen: Seen::Perhaps })
}

pub(super) fn several_writes(setting: &Setting<'_>) -> Result<Findings> {
    under_load(setting, &Fault { calls: "pwrite64", error: "ENOSPC", when: "300..340", seen: Seen::Surely })
}

/// The control of the others: a fault that never comes is seen by nobody.
pub(super) fn no_fault(setting: &Setting<'_>) -> Result<Findings> {
    under_load(setting, &Fault { calls: SYNCS, error: "EIO", when: "60000", seen: Seen::Never })
}

fn under_load(setting: &Setting<'_>, fault: &Fault) -> Result<Findings> {
    let mut findings = Findings::default();
    if !setting.has_strace {
        findings.skip("F-I3 sync or write fails", "strace");
        return Ok(findings);
    }
    let Fault { calls, error, when, seen } = fault;
    let mut home = Home::new(&setting.programs.shipped, 1)?;
    let trace = home.beside("trace");
    home.wrapper = tracer(&trace, &[&format!("inject={calls}:error={error}:when={when}")]);
    let epoch = Instant::now();
    let history = work(&home, home.started()?, epoch)?;
    let refused = refusals(&history);
    let is_expected = match seen {
        Seen::Surely => refused > 0,
        Seen::Perhaps => true,
        Seen::Never => refused == 0,
    };
    findings.demand(is_expected, || format!("{refused} refusals"));
    findings.demand(accepted_last(&history), || "the server does not accept again".to_owned());
    check_promises(setting, &home, &trace, &mut findings)?;
    finish(home, history, epoch, &mut findings)?;
    Ok(findings)
}

/// A short load against a traced server, which is then killed.
fn work(home: &Home, server: Server, epoch: Instant) -> Result<Vec<Record>> {
    let door = Door::new(epoch);
    door.open_at(server.port);
    let shape = Shape { name: "sync", events: Some(14), rest: Duration::from_millis(2), padding: 0 };
    let (drained, history) = load::run(&door, shape, || wait_until_drained(&server, &door));
    drained.with_context(|| home.stderr())?;
    server.kill()?;
    Ok(history)
}

/// Lets an untraced server finish what the traced one began, and compares.
fn finish(mut home: Home, mut history: Vec<Record>, epoch: Instant, findings: &mut Findings) -> Result<()> {
    home.wrapper.clear();
    let server = home.started()?;
    let door = Door::new(epoch);
    door.open_at(server.port);
    let nothing = Shape { name: "rest", events: Some(0), rest: Duration::ZERO, padding: 0 };
    let (drained, more) = load::run(&door, nothing, || wait_until_drained(&server, &door));
    drained?;
    end_well(server, findings)?;
    history.extend(more);
    let mut judged = Findings::default();
    judge(&home, &history, &mut judged)?;
    findings.add(judged.without_figures());
    Ok(())
}

fn refusals(history: &[Record]) -> usize {
    let is_refusal = |record: &&Record| {
        matches!(
            record.operation,
            Operation::Ingest { known: Known::Answered(Ingested::Refused { code: 503, .. }), .. }
        )
    };
    history.iter().filter(is_refusal).count()
}

fn accepted_last(history: &[Record]) -> bool {
    let mut ingests: Vec<&Record> =
        history.iter().filter(|record| matches!(record.operation, Operation::Ingest { .. })).collect();
    ingests.sort_by_key(|record| record.sent);
    ingests.last().is_some_and(|record| {
        matches!(
            record.operation,
            Operation::Ingest {
                known: Known::Answered(Ingested::Queued { .. } | Ingested::Duplicate { .. }),
                ..
            }
        )
    })
}

/// No event may be promised on a log that failed, and no promise may hang on what a failed sync did not write.
fn check_promises(setting: &Setting<'_>, home: &Home, trace: &Path, findings: &mut Findings) -> Result<()> {
    let happenings = read_trace(home, trace)?;
    let early = promised_too_early(&happenings);
    findings.demand(early == 0, || format!("{early} events were promised after a failed sync"));
    for loss in losses(&setting.programs.shipped, home, happenings, IMAGES)? {
        findings.violation(loss);
    }
    Ok(())
}

/// Promises between a failed sync of the log and the next good one after it was opened anew, unless a good sync before
/// the failure holds them already: an answer may be on its way while the next commit fails.
fn promised_too_early(happenings: &[Happening]) -> usize {
    let promises = promises(happenings);
    let mut trust = Trust::Sound;
    let mut failed_at = 0;
    let mut broken = 0;
    for (index, happening) in happenings.iter().enumerate() {
        match happening {
            Happening::SyncEnded { path, worked: false, .. } if is_log(path) => {
                (trust, failed_at) = (Trust::Failed, index);
            }
            Happening::SyncEnded { path, .. } if is_log(path) && trust == Trust::Reopened => {
                trust = Trust::Sound
            }
            Happening::Created { path } if is_log(path) && trust == Trust::Failed => trust = Trust::Reopened,
            Happening::Created { .. }
            | Happening::Wrote { .. }
            | Happening::Truncated { .. }
            | Happening::Renamed { .. }
            | Happening::Unlinked { .. }
            | Happening::SyncBegan { .. }
            | Happening::SyncEnded { .. }
            | Happening::Heard { .. }
            | Happening::Said { .. } => {}
        }
        if trust == Trust::Sound {
            continue;
        }
        let told = promises.iter().filter(|promise| promise.since == index);
        broken += told
            .filter(|promise| match &promise.what {
                Promised::Event { id } => !is_synced(id, &happenings[..failed_at]),
                Promised::Message { .. } | Promised::Delivered { .. } => false,
            })
            .count();
    }
    broken
}

fn is_log(path: &str) -> bool {
    path.ends_with("cortex.db-wal")
}

/// Whether the log held this id when a sync of it began that went well.
fn is_synced(id: &str, happenings: &[Happening]) -> bool {
    let (mut is_written, mut covered_by) = (false, None);
    for happening in happenings {
        match happening {
            Happening::Wrote { path, bytes, .. } if is_log(path) => {
                is_written |= bytes.windows(id.len()).any(|window| window == id.as_bytes());
            }
            Happening::SyncBegan { thread, path } if is_log(path) && is_written => covered_by = Some(*thread),
            Happening::SyncEnded { thread, path, worked: true }
                if is_log(path) && covered_by == Some(*thread) =>
            {
                return true;
            }
            Happening::Created { .. }
            | Happening::Wrote { .. }
            | Happening::Truncated { .. }
            | Happening::Renamed { .. }
            | Happening::Unlinked { .. }
            | Happening::SyncBegan { .. }
            | Happening::SyncEnded { .. }
            | Happening::Heard { .. }
            | Happening::Said { .. } => {}
        }
    }
    false
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trust {
    Sound,
    Failed,
    Reopened,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sync(worked: bool) -> Happening {
        Happening::SyncEnded { thread: 1, path: "/h/cortex.db-wal".to_owned(), worked }
    }

    fn reopened() -> Happening {
        Happening::Created { path: "/h/cortex.db-wal".to_owned() }
    }

    fn exchange() -> [Happening; 2] {
        let socket = || "socket:[1]".to_owned();
        let bytes = |text: &str| text.as_bytes().to_vec();
        let answer = "HTTP/1.1 202 Accepted\r\ncontent-length: 19\r\n\r\n{\"eventId\":\"evt_1\"}";
        [
            Happening::Heard { socket: socket(), bytes: bytes("POST /ingest HTTP/1.1\r\n\r\n") },
            Happening::Said { socket: socket(), bytes: bytes(answer) },
        ]
    }

    #[test]
    fn a_promise_between_a_failed_sync_and_the_next_good_one_of_a_new_opening_is_broken() {
        let told = |before: &[Happening]| {
            let happenings: Vec<Happening> = before.iter().cloned().chain(exchange()).collect();
            promised_too_early(&happenings)
        };
        assert_eq!(told(&[sync(true)]), 0);
        assert_eq!(told(&[sync(false)]), 1);
        assert_eq!(told(&[sync(false), sync(true)]), 1, "a retry of the same sync proves nothing");
        assert_eq!(told(&[sync(false), reopened()]), 1);
        assert_eq!(told(&[sync(false), reopened(), sync(true)]), 0);
    }

    #[test]
    fn an_answer_that_was_on_its_way_when_a_later_sync_failed_is_kept() {
        let log = || "/h/cortex.db-wal".to_owned();
        let wrote = Happening::Wrote { path: log(), offset: 0, bytes: b"..evt_1..".to_vec() };
        let began = Happening::SyncBegan { thread: 1, path: log() };
        let told = |before: [Happening; 4]| {
            let happenings: Vec<Happening> = before.into_iter().chain(exchange()).collect();
            promised_too_early(&happenings)
        };
        assert_eq!(told([wrote.clone(), began.clone(), sync(true), sync(false)]), 0);
        assert_eq!(told([began, wrote, sync(true), sync(false)]), 1, "it was written after that sync began");
    }
}
