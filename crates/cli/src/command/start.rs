//! `cortex start`.

use crate::config::check_exposure;
use crate::context::Context;
use crate::daemon::{self, Listening};
use crate::exit::{Exit, Failure};
use crate::home::{Home, HomeError};
use crate::terminal::talk;
use cortex_api::Client;
use serde_json::json;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A large database may have to recover first.
const START_PATIENCE: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Start the server in the background and wait until it answers
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(Args {}: &Args, context: &Context) -> Result<Exit, Failure> {
    check(context)?;
    start(context)
}

/// Finds what would keep a server from starting, while there is a terminal to tell it to.
pub(super) fn check(context: &Context) -> Result<(), Failure> {
    context.home()?.prepare()?;
    check_exposure(&context.config()?)?;
    super::skill::check_all(context)
}

pub(super) fn start(context: &Context) -> Result<Exit, Failure> {
    let home = context.home()?;
    if let Some(pid) = daemon::holder(&home) {
        return Err(Failure::AlreadyRunning { pid });
    }
    if let Some(in_use) = daemon::in_use(&home) {
        return Err(in_use);
    }
    let mut child = spawn(&home, context)?;
    let listening = wait(&home, &mut child, context)?;
    if context.terminal.json {
        context.terminal.print_json(&json!({"pid": listening.pid, "address": listening.address}))?;
    } else {
        talk(&format!("started, pid {}, {}", listening.pid, listening.url()));
        talk(&context.first_sentence());
    }
    Ok(Exit::Ok)
}

/// The same program again, as a server that leaves this terminal.
fn spawn(home: &Home, context: &Context) -> Result<Child, Failure> {
    let log_path = home.log_file();
    let log = OpenOptions::new().append(true).create(true).mode(0o600).open(&log_path);
    let log = log.map_err(|error| HomeError::from_io(&log_path, error))?;
    let cannot = |error: std::io::Error| Failure::Coded { code: "cannot_start", message: error.to_string() };
    let mut command = Command::new(std::env::current_exe().map_err(cannot)?);
    command.arg("--home").arg(home.path());
    for (flag, value) in [("--host", &context.flags.host), ("--port", &context.flags.port)] {
        if let Some(value) = value {
            command.arg(format!("{flag}={value}"));
        }
    }
    command.args(["serve", "--detached"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    command.spawn().map_err(cannot)
}

/// Waits until the child listens and is well, or has ended.
fn wait(home: &Home, child: &mut Child, context: &Context) -> Result<Listening, Failure> {
    let runtime = context.client_runtime()?;
    let started = Instant::now();
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            return match (status.code(), daemon::holder(home)) {
                (Some(2), Some(pid)) => Err(Failure::AlreadyRunning { pid }),
                _ => Err(Failure::Coded {
                    code: "start_failed",
                    message: format!("{status}; {}", last_words(home)),
                }),
            };
        }
        if let Some(listening) = Listening::read(home).filter(|listening| listening.pid == child.id()) {
            let client = Client::new(&listening.url(), None)?;
            if runtime.block_on(client.health()).is_ok() {
                return Ok(listening);
            }
        }
        if started.elapsed() > START_PATIENCE {
            let message = format!("pid {} does not answer yet; {}", child.id(), last_words(home));
            return Err(Failure::Coded { code: "start_slow", message });
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// The end of the log, where the child told why.
fn last_words(home: &Home) -> String {
    let path = home.log_file();
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or("it is empty");
    format!("the log {} ends with: {line}", path.display())
}
