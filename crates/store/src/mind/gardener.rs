//! The gardener's diary, its place in the history, and the journal of what it has learned and not yet kept.

use crate::engine::row::readable;
use crate::mind::history::{TURN, said_turn};
use crate::mind::index::{cursor, set_cursor};
use crate::{SaidTurn, Store, StoreError, work::usage};
use cortex_types::{GardenerTask, Millis, ModelCall, OpId};
use fail::fail_point;
use rusqlite::{Connection, params};

const EXTRACTED: &str = "extracted";

/// Transitions of the gardener.
pub struct GardenerDiary<'a>(pub(crate) &'a Store);

/// The last run of a task; while it never ran, the first start of the home.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GardenerRun {
    pub task: GardenerTask,
    pub last_run_at: Millis,
    /// The next run is due an interval later.
    pub counted_from: Millis,
    pub last_report: String,
    pub runs: u64,
}

/// What was said behind the cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unextracted {
    /// What people said; the assistant's lines and what came from inside are left out.
    pub lines: Vec<SaidTurn>,
    /// Where the cursor goes once these are done.
    pub last: i64,
}

/// What the journal is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Learned {
    /// From the history up to this turn.
    FromTurns {
        last: i64,
    },
    FromOp(OpId),
}

/// Which lines of the history may go once they are old.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EvictTurns {
    /// Nothing goes that memory has not looked at.
    Extracted,
    /// Memory is off: nobody will look at them.
    All,
}

