//! `cortex status`.

use crate::context::Context;
use crate::escape::one_line;
use crate::exit::{Exit, Failure};
use crate::{connect, daemon, duration};
use cortex_api::{ClientError, ServerStatus};
use serde::Serialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Display;

/// Show what runs: exit 0 running and well, 1 running with issues, 2 nothing runs
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(Args {}: &Args, context: &Context) -> Result<Exit, Failure> {
    let client = connect::client(context)?;
    match context.client_runtime()?.block_on(client.status()) {
        Ok(status) => show(&status, context),
        Err(ClientError::Unreachable { .. }) => show_absent(context),
        Err(error) => Err(error.into()),
    }
}

/// The two halves of the answer; the sidecar is not part of this version, so none runs.
#[derive(Serialize)]
struct Shown<S> {
    server: S,
    sidecar: Sidecar,
}

#[derive(Serialize)]
struct Sidecar {
    running: bool,
}

#[derive(Serialize)]
struct Server<'a> {
    running: bool,
    #[serde(flatten)]
    status: &'a ServerStatus,
}

fn show(status: &ServerStatus, context: &Context) -> Result<Exit, Failure> {
    let terminal = &context.terminal;
    if terminal.json {
        let server = Server { running: true, status };
        terminal.print_json(&Shown { server, sidecar: Sidecar { running: false } })?;
    } else {
        let models: Vec<String> = status
            .models
            .iter()
            .map(|model| format!("{} ({} {})", model.name, model.kind, model.model))
            .collect();
        let lines = [
            format!("server    {}", if status.degraded.is_some() { "degraded" } else { "running" }),
            format!("pid       {}", status.pid),
            format!("version   {}", status.version),
            format!("address   http://{}", status.address),
            format!("up        {}", duration::shown(status.uptime_ms)),
            format!("models    {}", models.join(", ")),
            format!("inbox     {}", counts(&status.inbox)),
            format!("outbox    {}", counts(&status.outbox)),
        ];
        terminal.print(&lines.join("\n"))?;
        if !status.untrusted_connectors.is_empty() {
            let names = one_line(&status.untrusted_connectors.join(", "), 120);
            let line = format!("keyless   {names}; `cortex connector trust <connectorId>` lets one in");
            terminal.print(&line)?;
        }
        if let Some(reason) = &status.degraded {
            terminal.print(&format!("degraded  {reason}"))?;
        }
    }
    Ok(if status.degraded.is_some() { Exit::Error } else { Exit::Ok })
}

fn show_absent(context: &Context) -> Result<Exit, Failure> {
    // A server that holds the home and does not answer is starting, stopping or stuck: that is not "nothing runs".
    if let Some(pid) = daemon::holder(&context.home()?) {
        return Err(daemon::not_answering(pid));
    }
    if let Some(in_use) = daemon::in_use(&context.home()?) {
        return Err(in_use);
    }
    if context.terminal.json {
        let server = json!({"running": false, "pid": null});
        context.terminal.print_json(&Shown { server, sidecar: Sidecar { running: false } })?;
    }
    Err(Failure::NotRunning)
}

fn counts<S: Display>(counts: &BTreeMap<S, u64>) -> String {
    let parts: Vec<String> = counts
        .iter()
        .filter(|(_, count)| **count > 0)
        .map(|(status, count)| format!("{count} {status}"))
        .collect();
    if parts.is_empty() { "empty".to_owned() } else { parts.join(", ") }
}
