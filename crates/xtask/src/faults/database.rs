//! What the database of a stopped server says, read past the product so that it cannot vouch for itself.

use anyhow::{Context, Result};
use rusqlite::{Connection, OpenFlags, Row};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use tempfile::TempDir;

const DATABASE: &str = "cortex.db";

/// Overwrites the head of the first page of a table of a stopped server, as a failing disk would.
pub(crate) fn damage_first_page(home: &Path, table: &str) -> Result<()> {
    let database = home.join(DATABASE);
    let connection = Connection::open_with_flags(&database, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let sql = "SELECT rootpage, (SELECT page_size FROM pragma_page_size) FROM sqlite_schema WHERE name = ?1";
    let (page, bytes): (u64, u64) =
        connection.query_row(sql, [table], |row| Ok((row.get(0)?, row.get(1)?)))?;
    drop(connection);
    let file = fs::OpenOptions::new().write(true).open(&database)?;
    Ok(file.write_all_at(&[0; 64], (page - 1) * bytes)?)
}

/// Everything the checks look at.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rows {
    /// In order of arrival.
    pub(crate) events: Vec<EventRow>,
    /// In order of their ids.
    pub(crate) turns: Vec<TurnRow>,
    pub(crate) messages: Vec<MessageRow>,
    /// Events that a topic still holds in flight.
    pub(crate) in_flight: usize,
    /// What SQLite's own checks complain about.
    pub(crate) damage: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EventRow {
    pub(crate) seq: i64,
    pub(crate) id: String,
    pub(crate) source: String,
    pub(crate) external_id: String,
    pub(crate) topic: String,
    pub(crate) text: String,
    pub(crate) state: EventState,
    pub(crate) claimed_at: Option<i64>,
    pub(crate) updated_at: i64,
    pub(crate) steps: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventState {
    Pending,
    Processing,
    Waiting,
    Done,
    Failed,
    /// A word that no version writes.
    Nonsense,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TurnRow {
    pub(crate) event_seq: i64,
    pub(crate) speaker: Speaker,
    pub(crate) content: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Speaker {
    User,
    Assistant,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MessageRow {
    pub(crate) seq: i64,
    pub(crate) id: String,
    pub(crate) source: String,
    pub(crate) event_seq: Option<i64>,
    pub(crate) topic: String,
    pub(crate) text: String,
    pub(crate) state: MessageState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MessageState {
    Open,
    Delivered,
    /// Dead, suppressed or discarded.
    GivenUp,
}

/// Opens the database in a home, lets SQLite recover its log, and reads everything.
pub(crate) fn read(home: &Path) -> Result<Rows> {
    let path = home.join(DATABASE);
    let connection = Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_WRITE)
        .with_context(|| format!("cannot open {}", path.display()))?;
    let damage = damage(&connection)?;
    if !damage.is_empty() || tables(&connection)? == 0 {
        return Ok(Rows { damage, ..Rows::default() });
    }
    Ok(Rows {
        events: query(&connection, EVENTS, event)?,
        turns: query(&connection, TURNS, turn)?,
        messages: query(&connection, MESSAGES, message)?,
        in_flight: count(&connection, "SELECT count(*) FROM topics WHERE in_flight IS NOT NULL")?,
        damage,
    })
}

/// As `read`, on a copy: the files stay as the crash left them.
pub(crate) fn read_copy(home: &Path) -> Result<Rows> {
    let copy = copied(home)?;
    if copy.path().join(DATABASE).exists() { read(copy.path()) } else { Ok(Rows::default()) }
}

/// The kinds of the steps that are on record for an event, read from a copy.
pub(crate) fn steps_of(home: &Path, external_id: &str) -> Result<Vec<String>> {
    let copy = copied(home)?;
    let connection = Connection::open(copy.path().join(DATABASE))?;
    let mut statement = connection.prepare(
        "SELECT kind FROM turn_steps JOIN inbox_messages ON seq = event_seq
         WHERE external_message_id = ?1 ORDER BY number",
    )?;
    let kinds = statement.query_map([external_id], |row| row.get(0))?.collect::<Result<_, _>>()?;
    Ok(kinds)
}

/// The database files of a stopped server, to be put back later.
pub(crate) fn copied(home: &Path) -> Result<TempDir> {
    let copy = tempfile::tempdir()?;
    for name in [DATABASE, "cortex.db-wal", "cortex.db-journal"] {
        let from = home.join(name);
        if from.exists() {
            fs::copy(&from, copy.path().join(name)).with_context(|| format!("cannot copy {name}"))?;
        }
    }
    Ok(copy)
}

/// Puts the files back as they were, as a disk would that forgot everything since.
pub(crate) fn put_back(copy: &TempDir, home: &Path) -> Result<()> {
    for name in [DATABASE, "cortex.db-wal", "cortex.db-shm", "cortex.db-journal"] {
        fs::remove_file(home.join(name)).unwrap_or_default();
        let from = copy.path().join(name);
        if from.exists() {
            fs::copy(&from, home.join(name)).with_context(|| format!("cannot put back {name}"))?;
        }
    }
    Ok(())
}

const EVENTS: &str = "SELECT seq, id, source, external_message_id, topic_key, text, status, claimed_at, updated_at, \
    (SELECT count(*) FROM turn_steps WHERE event_seq = seq) FROM inbox_messages ORDER BY seq";
const TURNS: &str = "SELECT event_seq, role, content FROM turns ORDER BY id";
const MESSAGES: &str =
    "SELECT seq, id, source, event_seq, topic_key, text, status FROM outbox_messages ORDER BY seq";

fn damage(connection: &Connection) -> Result<Vec<String>> {
    let mut found = query(connection, "PRAGMA integrity_check", |row| row.get::<_, String>(0))?;
    found.retain(|line| line != "ok");
    let orphans = query(connection, "PRAGMA foreign_key_check", |row| row.get::<_, String>(0))?;
    found.extend(orphans.into_iter().map(|table| format!("a row of {table} points nowhere")));
    Ok(found)
}

/// A power loss before the first commit leaves a database without tables.
fn tables(connection: &Connection) -> Result<usize> {
    count(connection, "SELECT count(*) FROM sqlite_schema WHERE type = 'table'")
}

fn count(connection: &Connection, sql: &str) -> Result<usize> {
    Ok(connection.query_row(sql, [], |row| row.get(0))?)
}

fn query<T>(
    connection: &Connection,
    sql: &str,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<T>> {
    let mut statement = connection.prepare(sql)?;
    let rows = statement.query_map([], read)?.collect::<Result<_, _>>()?;
    Ok(rows)
}

fn event(row: &Row<'_>) -> rusqlite::Result<EventRow> {
    let word: String = row.get(6)?;
    Ok(EventRow {
        seq: row.get(0)?,
        id: row.get(1)?,
        source: row.get(2)?,
        external_id: row.get(3)?,
        topic: row.get(4)?,
        text: row.get(5)?,
        state: match word.as_str() {
            "pending" => EventState::Pending,
            "processing" => EventState::Processing,
            "waiting" => EventState::Waiting,
            "done" => EventState::Done,
            "failed" => EventState::Failed,
            _ => EventState::Nonsense,
        },
        claimed_at: row.get(7)?,
        updated_at: row.get(8)?,
        steps: row.get(9)?,
    })
}

fn turn(row: &Row<'_>) -> rusqlite::Result<TurnRow> {
    let word: String = row.get(1)?;
    let speaker = if word == "user" { Speaker::User } else { Speaker::Assistant };
    Ok(TurnRow { event_seq: row.get(0)?, speaker, content: row.get(2)? })
}

fn message(row: &Row<'_>) -> rusqlite::Result<MessageRow> {
    let word: String = row.get(6)?;
    Ok(MessageRow {
        seq: row.get(0)?,
        id: row.get(1)?,
        source: row.get(2)?,
        event_seq: row.get(3)?,
        topic: row.get(4)?,
        text: row.get(5)?,
        state: match word.as_str() {
            "pending" | "leased" => MessageState::Open,
            "delivered" => MessageState::Delivered,
            _ => MessageState::GivenUp,
        },
    })
}
