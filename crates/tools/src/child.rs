//! Programs that are started beside the server: one way for skills and MCP servers, with nothing of ours in their hands.

#[cfg(target_os = "linux")]
mod confinement;
mod family;
mod host;
mod starter;
#[cfg(not(target_os = "linux"))]
mod unconfined;

#[cfg(not(target_os = "linux"))]
use unconfined as confinement;

pub use confinement::confinement_gaps;
pub(crate) use confinement::{confine_skill, end_with_parent, forbid_processes};
pub(crate) use host::HostOrder;
pub use host::{ServerLimits, run_child_host};

use rustix::process::{Pid, Signal, kill_process_group};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tokio::process::{Child, Command};

/// How often a family is looked at again while it ends; each look takes about a millisecond.
const FAMILY_LOOKS_MAX: usize = 5;

/// This program in the role that minds a child: it confines the child, and ends it when the server is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildHost {
    pub program: PathBuf,
    pub args: Vec<String>,
    /// Folders that are closed to a child unless its own entry names something in them.
    pub closed: Vec<PathBuf>,
}

/// What is started, and with what.
pub(crate) struct Start<'a> {
    pub(crate) program: &'a Path,
    pub(crate) args: Vec<OsString>,
    /// All of its environment.
    pub(crate) environment: BTreeMap<String, String>,
    pub(crate) folder: Option<&'a Path>,
    pub(crate) stderr: Stdio,
}

/// A running child. Dropping it kills its whole process group.
pub(crate) struct GroupChild {
    pub(crate) child: Child,
    group: Option<Pid>,
}

impl Start<'_> {
    /// Starts it in a process group of its own, without a shell.
    pub(crate) fn spawn(self) -> io::Result<GroupChild> {
        let mut command = Command::new(self.program);
        command
            .args(self.args)
            .env_clear()
            .envs(self.environment)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(self.stderr)
            .process_group(0)
            .kill_on_drop(true);
        if let Some(folder) = self.folder {
            command.current_dir(folder);
        }
        let child = starter::start(command)?;
        let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        Ok(GroupChild { child, group })
    }
}

impl GroupChild {
    /// Kills what is left of the group, and what left the group.
    pub(crate) fn kill(&mut self) {
        // Once only: when the group is gone its number can become another's.
        let Some(group) = self.group.take() else { return };
        // First, while the host lives: it adopts what lost its parent, so that nothing gets out of sight. Once it was
        // fetched its number can be another's, and it has ended its family itself.
        for _ in 0..FAMILY_LOOKS_MAX {
            if self.child.id().is_none() || family::kill_descendants(group) == 0 {
                break;
            }
        }
        if let Err(error) = kill_process_group(group, Signal::KILL) {
            tracing::trace!(%error, "the process group had already ended");
        }
    }
}

impl Drop for GroupChild {
    fn drop(&mut self) {
        self.kill();
    }
}
