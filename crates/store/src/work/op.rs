//! Ops: tracked from dispatch to a final end, read once, then harvested and put away.

use crate::engine::listing::{Listed, Page, PageRequest, ROW_BYTES, read_page};
use crate::engine::row::readable;
use crate::engine::savepoint::apart;
use crate::{Store, StoreError, flow::inbox};
use cortex_types::limits::OPS_SHOWN_MAX;
use cortex_types::{Millis, NewEvent, NewOp, Op, OpEnding, OpId, OpStatus, TopicRef};
use rusqlite::{Connection, OptionalExtension, Row, ToSql, params};

/// Transitions of ops.
pub struct Ops<'a>(pub(crate) &'a Store);

/// What became of an end that was reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settled {
    Now(Op),
    /// It had its end before; that one stands (D20).
    Already(Op),
    Unknown,
}

impl Ops<'_> {
    /// Tracks an op; false when the id is known.
    pub async fn add(&self, op: NewOp, now: Millis) -> Result<bool, StoreError> {
        self.0.write(move |connection| add(connection, &op, now)).await
    }

    /// Ends a pending op and accepts the event that tells the conversation, in one transaction.
    pub async fn settle(
        &self,
        id: OpId,
        ending: OpEnding,
        now: Millis,
        event: impl Fn(&Op) -> NewEvent + Send + 'static,
    ) -> Result<Settled, StoreError> {
        self.0.write(move |connection| settle(connection, &id, &ending, now, &event)).await
    }

    /// Fails what is pending and owned by no durable run, as `settle` does. Only before anything new is dispatched.
    pub async fn fail_orphans(
        &self,
        error: &'static str,
        now: Millis,
        event: impl Fn(&Op) -> NewEvent + Send + 'static,
    ) -> Result<usize, StoreError> {
        self.0.write(move |connection| fail_orphans(connection, error, now, &event)).await
    }

    /// What a prompt shows: ends that nobody has read, then what is pending. `None` is everybody's.
    pub async fn shown(&self, users: Option<Vec<String>>) -> Result<Vec<Op>, StoreError> {
        self.0.read(move |connection| shown(connection, users.as_deref())).await
    }

    pub async fn find(&self, id: OpId) -> Result<Option<Op>, StoreError> {
        self.0.read(move |connection| find(connection, &id)).await
    }

    /// Newest first.
    pub async fn list(&self, status: Option<OpStatus>, page: PageRequest) -> Result<Page<Op>, StoreError> {
        self.0
            .read(move |connection| {
                let (before, limit) = page.bounds();
                let word = status.map(OpStatus::as_str);
                let mut statement = connection.prepare_cached(&format!(
                    "SELECT {COLUMNS} FROM ops
                     WHERE rowid < ?1 AND (?2 IS NULL OR status = ?2) ORDER BY rowid DESC LIMIT ?3"
                ))?;
                let rows = statement.query_map(params![before, word, limit], |row| Ok(read(row)))?;
                let page = read_page(rows.map(|row| row?), limit)?;
                let rows = page.rows.into_iter().map(|(_, op)| op).collect();
                Ok(Page { rows, next_before: page.next_before })
            })
            .await
    }

    /// Completed ops whose result a turn has read, oldest first.
    pub async fn harvestable(&self, limit: u32) -> Result<Vec<Op>, StoreError> {
        self.0
            .read(move |connection| {
                let rows = select(
                    connection,
                    "WHERE status = 'completed' AND acknowledged_at IS NOT NULL ORDER BY rowid LIMIT ?1",
                    [limit],
                )?;
                Ok(rows.into_iter().map(|(_, op)| op).collect())
            })
            .await
    }

    /// Puts away what was harvested before `before`.
    pub async fn archive(&self, before: Millis) -> Result<usize, StoreError> {
        self.0
            .write(move |connection| {
                Ok(connection
                    .prepare_cached(
                        "UPDATE ops SET status = 'archived' WHERE status = 'gardened' AND gardened_at <= ?1",
                    )?
                    .execute([before.0])?)
            })
            .await
    }
}

