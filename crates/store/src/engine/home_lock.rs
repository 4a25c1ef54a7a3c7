//! The lock on a home: one server per home, known by a held file lock and never by a guess at a pid.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

const FILE: &str = "run/cortex.lock";
const LOOKS: u32 = 5;
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// What holds a home.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HomeUse {
    Server,
    Backup,
    Restore,
    /// A command that writes to the database while no server runs.
    Command,
}

impl HomeUse {
    /// The word in the lock's file; a server's has none.
    fn word(self) -> &'static str {
        match self {
            Self::Server => "",
            Self::Backup => "backup",
            Self::Restore => "restore",
            Self::Command => "command",
        }
    }

    fn of_word(word: Option<&str>) -> Self {
        let known = [Self::Backup, Self::Restore, Self::Command];
        known.into_iter().find(|known| word == Some(known.word())).unwrap_or(Self::Server)
    }
}

/// Who holds a home, and for what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HomeHolder {
    pub pid: u32,
    pub held_for: HomeUse,
}

/// Held for the life of a server; the kernel frees it when the process ends, however it ends.
#[derive(Debug)]
pub struct HomeLock {
    _file: File,
}

/// Why the lock was not to be had.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    #[error("already running, pid {pid}")]
    AlreadyRunning { pid: u32 },
    #[error("another command uses this home, pid {}", .0.pid)]
    InUse(HomeHolder),
    #[error("cannot lock {}: {source}", path.display())]
    Unusable { path: PathBuf, source: std::io::Error },
}

impl HomeLock {
    /// For a server.
    pub fn acquire(home: &Path) -> Result<Self, LockError> {
        Self::acquire_for(HomeUse::Server, home)
    }

    pub fn acquire_for(held_for: HomeUse, home: &Path) -> Result<Self, LockError> {
        let path = home.join(FILE);
        let unusable = |source| LockError::Unusable { path: path.clone(), source };
        let mut file = open(&path).map_err(unusable)?;
        for look in 1.. {
            match file.try_lock() {
                Ok(()) => break,
                // Somebody who only asks for the holder has the lock for a moment, too.
                Err(TryLockError::WouldBlock) if look < LOOKS => std::thread::sleep(BETWEEN_LOOKS),
                Err(TryLockError::WouldBlock) => {
                    return Err(match read_holder(&mut file) {
                        None => LockError::AlreadyRunning { pid: 0 },
                        Some(HomeHolder { pid, held_for: HomeUse::Server }) => {
                            LockError::AlreadyRunning { pid }
                        }
                        Some(holder) => LockError::InUse(holder),
                    });
                }
                Err(TryLockError::Error(source)) => return Err(unusable(source)),
            }
        }
        write_holder(&mut file, held_for).map_err(unusable)?;
        Ok(Self { _file: file })
    }

    /// The process that holds this home, if one does.
    pub fn holder(home: &Path) -> Option<HomeHolder> {
        let mut file = OpenOptions::new().read(true).open(home.join(FILE)).ok()?;
        match file.try_lock_shared() {
            Err(TryLockError::WouldBlock) => read_holder(&mut file),
            Ok(()) | Err(TryLockError::Error(_)) => None,
        }
    }
}

fn open(path: &Path) -> std::io::Result<File> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

fn read_holder(file: &mut File) -> Option<HomeHolder> {
    let mut text = String::new();
    file.rewind().ok()?;
    file.read_to_string(&mut text).ok()?;
    let mut words = text.split_whitespace();
    let pid = words.next()?.parse().ok()?;
    Some(HomeHolder { pid, held_for: HomeUse::of_word(words.next()) })
}

fn write_holder(file: &mut File, held_for: HomeUse) -> std::io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", format!("{} {}", std::process::id(), held_for.word()).trim_end())?;
    file.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lock_says_what_holds_the_home() {
        let home = tempfile::tempdir().unwrap();
        for held_for in [HomeUse::Server, HomeUse::Backup, HomeUse::Restore, HomeUse::Command] {
            let lock = HomeLock::acquire_for(held_for, home.path()).unwrap();
            let holder = HomeHolder { pid: std::process::id(), held_for };
            assert_eq!(HomeLock::holder(home.path()), Some(holder));
            match HomeLock::acquire(home.path()).unwrap_err() {
                LockError::AlreadyRunning { pid } => {
                    assert_eq!((pid, held_for), (holder.pid, HomeUse::Server))
                }
                LockError::InUse(told) => assert_eq!(told, holder),
                LockError::Unusable { source, .. } => panic!("{source}"),
            }
            drop(lock);
            assert_eq!(HomeLock::holder(home.path()), None);
        }
    }
}
