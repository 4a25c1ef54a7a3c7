//! The process between the server and a program of others: it confines the program before its first step, hands its
//! input on, and ends it with everything it started when the server is gone.

use super::confinement::{adopt_orphans, confine_host, confine_server, end_with_parent};
use super::family::kill_descendants;
use crate::descriptors;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, getpgrp, getpid, getppid, kill_process_group, wait};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// How long a program may take to end once its input has.
const GRACE: Duration = Duration::from_secs(2);
/// How often the host looks whether the server is still there. The line to it says so too, but not while a program that
/// takes no input keeps the host from reading.
const SERVER_LOOK_EVERY: Duration = Duration::from_millis(500);
/// Between two looks at a family that is being ended.
const FAMILY_LOOK_EVERY: Duration = Duration::from_millis(5);
/// After which a family counts as ended; who cannot be killed by then waits for the disk.
const FAMILY_LOOKS_MAX: u32 = 400;
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
    /// The server, whose end ends the host and everything below it.
    #[serde(default)]
    pub(crate) server: Option<i32>,
    #[serde(default)]
    pub(crate) limits: ServerLimits,
}

/// How much one program may take; nothing where no limit is set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerLimits {
    /// What each of its processes may write to.
    pub memory_mib: Option<u64>,
    /// Processes and threads beyond those that the user has when it starts.
    pub processes: Option<u64>,
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
        confine_server(&order.closed, &order.named, order.limits)
    };
    match prepared() {
        Ok(()) => Command::new(program).args(args).exec(),
        Err(error) => error,
    }
}

/// The first step stays: its input is the line to the server, and it adopts what the program leaves behind.
fn mind(mut second: Command, order: HostOrder, program: &OsString, args: &[OsString]) -> io::Result<u8> {
    confine_host()?;
    adopt_orphans()?;
    let server = order.server.and_then(Pid::from_raw).or_else(getppid);
    let minder = getpid().as_raw_pid();
    let order =
        serde_json::to_string(&HostOrder { minder: Some(minder), ..order }).map_err(io::Error::other)?;
    let mut child = second.arg(order).arg(program).args(args).stdin(Stdio::piped()).spawn()?;
    let to_child = child.stdin.take().ok_or_else(|| io::Error::other("the program has no input"))?;
    std::thread::Builder::new().name("input".to_owned()).spawn(move || hand_on(to_child))?;
    std::thread::Builder::new().name("server".to_owned()).spawn(move || {
        while getppid() == server {
            std::thread::sleep(SERVER_LOOK_EVERY);
        }
        end_everything();
    })?;
    let code = reap_until(child.id())?;
    end_family();
    Ok(code)
}

/// Fetches whatever ends until the program does, and gives its code.
fn reap_until(program: u32) -> io::Result<u8> {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((process, status))) if u32::try_from(process.as_raw_pid()) == Ok(program) => {
                let code =
                    status.exit_status().or_else(|| status.terminating_signal().map(|signal| 128 + signal));
                return Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1));
            }
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Hands the input on until it ends: the server closed it, or the server is gone, however it ended.
fn hand_on(to_child: impl io::Write) {
    if let Err(error) = copy_through(&mut io::stdin().lock(), to_child) {
        tracing::debug!(%error, "the line to the server broke");
    }
    end_everything();
}

/// Gives the program a moment to end by itself, then ends it with all that it started, and this process.
fn end_everything() {
    std::thread::sleep(GRACE);
    end_family();
    // Only a group of our own: whoever typed this command by hand keeps his.
    if getpgrp() == getpid() {
        // This process is of the group too: there is nobody to tell of an error.
        kill_process_group(getpgrp(), Signal::KILL).unwrap_or_default();
    }
}

fn end_family() {
    for _ in 0..FAMILY_LOOKS_MAX {
        if kill_descendants(getpid()) == 0 {
            return;
        }
        std::thread::sleep(FAMILY_LOOK_EVERY);
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