impl GardenerDiary<'_> {
    /// The first start of a home: every task is due an interval from now. Later ones change nothing.
    pub async fn begin(&self, now: Millis) -> Result<(), StoreError> {
        self.0
            .write(move |connection| {
                let mut statement = connection.prepare_cached(
                    "INSERT INTO gardener_runs(task, last_run_at, counted_from, last_outcome) VALUES (?1, ?2, ?2, '')
                     ON CONFLICT(task) DO NOTHING",
                )?;
                for task in GardenerTask::ALL {
                    statement.execute(params![task.as_str(), now.0])?;
                }
                Ok(())
            })
            .await
    }

    pub async fn runs(&self) -> Result<Vec<GardenerRun>, StoreError> {
        self.0.read(runs).await
    }

    /// A run of its own: the next is due an interval from now.
    pub async fn record_run(
        &self,
        task: GardenerTask,
        report: String,
        now: Millis,
    ) -> Result<(), StoreError> {
        let sql = "INSERT INTO gardener_runs(task, last_run_at, counted_from, last_outcome, runs) VALUES (?1, ?2, ?2, ?3, 1)
             ON CONFLICT(task) DO UPDATE SET last_run_at = ?2, counted_from = ?2, last_outcome = ?3, runs = runs + 1";
        self.record(sql, task, report, now).await
    }

    /// A run beside the schedule, which stays as it is.
    pub async fn record_extra_run(
        &self,
        task: GardenerTask,
        report: String,
        now: Millis,
    ) -> Result<(), StoreError> {
        let sql = "INSERT INTO gardener_runs(task, last_run_at, counted_from, last_outcome, runs) VALUES (?1, ?2, ?2, ?3, 1)
             ON CONFLICT(task) DO UPDATE SET last_run_at = ?2, last_outcome = ?3, runs = runs + 1";
        self.record(sql, task, report, now).await
    }

    async fn record(
        &self,
        sql: &'static str,
        task: GardenerTask,
        report: String,
        now: Millis,
    ) -> Result<(), StoreError> {
        self.0
            .write(move |connection| {
                connection.prepare_cached(sql)?.execute(params![task.as_str(), now.0, report])?;
                Ok(())
            })
            .await
    }

    /// How many messages of people wait for extraction, counted up to `limit`.
    pub async fn waiting(&self, limit: u32) -> Result<u32, StoreError> {
        self.0
            .read(move |connection| {
                let sql =
                    format!("SELECT count(*) FROM ({TURN} WHERE turns.id > ?1 AND {BY_PEOPLE} LIMIT ?2)");
                let cursor = cursor(connection, EXTRACTED)?;
                Ok(connection.prepare_cached(&sql)?.query_row(params![cursor, limit], |row| row.get(0))?)
            })
            .await
    }

    /// The oldest `limit` lines behind the cursor; `None` when there are none.
    pub async fn unextracted(&self, limit: u32) -> Result<Option<Unextracted>, StoreError> {
        self.0.read(move |connection| unextracted(connection, limit)).await
    }

    /// Writes down what was learned and what it cost, before any of it is kept.
    pub async fn journal(
        &self,
        from: Learned,
        facts_json: String,
        calls: Vec<ModelCall>,
        now: Millis,
    ) -> Result<(), StoreError> {
        self.0
            .write(move |connection| {
                let (name, position) = key(&from);
                usage::record(connection, None, &calls)?;
                connection
                    .prepare_cached(
                        "INSERT OR REPLACE INTO gardener_journal(name, position, facts_json, created_at)
                         VALUES (?1, ?2, ?3, ?4)",
                    )?
                    .execute(params![name, position, facts_json, now.0])?;
                fail_point!("gardener.journal.before_commit");
                Ok(())
            })
            .await
    }

    /// Everything that was learned and not settled.
    pub async fn journaled(&self) -> Result<Vec<(Learned, String)>, StoreError> {
        self.0.read(journaled).await
    }

    /// All of it is kept: the cursor moves, or the op is put to rest, and the entry goes.
    pub async fn settle(&self, from: Learned, now: Millis) -> Result<(), StoreError> {
        self.0.write(move |connection| settle(connection, &from, now)).await
    }

    /// What a model cost that taught nothing.
    pub async fn pay(&self, calls: Vec<ModelCall>) -> Result<(), StoreError> {
        self.0.write(move |connection| usage::record(connection, None, &calls)).await
    }

    /// Tokens that the gardener spent since then.
    pub async fn tokens_since(&self, since: Millis) -> Result<u64, StoreError> {
        self.0
            .read(move |connection| {
                Ok(connection
                    .prepare_cached(
                        "SELECT coalesce(sum(input_tokens + output_tokens), 0) FROM usage
                         WHERE started_at >= ?1 AND event_seq IS NULL",
                    )?
                    .query_row([since.0], |row| row.get(0))?)
            })
            .await
    }

    /// Drops up to `limit` of the oldest lines of the history that ended before `before` and may go (D14), with their
    /// rows in the index. The answer is their ids.
    pub async fn evict_turns(
        &self,
        which: EvictTurns,
        before: Millis,
        limit: u32,
    ) -> Result<Vec<i64>, StoreError> {
        self.0.write(move |connection| evict_turns(connection, which, before, limit)).await
    }
}

/// `is_machine_channel`, in SQL; programs without a key are nobody to learn from either, and of a message that holds documents
/// nobody knows which words are its user's (`DOCUMENTS_MARK`).
pub(crate) const BY_PEOPLE: &str =
    "turns.role = 'user' AND inbox_messages.standing <> 'local' AND coalesce(inbox_messages.channel, '') NOT IN ('cron', 'router')
    AND coalesce(inbox_messages.channel, '') NOT GLOB 'hook:*'
    AND instr(coalesce(turns.attachments, ''), '[untrusted documents ') = 0";

fn runs(connection: &Connection) -> Result<Vec<GardenerRun>, StoreError> {
    let mut statement = connection
        .prepare_cached("SELECT task, last_run_at, last_outcome, runs, counted_from FROM gardener_runs")?;
    let rows = statement.query_map([], |row| {
        Ok((
            row.get::<_, String>(0)?,
            Millis(row.get(1)?),
            row.get::<_, String>(2)?,
            row.get(3)?,
            Millis(row.get(4)?),
        ))
    })?;
    rows.map(|row| {
        let (word, last_run_at, last_report, runs, counted_from) = row?;
        let task = word.parse().map_err(|error| StoreError::Damaged(format!("gardener: {error}")))?;
        Ok(GardenerRun { task, last_run_at, counted_from, last_report, runs })
    })
    .collect()
}

