//! Turns: their journal, their end in one transaction, and the history they leave.

use crate::trace::{self, NoteKind};
use crate::{Store, StoreError, checksum, op, outbox, step, topic, usage};
use cortex_types::limits::ERROR_CHARS_MAX;
use cortex_types::{Event, InboxStatus, Millis, ModelCall, NewReply, OpId, Step, TopicRef};
use fail::fail_point;
use rusqlite::{Connection, OptionalExtension, params};

/// Transitions of a running turn.
pub struct Turns<'a>(pub(crate) &'a Store);

/// How a turn ends or is put back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TurnEnd {
    Answered(FinishedTurn),
    /// Given up for good: the reason is kept and the user is told.
    Failed {
        reason: String,
        replies: Vec<NewReply>,
    },
    /// A transient failure: the event holds its topic and is tried again at `due_at`.
    RetryAt {
        due_at: Millis,
        reason: String,
    },
    /// The server stops: tried again at the next start, and this attempt does not count.
    Parked,
    /// Questions to a person are still open: the event waits and its topic is free.
    Waiting,
    /// The event was the answer to a question; it is no conversation and leaves no history.
    Handled {
        replies: Vec<NewReply>,
    },
}

/// What an answered turn leaves behind.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FinishedTurn {
    /// The last answer, when it is not yet in the journal.
    pub last_step: Option<Step>,
    /// What history keeps as the assistant's words.
    pub content: String,
    pub replies: Vec<NewReply>,
    /// Ops whose end the model saw in this turn; they are not shown again (D20).
    pub acknowledged: Vec<OpId>,
}

/// One line of a topic's history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryRow {
    pub id: i64,
    pub role: String,
    pub content: String,
    pub at: Millis,
}

impl Turns<'_> {
    /// Journals steps with what they cost, and queues what the user is told about them.
    pub async fn record_steps(
        &self,
        event: &Event,
        new: Vec<Step>,
        calls: Vec<ModelCall>,
        notices: Vec<NewReply>,
        now: Millis,
    ) -> Result<(), StoreError> {
        let seq = event.seq;
        self.0
            .write(move |connection| {
                usage::record(connection, Some(seq), &calls)?;
                new.iter().try_for_each(|step| step::record(connection, seq, step))?;
                notices.iter().try_for_each(|notice| outbox::queue(connection, notice, Some(seq), now))?;
                fail_point!("turn.record.before_commit");
                Ok(())
            })
            .await
    }

    /// Ends the turn of a claimed event: history, outbox, inbox row and topic change together or not at all.
    pub async fn finish_turn(
        &self,
        event: &Event,
        end: TurnEnd,
        calls: Vec<ModelCall>,
        now: Millis,
    ) -> Result<(), StoreError> {
        let event = event.clone();
        self.0.write(move |connection| finish(connection, &event, end, &calls, now)).await
    }

    /// The newest `limit` lines of a topic, oldest first.
    pub async fn history(&self, topic: TopicRef, limit: u32) -> Result<Vec<HistoryRow>, StoreError> {
        self.0.read(move |connection| history(connection, &topic, limit)).await
    }
}

fn finish(
    connection: &Connection,
    event: &Event,
    end: TurnEnd,
    calls: &[ModelCall],
    now: Millis,
) -> Result<(), StoreError> {
    let topic = claimed_topic(connection, event)?;
    usage::record(connection, Some(event.seq), calls)?;
    match end {
        TurnEnd::Answered(finished) => answer(connection, event, topic, &finished, now)?,
        TurnEnd::Failed { reason, replies } => {
            for reply in &replies {
                outbox::queue(connection, reply, Some(event.seq), now)?;
            }
            settle(connection, event.seq, InboxStatus::Failed, Some(&shorten(&reason)), now)?;
        }
        TurnEnd::RetryAt { due_at, reason } => {
            connection
                .prepare_cached(
                    "UPDATE inbox_messages SET status = 'pending', due_at = ?2, error = ?3, updated_at = ?4
                     WHERE seq = ?1",
                )?
                .execute(params![event.seq, due_at.0, shorten(&reason), now.0])?;
            trace::note(connection, event.seq, now, NoteKind::RetryPlanned, &shorten(&reason))?;
        }
        TurnEnd::Parked => {
            connection
                .prepare_cached(
                    "UPDATE inbox_messages SET status = 'pending', due_at = 0, attempts = attempts - 1,
                       updated_at = ?2 WHERE seq = ?1",
                )?
                .execute(params![event.seq, now.0])?;
            trace::note(connection, event.seq, now, NoteKind::Parked, "the server stopped during this turn")?;
        }
        TurnEnd::Waiting => settle(connection, event.seq, InboxStatus::Waiting, None, now)?,
        TurnEnd::Handled { replies } => {
            for reply in &replies {
                outbox::queue(connection, reply, Some(event.seq), now)?;
            }
            settle(connection, event.seq, InboxStatus::Done, None, now)?;
        }
    }
    topic::release(connection, topic)?;
    fail_point!("turn.finish.before_commit");
    Ok(())
}