pub(crate) fn shown(connection: &Connection, users: Option<&[String]>) -> Result<Vec<Op>, StoreError> {
    let users = users.map(serde_json::to_string).transpose();
    let users = users.map_err(|error| StoreError::Fault(format!("users cannot be written: {error}")))?;
    let shown = select(
        connection,
        "WHERE acknowledged_at IS NULL AND status IN ('pending', 'completed', 'failed')
           AND CASE WHEN ?1 IS NULL THEN user_id NOT GLOB 'local:*'
             ELSE user_id IN (SELECT value FROM json_each(?1)) END
         ORDER BY status = 'pending', dispatched_at, rowid LIMIT ?2",
        params![users, OPS_SHOWN_MAX],
    )?;
    Ok(shown.into_iter().map(|(_, op)| op).collect())
}

/// The same of the ops that one topic asked for.
pub(crate) fn shown_in(connection: &Connection, topic: &TopicRef) -> Result<Vec<Op>, StoreError> {
    let shown = select(
        connection,
        "WHERE acknowledged_at IS NULL AND status IN ('pending', 'completed', 'failed')
           AND source = ?1 AND topic_key = ?2
         ORDER BY status = 'pending', dispatched_at, rowid LIMIT ?3",
        params![topic.source, topic.topic_key, OPS_SHOWN_MAX],
    )?;
    Ok(shown.into_iter().map(|(_, op)| op).collect())
}

/// A turn has read these ends. One that came while the turn ran is not among them and stays unread.
pub(crate) fn acknowledge(connection: &Connection, read: &[OpId], now: Millis) -> Result<(), StoreError> {
    let mut statement = connection.prepare_cached(
        "UPDATE ops SET acknowledged_at = ?2
         WHERE id = ?1 AND acknowledged_at IS NULL AND status IN ('completed', 'failed')",
    )?;
    for id in read {
        statement.execute(params![id.as_str(), now.0])?;
    }
    Ok(())
}

/// What was worth remembering has been taken from it.
pub(crate) fn garden(connection: &Connection, id: &OpId, now: Millis) -> Result<(), StoreError> {
    connection
        .prepare_cached(
            "UPDATE ops SET status = 'gardened', gardened_at = ?2
             WHERE id = ?1 AND status = 'completed' AND acknowledged_at IS NOT NULL",
        )?
        .execute(params![id.as_str(), now.0])?;
    Ok(())
}

const COLUMNS: &str = "rowid, id, type, description, status, source, topic_key, user_id, expected_channel, run_id, \
    dispatched_at, completed_at, result, acknowledged_at, gardened_at";

impl Listed for (i64, Op) {
    fn place(&self) -> i64 {
        self.0
    }

    fn bytes(&self) -> usize {
        ROW_BYTES + self.1.description.len() + self.1.result.as_ref().map_or(0, String::len)
    }
}

fn select(
    connection: &Connection,
    rest: &str,
    values: impl rusqlite::Params,
) -> Result<Vec<(i64, Op)>, StoreError> {
    let mut statement = connection.prepare_cached(&format!("SELECT {COLUMNS} FROM ops {rest}"))?;
    let rows = statement.query_map(values, |row| Ok(read(row)))?;
    // Every prompt shows ops: one that is damaged must not fail them all.
    readable("op", rows.map(|row| row?))
}

fn read(row: &Row<'_>) -> Result<(i64, Op), StoreError> {
    let id: String = row.get(1)?;
    let damaged = |what: String| StoreError::Damaged(format!("op {id}: {what}"));
    let status: String = row.get(4)?;
    let moment = |column| row.get::<_, Option<i64>>(column).map(|at| at.map(Millis));
    let op = Op {
        id: id.parse().map_err(|error| damaged(format!("{error}")))?,
        kind: row.get(2)?,
        description: row.get(3)?,
        status: status.parse().map_err(|error| damaged(format!("{error}")))?,
        topic: TopicRef { source: row.get(5)?, topic_key: row.get(6)? },
        user_id: row.get(7)?,
        expected_channel: row.get(8)?,
        run_id: row.get(9)?,
        dispatched_at: Millis(row.get(10)?),
        completed_at: moment(11)?,
        result: row.get(12)?,
        acknowledged_at: moment(13)?,
        gardened_at: moment(14)?,
    };
    Ok((row.get(0)?, op))
}

