//! Turns: their journal, their end in one transaction, and the history they leave.

use crate::flow::outbox::Queued;
use crate::flow::step::SaidLine;
use crate::flow::trace::{self, NoteKind};
use crate::{
    Store, StoreError,
    engine::{capacity, checksum},
    flow::{approval, channel, checkpoint, outbox, step, topic},
    work::{op, usage},
};
use cortex_types::limits::ERROR_CHARS_MAX;
use cortex_types::{Event, EventId, InboxStatus, Millis, ModelCall, NewReply, OpId, Step, TopicRef};
use fail::fail_point;
use rusqlite::{CachedStatement, Connection, OptionalExtension, params, params_from_iter};

/// Transitions of a running turn.
pub struct Turns<'a>(pub(crate) &'a Store);

/// How a turn ends or is put back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TurnEnd {
    Answered(Box<FinishedTurn>),
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
    /// One that goes to another topic and is not suppressed is a line of that topic's history too.
    pub replies: Vec<NewReply>,
    /// Ops whose end the model saw in this turn; they are not shown again (D20).
    pub acknowledged: Vec<OpId>,
    /// Estimates of what the event's text and the content cost in a prompt; 0 is not counted.
    pub tokens: TurnTokens,
    /// The line that other channels see of this topic from now on.
    pub summary: String,
    /// The lines that say what came with the event.
    pub attachments: Option<String>,
    pub untrusted: UntrustedLines,
}

/// Which lines of an exchange mark a turn that sees them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UntrustedLines {
    /// The event's own text was written by others.
    pub heard: bool,
    /// The answer comes from a turn that read what others wrote.
    pub said: bool,
}

/// The tokens of one exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TurnTokens {
    pub heard: u32,
    pub said: u32,
}

/// One line of a topic's history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryRow {
    pub id: i64,
    pub role: String,
    pub content: String,
    pub at: Millis,
    /// An estimate; 0 is not counted.
    pub tokens: u32,
    /// The lines that say what came with it.
    pub attachments: Option<String>,
    /// Its turn had read what others wrote. Whether it holds others' words is for `holds_others` to say, which knows what came
    /// with it too.
    pub untrusted: bool,
}

impl Turns<'_> {
    /// What of others' words this event knew, as its journal has it; nothing while it is not marked.
    pub async fn untrusted_reads(&self, event: EventId) -> Result<Vec<String>, StoreError> {
        self.0
            .read(move |connection| {
                let mut read = connection.prepare_cached(
                    "SELECT body_json ->> '$.from' FROM turn_steps JOIN inbox_messages ON seq = event_seq
                     WHERE id = ?1 AND kind = 'untrusted_read'",
                )?;
                let reads = read.query_map([event.as_str()], |row| row.get::<_, Option<String>>(0))?;
                reads.map(|read| Ok(read?.unwrap_or_default())).collect()
            })
            .await
    }

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
                queue_all(connection, &notices, seq, now)?;
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
        let leaves = match &end {
            TurnEnd::Answered(_) | TurnEnd::Failed { .. } | TurnEnd::Waiting | TurnEnd::Handled { .. } => {
                true
            }
            TurnEnd::RetryAt { .. } | TurnEnd::Parked => false,
        };
        self.0
            .write(move |connection| {
                finish(connection, &event, end, &calls, now)?;
                if leaves {
                    capacity::left(&event.topic.source);
                }
                Ok(())
            })
            .await
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
            queue_all(connection, &replies, event.seq, now)?;
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
        TurnEnd::Waiting => rest(connection, event.seq, now)?,
        TurnEnd::Handled { replies } => {
            queue_all(connection, &replies, event.seq, now)?;
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
    let UntrustedLines { heard: is_heard_untrusted, said: untrusted } = finished.untrusted;
    let line = |role, content, at, tokens| Line {
        role,
        content,
        at,
        tokens,
        attachments: None,
        event_seq: event.seq,
        untrusted,
    };
    // What a turn heard before it asked somebody stands where it was said.
    if !approval::stands_in_history(connection, event.seq)? {
        let heard = Line {
            attachments: finished.attachments.as_deref(),
            untrusted: is_heard_untrusted,
            ..line("user", event.text.as_str(), event.created_at, finished.tokens.heard)
        };
        remember(connection, &event.topic, topic, &heard)?;
    } else if untrusted {
        connection
            .prepare_cached(
                "UPDATE turns SET untrusted = 1 WHERE topic_id = ?1 AND event_seq = ?2 AND role = 'assistant'",
            )?
            .execute([topic, event.seq])?;
    }
    let said = line("assistant", &finished.content, now, finished.tokens.said);
    let last_turn = remember(connection, &event.topic, topic, &said)?;
    fail_point!("turn.finish.after_history");
    if let Some(last) = &finished.last_step {
        let said = SaidLine { turn: last_turn, content: &finished.content };
        step::record_last(connection, event.seq, last, &said)?;
    }
    fail_point!("turn.finish.after_step");
    channel::spoke(connection, event, topic, &finished.summary, now)?;
    for reply in &finished.replies {
        let queued = outbox::queue(connection, reply, event.seq, now)?;
        if queued == Queued::Due && reply.topic != event.topic {
            let elsewhere = topic::find_or_add(connection, &reply.topic.source, &reply.topic.topic_key)?.id;
            let said = line("assistant", &reply.text, now, finished.tokens.said);
            remember(connection, &reply.topic, elsewhere, &said)?;
            channel::spoken_to(connection, elsewhere, &finished.summary, now)?;
        }
    }
    fail_point!("turn.finish.after_outbox");
    op::acknowledge(connection, &finished.acknowledged, now)?;
    checkpoint::record(connection, event, topic, last_turn, now)?;
    settle(connection, event.seq, InboxStatus::Done, None, now)
}

