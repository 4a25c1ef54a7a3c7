//! L5: power loss. Records what the server writes, syncs and says, then rebuilds the disks a loss could leave.

use super::database::{self, MessageState, Rows};
use super::history::Record;
use super::load::{self, Door, Shape};
use super::report::Findings;
use super::server::Home;
use super::{Extent, Programs};
use anyhow::{Context, Result, ensure};
use cuts::cuts;
use disk::{Disk, Image, Loss};
use promise::Promise;
use rand::SeedableRng;
use rand::rngs::StdRng;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::BufReader;
use std::path::Path;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};
use trace::{CALLS, Reader};

mod cuts;
mod disk;
mod promise;
mod trace;

pub(crate) use promise::{Promised, promises};
pub(crate) use trace::Happening;

/// One image in so many is also given to the server itself.
const START_EVERY: usize = 4;
const CHECKERS: usize = 2;
const TRACE_PATIENCE: Duration = Duration::from_secs(20);

/// Whether the server syncs as it ships, or as the control has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Syncs {
    AsShipped,
    /// Only at checkpoints: the checks must then report losses, or they are blind.
    TooLate,
}

/// What was recorded of one home.
struct Recording {
    folder: String,
    happenings: Vec<Happening>,
    promises: Vec<Promise>,
}

/// A disk after a loss, and what clients had been told by then.
struct Case<'a> {
    number: usize,
    cut: usize,
    loss: Loss,
    image: Image,
    told: Vec<&'a Promised>,
}

/// What the checks of one image found.
#[derive(Default)]
struct Verdict {
    lost: Vec<String>,
    corrupt: Option<String>,
    refused: Option<String>,
    started: bool,
}

pub(crate) fn run(programs: &Programs, extent: Extent, syncs: Syncs) -> Result<Findings> {
    let images = match extent {
        Extent::Full => 440,
        Extent::Short => 80,
    };
    let recording = record(programs, extent, syncs)?;
    let seed = rand::random();
    let verdicts = judge(&programs.shipped, &recording, images, seed, syncs)?;
    let mut findings = Findings::default();
    findings.figure("images", verdicts.len());
    findings.figure("told", recording.promises.len());
    let syncs_seen = recording.happenings.iter().filter(|what| matches!(what, Happening::SyncEnded { .. }));
    findings.figure("syncs", syncs_seen.count());
    // Only a log that was folded in and begun again shows that old frames behind new ones do no harm.
    let folded = recording
        .happenings
        .iter()
        .filter(|what| matches!(what, Happening::SyncEnded { path, .. } if path.ends_with("cortex.db")));
    findings.figure("checkpoints", folded.count());
    findings.figure("images_with_loss", verdicts.iter().filter(|verdict| !verdict.lost.is_empty()).count());
    findings.figure("lost", verdicts.iter().map(|verdict| verdict.lost.len()).sum());
    findings.figure("corrupt", verdicts.iter().filter(|verdict| verdict.corrupt.is_some()).count());
    findings.figure("started", verdicts.iter().filter(|verdict| verdict.started).count());
    let broken: Vec<String> = verdicts.into_iter().flat_map(Verdict::into_complaints).collect();
    match syncs {
        Syncs::AsShipped => {
            findings.demand(broken.is_empty(), || format!("seed {seed}"));
            broken.into_iter().for_each(|complaint| findings.violation(complaint));
        }
        Syncs::TooLate => findings.demand(!broken.is_empty(), || {
            "the control syncs too late and no image shows a loss: the checks are blind".to_owned()
        }),
    }
    Ok(findings)
}

impl Verdict {
    fn into_complaints(self) -> Vec<String> {
        self.lost.into_iter().chain(self.corrupt).chain(self.refused).collect()
    }
}

/// What a power loss could have cost the clients of a recorded server, and which disks it would then refuse.
pub(crate) fn losses(
    program: &Path,
    home: &Home,
    happenings: Vec<Happening>,
    images: usize,
) -> Result<Vec<String>> {
    let promises = promises(&happenings);
    let recording = Recording { folder: home.path().to_string_lossy().into_owned(), happenings, promises };
    let verdicts = judge(program, &recording, images, rand::random(), Syncs::AsShipped)?;
    Ok(verdicts.into_iter().flat_map(Verdict::into_complaints).collect())
}

