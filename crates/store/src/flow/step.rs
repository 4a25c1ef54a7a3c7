//! The journal of a turn, row by row.

use crate::{StoreError, engine::checksum, flow::turn};
use cortex_types::{ChatReply, Millis, Step, StepBody};
use rusqlite::{Connection, params};

/// Takes the next place, whatever the caller counted: an answer to a question may have come in while the turn ran.
pub(crate) fn record(connection: &Connection, event_seq: i64, step: &Step) -> Result<(), StoreError> {
    insert(connection, event_seq, step, None)
}

/// A line of the history, by its number.
pub(crate) struct SaidLine<'a> {
    pub(crate) turn: i64,
    pub(crate) content: &'a str,
}

/// Journals the answer that ended a turn. Its words stand in the history already, and an answer can be large: where they
/// are the same, the journal only says where they are.
pub(crate) fn record_last(
    connection: &Connection,
    event_seq: i64,
    step: &Step,
    said: &SaidLine<'_>,
) -> Result<(), StoreError> {
    match &step.body {
        StepBody::ModelAnswered { reply, profile, model } if reply.text == said.content => {
            let reply = ChatReply { text: String::new(), ..reply.clone() };
            let body = StepBody::ModelAnswered { reply, profile: profile.clone(), model: model.clone() };
            insert(connection, event_seq, &Step { body, ..step.clone() }, Some(said.turn))
        }
        StepBody::ModelAnswered { .. }
        | StepBody::ApprovalAsked { .. }
        | StepBody::ApprovalDecided { .. }
        | StepBody::ToolStarted { .. }
        | StepBody::UntrustedRead { .. }
        | StepBody::ToolAnswered { .. } => insert(connection, event_seq, step, None),
    }
}

fn insert(
    connection: &Connection,
    event_seq: i64,
    step: &Step,
    text_turn: Option<i64>,
) -> Result<(), StoreError> {
    let number = count(connection, event_seq)?;
    let body = serde_json::to_string(&step.body).map_err(|error| StoreError::Fault(error.to_string()))?;
    connection
        .prepare_cached(
            "INSERT INTO turn_steps(event_seq, number, kind, body_json, created_at, checksum, text_turn)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?
        .execute(params![
            event_seq,
            number,
            step.body.kind(),
            body,
            step.at.0,
            checksum::of(&[&body], &[event_seq, number, step.at.0]),
            text_turn,
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
        "SELECT number, created_at, body_json, checksum, text_turn FROM turn_steps WHERE event_seq = ?1
         ORDER BY number",
    )?;
    let rows = statement.query_map([event_seq], |row| {
        let (number, at, body): (u32, i64, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok((number, at, body, row.get::<_, u32>(3)?, row.get::<_, Option<i64>>(4)?))
    })?;
    rows.map(|row| {
        let (number, at, body, sum, text_turn) = row?;
        let damaged = |what: &str| StoreError::Damaged(format!("step {number} of event {event_seq}: {what}"));
        if checksum::of(&[&body], &[event_seq, i64::from(number), at]) != sum {
            return Err(damaged("it does not match its checksum"));
        }
        let mut body: StepBody = serde_json::from_str(&body).map_err(|error| damaged(&error.to_string()))?;
        if let (Some(turn), StepBody::ModelAnswered { reply, .. }) = (text_turn, &mut body) {
            reply.text = turn::content_of(connection, turn, event_seq)?;
        }
        Ok(Step { number, at: Millis(at), body })
    })
    .collect()
}