fn queue_all(
    connection: &Connection,
    replies: &[NewReply],
    event_seq: i64,
    now: Millis,
) -> Result<(), StoreError> {
    replies.iter().try_for_each(|reply| outbox::queue(connection, reply, event_seq, now).map(drop))
}

/// The topic of an event this process has in flight; anything else is a claim that was lost.
pub(crate) fn claimed_topic(connection: &Connection, event: &Event) -> Result<i64, StoreError> {
    connection
        .prepare_cached("SELECT id FROM topics WHERE in_flight = ?1")?
        .query_row([event.seq], |row| row.get(0))
        .optional()?
        .ok_or_else(|| StoreError::Fault(format!("{} is not in flight", event.id)))
}

/// A turn waits for a person, unless one answered while it ran: then it goes on. It gives its attempt back either way,
/// because waiting is no failure.
pub(crate) fn rest(connection: &Connection, seq: i64, now: Millis) -> Result<(), StoreError> {
    connection
        .prepare_cached(
            "UPDATE inbox_messages SET attempts = max(attempts - 1, 0), due_at = 0, updated_at = ?2,
               status = CASE WHEN EXISTS (SELECT 1 FROM turn_steps WHERE event_seq = seq AND number >= steps_at_claim
                 AND kind = 'approval_decided') THEN 'pending' ELSE 'waiting' END
             WHERE seq = ?1",
        )?
        .execute([seq, now.0])?;
    Ok(())
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

/// A line for the history.
pub(crate) struct Line<'a> {
    pub(crate) role: &'a str,
    pub(crate) content: &'a str,
    pub(crate) at: Millis,
    pub(crate) tokens: u32,
    pub(crate) attachments: Option<&'a str>,
    pub(crate) event_seq: i64,
    pub(crate) untrusted: bool,
}

/// Says something else in a line of the history; what was dropped meanwhile stays so.
pub(crate) fn restate(
    connection: &Connection,
    topic: &TopicRef,
    turn: i64,
    content: &str,
) -> Result<(), StoreError> {
    let found: Option<(String, Option<String>, i64)> = connection
        .prepare_cached("SELECT role, attachments, timestamp FROM turns WHERE id = ?1")?
        .query_row([turn], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    let Some((role, attachments, at)) = found else { return Ok(()) };
    let sum = history_checksum(topic, &role, content, attachments.as_deref(), Millis(at));
    connection
        .prepare_cached("UPDATE turns SET content = ?2, checksum = ?3, tokens = 0 WHERE id = ?1")?
        .execute(params![turn, content, sum])?;
    Ok(())
}

pub(crate) fn remember(
    connection: &Connection,
    topic: &TopicRef,
    topic_id: i64,
    line: &Line<'_>,
) -> Result<i64, StoreError> {
    let sum = history_checksum(topic, line.role, line.content, line.attachments, line.at);
    connection
        .prepare_cached(
            "INSERT INTO turns(topic_key, role, content, timestamp, topic_id, event_seq, checksum, tokens, attachments,
               untrusted)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        )?
        .execute(params![
            topic.topic_key,
            line.role,
            line.content,
            line.at.0,
            topic_id,
            line.event_seq,
            sum,
            line.tokens,
            line.attachments,
            line.untrusted,
        ])?;
    Ok(connection.last_insert_rowid())
}

