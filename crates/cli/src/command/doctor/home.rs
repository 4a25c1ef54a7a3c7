//! The home: whether it is there and private, and what its database says.

use super::Check;
use crate::escape::one_line;
use crate::home::Home;
use cortex_store::{Checkup, HomeCounts, check_up};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// What holds messages and keys, by how a name in the home begins.
const PRIVATE: [&str; 8] =
    ["cortex.db", "credentials", "chat_history", "logs", "data", "connectors", "run", "before-restore-"];
/// Most files that are looked at and most that are named.
const FILES_MAX: usize = 10_000;
const NAMED_MAX: usize = 10;
const DEPTH_MAX: usize = 6;
/// Longest place of damage that is shown.
const PLACE_LETTERS_MAX: usize = 400;

/// Whether the home is there and nobody else's; `holds_secrets` when its settings do.
pub(super) fn checks(home: &Home, holds_secrets: bool) -> Vec<Check> {
    let path = home.path();
    let Some(mode) = mode_of(path) else {
        return vec![Check::warning(
            "home",
            format!("{} is not there yet; `cortex start` makes it", path.display()),
        )];
    };
    if !path.is_dir() {
        let message = format!("{} is not a folder; move it away, or give another --home", path.display());
        return vec![Check::problem("home", message)];
    }
    vec![privacy(path, mode), files(path, holds_secrets)]
}

fn privacy(path: &Path, mode: u32) -> Check {
    let path = path.display();
    match mode & 0o077 {
        0 => Check::ok("home", format!("{path} is its owner's alone")),
        _ => Check::problem("home", format!("others can look into {path} ({mode:o}); chmod 700 {path}")),
    }
}

/// Private files that others can read, and any file that others can write.
fn files(home: &Path, holds_secrets: bool) -> Check {
    let mut all = Vec::new();
    walk(home, 0, &mut all);
    let is_private = |path: &Path| {
        let below = path.strip_prefix(home).unwrap_or(path);
        let name = below.to_string_lossy();
        PRIVATE.iter().any(|private| name.starts_with(private)) || (holds_secrets && name == "server.json")
    };
    let is_wrong = |path: &PathBuf| {
        let closed = if is_private(path) { 0o077 } else { 0o022 };
        mode_of(path).is_some_and(|mode| mode & closed != 0)
    };
    let open: Vec<String> =
        all.iter().filter(|path| is_wrong(path)).map(|path| path.display().to_string()).collect();
    match open.len() {
        0 => Check::ok("files", "database and credentials are their owner's alone"),
        count => {
            let more =
                if count > NAMED_MAX { format!(" and {} more", count - NAMED_MAX) } else { String::new() };
            let named = open[..count.min(NAMED_MAX)].join(" ");
            Check::problem("files", format!("others can read or change them; chmod 600 {named}{more}"))
        }
    }
}

/// Regular files; nothing is followed.
fn walk(folder: &Path, depth: usize, all: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> = std::fs::read_dir(folder).into_iter().flatten().flatten().collect();
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && depth < DEPTH_MAX => walk(&entry.path(), depth + 1, all),
            Ok(kind) if kind.is_file() && all.len() < FILES_MAX => all.push(entry.path()),
            Ok(_) | Err(_) => {}
        }
    }
}

fn mode_of(path: &Path) -> Option<u32> {
    std::fs::metadata(path).ok().map(|metadata| metadata.permissions().mode() & 0o777)
}

/// The schema, and what its rows come to when this program can read them.
pub(super) fn database(home: &Home, embedder: Option<&str>) -> (Check, Option<HomeCounts>) {
    let path = home.database();
    if !path.exists() {
        return (Check::ok("database", "there is none yet; the first start makes it"), None);
    }
    match check_up(&path, embedder.unwrap_or_default()) {
        Ok(Checkup::Current { schema, counts, is_half_checked: false }) => {
            (Check::ok("database", format!("schema {schema}, no page is damaged")), Some(counts))
        }
        Ok(Checkup::Current { schema, counts, is_half_checked: true }) => {
            let message = format!(
                "schema {schema}; it is too large to look at every page here, but the server does so once a day"
            );
            (Check::ok("database", message), Some(counts))
        }
        Ok(Checkup::Damaged { place }) => {
            let message = format!(
                "{} is damaged: {}; stop the server, keep a copy of the file, then restore a backup with `cortex restore`",
                path.display(),
                one_line(&place, PLACE_LETTERS_MAX)
            );
            (Check::problem("database", message), None)
        }
        Ok(Checkup::Older { found, known }) => {
            let message = format!("schema {found}; the next start makes a backup and brings it to {known}");
            (Check::warning("database", message), None)
        }
        Ok(Checkup::Newer { found, known }) => {
            let message =
                format!("schema {found} is newer than this program's {known}; use the newer program");
            (Check::problem("database", message), None)
        }
        Err(error) => {
            let message = format!("{}: {error}; keep a copy of it, then restore a backup", path.display());
            (Check::problem("database", message), None)
        }
    }
}

/// Messages and events that nothing more happens to by itself.
pub(super) fn left_behind(counts: &HomeCounts) -> [Check; 2] {
    let dead = match counts.dead_messages {
        0 => Check::ok("outbox", "no message is dead"),
        dead => Check::warning("outbox", format!("dead messages: {dead}; `cortex outbox dead` shows them")),
    };
    let failed = match counts.failed_events {
        0 => Check::ok("inbox", "no event failed"),
        failed => Check::warning(
            "inbox",
            format!("failed events: {failed}; `cortex inbox list --status failed` shows them"),
        ),
    };
    [dead, failed]
}