/// Two lives of a server: the first ends by a clean stop, which folds the log in, the second by a kill.
fn record(programs: &Programs, extent: Extent, syncs: Syncs) -> Result<Recording> {
    let mut home = match syncs {
        Syncs::AsShipped => Home::new(&programs.shipped, 1)?,
        Syncs::TooLate => Home::new(&programs.with_points, 1)?.with("CORTEX_DURABILITY", "after-checkpoint"),
    };
    let folder = home.path().to_string_lossy().into_owned();
    // Large texts fill the log up to a checkpoint in the middle of the load.
    let (events, padding) = match extent {
        Extent::Full => (40, 12_000),
        Extent::Short => (12, 200),
    };
    let small = Shape { name: "small", events: Some(12), rest: Duration::from_millis(1), padding: 0 };
    let large = Shape { name: "large", events: Some(events), rest: Duration::from_millis(1), padding };
    let mut happenings = live(&mut home, small, "trace-1", End::Stop)?;
    happenings.extend(live(&mut home, large, "trace-2", End::Kill)?);
    let promises = promises(&happenings);
    ensure!(promises.len() > 50, "the recording has only {} promises", promises.len());
    Ok(Recording { folder, happenings, promises })
}

#[derive(Clone, Copy)]
enum End {
    Stop,
    Kill,
}

/// One traced life under load.
fn live(home: &mut Home, shape: Shape, trace: &str, end: End) -> Result<Vec<Happening>> {
    let trace = home.beside(trace);
    home.wrapper = tracer(&trace, &[]);
    let server = home.started()?;
    let door = Door::new(Instant::now());
    door.open_at(server.port);
    let (waited, _): (Result<()>, Vec<Record>) = load::run(&door, shape, || wait_for_replies(&door));
    waited?;
    match end {
        End::Stop => drop(server.terminate(Duration::from_secs(35))?.context("the server did not stop")?),
        End::Kill => server.kill()?,
    }
    read_trace(home, &trace)
}

/// The words in front of a server that is traced into a file.
pub(crate) fn tracer(trace: &Path, more: &[&str]) -> Vec<OsString> {
    // -D keeps the server our own child, so that its pid is the one we know.
    let mut words: Vec<OsString> =
        ["strace", "-D", "-f", "-y", "-xx", "-s", "4000000", "-o"].iter().map(Into::into).collect();
    words.push(trace.into());
    words.extend(["-e".into(), format!("trace={CALLS}").into()]);
    words.extend(more.iter().flat_map(|expression| ["-e".into(), OsString::from(expression)]));
    words
}

/// What a traced server did, once it is gone.
pub(crate) fn read_trace(home: &Home, trace: &Path) -> Result<Vec<Happening>> {
    wait_for_end(trace)?;
    Reader::new(&home.path().to_string_lossy()).read(BufReader::new(File::open(trace)?))
}

