//! Systems without Landlock: a child keeps its files, and `doctor` says so.

use super::host::ServerLimits;
use rustix::process::{Resource, Rlimit, setrlimit};
use std::io;
use std::path::{Path, PathBuf};

pub(crate) fn confine_skill(_database: Option<&Path>, _heap_mib: u32) -> io::Result<()> {
    without_core_files()
}

pub(crate) fn forbid_processes() -> io::Result<()> {
    Ok(())
}

pub(crate) fn end_with_parent() -> io::Result<()> {
    Ok(())
}

pub(super) fn confine_host() -> io::Result<()> {
    without_core_files()
}

pub(super) fn adopt_orphans() -> io::Result<()> {
    Ok(())
}

pub(super) fn confine_server(
    _closed: &[PathBuf],
    _named: &[PathBuf],
    _limits: ServerLimits,
) -> io::Result<()> {
    without_core_files()
}

/// What this system cannot take from children, in words for `doctor`.
pub fn confinement_gaps() -> Vec<String> {
    vec![
        "this system has no Landlock: skills and MCP servers can read and write every file of yours"
            .to_owned(),
    ]
}

fn without_core_files() -> io::Result<()> {
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    Ok(())
}
