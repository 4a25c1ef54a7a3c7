//! The lock on a home: one server per home, known by a held file lock and never by a guess at a pid.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

const FILE: &str = "run/cortex.lock";
const LOOKS: u32 = 5;
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

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
    #[error("cannot lock {}: {source}", path.display())]
    Unusable { path: PathBuf, source: std::io::Error },
}

impl HomeLock {
    pub fn acquire(home: &Path) -> Result<Self, LockError> {
        let path = home.join(FILE);
        let unusable = |source| LockError::Unusable { path: path.clone(), source };
        let mut file = open(&path).map_err(unusable)?;
        for look in 1.. {
            match file.try_lock() {
                Ok(()) => break,
                // Somebody who only asks for the holder has the lock for a moment, too.
                Err(TryLockError::WouldBlock) if look < LOOKS => std::thread::sleep(BETWEEN_LOOKS),
                Err(TryLockError::WouldBlock) => {
                    return Err(LockError::AlreadyRunning { pid: read_pid(&mut file).unwrap_or(0) });
                }
                Err(TryLockError::Error(source)) => return Err(unusable(source)),
            }
        }
        write_pid(&mut file).map_err(unusable)?;
        Ok(Self { _file: file })
    }

    /// The pid of the server that holds this home, if one does.
    pub fn holder(home: &Path) -> Option<u32> {
        let mut file = OpenOptions::new().read(true).open(home.join(FILE)).ok()?;
        match file.try_lock_shared() {
            Err(TryLockError::WouldBlock) => read_pid(&mut file),
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

fn read_pid(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.rewind().ok()?;
    file.read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

fn write_pid(file: &mut File) -> std::io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())?;
    file.flush()
}
