//! Opening the database: permissions, pragmas that are checked, damage found before anything is trusted.

use crate::engine::capacity::StoreLimits;
use crate::engine::migrate::{self, MigrateError};
use crate::engine::wal;
use crate::{HomeLock, StoreError};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a write waits for a foreign process that holds the database.
pub(crate) const BUSY_TIMEOUT: Duration = Duration::from_secs(3);
const STATEMENTS_KEPT: usize = 128;
/// Pages of log before they are folded into the database: 16 MiB, so that folding is rare and bounded.
const CHECKPOINT_PAGES: i64 = 4_000;

/// How durable a commit is. Only the power-loss control asks for less.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// fsync before every answer.
    #[default]
    Full,
    /// Leaves the fsync to the next checkpoint; exists so that the power-loss test can be shown to fail.
    AfterCheckpoint,
}

/// Where the database is and how it is kept.
#[derive(Debug, Clone)]
pub struct StoreConfig {
    pub path: PathBuf,
    pub durability: Durability,
    pub limits: StoreLimits,
}

impl StoreConfig {
    /// Fully durable and without limits.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), durability: Durability::Full, limits: StoreLimits::none() }
    }
}

/// Why the store could not be opened; each text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("cannot open {}: {reason}", path.display())]
    Unusable { path: PathBuf, reason: String },
    #[error("{} is damaged: {reason}; keep a copy of it, then restore a backup", path.display())]
    Damaged { path: PathBuf, reason: String },
    #[error("{}: {source}", path.display())]
    Schema { path: PathBuf, source: MigrateError },
}

/// Creates or opens the database for writing and brings it to the newest schema.
pub(crate) fn open_for_writing(config: &StoreConfig) -> Result<Connection, OpenError> {
    let path = &config.path;
    create_private(path)?;
    wal::check(path).map_err(|reason| OpenError::Damaged { path: path.clone(), reason })?;
    let mut connection = connect(config).map_err(|error| told(path, error))?;
    migrate::migrate(&mut connection, path).map_err(|source| match source {
        MigrateError::Store(error) => told(path, error),
        MigrateError::Newer { .. } | MigrateError::Foreign(_) | MigrateError::Backup { .. } => {
            OpenError::Schema { path: path.clone(), source }
        }
    })?;
    // SQLite passes over a failed sync of the folder, and the log that every commit is in has its name there.
    sync_folder(path)?;
    Ok(connection)
}

/// What the writer does after a fault: opens the database again and leaves nothing of the failed commit in the log.
/// Frames of several failed commits behind one another could not be told from damage at the next start.
pub(crate) fn connect_again(config: &StoreConfig) -> Result<Connection, StoreError> {
    let connection = connect(config)?;
    let is_busy: bool = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
    if is_busy {
        return Err(StoreError::Unavailable(
            "after a failed write the log must be emptied, and another process is reading the database"
                .to_owned(),
        ));
    }
    Ok(connection)
}