fn answer(
    connection: &Connection,
    event: &Event,
    topic: i64,
    finished: &FinishedTurn,
    now: Millis,
) -> Result<(), StoreError> {
    if let Some(last) = &finished.last_step {
        step::record(connection, event.seq, last)?;
    }
    fail_point!("turn.finish.after_step");
    remember(connection, event, topic, "user", &event.text, event.created_at)?;
    remember(connection, event, topic, "assistant", &finished.content, now)?;
    fail_point!("turn.finish.after_history");
    for reply in &finished.replies {
        outbox::queue(connection, reply, Some(event.seq), now)?;
    }
    fail_point!("turn.finish.after_outbox");
    op::acknowledge(connection, &finished.acknowledged, now)?;
    settle(connection, event.seq, InboxStatus::Done, None, now)
}

/// The topic of an event this process has in flight; anything else is a claim that was lost.
pub(crate) fn claimed_topic(connection: &Connection, event: &Event) -> Result<i64, StoreError> {
    connection
        .prepare_cached("SELECT id FROM topics WHERE in_flight = ?1")?
        .query_row([event.seq], |row| row.get(0))
        .optional()?
        .ok_or_else(|| StoreError::Fault(format!("{} is not in flight", event.id)))
}

fn settle(
    connection: &Connection,
    seq: i64,
    status: InboxStatus,
    error: Option<&str>,
    now: Millis,
) -> Result<(), StoreError> {
    connection
        .prepare_cached("UPDATE inbox_messages SET status = ?2, error = ?3, updated_at = ?4 WHERE seq = ?1")?
        .execute(params![seq, status.as_str(), error, now.0])?;
    Ok(())
}

fn remember(
    connection: &Connection,
    event: &Event,
    topic: i64,
    role: &str,
    content: &str,
    at: Millis,
) -> Result<(), StoreError> {
    let sum = history_checksum(&event.topic, role, content, at);
    connection
        .prepare_cached(
            "INSERT INTO turns(topic_key, role, content, timestamp, topic_id, event_seq, checksum)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?
        .execute(params![event.topic.topic_key, role, content, at.0, topic, event.seq, sum])?;
    Ok(())
}

fn history_checksum(topic: &TopicRef, role: &str, content: &str, at: Millis) -> u32 {
    checksum::of(&[&topic.source, &topic.topic_key, role, content], &[at.0])
}

fn history(connection: &Connection, topic: &TopicRef, limit: u32) -> Result<Vec<HistoryRow>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT turns.id, role, content, timestamp, checksum FROM turns
         JOIN topics ON topics.id = turns.topic_id
         WHERE topics.source = ?1 AND topics.topic_key = ?2 ORDER BY turns.id DESC LIMIT ?3",
    )?;
    let rows = statement.query_map(params![topic.source, topic.topic_key, limit], |row| {
        let history =
            HistoryRow { id: row.get(0)?, role: row.get(1)?, content: row.get(2)?, at: Millis(row.get(3)?) };
        Ok((history, row.get::<_, u32>(4)?))
    })?;
    let mut newest_first: Vec<HistoryRow> = Vec::new();
    for row in rows {
        let (history, sum) = row?;
        // A damaged index leads to a row of the same topic twice.
        if newest_first.last().is_some_and(|later| later.id <= history.id) {
            return Err(StoreError::Damaged(format!("turn {} is out of order", history.id)));
        }
        if history_checksum(topic, &history.role, &history.content, history.at) != sum {
            return Err(StoreError::Damaged(format!("turn {} does not match its checksum", history.id)));
        }
        newest_first.push(history);
    }
    newest_first.reverse();
    Ok(newest_first)
}

pub(crate) fn shorten(text: &str) -> String {
    text.chars().take(ERROR_CHARS_MAX).collect()
}
