//! `cortex stop`.

use crate::context::Context;
use crate::daemon;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::terminal::talk;
use rustix::process::Signal;
use serde_json::json;
use std::time::Duration;

/// Time for a server to end after its drain is over.
const GRACE: Duration = Duration::from_secs(10);
const DRAIN_DEFAULT: u64 = 30;

/// Stop the server: running turns are finished or put back, nothing is lost
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Do not wait for running turns; they are resumed at the next start
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let home = context.home()?;
    let pid = daemon::holder(&home).ok_or_else(|| daemon::in_use(&home).unwrap_or(Failure::NotRunning))?;
    stop(&home, pid, args.force, context)?;
    if context.terminal.json {
        context.terminal.print_json(&json!({"stopped": true, "pid": pid}))?;
    } else {
        talk(&format!("stopped, pid {pid}"));
    }
    Ok(Exit::Ok)
}

/// Ends the server that holds the home, and waits until it is gone.
pub(super) fn stop(home: &Home, pid: u32, force: bool, context: &Context) -> Result<(), Failure> {
    let (signal, patience) = if force {
        (Signal::KILL, GRACE)
    } else {
        (Signal::TERM, Duration::from_secs(drain_seconds(context)) + GRACE)
    };
    daemon::signal(pid, signal)
        .map_err(|error| Failure::Coded { code: "cannot_stop", message: format!("pid {pid}: {error}") })?;
    if daemon::wait_until_free(home, patience) {
        return Ok(());
    }
    Err(Failure::Coded {
        code: "still_running",
        message: format!(
            "pid {pid} did not end in time; `cortex stop --force` ends it at once, and nothing is lost"
        ),
    })
}

/// A configuration that was broken after the start must not keep the server from being stopped.
fn drain_seconds(context: &Context) -> u64 {
    context
        .config()
        .and_then(|effective| crate::assemble::settings(&effective))
        .map_or(DRAIN_DEFAULT, |s| s.drain_seconds)
}
