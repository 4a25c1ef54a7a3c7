//! The private database of one skill: a file of its own, one statement a call, and nothing beside that file.

use rusqlite::config::DbConfig;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

const BUSY_TIMEOUT: Duration = Duration::from_secs(2);
const PAGE_BYTES: i64 = 4_096;
/// 64 MiB: notes and caches, not archives.
const PAGES_MAX: i64 = 64 * 1024 * 1024 / PAGE_BYTES;
const VALUE_BYTES_MAX: i32 = 4 * 1024 * 1024;
const SQL_BYTES_MAX: i32 = 100_000;
const ROWS_MAX: usize = 10_000;
const RESULT_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Steps of a statement between two looks at whether anybody still waits for it: well under a millisecond.
const STEPS_BETWEEN_LOOKS: i32 = 10_000;

/// Pragmas that tell about the file itself, or count its own versions.
const OPEN_PRAGMAS: &[&str] = &[
    "foreign_key_list",
    "index_info",
    "index_list",
    "table_info",
    "table_list",
    "table_xinfo",
    "user_version",
];
/// Virtual tables that live inside the file; every other module could reach out of it.
const OPEN_MODULES: &[&str] = &["fts5", "rtree"];

/// A value that goes into or comes out of a skill's database.
#[derive(Debug, Clone, PartialEq)]
pub enum SkillDbValue {
    Null,
    Integer(i64),
    Real(f64),
    Text(String),
    Blob(Vec<u8>),
}

/// What a query gave.
#[derive(Debug, Clone, PartialEq)]
pub struct SkillDbRows {
    pub columns: Vec<String>,
    pub rows: Vec<Vec<SkillDbValue>>,
}

/// What a statement changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SkillDbChange {
    pub changes: u64,
    pub last_insert_rowid: i64,
}

/// Why a statement gave nothing; the text is for the skill's author.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SkillDbError {
    #[error("{0}")]
    Statement(String),
    #[error("not allowed in a skill's database: {0}")]
    Refused(String),
    #[error("the result is over {RESULT_BYTES_MAX} bytes or {ROWS_MAX} rows; ask for less with LIMIT")]
    TooLarge,
    #[error("stopped: nobody waits for the result any more")]
    Stopped,
    #[error("the skill's database is unavailable: {0}")]
    Unavailable(String),
}

/// An open private database. Dropping it rolls back what is not committed.
pub struct SkillDb {
    connection: Connection,
}

impl SkillDb {
    /// Opens or creates the file. `is_stopped` is asked while a statement runs, and ends it.
    pub fn open(path: &Path, is_stopped: impl Fn() -> bool + Send + 'static) -> Result<Self, SkillDbError> {
        OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)
            .map_err(|error| SkillDbError::Unavailable(format!("{}: {error}", path.display())))?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(path, flags).map_err(unavailable)?;
        set_limits(&connection).map_err(unavailable)?;
        connection.progress_handler(STEPS_BETWEEN_LOOKS, Some(is_stopped)).map_err(unavailable)?;
        connection.authorizer(Some(authorize)).map_err(unavailable)?;
        Ok(Self { connection })
    }

    /// Runs a statement that answers with rows.
    pub fn query(&mut self, sql: &str, params: Vec<SkillDbValue>) -> Result<SkillDbRows, SkillDbError> {
        let mut statement = self.connection.prepare_cached(sql).map_err(told)?;
        let columns = statement.column_names().map(str::to_owned).collect();
        let mut found = statement.query(bound(params)).map_err(told)?;
        let (mut rows, mut bytes) = (Vec::new(), 0);
        while let Some(row) = found.next().map_err(told)? {
            let width = row.as_ref().column_count();
            let values: Vec<SkillDbValue> = (0..width)
                .map(|column| row.get_ref(column).map(read))
                .collect::<Result<_, _>>()
                .map_err(told)?;
            bytes += values.iter().map(weight).sum::<usize>();
            if bytes > RESULT_BYTES_MAX || rows.len() == ROWS_MAX {
                return Err(SkillDbError::TooLarge);
            }
            rows.push(values);
        }
        Ok(SkillDbRows { columns, rows })
    }

    /// Runs a statement for what it changes.
    pub fn run(&mut self, sql: &str, params: Vec<SkillDbValue>) -> Result<SkillDbChange, SkillDbError> {
        let before = self.connection.total_changes();
        let mut statement = self.connection.prepare_cached(sql).map_err(told)?;
        // Stepped to its end by hand: `execute` refuses a statement that also answers, such as RETURNING.
        let mut rows = statement.query(bound(params)).map_err(told)?;
        while rows.next().map_err(told)?.is_some() {}
        drop(rows);
        drop(statement);
        Ok(SkillDbChange {
            changes: self.connection.total_changes().saturating_sub(before),
            last_insert_rowid: self.connection.last_insert_rowid(),
        })
    }

    /// Ends a call: a transaction that it left open would lock the next one out.
    pub fn end_call(&mut self) -> Result<(), SkillDbError> {
        if self.connection.is_autocommit() {
            Ok(())
        } else {
            self.connection.execute_batch("ROLLBACK").map_err(told)
        }
    }
}

