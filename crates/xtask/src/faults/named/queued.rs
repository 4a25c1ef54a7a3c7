//! OpenClaw's #135880: ten messages wait behind a slow turn, the server is stopped or killed, nine of ten were lost.

use super::Setting;
use crate::faults::checker::{Stage, check};
use crate::faults::client::Client;
use crate::faults::database;
use crate::faults::expected::slow_text;
use crate::faults::history::{Ingested, Known, SentEvent};
use crate::faults::http::{Http, Reply};
use crate::faults::kills::end_well;
use crate::faults::report::Findings;
use crate::faults::server::{Home, Server};
use anyhow::{Result, ensure};
use std::time::{Duration, Instant};

const QUEUED: usize = 10;
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) fn stopped(setting: &Setting<'_>) -> Result<Findings> {
    let mut findings = Findings::default();
    run(setting, &mut findings, end_well)?;
    Ok(findings)
}

pub(super) fn killed(setting: &Setting<'_>) -> Result<Findings> {
    let mut findings = Findings::default();
    run(setting, &mut findings, |server, _| server.kill())?;
    Ok(findings)
}

fn run(
    setting: &Setting<'_>,
    findings: &mut Findings,
    end: impl Fn(Server, &mut Findings) -> Result<()>,
) -> Result<()> {
    let home = Home::new(&setting.programs.shipped, 1)?;
    let mut client = Client::new("delta", true, Instant::now());
    let server = home.started()?;
    accept(&mut client, &server, "slow", &slow_text("slow"))?;
    wait_until_it_runs(&server)?;
    for number in 1..=QUEUED {
        let name = format!("queued-{number}");
        accept(&mut client, &server, &name, &name)?;
    }
    end(server, findings)?;
    let server = home.started()?;
    let answers = deliver_all(&mut client, &server)?;
    findings.demand(answers >= QUEUED, || format!("{answers} answers after the restart, not {QUEUED}"));
    end_well(server, findings)?;
    let rows = database::read(&home.path())?;
    findings.violations("after the restart", &check(&client.history, &rows, Stage::Drained));
    findings.demand(rows.messages.len() == QUEUED + 1, || format!("{} replies", rows.messages.len()));
    Ok(())
}

fn accept(client: &mut Client, server: &Server, name: &str, text: &str) -> Result<()> {
    let event = SentEvent {
        source: "delta".to_owned(),
        external_id: name.to_owned(),
        topic: "one topic".to_owned(),
        text: text.to_owned(),
    };
    let known = client.ingest(server.port, &event);
    ensure!(matches!(known, Known::Answered(Ingested::Queued { .. })), "{name} was not accepted: {known:?}");
    Ok(())
}

fn wait_until_it_runs(server: &Server) -> Result<()> {
    let (started, mut http) = (Instant::now(), Http::default());
    loop {
        if let Reply::Answered(answer) = http.get(server.port, "/api/v2/status")
            && answer.body["inbox"]["processing"] == 1
        {
            return Ok(());
        }
        ensure!(started.elapsed() < PATIENCE, "the slow turn does not begin");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Delivers until nothing is left; says how many messages it was shown.
fn deliver_all(client: &mut Client, server: &Server) -> Result<usize> {
    let (started, mut http, mut shown) = (Instant::now(), Http::default(), 0);
    while !server.is_drained(&mut http) {
        ensure!(started.elapsed() < PATIENCE, "the restarted server did not drain");
        if let Known::Answered(messages) = client.poll(server.port, 20) {
            shown += messages.len();
            for message in messages {
                client.ack(server.port, &message);
            }
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(shown)
}