/// Opens an existing, migrated database for writing.
fn connect(config: &StoreConfig) -> Result<Connection, StoreError> {
    let connection = Connection::open_with_flags(
        &config.path,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    plan_once(&connection)?;
    set_checked(&connection, "journal_mode", "wal")?;
    let synchronous = match config.durability {
        Durability::Full => "2",
        Durability::AfterCheckpoint => "1",
    };
    set_checked(&connection, "synchronous", synchronous)?;
    set_checked(&connection, "foreign_keys", "1")?;
    set_checked(&connection, "wal_autocheckpoint", &CHECKPOINT_PAGES.to_string())?;
    connection.pragma_update(None, "cache_size", -8_000)?;
    connection.pragma_update(None, "temp_store", "memory")?;
    Ok(connection)
}

pub(crate) fn open_for_reading(path: &Path) -> Result<Connection, StoreError> {
    reading(path, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)
}

/// Opens a database that nobody may be serving, without a trace: a reader would make a log where none is, and give an
/// empty one the database's permissions. The file stands still when it has no log and no server holds its home: one that
/// runs empties its log while it is idle.
pub(crate) fn open_for_a_look(path: &Path) -> Result<Connection, StoreError> {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    let log_is_empty = std::fs::metadata(&log).map_or(true, |log| log.len() == 0);
    let is_served = path.parent().and_then(HomeLock::holder).is_some();
    let is_at_rest = log_is_empty && !is_served;
    match path.to_str() {
        Some(text) if is_at_rest => {
            let escaped = text.replace('%', "%25").replace('?', "%3f").replace('#', "%23");
            let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            reading(Path::new(&format!("file:{escaped}?immutable=1")), flags | OpenFlags::SQLITE_OPEN_URI)
        }
        Some(_) | None => open_for_reading(path),
    }
}

fn reading(path: &Path, flags: OpenFlags) -> Result<Connection, StoreError> {
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    plan_once(&connection)?;
    connection.pragma_update(None, "query_only", true)?;
    connection.pragma_update(None, "cache_size", -2_000)?;
    Ok(connection)
}

/// Keeps statements prepared. Without the stability guarantee SQLite looks at bound values while it plans, and
/// then plans anew at every binding: a poll would spend more time on planning than on its rows.
fn plan_once(connection: &Connection) -> Result<(), StoreError> {
    connection.set_prepared_statement_cache_capacity(STATEMENTS_KEPT);
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(())
}

/// Sets a pragma, steps it to the end (an IO error shows only then) and reads it back.
fn set_checked(connection: &Connection, pragma: &str, wanted: &str) -> Result<(), StoreError> {
    let mut set = connection.prepare(&format!("PRAGMA {pragma} = {wanted}"))?;
    let mut rows = set.query([])?;
    while rows.next()?.is_some() {}
    let found = connection.query_row(&format!("PRAGMA {pragma}"), [], |row| {
        row.get_ref(0).map(|value| match value {
            rusqlite::types::ValueRef::Integer(number) => number.to_string(),
            rusqlite::types::ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
            rusqlite::types::ValueRef::Null
            | rusqlite::types::ValueRef::Real(_)
            | rusqlite::types::ValueRef::Blob(_) => String::new(),
        })
    })?;
    if found.eq_ignore_ascii_case(wanted) {
        Ok(())
    } else {
        Err(StoreError::Unavailable(format!("{pragma} stays {found}, {wanted} is needed")))
    }
}

fn told(path: &Path, error: StoreError) -> OpenError {
    match error {
        StoreError::Damaged(reason) | StoreError::FileDamaged(reason) => {
            OpenError::Damaged { path: path.to_owned(), reason }
        }
        StoreError::Unavailable(reason) | StoreError::Fault(reason) => {
            OpenError::Unusable { path: path.to_owned(), reason }
        }
        StoreError::Full(_) | StoreError::Closed => {
            OpenError::Unusable { path: path.to_owned(), reason: error.to_string() }
        }
    }
}

/// The database holds private messages: it and its log are readable by their owner alone.
fn create_private(path: &Path) -> Result<(), OpenError> {
    let is_new = !path.exists();
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(|error| unusable(path, &error))?;
    if is_new { sync_folder(path) } else { Ok(()) }
}

/// A synced file whose name is not yet in its folder would be gone after a power loss.
fn sync_folder(path: &Path) -> Result<(), OpenError> {
    let Some(folder) = path.parent() else { return Ok(()) };
    std::fs::File::open(folder).and_then(|folder| folder.sync_all()).map_err(|error| unusable(path, &error))
}

fn unusable(path: &Path, error: &std::io::Error) -> OpenError {
    OpenError::Unusable { path: path.to_owned(), reason: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::StatementStatus;
    use std::fs;

    /// The log of three commits, and behind them what two failed ones of different length may leave.
    fn log_with_leftovers(folder: &Path) -> Vec<u8> {
        let connection = Connection::open(folder.join("whole.db")).unwrap();
        connection
            .execute_batch("PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0; CREATE TABLE t(x)")
            .unwrap();
        let log = folder.join("whole.db-wal");
        let mut ends = Vec::new();
        for number in 0..5 {
            connection.execute("INSERT INTO t VALUES (?1)", [number.to_string().repeat(9_000)]).unwrap();
            ends.push(usize::try_from(fs::metadata(&log).unwrap().len()).unwrap());
        }
        let mut bytes = fs::read(log).unwrap();
        // Without its first frame the fourth commit no longer follows the third.
        bytes.drain(ends[2]..ends[2] + 4096 + 24);
        bytes
    }

    #[test]
    fn opening_again_leaves_nothing_of_failed_commits() {
        let folder = tempfile::tempdir().unwrap();
        let log = log_with_leftovers(folder.path());
        let config = StoreConfig::at(folder.path().join("a.db"));
        fs::copy(folder.path().join("whole.db"), &config.path).unwrap();
        fs::write(folder.path().join("a.db-wal"), log).unwrap();
        assert!(wal::check(&config.path).is_err());

        let reader = open_for_reading(&config.path).unwrap();
        let connection = connect_again(&config).unwrap();
        assert_eq!(wal::check(&config.path), Ok(()));
        assert_eq!(fs::metadata(folder.path().join("a.db-wal")).unwrap().len(), 0);
        for open in [&reader, &connection] {
            let rows: i64 = open.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap();
            assert_eq!(rows, 3);
        }
    }

    #[test]
    fn a_log_that_someone_reads_is_not_written_behind_leftovers() {
        let folder = tempfile::tempdir().unwrap();
        let config = StoreConfig::at(folder.path().join("a.db"));
        let writer = Connection::open(&config.path).unwrap();
        writer.execute_batch("PRAGMA journal_mode=WAL; CREATE TABLE t(x)").unwrap();
        let reader = open_for_reading(&config.path).unwrap();
        reader.execute_batch("BEGIN; SELECT count(*) FROM t").unwrap();
        writer.execute_batch("INSERT INTO t VALUES (1)").unwrap();
        let refused = connect_again(&config).unwrap_err();
        assert!(refused.to_string().contains("another process is reading"), "{refused}");
        reader.execute_batch("COMMIT").unwrap();
        connect_again(&config).unwrap();
    }

    #[test]
    fn a_statement_with_a_bound_limit_is_planned_once() {
        let connection = Connection::open_in_memory().unwrap();
        plan_once(&connection).unwrap();
        let mut statement = connection.prepare("SELECT name FROM sqlite_schema LIMIT ?1").unwrap();
        for limit in 1..10 {
            assert!(!statement.exists([limit]).unwrap());
        }
        assert_eq!(statement.get_status(StatementStatus::RePrepare), 0);
    }
}