fn wait_for_replies(door: &Door) -> Result<()> {
    let started = Instant::now();
    while !(door.has_sent_all() && door.has_shown_all()) {
        ensure!(started.elapsed() < Duration::from_secs(60), "the traced server is too slow");
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// The tracer writes its last lines after the server is gone.
fn wait_for_end(trace: &Path) -> Result<()> {
    let started = Instant::now();
    loop {
        let text = fs::read(trace)?;
        let last = text.trim_ascii_end().rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
        if last.ends_with(b"+++") {
            return Ok(());
        }
        ensure!(started.elapsed() < TRACE_PATIENCE, "the trace {} has no end", trace.display());
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Walks through the recording once, and hands the disk of every cut to the checkers.
fn judge(
    program: &Path,
    recording: &Recording,
    images: usize,
    seed: u64,
    syncs: Syncs,
) -> Result<Vec<Verdict>> {
    let mut random = StdRng::seed_from_u64(seed);
    let cuts = cuts(&recording.happenings, &recording.promises, images, &mut random);
    let (cases, waiting) = sync_channel::<Case<'_>>(CHECKERS);
    let waiting = Mutex::new(waiting);
    std::thread::scope(|scope| {
        let checkers: Vec<_> =
            (0..CHECKERS).map(|_| scope.spawn(|| check_all(program, &waiting, syncs))).collect();
        let mut disk = Disk::new(&recording.folder);
        let mut next = 0;
        for (number, cut) in cuts.into_iter().enumerate() {
            recording.happenings[next..cut].iter().for_each(|happening| disk.happen(happening));
            next = cut;
            let loss =
                [Loss::Everything, Loss::Scattered, Loss::Tail, Loss::Scattered, Loss::Nothing][number % 5];
            let told = recording.promises.iter().filter(|promise| promise.since < cut);
            let told = told.map(|promise| &promise.what).collect();
            let case = Case { number, cut, loss, image: disk.image(loss, &mut random), told };
            if cases.send(case).is_err() {
                break;
            }
        }
        drop(cases);
        let mut verdicts = Vec::new();
        for checker in checkers {
            verdicts.extend(checker.join().map_err(|_| anyhow::anyhow!("a checker panicked"))??);
        }
        Ok(verdicts)
    })
}

fn check_all(program: &Path, waiting: &Mutex<Receiver<Case<'_>>>, syncs: Syncs) -> Result<Vec<Verdict>> {
    let mut verdicts = Vec::new();
    loop {
        let next = waiting.lock().map_err(|_| anyhow::anyhow!("another checker panicked"))?.recv();
        let Ok(case) = next else { return Ok(verdicts) };
        verdicts.push(check(program, &case, syncs)?);
    }
}

fn check(program: &Path, case: &Case<'_>, syncs: Syncs) -> Result<Verdict> {
    let home = Home::new(program, 1)?;
    for (path, bytes) in &case.image {
        let name = Path::new(path).file_name().context("a file has a name")?;
        let is_database = name.to_string_lossy().starts_with("cortex.db") && !path.ends_with("-shm");
        if is_database {
            fs::write(home.path().join(name), bytes)?;
        }
    }
    let place = || format!("image {} (cut {}, loss {:?})", case.number, case.cut, case.loss);
    let mut verdict = Verdict::default();
    if syncs == Syncs::AsShipped && case.number.is_multiple_of(START_EVERY) {
        match home.start()? {
            Ok(server) => server.kill()?,
            Err(refused) => {
                let words = refused.stderr.lines().last().unwrap_or_default().to_owned();
                verdict.refused = Some(format!("{}: the server refuses it: {words}", place()));
            }
        }
        verdict.started = verdict.refused.is_none();
    }
    if !home.path().join("cortex.db").exists() {
        verdict.lost = case.told.iter().map(|told| format!("{}: {told:?} is lost", place())).collect();
        return Ok(verdict);
    }
    match database::read(&home.path()) {
        Ok(rows) => {
            verdict.corrupt = rows.damage.first().map(|damage| format!("{}: {damage}", place()));
            verdict.lost =
                lost(&rows, &case.told).map(|told| format!("{}: {told:?} is lost", place())).collect();
        }
        Err(error) => verdict.corrupt = Some(format!("{}: {error:#}", place())),
    }
    Ok(verdict)
}

/// The promises that the rows do not keep.
fn lost<'a>(rows: &Rows, told: &'a [&'a Promised]) -> impl Iterator<Item = &'a &'a Promised> {
    let events: BTreeSet<String> = rows.events.iter().map(|event| event.id.clone()).collect();
    let messages: BTreeSet<String> = rows.messages.iter().map(|message| message.id.clone()).collect();
    let delivered = rows.messages.iter().filter(|message| message.state == MessageState::Delivered);
    let delivered: BTreeSet<String> = delivered.map(|message| message.id.clone()).collect();
    told.iter().filter(move |told| !match told {
        Promised::Event { id } => events.contains(id),
        Promised::Message { id } => messages.contains(id),
        Promised::Delivered { id } => delivered.contains(id),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::database::MessageRow;

    #[test]
    fn a_promise_without_its_row_is_lost() {
        let message = |id: &str, state| MessageRow {
            seq: 1,
            id: id.to_owned(),
            source: String::new(),
            event_seq: None,
            topic: String::new(),
            text: String::new(),
            state,
        };
        let rows = Rows {
            messages: vec![message("out_1", MessageState::Delivered), message("out_2", MessageState::Open)],
            ..Rows::default()
        };
        let id = |id: &str| id.to_owned();
        let told = [
            Promised::Event { id: id("evt_1") },
            Promised::Message { id: id("out_1") },
            Promised::Message { id: id("out_3") },
            Promised::Delivered { id: id("out_1") },
            Promised::Delivered { id: id("out_2") },
        ];
        let told: Vec<&Promised> = told.iter().collect();
        let lost: Vec<usize> =
            lost(&rows, &told).map(|lost| told.iter().position(|told| told == lost).unwrap()).collect();
        assert_eq!(lost, [0, 2, 4]);
    }
}
