//! The server process of a home: whether it runs, where it listens, and how it is told to end.

use crate::config::Flags;
use crate::exit::Failure;
use crate::home::{Home, HomeError, write_private};
use cortex_store::{HomeLock, HomeUse, LockError};
use rustix::process::{Pid, Signal};
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::{Duration, Instant};

const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// `run/address`: written by a server once it listens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Listening {
    pub(crate) pid: u32,
    pub(crate) address: SocketAddr,
    /// The flags it was started with; a restart starts with the same.
    #[serde(default)]
    pub(crate) flags: Flags,
}

impl Listening {
    pub(crate) fn read(home: &Home) -> Option<Self> {
        serde_json::from_slice(&std::fs::read(path(home)).ok()?).ok()
    }

    pub(crate) fn write(home: &Home, address: SocketAddr, flags: &Flags) -> Result<(), HomeError> {
        let listening = Self { pid: std::process::id(), address, flags: flags.clone() };
        let bytes = serde_json::to_vec(&listening).map_err(std::io::Error::from);
        write_private(&path(home), &bytes.map_err(|error| HomeError::from_io(&path(home), error))?)
    }

    /// The server is gone; what is left behind by a crash is told apart by its pid.
    pub(crate) fn forget(home: &Home) {
        std::fs::remove_file(path(home)).unwrap_or_default();
    }

    pub(crate) fn url(&self) -> String {
        url_of(self.address)
    }
}

/// The address as a client on this machine reaches it.
pub(crate) fn url_of(address: SocketAddr) -> String {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        IpAddr::V4(_) | IpAddr::V6(_) => address.ip(),
    };
    format!("http://{}", SocketAddr::new(ip, address.port()))
}

/// The pid of the home's server, by the lock it holds.
pub(crate) fn holder(home: &Home) -> Option<u32> {
    let holder = HomeLock::holder(home.path()).filter(|holder| holder.held_for == HomeUse::Server);
    holder.map(|holder| holder.pid).filter(|pid| *pid > 1)
}

/// What says that a command has the home, when one has: it ends by itself, and is no server to be stopped.
pub(crate) fn in_use(home: &Home) -> Option<Failure> {
    let holder = HomeLock::holder(home.path())?;
    let by = match holder.held_for {
        HomeUse::Server => return None,
        HomeUse::Backup => "`cortex backup`",
        HomeUse::Restore => "`cortex restore`",
        HomeUse::Command => "another command",
    };
    let message = format!("{by} uses this home (pid {}); try again when it is done", holder.pid);
    Some(Failure::Coded { code: "home_in_use", message })
}

/// Why the home cannot be had, where that is told in the same way everywhere.
pub(crate) fn not_locked(error: LockError, home: &Home, runs: impl FnOnce(u32) -> Failure) -> Failure {
    match error {
        LockError::AlreadyRunning { pid } => runs(pid),
        // By now it may have let go of it.
        LockError::InUse(holder) => in_use(home).unwrap_or_else(|| not_answering(holder.pid)),
        LockError::Unusable { path, source } => HomeError::from_io(&path, source).into(),
    }
}

/// Where the home's running server listens.
pub(crate) fn listening(home: &Home) -> Option<Listening> {
    let pid = holder(home)?;
    Listening::read(home).filter(|listening| listening.pid == pid)
}

/// Where the home's server listens, or listened when it was killed: one that ends by itself leaves nothing behind.
pub(crate) fn listened_last(home: &Home) -> Option<Listening> {
    match holder(home) {
        Some(pid) => Listening::read(home).filter(|listening| listening.pid == pid),
        None => Listening::read(home),
    }
}

/// A server that holds its home and does not answer: it starts, stops or is stuck.
pub(crate) fn not_answering(pid: u32) -> Failure {
    Failure::Coded {
        code: "not_answering",
        message: format!("a server holds this home (pid {pid}) and does not answer; see `cortex logs`"),
    }
}

/// Sends a signal to a server. A process that is gone already is what was wanted.
pub(crate) fn signal(pid: u32, signal: Signal) -> std::io::Result<()> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let Some(pid) = pid else { return Ok(()) };
    match rustix::process::kill_process(pid, signal) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Waits until nobody holds the home; `false` when time is up.
pub(crate) fn wait_until_free(home: &Home, patience: Duration) -> bool {
    let started = Instant::now();
    while holder(home).is_some() {
        if started.elapsed() > patience {
            return false;
        }
        std::thread::sleep(LOOK_AGAIN);
    }
    true
}

fn path(home: &Home) -> PathBuf {
    home.path().join("run").join("address")
}