fn set_limits(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
    connection.pragma_update(None, "synchronous", "full")?;
    // A skill's process may write no other file.
    connection.pragma_update(None, "temp_store", "memory")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "page_size", PAGE_BYTES)?;
    connection.pragma_update_and_check(None, "max_page_count", PAGES_MAX, |_| Ok(()))?;
    connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, VALUE_BYTES_MAX)?;
    connection.set_limit(Limit::SQLITE_LIMIT_SQL_LENGTH, SQL_BYTES_MAX)?;
    connection.set_limit(Limit::SQLITE_LIMIT_WORKER_THREADS, 0)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    Ok(())
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "SQLite's list of actions grows; what is not named stays inside the file"
)]
fn authorize(context: AuthContext<'_>) -> Authorization {
    let is_open = match context.action {
        AuthAction::Attach { .. } | AuthAction::Detach { .. } | AuthAction::Unknown { .. } => false,
        AuthAction::Pragma { pragma_name, .. } => is_listed(OPEN_PRAGMAS, pragma_name),
        AuthAction::CreateVtable { module_name, .. } => is_listed(OPEN_MODULES, module_name),
        AuthAction::Function { function_name } => {
            !is_listed(&["load_extension", "fts3_tokenizer"], function_name)
        }
        // They live in memory, where the size of the file does not bound them.
        AuthAction::CreateTempTable { .. } => false,
        _ => true,
    };
    if is_open { Authorization::Allow } else { Authorization::Deny }
}

fn is_listed(list: &[&str], name: &str) -> bool {
    list.iter().any(|listed| listed.eq_ignore_ascii_case(name))
}

fn bound(params: Vec<SkillDbValue>) -> rusqlite::ParamsFromIter<impl Iterator<Item = Value>> {
    rusqlite::params_from_iter(params.into_iter().map(|param| match param {
        SkillDbValue::Null => Value::Null,
        SkillDbValue::Integer(number) => Value::Integer(number),
        SkillDbValue::Real(number) => Value::Real(number),
        SkillDbValue::Text(text) => Value::Text(text),
        SkillDbValue::Blob(bytes) => Value::Blob(bytes),
    }))
}

fn read(value: ValueRef<'_>) -> SkillDbValue {
    match value {
        ValueRef::Null => SkillDbValue::Null,
        ValueRef::Integer(number) => SkillDbValue::Integer(number),
        ValueRef::Real(number) => SkillDbValue::Real(number),
        ValueRef::Text(text) => SkillDbValue::Text(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Blob(bytes) => SkillDbValue::Blob(bytes.to_vec()),
    }
}

fn weight(value: &SkillDbValue) -> usize {
    match value {
        SkillDbValue::Null | SkillDbValue::Integer(_) | SkillDbValue::Real(_) => 16,
        SkillDbValue::Text(text) => 16 + text.len(),
        SkillDbValue::Blob(bytes) => 16 + bytes.len(),
    }
}

fn unavailable(error: rusqlite::Error) -> SkillDbError {
    SkillDbError::Unavailable(error.to_string())
}

fn told(error: rusqlite::Error) -> SkillDbError {
    let text = error.to_string();
    match error.sqlite_error_code() {
        Some(ErrorCode::AuthorizationForStatementDenied) => SkillDbError::Refused(text),
        Some(ErrorCode::OperationInterrupted) => SkillDbError::Stopped,
        Some(
            ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked
            | ErrorCode::DatabaseCorrupt
            | ErrorCode::NotADatabase
            | ErrorCode::SystemIoFailure
            | ErrorCode::CannotOpen,
        ) => SkillDbError::Unavailable(text),
        _ => SkillDbError::Statement(text),
    }
}
