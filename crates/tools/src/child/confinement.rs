//! What a child takes from itself before it does anything else: rights, files, descriptors, memory.

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, Scope, path_beneath_rules,
};
use rustix::process::{Resource, Rlimit, Signal, getrlimit, set_parent_process_death_signal, setrlimit};
use std::io;
use std::path::{Path, PathBuf};

/// The newest rights that are asked for; an older kernel enforces what it knows.
const NEWEST: ABI = ABI::V6;
/// Folders beside a closed one that are looked at; a larger folder stays closed as a whole.
const BESIDE_MAX: usize = 20_000;
const SKILL_FILES_MAX: u64 = 64;
/// For the program itself, its libraries and stacks, beside the heap that a skill may have.
const SKILL_MEMORY_BESIDE: u64 = 2 * 1024 * 1024 * 1024;
const SERVER_FILES_MAX: u64 = 8_192;

/// Leaves a skill's process nothing but its database: no other file, no program, no connection, no new rights.
pub(crate) fn confine_skill(database: Option<&Path>, heap_mib: u32) -> io::Result<()> {
    limit(Resource::Core, 0)?;
    limit(Resource::Nofile, SKILL_FILES_MAX)?;
    limit(Resource::As, SKILL_MEMORY_BESIDE + u64::from(heap_mib) * 1024 * 1024)?;
    let files = AccessFs::ReadFile
        | AccessFs::WriteFile
        | AccessFs::ReadDir
        | AccessFs::RemoveFile
        | AccessFs::MakeReg
        | AccessFs::Truncate;
    let folder = database.and_then(Path::parent);
    let restricted = || -> Result<(), RulesetError> {
        Ruleset::default()
            .handle_access(AccessFs::from_all(NEWEST))?
            .handle_access(AccessNet::from_all(NEWEST))?
            .scope(Scope::from_all(NEWEST))?
            .create()?
            .add_rules(path_beneath_rules(folder, files))?
            .restrict_self()
            .map(drop)
    };
    restricted().map_err(io::Error::other)
}

/// No skill starts another process. Called once its threads are there, which count as processes.
pub(crate) fn forbid_processes() -> io::Result<()> {
    limit(Resource::Nproc, 0)
}

/// Ends this process when the one that started it ends.
pub(super) fn end_with_parent() -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    Ok(())
}

/// Takes the closed folders from an MCP server, and the right to gain rights.
pub(super) fn confine_server(closed: &[PathBuf], named: &[PathBuf]) -> io::Result<()> {
    limit(Resource::Core, 0)?;
    limit(Resource::Nofile, SERVER_FILES_MAX)?;
    let all = AccessFs::from_all(NEWEST);
    let restricted = || -> Result<(), RulesetError> {
        if closed.is_empty() {
            return without_new_rights();
        }
        Ruleset::default()
            .handle_access(all)?
            .create()?
            .add_rules(path_beneath_rules(all_but(Path::new("/"), closed), all))?
            .add_rules(path_beneath_rules(named, all))?
            // Names alone: a folder that holds a closed one can be listed.
            .add_rules(path_beneath_rules(["/"], AccessFs::ReadDir))?
            .restrict_self()
            .map(drop)
    };
    restricted().map_err(io::Error::other)
}

/// Takes from the process between the server and a program what it has no use for.
pub(super) fn confine_host() -> io::Result<()> {
    limit(Resource::Core, 0)?;
    without_new_rights().map_err(io::Error::other)
}

/// The right to gain rights goes along with every ruleset, even with one that forbids nothing.
fn without_new_rights() -> Result<(), RulesetError> {
    let nothing: BitFlags<AccessFs> = AccessFs::MakeBlock.into();
    let open = Ruleset::default().handle_access(nothing)?.create()?;
    open.add_rules(path_beneath_rules(["/"], nothing))?.restrict_self().map(drop)
}

/// The fewest paths that together are everything below `folder` but the closed ones.
fn all_but(folder: &Path, closed: &[PathBuf]) -> Vec<PathBuf> {
    if closed.iter().any(|path| folder.starts_with(path)) {
        return Vec::new();
    }
    if !closed.iter().any(|path| path.starts_with(folder)) {
        return vec![folder.to_owned()];
    }
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    // A link is not followed: it would open what it leads to, and that is reached by its own path.
    let beside = entries
        .flatten()
        .take(BESIDE_MAX)
        .filter(|entry| entry.file_type().is_ok_and(|kind| !kind.is_symlink()));
    beside.flat_map(|entry| all_but(&entry.path(), closed)).collect()
}

fn limit(resource: Resource, most: u64) -> io::Result<()> {
    // Never above what we have ourselves.
    let most = getrlimit(resource).maximum.map_or(most, |maximum| most.min(maximum));
    setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?;
    Ok(())
}

/// What this system cannot take from children, in words for `doctor`.
pub fn confinement_gaps() -> Vec<String> {
    let has = |rights: BitFlags<AccessFs>| {
        let required = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
        required.handle_access(rights).and_then(|ruleset| ruleset.create()).is_ok()
    };
    let has_net = || {
        let required = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
        required.handle_access(AccessNet::ConnectTcp).and_then(|ruleset| ruleset.create()).is_ok()
    };
    if !has(AccessFs::from_all(ABI::V1)) {
        let gap =
            "this kernel has no Landlock: skills and MCP servers can read and write every file of yours";
        return vec![gap.to_owned()];
    }
    let mut gaps = Vec::new();
    if !has(AccessFs::from_all(ABI::V3)) {
        gaps.push("this kernel's Landlock does not cover truncating files (Linux 6.2 does)".to_owned());
    }
    if !has_net() {
        gaps.push("this kernel's Landlock does not cover connections of skills (Linux 6.7 does)".to_owned());
    }
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_but_the_closed_folders_is_open() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for path in ["a/b/closed/x", "a/c", "d"] {
            std::fs::create_dir_all(root.join(path)).unwrap();
        }
        std::os::unix::fs::symlink(root.join("a/b/closed"), root.join("a/link")).unwrap();
        let mut open = all_but(root, &[root.join("a/b/closed")]);
        open.sort();
        assert_eq!(open, [root.join("a/c"), root.join("d")]);
        assert_eq!(all_but(&root.join("d"), &[root.join("a")]), [root.join("d")]);
        assert!(all_but(&root.join("a/b/closed/x"), &[root.join("a")]).is_empty());
    }
}
