//! Who waits for which event at this command line: several `send` share one outbox, and each shows only its own replies.

use crate::home::Home;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;

/// Held while one waits for an event, known by the id it was posted with; the kernel lets go of it when the process ends.
pub(super) struct Presence {
    path: PathBuf,
    _lock: File,
}

impl Presence {
    /// Announces that this process waits. Without a home that can be written it goes without: others then show the reply, too.
    pub(super) fn announce(home: &Home, external_id: &str) -> Option<Self> {
        let path = path(home, external_id)?;
        // A home that no server was started in is not made for this.
        match DirBuilder::new().mode(0o700).create(path.parent()?) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(_) => return None,
        }
        let lock =
            OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path).ok()?;
        lock.try_lock().ok()?;
        Some(Self { path, _lock: lock })
    }

    /// Removes what processes that were killed left behind.
    pub(super) fn forget_gone(home: &Home) {
        let Ok(entries) = std::fs::read_dir(home.path().join("run").join("waiting")) else { return };
        for path in entries.flatten().map(|entry| entry.path()) {
            if File::open(&path).is_ok_and(|file| file.try_lock().is_ok()) {
                std::fs::remove_file(&path).unwrap_or_default();
            }
        }
    }

    /// Whether this process waits for the event that was posted with this id.
    pub(super) fn is_for(&self, external_id: &str) -> bool {
        self.path.file_name().is_some_and(|name| name == external_id)
    }

    /// Whether a process waits for the event that was posted with this id.
    pub(super) fn is_held(home: &Home, external_id: &str) -> bool {
        let file = path(home, external_id).and_then(|path| File::open(path).ok());
        file.is_some_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        // A file that stays is one that nobody holds.
        std::fs::remove_file(&self.path).unwrap_or_default();
    }
}

/// Removes what every `send` and `chat` that was killed left behind; a server does so when it starts.
pub(crate) fn forget_gone(home: &Home) {
    Presence::forget_gone(home);
}

/// Our own ids are letters and digits; an event of somebody else has no file here.
fn path(home: &Home, external_id: &str) -> Option<PathBuf> {
    let is_ours = !external_id.is_empty() && external_id.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_ours.then(|| home.path().join("run").join("waiting").join(external_id))
}
