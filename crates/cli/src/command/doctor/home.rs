//! The home: whether it is there and private, and what its database says.

use super::Check;
use crate::home::Home;
use cortex_store::{Checkup, HomeCounts, check_up};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// What holds messages and keys.
const PRIVATE_FILES: [&str; 4] = ["cortex.db", "cortex.db-wal", "cortex.db-shm", "credentials"];

pub(super) fn checks(home: &Home) -> Vec<Check> {
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
    vec![privacy(path, mode), files(path)]
}

fn privacy(path: &Path, mode: u32) -> Check {
    let path = path.display();
    match mode & 0o077 {
        0 => Check::ok("home", format!("{path} is its owner's alone")),
        _ => Check::problem("home", format!("others can look into {path} ({mode:o}); chmod 700 {path}")),
    }
}

fn files(home: &Path) -> Check {
    let open: Vec<String> = PRIVATE_FILES
        .iter()
        .map(|name| home.join(name))
        .filter(|path| mode_of(path).is_some_and(|mode| mode & 0o077 != 0))
        .map(|path| path.display().to_string())
        .collect();
    match open.is_empty() {
        true => Check::ok("files", "database and credentials are their owner's alone"),
        false => Check::problem("files", format!("others can read them; chmod 600 {}", open.join(" "))),
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
        Ok(Checkup::Current { schema, counts }) => {
            (Check::ok("database", format!("schema {schema}")), Some(counts))
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