/// The content of a line that an event left in its topic's history; nothing once the line was dropped as old.
pub(crate) fn content_of(connection: &Connection, turn: i64, event_seq: i64) -> Result<String, StoreError> {
    type Found = (TopicRef, String, String, Option<String>, i64, u32);
    let found: Option<Found> = connection
        .prepare_cached(
            "SELECT topics.source, turns.topic_key, role, content, attachments, timestamp, checksum
             FROM turns JOIN topics ON topics.id = topic_id WHERE turns.id = ?1 AND event_seq = ?2",
        )?
        .query_row([turn, event_seq], |row| {
            let topic = TopicRef { source: row.get(0)?, topic_key: row.get(1)? };
            Ok((topic, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?, row.get(6)?))
        })
        .optional()?;
    let Some((topic, role, content, attachments, at, sum)) = found else { return Ok(String::new()) };
    if history_checksum(&topic, &role, &content, attachments.as_deref(), Millis(at)) == sum {
        Ok(content)
    } else {
        Err(StoreError::Damaged(format!("turn {turn} does not match its checksum")))
    }
}

fn history_checksum(
    topic: &TopicRef,
    role: &str,
    content: &str,
    attachments: Option<&str>,
    at: Millis,
) -> u32 {
    let mut texts = vec![topic.source.as_str(), &topic.topic_key, role, content];
    texts.extend(attachments);
    checksum::of(&texts, &[at.0])
}

fn history(connection: &Connection, topic: &TopicRef, limit: u32) -> Result<Vec<HistoryRow>, StoreError> {
    match topic::find(connection, topic)? {
        Some(topic_id) => newest_after(connection, topic, topic_id, 0, 0, limit),
        None => Ok(Vec::new()),
    }
}

/// The newest `limit` lines of a topic behind the turn `after`, oldest first, without those of the event `but`.
pub(crate) fn newest_after(
    connection: &Connection,
    topic: &TopicRef,
    topic_id: i64,
    after: i64,
    but: i64,
    limit: u32,
) -> Result<Vec<HistoryRow>, StoreError> {
    let statement = connection.prepare_cached(
        "SELECT id, role, content, timestamp, tokens, attachments, checksum, untrusted FROM turns
         WHERE topic_id = ?1 AND id > ?2 AND event_seq <> ?4 ORDER BY id DESC LIMIT ?3",
    )?;
    let mut newest_first = lines(statement, topic, &[topic_id, after, i64::from(limit), but])?;
    // A damaged index leads to a row of the same topic twice.
    in_order(newest_first.iter().rev())?;
    newest_first.reverse();
    Ok(newest_first)
}

/// The oldest `limit` lines of a topic behind the turn `after`, oldest first.
pub(crate) fn oldest_after(
    connection: &Connection,
    topic: &TopicRef,
    after: i64,
    limit: u32,
) -> Result<Vec<HistoryRow>, StoreError> {
    let Some(topic_id) = topic::find(connection, topic)? else { return Ok(Vec::new()) };
    let statement = connection.prepare_cached(
        "SELECT id, role, content, timestamp, tokens, attachments, checksum, untrusted FROM turns
         WHERE topic_id = ?1 AND id > ?2 ORDER BY id LIMIT ?3",
    )?;
    let oldest_first = lines(statement, topic, &[topic_id, after, i64::from(limit)])?;
    in_order(oldest_first.iter())?;
    Ok(oldest_first)
}

fn lines(
    mut statement: CachedStatement<'_>,
    topic: &TopicRef,
    bounds: &[i64],
) -> Result<Vec<HistoryRow>, StoreError> {
    let rows = statement.query_map(params_from_iter(bounds), |row| {
        let history = HistoryRow {
            id: row.get(0)?,
            role: row.get(1)?,
            content: row.get(2)?,
            at: Millis(row.get(3)?),
            tokens: row.get(4)?,
            attachments: row.get(5)?,
            untrusted: row.get(7)?,
        };
        Ok((history, row.get::<_, u32>(6)?))
    })?;
    rows.map(|row| {
        let (history, sum) = row?;
        let attachments = history.attachments.as_deref();
        if history_checksum(topic, &history.role, &history.content, attachments, history.at) == sum {
            Ok(history)
        } else {
            Err(StoreError::Damaged(format!("turn {} does not match its checksum", history.id)))
        }
    })
    .collect()
}

fn in_order<'a>(lines: impl Iterator<Item = &'a HistoryRow>) -> Result<(), StoreError> {
    let mut before = 0;
    for line in lines {
        if line.id <= before {
            return Err(StoreError::Damaged(format!("turn {} is out of order", line.id)));
        }
        before = line.id;
    }
    Ok(())
}

pub(crate) fn shorten(text: &str) -> String {
    text.chars().take(ERROR_CHARS_MAX).collect()
}
