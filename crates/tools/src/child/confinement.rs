//! What a child takes from itself before it does anything else: rights, files, descriptors, memory.

use super::host::ServerLimits;
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, Scope, path_beneath_rules,
};
use rustix::process::{
    Resource, Rlimit, Signal, getpid, getrlimit, getuid, set_child_subreaper,
    set_parent_process_death_signal, setrlimit,
};
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
/// How often the number of a user's processes is doubled to find room for one more.
const PROCESS_GUESSES_MAX: usize = 12;

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
pub(crate) fn end_with_parent() -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    Ok(())
}

/// Whatever loses its parent below this process becomes its child, so that it stays in sight.
pub(super) fn adopt_orphans() -> io::Result<()> {
    set_child_subreaper(Some(getpid()))?;
    Ok(())
}

/// Takes the closed folders from an MCP server, the right to gain rights, and what is over its limits.
pub(super) fn confine_server(closed: &[PathBuf], named: &[PathBuf], limits: ServerLimits) -> io::Result<()> {
    limit(Resource::Core, 0)?;
    limit(Resource::Nofile, SERVER_FILES_MAX)?;
    if let Some(mib) = limits.memory_mib {
        // Not the address space: engines of JavaScript reserve far more of it than they use.
        limit(Resource::Data, mib.saturating_mul(1024 * 1024))?;
    }
    if let Some(more) = limits.processes {
        limit_processes(more)?;
    }
    let all = AccessFs::from_all(NEWEST);
    let restricted = || -> Result<(), RulesetError> {
        // It must not stop or kill what watches over it, whatever it may open.
        if closed.is_empty() {
            return without_new_rights(Scope::Signal.into());
        }
        Ruleset::default()
            .handle_access(all)?
            .scope(Scope::Signal)?
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
    // It ends what it minds.
    without_new_rights(BitFlags::EMPTY).map_err(io::Error::other)
}

/// The right to gain rights goes along with every ruleset, even with one that opens every file.
fn without_new_rights(scopes: BitFlags<Scope>) -> Result<(), RulesetError> {
    let nothing: BitFlags<AccessFs> = AccessFs::MakeBlock.into();
    let open = Ruleset::default().handle_access(nothing)?;
    let open = if scopes.is_empty() { open } else { open.scope(scopes)? };
    let open = open.create()?;
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

/// The system counts all processes and threads of a user, so the limit is set above those that are there.
fn limit_processes(more: u64) -> io::Result<()> {
    let maximum = getrlimit(Resource::Nproc).maximum;
    let mut there = threads_of_user(getuid().as_raw());
    // The user's processes in other containers count too and cannot be seen: a thread shows whether there is room.
    for _ in 0..PROCESS_GUESSES_MAX {
        let room = maximum.map_or(there + 1, |maximum| maximum.min(there + 1));
        setrlimit(Resource::Nproc, Rlimit { current: Some(room), maximum })?;
        match std::thread::Builder::new().stack_size(64 * 1024).spawn(|| ()) {
            Ok(thread) => {
                drop(thread.join());
                break;
            }
            Err(_) => there = there.saturating_mul(2),
        }
    }
    limit(Resource::Nproc, there.saturating_add(more))
}

fn threads_of_user(user: u32) -> u64 {
    let Ok(entries) = std::fs::read_dir("/proc") else { return 1 };
    let threads = |told: String| -> Option<u64> {
        let of =
            |name: &str| told.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next());
        (of("Uid:")?.parse() == Ok(user)).then(|| of("Threads:")?.parse().ok()).flatten()
    };
    let all = entries
        .flatten()
        .filter(|entry| entry.file_name().as_encoded_bytes().first().is_some_and(u8::is_ascii_digit));
    let counted = all.filter_map(|entry| threads(std::fs::read_to_string(entry.path().join("status")).ok()?));
    counted.sum::<u64>().max(1)
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
    let required = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    if required.scope(Scope::Signal).and_then(|ruleset| ruleset.create()).is_err() {
        gaps.push("this kernel's Landlock does not keep MCP servers from signalling other programs (Linux 6.12 does)".to_owned());
    }
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// On a thread of its own, which alone is confined.
    #[test]
    fn a_skill_has_its_own_database_and_no_other_file_or_connection() {
        if confinement_gaps().iter().any(|gap| gap.contains("no Landlock")) {
            return;
        }
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        for folder in ["data/skills/mine", "data/skills/other"] {
            fs::create_dir_all(at(folder)).unwrap();
        }
        let foreign =
            ["data/skills/other/other.db", "data/skills/beside.db", "cortex.db", "credentials"].map(at);
        for path in foreign.iter().chain([&at("data/skills/mine/mine.db")]) {
            fs::write(path, "secret").unwrap();
        }
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mine = at("data/skills/mine/mine.db");
        let tried = std::thread::spawn(move || {
            confine_skill(Some(&mine), 32).unwrap();
            assert_eq!(fs::read_to_string(&mine).unwrap(), "secret");
            fs::write(mine.with_file_name("mine.db-wal"), "log").unwrap();
            fs::remove_file(mine.with_file_name("mine.db-wal")).unwrap();
            let folder = mine.parent().and_then(Path::parent).unwrap();
            let reached: Vec<PathBuf> = foreign
                .into_iter()
                .filter(|path| {
                    fs::read(path).is_ok() || fs::write(path, "x").is_ok() || fs::remove_file(path).is_ok()
                })
                .collect();
            (reached, fs::read_dir(folder).is_ok(), std::net::TcpStream::connect(address).is_ok())
        });
        assert_eq!(tried.join().unwrap(), (Vec::new(), false, false));
    }

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
