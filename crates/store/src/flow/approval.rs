//! Approvals: a turn waits for a person, who answers once; what was approved is exactly what runs.

use crate::engine::listing::{Listed, Page, PageRequest, ROW_BYTES, read_page};
use crate::engine::row::hex;
use crate::engine::savepoint::apart;
use crate::flow::trace::{self, NoteKind};
use crate::flow::turn::UntrustedLines;
use crate::{
    Store, StoreError,
    engine::{audit, capacity},
    flow::{outbox, step, topic, turn},
};
use cortex_types::{
    Approval, ApprovalId, ApprovalStatus, Decision, Event, GrantId, Millis, ModelCall, NewApproval, NewReply,
    Step, StepBody, TopicRef, asked_line,
};
use fail::fail_point;
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::time::Duration;

mod expire;
mod grant;
mod question;

pub(crate) use expire::journal_ended;
pub use grant::{Grant, Granted};
pub use question::{OpenQuestion, OpenQuestions};

/// Transitions of approvals.
pub struct Approvals<'a>(pub(crate) &'a Store);

/// A question and the message that asks it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskedApproval {
    pub approval: NewApproval,
    pub prompt: NewReply,
}

/// What a turn leaves on disk when it begins to wait.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Suspension {
    pub steps: Vec<Step>,
    pub asked: Vec<AskedApproval>,
    pub calls: Vec<ModelCall>,
    /// The lines that say what came with the event.
    pub attachments: Option<String>,
    pub untrusted: UntrustedLines,
}

/// What became of a turn that was to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Suspended {
    Waits,
    /// Nothing was written: only so many more questions of programs without a key may be open.
    TooMany {
        room: usize,
    },
}

/// Who answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answerer {
    /// Somebody in a channel; must be who was asked, where he was asked, unless he is an approver.
    Person { topic: TopicRef, user_id: String, is_approver: bool },
    /// Somebody whose source does not vouch for people: answers nothing, whoever he says he is.
    Unproven { topic: TopicRef, user_id: String },
    /// The owner at the command line or the API.
    Owner,
}

/// Which question is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApprovalKey {
    TokenSha256([u8; 32]),
    Id(ApprovalId),
}

/// What an answer did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resolved {
    /// This answer won.
    Decided {
        decision: Decision,
        approval: Approval,
    },
    /// Somebody was faster, or it had expired before.
    Already(Approval),
    /// It expired with this look.
    Expired(Approval),
    NotYours,
    Unknown,
}

impl Resolved {
    fn approval(&self) -> Option<&Approval> {
        match self {
            Self::Decided { approval, .. } | Self::Already(approval) | Self::Expired(approval) => {
                Some(approval)
            }
            Self::NotYours | Self::Unknown => None,
        }
    }
}

impl Approvals<'_> {
    /// Suspends a turn: questions, prompts, what was said so far in the history, the event `waiting` and its topic free,
    /// in one transaction (D9).
    pub async fn suspend(
        &self,
        event: &Event,
        suspension: Suspension,
        now: Millis,
    ) -> Result<Suspended, StoreError> {
        let event = event.clone();
        self.0
            .write(move |connection| {
                let room = question::room(connection, &event.topic.source)?;
                if suspension.asked.len() > room {
                    return Ok(Suspended::TooMany { room });
                }
                suspend(connection, &event, &suspension, now)?;
                capacity::left(&event.topic.source);
                Ok(Suspended::Waits)
            })
            .await
    }

    /// Answers a question; the first answer wins. `line` makes what the user is told.
    pub async fn resolve(
        &self,
        key: ApprovalKey,
        decision: Decision,
        by: Answerer,
        now: Millis,
        line: impl Fn(&Resolved) -> Option<NewReply> + Send + 'static,
    ) -> Result<Resolved, StoreError> {
        self.0.write(move |connection| resolve(connection, &key, decision, &by, now, &line)).await
    }

    /// Expires what nobody answered; returns how many. `line` tells each user.
    pub async fn expire_due(
        &self,
        now: Millis,
        line: impl Fn(&Resolved) -> Option<NewReply> + Send + 'static,
    ) -> Result<usize, StoreError> {
        self.0.write(move |connection| expire::expire_due(connection, now, &line)).await
    }

    pub async fn find(&self, id: ApprovalId) -> Result<Option<Approval>, StoreError> {
        self.0.read(move |connection| by_key(connection, &ApprovalKey::Id(id))).await
    }

    pub async fn find_by_token(&self, sha256: [u8; 32]) -> Result<Option<Approval>, StoreError> {
        self.0.read(move |connection| by_key(connection, &ApprovalKey::TokenSha256(sha256))).await
    }

    /// Newest first, those of sessions without a key behind all others; only open ones, or all.
    pub async fn list(&self, only_open: bool, page: PageRequest) -> Result<Page<Approval>, StoreError> {
        self.0.read(move |connection| list(connection, only_open, page)).await
    }
}

