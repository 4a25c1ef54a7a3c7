//! L4: kill -9 at random under the load of two connectors, then everything must be there, once.
//!
//! A kill keeps what the kernel was given, so this proves recovery and not durability; that is L5.

use super::checker::{Stage, check};
use super::history::{Ingested, Known, Operation, Record};
use super::http::Http;
use super::load::{self, Door, Shape};
use super::report::Findings;
use super::server::{Home, Server};
use super::{Extent, Programs, database};
use anyhow::{Context, Result};
use rand::Rng;
use std::time::{Duration, Instant};

/// Longest life of a server between two kills.
const LIFE_MS: u64 = 220;
/// One kill in so many comes while the server is still starting.
const EARLY_EVERY: usize = 9;
/// One crash in so many is looked at before the next server heals it.
const LOOK_EVERY: usize = 10;
/// Leases of lost answers run out after ten seconds, backoffs of nacks after twelve.
const DRAIN_PATIENCE: Duration = Duration::from_secs(90);
const STOP_PATIENCE: Duration = Duration::from_secs(35);

pub(crate) fn run(programs: &Programs, extent: Extent) -> Result<Findings> {
    let kills = match extent {
        Extent::Full => 320,
        Extent::Short => 25,
    };
    let mut findings = Findings::default();
    let home = Home::new(&programs.shipped, 2)?;
    let door = Door::new(Instant::now());
    let shape = Shape { name: "kill", events: None, rest: Duration::from_millis(20), padding: 0 };
    let (ended, history) = load::run(&door, shape, || conduct(&home, &door, kills, &mut findings));
    let server = ended?;
    end_well(server, &mut findings)?;
    judge(&home, &history, &mut findings)?;
    let panics = home.stderr().matches("internal_error").count();
    findings.demand(panics == 0, || format!("{panics} panics in the log of {}", home.path().display()));
    if findings.count() > 0 {
        findings.violation(format!("the home is kept in {}", home.keep().display()));
    }
    Ok(findings)
}

/// Kills servers, then lets the last one finish.
fn conduct(home: &Home, door: &Door, kills: usize, findings: &mut Findings) -> Result<Server> {
    let mut random = rand::rng();
    let mut early = 0;
    for kill in 1..=kills {
        if kill % EARLY_EVERY == 0 {
            let mut child = home.spawn()?;
            std::thread::sleep(Duration::from_millis(random.random_range(1..30)));
            super::server::end(&mut child)?;
            early += 1;
        } else {
            let server = home.started()?;
            door.open_at(server.port);
            std::thread::sleep(Duration::from_millis(random.random_range(10..LIFE_MS)));
            server.kill()?;
            door.no_server();
        }
        if kill % LOOK_EVERY == 0 {
            let rows = database::read_copy(&home.path())?;
            // Clients go on meanwhile, so only the rows are judged here; the history waits for the end.
            findings.violations(&format!("after kill {kill}"), &whole_rows(&rows));
        }
    }
    findings.figure("kills", kills);
    findings.figure("killed_while_starting", early);
    let server = home.started()?;
    door.open_at(server.port);
    door.stop_sending();
    wait_until_drained(&server, door)?;
    Ok(server)
}

/// What a crash may leave: the histories of clients do not matter yet, but no half ending may be there.
pub(crate) fn whole_rows(rows: &database::Rows) -> Vec<super::checker::Violation> {
    use super::checker::Violation;
    let mut found = check(&[], rows, Stage::Crashed);
    found.retain(|violation| !matches!(violation, Violation::Invented { .. }));
    found
}

pub(crate) fn wait_until_drained(server: &Server, door: &Door) -> Result<()> {
    let (started, mut http) = (Instant::now(), Http::default());
    while !(door.has_sent_all() && server.is_drained(&mut http)) {
        anyhow::ensure!(started.elapsed() < DRAIN_PATIENCE, "the server did not drain in {DRAIN_PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// A stop by SIGTERM ends with exit code 0 (F-X3).
pub(crate) fn end_well(server: Server, findings: &mut Findings) -> Result<()> {
    let ended = server.terminate(STOP_PATIENCE)?;
    findings.demand(ended.is_some_and(|ended| ended.code() == Some(0)), || {
        format!("SIGTERM did not end the server with 0 but with {ended:?}")
    });
    Ok(())
}

/// Checks the clients' histories against the rows, once everything has ended.
pub(crate) fn judge(home: &Home, history: &[Record], findings: &mut Findings) -> Result<()> {
    let rows = database::read(&home.path()).context("the database after the run")?;
    findings.violations("at the end", &check(history, &rows, Stage::Drained));
    let answers = |wanted: fn(&Known<Ingested>) -> bool| {
        let is_wanted = |record: &&Record| match &record.operation {
            Operation::Ingest { known, .. } => wanted(known),
            Operation::Poll { .. } | Operation::Ack { .. } | Operation::Nack { .. } => false,
        };
        history.iter().filter(is_wanted).count()
    };
    let accepted = answers(|known| matches!(known, Known::Answered(Ingested::Queued { .. })));
    let duplicates = answers(|known| matches!(known, Known::Answered(Ingested::Duplicate { .. })));
    findings.figure("accepted", accepted);
    findings.figure("repeats_ignored", duplicates);
    findings.figure("unknown", answers(|known| matches!(known, Known::Unknown)));
    findings.figure("events", rows.events.len());
    findings.figure("delivered", rows.messages.len());
    // Without events a run proves nothing, whatever it did not find.
    findings.demand(!rows.events.is_empty(), || "the run accepted no event".to_owned());
    Ok(())
}
