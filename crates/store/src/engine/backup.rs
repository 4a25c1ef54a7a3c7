//! Copies of a database as it stands at one moment, whoever is writing to it, and whether a copy can be trusted.

use crate::engine::integrity::{self, Look};
use crate::engine::migrate::{self, MigrateError};
use crate::{StoreError, engine::open};
use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

/// Pages between two reports: 4 MiB, so that a bar moves and the copy is not slowed down by talking.
const PAGES_A_STEP: i32 = 1_024;
const LOCKED_RETRIES: u32 = 200;
const LOCKED_WAIT: Duration = Duration::from_millis(50);

/// How far a copy is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyProgress {
    pub pages: u64,
    pub of: u64,
}

/// Copies the SQLite database at `from` into the new file `to`, as it is when the copy begins. A server may go on writing.
pub fn copy_database(from: &Path, to: &Path, mut report: impl FnMut(CopyProgress)) -> Result<(), StoreError> {
    let io = |error: std::io::Error| StoreError::Unavailable(format!("{}: {error}", to.display()));
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(to).map_err(io)?;
    let source = open::open_for_reading(from)?;
    // The snapshot: without it every write of another process would have the copy begin again.
    source.execute_batch("BEGIN")?;
    source.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0))?;
    let mut target = Connection::open_with_flags(to, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    // A half-written copy is thrown away, so it needs no journal; it is synced as a whole below.
    target.execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF")?;
    copy_pages(&source, &mut target, &mut report)?;
    target.close().map_err(|(_, error)| error)?;
    File::open(to).and_then(|file| file.sync_all()).map_err(io)
}

fn copy_pages(
    source: &Connection,
    target: &mut Connection,
    report: &mut impl FnMut(CopyProgress),
) -> Result<(), StoreError> {
    let copy = Backup::new(source, target)?;
    let mut retries = 0;
    loop {
        let step = copy.step(PAGES_A_STEP)?;
        let progress = copy.progress();
        let count = |pages: i32| u64::try_from(pages).unwrap_or_default();
        let of = count(progress.pagecount);
        report(CopyProgress { pages: of.saturating_sub(count(progress.remaining)), of });
        if step == StepResult::Done {
            return Ok(());
        }
        // A database without a write-ahead log is locked while somebody writes it.
        retries = if step == StepResult::More { 0 } else { retries + 1 };
        if retries > LOCKED_RETRIES {
            return Err(StoreError::Unavailable("the database stays locked".to_owned()));
        }
        if retries > 0 {
            std::thread::sleep(LOCKED_WAIT);
        }
    }
}

/// Whether a copy of our database is whole and can be started from; its schema's version.
pub fn check_copy(path: &Path) -> Result<usize, MigrateError> {
    check_whole(path)?;
    migrate::inspect(&open::open_for_a_look(path)?)
}

/// Whether any SQLite database at rest is whole.
pub fn check_whole(path: &Path) -> Result<(), StoreError> {
    match integrity::compare(&mut open::open_for_a_look(path)?)? {
        Look::Whole | Look::Unfinished => Ok(()),
        Look::Damaged(finding) => Err(StoreError::FileDamaged(finding)),
    }
}

/// Folds the log of a database that nobody serves into it, so that the file alone is all of it.
pub fn fold_log(path: &Path) -> Result<(), StoreError> {
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    let is_busy: bool = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
    connection.close().map_err(|(_, error)| error)?;
    if is_busy { Err(StoreError::Unavailable("another process has it open".to_owned())) } else { Ok(()) }
}