/// Where the places of questions on sources that proved themselves begin: all others stand behind them, so that one number
/// says how far a reader is.
const KNOWN_PLACES: i64 = 1 << 62;

struct ListedApproval {
    place: i64,
    approval: Approval,
}

impl Listed for ListedApproval {
    fn place(&self) -> i64 {
        self.place
    }

    fn bytes(&self) -> usize {
        let Approval { tool_arguments_json, question, preview, .. } = &self.approval;
        let preview = preview.as_ref().map_or(0, String::len);
        // The arguments are shown twice: as they run, and as the person saw them.
        ROW_BYTES + 2 * tool_arguments_json.len() + question.as_ref().map_or(0, String::len) + preview
    }
}

fn list(connection: &Connection, only_open: bool, page: PageRequest) -> Result<Page<Approval>, StoreError> {
    let (before, limit) = page.bounds();
    let filter = if only_open { "AND a.status = 'pending'" } else { "" };
    let select = |is_local: &str| {
        let sql = format!(
            "{SELECT} WHERE a.rowid < ?1 AND a.source {is_local} 'local:*' {filter} ORDER BY a.rowid DESC LIMIT ?2"
        );
        connection.prepare_cached(&sql)
    };
    let (mut known, mut local) = (select("NOT GLOB")?, select("GLOB")?);
    let listed = |first: i64| {
        move |row: &Row<'_>| {
            let place = first + row.get::<_, i64>("place")?;
            Ok(read(row).map(|approval| ListedApproval { place, approval }))
        }
    };
    let known = known.query_map([before.saturating_sub(KNOWN_PLACES), limit], listed(KNOWN_PLACES))?;
    let local = local.query_map([before, limit], listed(0))?;
    let rows = known.chain(local).map(|row| row?).take(usize::try_from(limit).unwrap_or(usize::MAX));
    let Page { rows, next_before } = read_page(rows, limit)?;
    Ok(Page { rows: rows.into_iter().map(|listed| listed.approval).collect(), next_before })
}

const SELECT: &str = "SELECT a.id, i.id, a.call_id, a.source, a.topic_key, a.user_id, a.tool_name, \
    a.tool_arguments_json, a.binding, a.status, a.resolved_by, a.resolved_at, a.expires_at, a.created_at, \
    a.question, a.preview, a.rowid AS place \
    FROM pending_approvals a JOIN inbox_messages i ON i.seq = a.event_seq";

fn read(row: &Row<'_>) -> Result<Approval, StoreError> {
    let id: String = row.get(0)?;
    let damaged = |what: &str| StoreError::Damaged(format!("approval {id}: {what}"));
    let event: String = row.get(1)?;
    let status: String = row.get(9)?;
    Ok(Approval {
        id: id.parse().map_err(|_| damaged("its id is no id"))?,
        event: event.parse().map_err(|_| damaged("its event is no id"))?,
        call_id: row.get(2)?,
        topic: TopicRef { source: row.get(3)?, topic_key: row.get(4)? },
        user_id: row.get(5)?,
        tool_name: row.get(6)?,
        tool_arguments_json: row.get(7)?,
        question: row.get(14)?,
        preview: row.get(15)?,
        binding: row.get(8)?,
        status: status.parse().map_err(|_| damaged("its status is unknown"))?,
        resolved_by: row.get(10)?,
        resolved_at: row.get::<_, Option<i64>>(11)?.map(Millis),
        expires_at: Millis(row.get(12)?),
        created_at: Millis(row.get(13)?),
    })
}

