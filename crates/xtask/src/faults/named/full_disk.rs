//! F-I3: the disk runs full under load. Refusals are coded, nothing accepted is lost, and room is enough to go on.

use super::Setting;
use super::unusable_home::Mount;
use crate::faults::checker::{Stage, check};
use crate::faults::client::Client;
use crate::faults::database;
use crate::faults::history::{Ingested, Known, SentEvent};
use crate::faults::http::Http;
use crate::faults::kills::end_well;
use crate::faults::report::Findings;
use crate::faults::server::{Home, Server};
use anyhow::{Result, ensure};
use std::fs;
use std::time::{Duration, Instant};

/// Room for everything that was accepted to be answered, once the ballast is gone.
const DISK: &str = "size=40m";
const BALLAST_BYTES: usize = 39_000_000;
const TEXT_BYTES: usize = 20_000;
const PATIENCE: Duration = Duration::from_secs(20);

pub(super) fn under_load(setting: &Setting<'_>) -> Result<Findings> {
    let mut findings = Findings::default();
    let home = Home::new(&setting.programs.shipped, 1)?;
    let Some(mount) = Mount::of(&home.path(), DISK)? else {
        findings.skip("F-I3 full disk", "the right to mount");
        return Ok(findings);
    };
    let ballast = home.path().join("ballast");
    fs::write(&ballast, vec![1; BALLAST_BYTES])?;
    let mut client = Client::new("delta", false, Instant::now());
    let server = home.started()?;
    let accepted = fill(&mut client, &server)?;
    findings.demand(accepted > 0, || "nothing was accepted before the disk was full".to_owned());
    fs::remove_file(&ballast)?;
    let again = event(accepted + 1_000);
    let started = Instant::now();
    while !matches!(client.ingest(server.port, &again), Known::Answered(Ingested::Queued { .. })) {
        ensure!(started.elapsed() < PATIENCE, "there is room again and the server still refuses");
        std::thread::sleep(Duration::from_millis(50));
    }
    deliver_all(&mut client, &server)?;
    end_well(server, &mut findings)?;
    let rows = database::read(&home.path())?;
    findings.violations("after the full disk", &check(&client.history, &rows, Stage::Drained));
    let panics = home.stderr().matches("internal_error").count();
    findings.demand(panics == 0, || format!("{panics} panics in the log"));
    drop(mount);
    Ok(findings)
}

fn event(number: usize) -> SentEvent {
    SentEvent {
        source: "delta".to_owned(),
        external_id: format!("full-{number}"),
        topic: format!("topic-{}", number % 3),
        text: format!("full-{number} {}", "x".repeat(TEXT_BYTES)),
    }
}

/// Sends until the disk is full; says how many events were accepted.
fn fill(client: &mut Client, server: &Server) -> Result<usize> {
    for number in 0..1_000 {
        match client.ingest(server.port, &event(number)) {
            Known::Answered(Ingested::Queued { .. }) => {}
            Known::Answered(Ingested::Refused { code: 503, error }) if error == "storage_unavailable" => {
                return Ok(number);
            }
            other @ (Known::Answered(_) | Known::Unknown) => {
                anyhow::bail!("a full disk is answered by {other:?}")
            }
        }
    }
    anyhow::bail!("the disk never ran full")
}

fn deliver_all(client: &mut Client, server: &Server) -> Result<()> {
    let (started, mut http) = (Instant::now(), Http::default());
    while !server.is_drained(&mut http) {
        ensure!(started.elapsed() < PATIENCE, "the server did not drain after the full disk");
        if let Known::Answered(messages) = client.poll(server.port, 20) {
            for message in messages {
                client.ack(server.port, &message);
            }
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
