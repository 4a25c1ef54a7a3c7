//! The journal of a turn, row by row.

use crate::{StoreError, checksum};
use cortex_types::{Millis, Step, StepBody};
use rusqlite::{Connection, params};

/// Takes the next place, whatever the caller counted: an answer to a question may have come in while the turn ran.
pub(crate) fn record(connection: &Connection, event_seq: i64, step: &Step) -> Result<(), StoreError> {
    let number = count(connection, event_seq)?;
    let body = serde_json::to_string(&step.body).map_err(|error| StoreError::Fault(error.to_string()))?;
    connection
        .prepare_cached(
            "INSERT INTO turn_steps(event_seq, number, kind, body_json, created_at, checksum)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![
            event_seq,
            number,
            step.body.kind(),
            body,
            step.at.0,
            checksum::of(&[&body], &[event_seq, number, step.at.0])
        ])?;
    Ok(())
}

pub(crate) fn count(connection: &Connection, event_seq: i64) -> Result<i64, StoreError> {
    Ok(connection
        .prepare_cached("SELECT count(*) FROM turn_steps WHERE event_seq = ?1")?
        .query_row([event_seq], |row| row.get(0))?)
}

pub(crate) fn load(connection: &Connection, event_seq: i64) -> Result<Vec<Step>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT number, created_at, body_json, checksum FROM turn_steps WHERE event_seq = ?1 ORDER BY number",
    )?;
    let rows = statement.query_map([event_seq], |row| {
        Ok((row.get::<_, u32>(0)?, row.get::<_, i64>(1)?, row.get::<_, String>(2)?, row.get::<_, u32>(3)?))
    })?;
    rows.map(|row| {
        let (number, at, body, sum) = row?;
        let damaged = |what: &str| StoreError::Damaged(format!("step {number} of event {event_seq}: {what}"));
        if checksum::of(&[&body], &[event_seq, i64::from(number), at]) != sum {
            return Err(damaged("it does not match its checksum"));
        }
        let body: StepBody = serde_json::from_str(&body).map_err(|error| damaged(&error.to_string()))?;
        Ok(Step { number, at: Millis(at), body })
    })
    .collect()
}