fn suspend(
    connection: &Connection,
    event: &Event,
    suspension: &Suspension,
    now: Millis,
) -> Result<(), StoreError> {
    let topic = turn::claimed_topic(connection, event)?;
    crate::work::usage::record(connection, Some(event.seq), &suspension.calls)?;
    for step in &suspension.steps {
        step::record(connection, event.seq, step)?;
    }
    let line = turn::Line {
        role: "user",
        content: &event.text,
        at: event.created_at,
        tokens: 0,
        attachments: suspension.attachments.as_deref(),
        event_seq: event.seq,
        untrusted: suspension.untrusted.heard,
    };
    // The next message of the topic is answered by somebody who knows what was said and asked before it.
    if !suspension.asked.is_empty() && !stands_in_history(connection, event.seq)? {
        turn::remember(connection, &event.topic, topic, &line)?;
    }
    for AskedApproval { approval, prompt } in &suspension.asked {
        let said = asked_line(&approval.tool_name, &approval.tool_arguments_json, ApprovalStatus::Pending);
        let untrusted = suspension.untrusted.said;
        let said =
            turn::Line { role: "assistant", content: &said, at: now, attachments: None, untrusted, ..line };
        let turn_id = turn::remember(connection, &event.topic, topic, &said)?;
        connection
            .prepare_cached(
                "INSERT INTO pending_approvals(id, approval_token, topic_key, user_id, tool_name,
                   tool_arguments_json, expires_at, created_at, source, event_seq, call_id, binding, prompt_id, question,
                   preview, turn_id)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)",
            )?
            .execute(params![
                approval.id.as_str(),
                hex(&approval.token_sha256),
                event.topic.topic_key,
                event.user_id,
                approval.tool_name,
                approval.tool_arguments_json,
                approval.expires_at.0,
                now.0,
                event.topic.source,
                event.seq,
                approval.call_id,
                approval.binding,
                prompt.id.as_str(),
                approval.question,
                approval.preview,
                turn_id,
            ])?;
        outbox::queue(connection, prompt, event.seq, now)?;
    }
    turn::rest(connection, event.seq, now)?;
    topic::release(connection, topic)?;
    fail_point!("approval.suspend.before_commit");
    Ok(())
}

fn resolve(
    connection: &Connection,
    key: &ApprovalKey,
    decision: Decision,
    by: &Answerer,
    now: Millis,
    line: &dyn Fn(&Resolved) -> Option<NewReply>,
) -> Result<Resolved, StoreError> {
    let Some(approval) = by_key(connection, key)? else { return Ok(Resolved::Unknown) };
    let name = match by {
        Answerer::Person { topic, user_id, is_approver } => {
            if !is_approver && (*topic != approval.topic || *user_id != approval.user_id) {
                return refuse(connection, &approval, topic, user_id, now);
            }
            user_id.as_str()
        }
        Answerer::Unproven { topic, user_id } => return refuse(connection, &approval, topic, user_id, now),
        Answerer::Owner => "owner",
    };
    let resolved = if approval.status != ApprovalStatus::Pending {
        audit::record(connection, now, "approval_replayed", approval.id.as_str(), name)?;
        Resolved::Already(approval)
    } else if approval.expires_at <= now || has_failed(connection, &approval)? {
        Resolved::Expired(close(connection, &approval, Decision::Expired, None, now)?)
    } else {
        Resolved::Decided { decision, approval: close(connection, &approval, decision, Some(name), now)? }
    };
    tell(connection, &resolved, line, now)?;
    fail_point!("approval.resolve.before_commit");
    Ok(resolved)
}

fn refuse(
    connection: &Connection,
    approval: &Approval,
    topic: &TopicRef,
    user_id: &str,
    now: Millis,
) -> Result<Resolved, StoreError> {
    let detail = format!("{} {} {user_id} tried to answer", topic.source, topic.topic_key);
    audit::record(connection, now, "approval_refused", approval.id.as_str(), &detail)?;
    Ok(Resolved::NotYours)
}

/// A turn that was given up runs nothing any more, so nobody is told that it does.
fn has_failed(connection: &Connection, approval: &Approval) -> Result<bool, StoreError> {
    let mut statement =
        connection.prepare_cached("SELECT status = 'failed' FROM inbox_messages WHERE seq = ?1")?;
    Ok(statement.query_row([event_of(connection, &approval.id)?], |row| row.get(0))?)
}

/// One conditional update decides; then the journal learns it, and the turn goes on with what was approved.
fn close(
    connection: &Connection,
    approval: &Approval,
    decision: Decision,
    by: Option<&str>,
    now: Millis,
) -> Result<Approval, StoreError> {
    let status = ApprovalStatus::from(decision);
    let changed = connection
        .prepare_cached(
            "UPDATE pending_approvals SET status = ?2, resolved_at = ?3, resolved_by = ?4
             WHERE id = ?1 AND status = 'pending'",
        )?
        .execute(params![approval.id.as_str(), status.as_str(), now.0, by])?;
    if changed != 1 {
        return Err(StoreError::Fault(format!("{} was resolved twice", approval.id)));
    }
    // What is damaged around a question must not keep it open.
    let blanked = apart(connection, || blank_token(connection, approval, now))?;
    let restated = apart(connection, || restate(connection, approval, status))?;
    for error in [blanked, restated].into_iter().filter_map(Result::err) {
        tracing::error!(approval = %approval.id, %error, "What was said of a question is damaged");
    }
    let seq = event_of(connection, &approval.id)?;
    let body = StepBody::ApprovalDecided {
        call_id: approval.call_id.clone(),
        approval: approval.id.clone(),
        decision,
    };
    let number = u32::try_from(step::count(connection, seq)?).unwrap_or(u32::MAX);
    step::record(connection, seq, &Step { number, at: now, body })?;
    audit::record(connection, now, "approval_resolved", approval.id.as_str(), status.as_str())?;
    if decision == Decision::Approved || !has_open(connection, seq)? {
        wake(connection, seq, "a question was answered", now)?;
    }
    let resolved = by_key(connection, &ApprovalKey::Id(approval.id.clone()))?;
    resolved.ok_or_else(|| StoreError::Fault(format!("{} is gone", approval.id)))
}

