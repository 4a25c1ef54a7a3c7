//! The end of questions that nobody answered: one that cannot be read ends too, and keeps no other open.

use super::{Resolved, SELECT, close, has_open, read, tell, wake};
use crate::engine::savepoint::apart;
use crate::{
    StoreError,
    engine::audit,
    flow::{inbox, outbox, step},
};
use cortex_types::{ApprovalId, ApprovalStatus, Decision, Millis, NewReply, Step, StepBody};
use rusqlite::{Connection, OptionalExtension, Row, params};

pub(super) fn expire_due(
    connection: &Connection,
    now: Millis,
    line: &dyn Fn(&Resolved) -> Option<NewReply>,
) -> Result<usize, StoreError> {
    let due = due(connection, now)?;
    for place in &due {
        let Err(error) = apart(connection, || expire(connection, *place, now, line))? else { continue };
        tracing::error!(place, %error, "A stored question cannot be read; it ends, and its event goes on");
        end_unread(connection, *place, now)?;
    }
    Ok(due.len())
}

/// Open questions whose time has come, by their places. A time that cannot be read never comes, so it is now.
fn due(connection: &Connection, now: Millis) -> Result<Vec<i64>, StoreError> {
    let mut due = connection.prepare_cached(
        "SELECT rowid FROM pending_approvals
         WHERE status = 'pending' AND (expires_at <= ?1 OR typeof(expires_at) <> 'integer')
         ORDER BY expires_at LIMIT 100",
    )?;
    let due = due.query_map([now.0], |row| row.get(0))?;
    Ok(due.collect::<Result<_, _>>()?)
}

fn expire(
    connection: &Connection,
    place: i64,
    now: Millis,
    line: &dyn Fn(&Resolved) -> Option<NewReply>,
) -> Result<(), StoreError> {
    let sql = format!("{SELECT} WHERE a.rowid = ?1");
    let found = connection.prepare_cached(&sql)?.query_row([place], |row| Ok(read(row))).optional()?;
    let approval = found.ok_or_else(|| StoreError::Damaged("its event is none".to_owned()))??;
    let expired = close(connection, &approval, Decision::Expired, None, now)?;
    tell(connection, &Resolved::Expired(expired), line, now)
}

/// What is left of a question whose row cannot be read.
struct Remains {
    id: Option<String>,
    prompt: Option<String>,
    event_seq: Option<i64>,
    asked_at: Option<i64>,
}

impl Remains {
    fn of(row: &Row<'_>) -> Self {
        Self {
            id: row.get(0).ok(),
            prompt: row.get(1).ok(),
            event_seq: row.get(2).ok(),
            asked_at: row.get(3).ok(),
        }
    }
}

/// Ends a question by its place alone. Each part is done as far as it can be; the watchdog wakes an event that nobody woke.
fn end_unread(connection: &Connection, place: i64, now: Millis) -> Result<(), StoreError> {
    connection
        .prepare_cached("UPDATE pending_approvals SET status = 'expired', resolved_at = ?2 WHERE rowid = ?1")?
        .execute([place, now.0])?;
    let remains = connection
        .prepare_cached(
            "SELECT id, prompt_id, event_seq, created_at FROM pending_approvals WHERE rowid = ?1",
        )?
        .query_row([place], |row| Ok(Remains::of(row)))?;
    let subject = remains.id.as_deref().unwrap_or_default();
    audit::record(connection, now, "approval_resolved", subject, ApprovalStatus::Expired.as_str())?;
    let Some(seq) = remains.event_seq else { return Ok(()) };
    let parts = [
        apart(connection, || blank(connection, &remains, seq, now))?,
        apart(connection, || journal_ended(connection, seq, now))?,
        apart(connection, || {
            let is_last = !has_open(connection, seq)?;
            if is_last { wake(connection, seq, "a question could not be read", now) } else { Ok(()) }
        })?,
    ];
    for error in parts.into_iter().filter_map(Result::err) {
        tracing::error!(place, %error, "A part of a question that cannot be read is left as it is");
    }
    Ok(())
}

fn blank(connection: &Connection, remains: &Remains, event_seq: i64, now: Millis) -> Result<(), StoreError> {
    let Some(id) = &remains.prompt else { return Ok(()) };
    let topic = inbox::by_seq(connection, event_seq)?.topic;
    let asked_at = remains.asked_at.map_or(now, Millis);
    outbox::blank_prompt(connection, &outbox::Prompt { id, topic: &topic, event_seq, asked_at }, now)
}

/// The journal of the event knows which call was asked about: what it says was asked and is not open any more has expired.
pub(crate) fn journal_ended(connection: &Connection, event_seq: i64, now: Millis) -> Result<(), StoreError> {
    let steps = step::load(connection, event_seq)?;
    let is_decided = |asked: &ApprovalId| {
        steps
            .iter()
            .any(|step| matches!(&step.body, StepBody::ApprovalDecided { approval, .. } if approval == asked))
    };
    let mut number = u32::try_from(steps.len()).unwrap_or(u32::MAX);
    for step in &steps {
        let StepBody::ApprovalAsked { call_id, approval } = &step.body else { continue };
        if is_decided(approval) || is_open(connection, event_seq, approval)? {
            continue;
        }
        let (call_id, approval) = (call_id.clone(), approval.clone());
        let body = StepBody::ApprovalDecided { call_id, approval, decision: Decision::Expired };
        step::record(connection, event_seq, &Step { number, at: now, body })?;
        number = number.saturating_add(1);
    }
    Ok(())
}

/// A question that lost its event wakes it no more, whatever is answered.
fn is_open(connection: &Connection, event_seq: i64, id: &ApprovalId) -> Result<bool, StoreError> {
    let mut open = connection.prepare_cached(
        "SELECT 1 FROM pending_approvals WHERE id = ?1 AND event_seq = ?2 AND status = 'pending'",
    )?;
    Ok(open.exists(params![id.as_str(), event_seq])?)
}
