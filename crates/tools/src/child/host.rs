//! The process between the server and a program of others: it confines the program before its first step, hands its
//! input on, and ends it with everything it started when the server is gone.

use super::confinement::{confine_host, confine_server, end_with_parent};
use crate::descriptors;
use rustix::process::{Pid, Signal, getpgrp, getpid, getppid, kill_process_group};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// How long a program may take to end once its input has.
const GRACE: Duration = Duration::from_secs(2);
/// The word that tells the second step from the first.
const CONFINED: &str = "--confined";

/// What is taken from the program.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HostOrder {
    /// Folders that it must not touch; none when it is not confined.
    pub(crate) closed: Vec<PathBuf>,
    /// What its own entry names inside them.
    pub(crate) named: Vec<PathBuf>,
    /// The process that it ends with; set by the host itself.
    pub(crate) minder: Option<i32>,
}

/// Runs as a host: `<order> <program> <arguments…>`. Gives the exit code of the program. `own` with its arguments
/// leads back here.
pub fn run_child_host(
    own: &Path,
    own_args: &[&str],
    args: impl IntoIterator<Item = OsString>,
) -> io::Result<u8> {
    descriptors::keep_from_children();
    let mut args: Vec<OsString> = args.into_iter().collect();
    let is_confined = args.first().is_some_and(|word| word == CONFINED);
    if is_confined {
        args.remove(0);
    }
    if args.len() < 2 {
        return Err(io::Error::other("nothing to run"));
    }
    let order: HostOrder =
        serde_json::from_str(&args.remove(0).to_string_lossy()).map_err(io::Error::other)?;
    let program = args.remove(0);
    if is_confined {
        let error = become_program(&order, &program, &args);
        return Err(io::Error::other(format!("{} cannot be started: {error}", program.display())));
    }
    let mut second = Command::new(own);
    second.args(own_args).arg(CONFINED);
    mind(second, order, &program, &args)
}

/// The second step: gives up what the program must not have, and becomes it.
fn become_program(order: &HostOrder, program: &OsString, args: &[OsString]) -> io::Error {
    let prepared = || -> io::Result<()> {
        end_with_parent()?;
        // The minder may have ended before the signal was set.
        if order.minder != getppid().map(Pid::as_raw_pid) {
            return Err(io::Error::other("the server is gone"));
        }
        confine_server(&order.closed, &order.named)
    };
    match prepared() {
        Ok(()) => Command::new(program).args(args).exec(),
        Err(error) => error,
    }
}

/// The first step stays: its input is the line to the server.
fn mind(mut second: Command, order: HostOrder, program: &OsString, args: &[OsString]) -> io::Result<u8> {
    confine_host()?;
    let minder = getpid().as_raw_pid();
    let order =
        serde_json::to_string(&HostOrder { minder: Some(minder), ..order }).map_err(io::Error::other)?;
    let mut child = second.arg(order).arg(program).args(args).stdin(Stdio::piped()).spawn()?;
    let to_child = child.stdin.take().ok_or_else(|| io::Error::other("the program has no input"))?;
    std::thread::Builder::new().name("input".to_owned()).spawn(move || hand_on(to_child))?;
    let status = child.wait()?;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    Ok(u8::try_from(code).unwrap_or(1))
}

/// Hands the input on until it ends: the server closed it, or the server is gone, however it ended.
fn hand_on(to_child: impl io::Write) {
    if let Err(error) = copy_through(&mut io::stdin().lock(), to_child) {
        tracing::debug!(%error, "the line to the server broke");
    }
    std::thread::sleep(GRACE);
    // Only a group of our own: whoever typed this command by hand keeps his.
    if getpgrp() == getpid() {
        // This process is of the group too: there is nobody to tell of an error.
        kill_process_group(getpgrp(), Signal::KILL).unwrap_or_default();
    }
}

/// Every line at once: a message must not wait for the next one. A program that takes no input any more is still
/// watched over, so reading goes on to the end.
fn copy_through(input: &mut impl io::BufRead, output: impl io::Write) -> io::Result<()> {
    let mut output = Some(output);
    loop {
        let length = {
            let chunk = input.fill_buf()?;
            if chunk.is_empty() {
                return Ok(());
            }
            let is_taken = output
                .as_mut()
                .is_some_and(|output| output.write_all(chunk).and_then(|()| output.flush()).is_ok());
            if !is_taken {
                output = None;
            }
            chunk.len()
        };
        input.consume(length);
    }
}