/// Whether the words of an event are in the history already, because it asked somebody.
pub(crate) fn stands_in_history(connection: &Connection, seq: i64) -> Result<bool, StoreError> {
    let mut asked = connection
        .prepare_cached("SELECT 1 FROM pending_approvals WHERE event_seq = ?1 AND turn_id IS NOT NULL")?;
    Ok(asked.exists([seq])?)
}

fn has_open(connection: &Connection, seq: i64) -> Result<bool, StoreError> {
    let mut open = connection
        .prepare_cached("SELECT 1 FROM pending_approvals WHERE event_seq = ?1 AND status = 'pending'")?;
    Ok(open.exists([seq])?)
}

/// What was approved runs at once, and the model goes on once nothing is open. A turn that runs now looks by itself
/// before it rests.
pub(crate) fn wake(connection: &Connection, seq: i64, reason: &str, now: Millis) -> Result<(), StoreError> {
    let woken = connection
        .prepare_cached(
            "UPDATE inbox_messages SET status = 'pending', due_at = 0, updated_at = ?2
             WHERE seq = ?1 AND status = 'waiting'",
        )?
        .execute([seq, now.0])?;
    if woken == 1 {
        trace::note(connection, seq, now, NoteKind::Requeued, reason)?;
        let topic: i64 = connection
            .prepare_cached("SELECT topic_id FROM inbox_messages WHERE seq = ?1")?
            .query_row([seq], |row| row.get(0))?;
        topic::refresh(connection, topic)?;
    }
    Ok(())
}

/// A token that was used or is void must not stay readable in the prompt (SECURITY 19).
fn blank_token(connection: &Connection, approval: &Approval, now: Millis) -> Result<(), StoreError> {
    let (id, event_seq): (String, i64) = connection
        .prepare_cached("SELECT prompt_id, event_seq FROM pending_approvals WHERE id = ?1")?
        .query_row([approval.id.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let prompt = outbox::Prompt { id: &id, topic: &approval.topic, event_seq, asked_at: approval.created_at };
    outbox::blank_prompt(connection, &prompt, now)
}

/// The line of the history that says what was asked says what came of it.
fn restate(connection: &Connection, approval: &Approval, status: ApprovalStatus) -> Result<(), StoreError> {
    let turn_id: Option<i64> = connection
        .prepare_cached("SELECT turn_id FROM pending_approvals WHERE id = ?1")?
        .query_row([approval.id.as_str()], |row| row.get(0))?;
    let Some(turn_id) = turn_id else { return Ok(()) };
    let said = asked_line(&approval.tool_name, &approval.tool_arguments_json, status);
    turn::restate(connection, &approval.topic, turn_id, &said)
}

fn tell(
    connection: &Connection,
    resolved: &Resolved,
    line: &dyn Fn(&Resolved) -> Option<NewReply>,
    now: Millis,
) -> Result<(), StoreError> {
    let (Some(reply), Some(approval)) = (line(resolved), resolved.approval()) else { return Ok(()) };
    // It belongs to the event that asked, so that its trace shows the answer too.
    outbox::queue(connection, &reply, event_of(connection, &approval.id)?, now)?;
    Ok(())
}

fn event_of(connection: &Connection, id: &ApprovalId) -> Result<i64, StoreError> {
    Ok(connection
        .prepare_cached("SELECT event_seq FROM pending_approvals WHERE id = ?1")?
        .query_row([id.as_str()], |row| row.get(0))?)
}

fn by_key(connection: &Connection, key: &ApprovalKey) -> Result<Option<Approval>, StoreError> {
    let (column, value) = match key {
        ApprovalKey::TokenSha256(digest) => ("approval_token", hex(digest)),
        ApprovalKey::Id(id) => ("id", id.to_string()),
    };
    let sql = format!("{SELECT} WHERE a.{column} = ?1");
    connection.prepare_cached(&sql)?.query_row([value], |row| Ok(read(row))).optional()?.transpose()
}