/// One that cannot be read is an error: as one that is not there it would keep half of what is done to it.
fn find(connection: &Connection, id: &OpId) -> Result<Option<Op>, StoreError> {
    one(connection, "id = ?1", [id.as_str()])
}

fn one(
    connection: &Connection,
    condition: &str,
    values: impl rusqlite::Params,
) -> Result<Option<Op>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM ops WHERE {condition}");
    let found = connection.prepare_cached(&sql)?.query_row(values, |row| Ok(read(row))).optional()?;
    Ok(found.transpose()?.map(|(_, op)| op))
}

fn add(connection: &Connection, op: &NewOp, now: Millis) -> Result<bool, StoreError> {
    let event_seq = op.event.as_ref().map(|event| inbox::seq_of(connection, event)).transpose()?.flatten();
    let added = connection
        .prepare_cached(
            "INSERT INTO ops(id, type, description, dispatched_at, expected_channel, source, topic_key, user_id,
               event_seq, run_id) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) ON CONFLICT(id) DO NOTHING",
        )?
        .execute(params![
            op.id.as_str(),
            op.kind,
            op.description,
            now.0,
            op.expected_channel,
            op.topic.source,
            op.topic.topic_key,
            op.user_id,
            event_seq,
            op.run_id,
        ])?;
    Ok(added == 1)
}

fn settle(
    connection: &Connection,
    id: &OpId,
    ending: &OpEnding,
    now: Millis,
    event: &dyn Fn(&Op) -> NewEvent,
) -> Result<Settled, StoreError> {
    let changed = end(connection, "id", &id.as_str(), ending, now)?;
    let Some(op) = find(connection, id)? else { return Ok(Settled::Unknown) };
    if changed == 0 {
        return Ok(Settled::Already(op));
    }
    inbox::accept(connection, &event(&op), now)?;
    Ok(Settled::Now(op))
}

/// How many pending ops got this end; their conversation is not told by it.
fn end(
    connection: &Connection,
    column: &str,
    value: &dyn ToSql,
    ending: &OpEnding,
    now: Millis,
) -> Result<usize, StoreError> {
    let (status, result) = match ending {
        OpEnding::Completed { result } => (OpStatus::Completed, result.clone()),
        OpEnding::Failed { error } => (OpStatus::Failed, format!("Error: {error}")),
    };
    let sql = format!(
        "UPDATE ops SET status = ?2, result = ?3, completed_at = ?4 WHERE {column} = ?1 AND status = 'pending'"
    );
    Ok(connection.prepare_cached(&sql)?.execute(params![value, status.as_str(), result, now.0])?)
}

fn fail_orphans(
    connection: &Connection,
    error: &str,
    now: Millis,
    event: &dyn Fn(&Op) -> NewEvent,
) -> Result<usize, StoreError> {
    let ending = OpEnding::Failed { error: error.to_owned() };
    let orphans: Vec<i64> = connection
        .prepare_cached("SELECT rowid FROM ops WHERE status = 'pending' AND run_id IS NULL")?
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    for orphan in &orphans {
        let told = apart(connection, || {
            let Some(op) = one(connection, "rowid = ?1", [orphan])? else { return Ok(()) };
            settle(connection, &op.id, &ending, now, event).map(drop)
        })?;
        if let Err(reason) = told {
            // Nobody is left who would end it, so it ends though nobody can be told.
            tracing::error!(op = orphan, %reason, "An op without an owner is damaged: it was failed, and its conversation is not told");
            end(connection, "rowid", orphan, &ending, now)?;
            // No turn can read it either.
            connection
                .prepare_cached("UPDATE ops SET acknowledged_at = ?2 WHERE rowid = ?1")?
                .execute([*orphan, now.0])?;
        }
    }
    Ok(orphans.len())
}