fn unextracted(connection: &Connection, limit: u32) -> Result<Option<Unextracted>, StoreError> {
    let after = cursor(connection, EXTRACTED)?;
    let last: Option<i64> = connection
        .prepare_cached("SELECT max(id) FROM (SELECT id FROM turns WHERE id > ?1 ORDER BY id LIMIT ?2)")?
        .query_row(params![after, limit], |row| row.get(0))?;
    let Some(last) = last else { return Ok(None) };
    let sql = format!("{TURN} WHERE turns.id > ?1 AND turns.id <= ?2 AND {BY_PEOPLE} ORDER BY turns.id");
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map([after, last], |row| Ok(said_turn(row)))?;
    let lines = readable("turn", rows.map(|row| row?))?;
    Ok(Some(Unextracted { lines, last }))
}

fn key(from: &Learned) -> (&str, i64) {
    match from {
        Learned::FromTurns { last } => (EXTRACTED, *last),
        Learned::FromOp(op) => (op.as_str(), 0),
    }
}

fn journaled(connection: &Connection) -> Result<Vec<(Learned, String)>, StoreError> {
    let mut statement = connection
        .prepare_cached("SELECT name, position, facts_json FROM gardener_journal ORDER BY created_at")?;
    let rows = statement.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get(1)?, row.get(2)?)))?;
    rows.map(|row| {
        let (name, last, facts_json) = row?;
        let from = match name.as_str() {
            EXTRACTED => Learned::FromTurns { last },
            op => Learned::FromOp(
                op.parse().map_err(|error| StoreError::Damaged(format!("gardener: {error}")))?,
            ),
        };
        Ok((from, facts_json))
    })
    .collect()
}

fn settle(connection: &Connection, from: &Learned, now: Millis) -> Result<(), StoreError> {
    match from {
        Learned::FromTurns { last } => {
            if *last > cursor(connection, EXTRACTED)? {
                set_cursor(connection, EXTRACTED, *last, now)?;
            }
        }
        Learned::FromOp(op) => crate::work::op::garden(connection, op, now)?,
    }
    fail_point!("gardener.settle.after_cursor");
    connection.prepare_cached("DELETE FROM gardener_journal WHERE name = ?1")?.execute([key(from).0])?;
    fail_point!("gardener.settle.before_commit");
    Ok(())
}

fn evict_turns(
    connection: &Connection,
    which: EvictTurns,
    before: Millis,
    limit: u32,
) -> Result<Vec<i64>, StoreError> {
    let up_to = match which {
        EvictTurns::Extracted => cursor(connection, EXTRACTED)?,
        EvictTurns::All => i64::MAX,
    };
    let oldest = connection
        .prepare_cached("SELECT id, role = 'user', timestamp FROM turns WHERE id <= ?1 ORDER BY id LIMIT ?2")?
        .query_map(params![up_to, limit], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, bool>(1)?, Millis(row.get(2)?)))
        })?
        .collect::<Result<Vec<_>, _>>()?;
    // An exchange goes as a whole: it ends with an answer, and what comes after a younger line is younger.
    let old = oldest.iter().take_while(|(_, _, at)| *at < before);
    let ends = old.filter(|(_, is_question, _)| !is_question).map(|(id, _, _)| *id);
    let Some(last) = ends.max() else { return Ok(Vec::new()) };
    let ids: Vec<i64> = oldest.iter().map(|(id, _, _)| *id).filter(|id| *id <= last).collect();
    let mut drop = connection.prepare_cached("DELETE FROM turns WHERE id = ?1")?;
    for id in &ids {
        drop.execute([id])?;
    }
    Ok(ids)
}
