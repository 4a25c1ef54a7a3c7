//! `/api/v2/events/{id}`: the whole way of an event, and its answer while it grows.

use super::inbox::{self, event_id};
use super::outbox_admin;
use crate::auth::Caller;
use crate::json::Json;
use crate::live::{Reader, Waiting, watch};
use crate::path_id::PathId;
use crate::refusal::Refusal;
use crate::state::AppState;
use axum::extract::State;
use axum::response::sse::{Event as SseEvent, KeepAlive, Sse};
use cortex_api::{ErrorBody, ErrorCode, EventTrace, TraceEntry, TraceWhat};
use cortex_store::{AuditRow, NoteKind, TraceNote};
use cortex_types::limits::TRACE_LINE_CHARS_MAX;
use cortex_types::{InboxStatus, Millis, OutboxStatus, StepBody};
use futures::{Stream, StreamExt};

/// The whole way of an event.
#[utoipa::path(get, path = "/api/v2/events/{id}/trace", tag = "event", params(("id" = String, Path)), responses(
    (status = 200, body = EventTrace), (status = 404, body = ErrorBody),
))]
pub(crate) async fn trace(
    State(app): State<AppState>,
    PathId(id): PathId,
) -> Result<Json<EventTrace>, Refusal> {
    let id = event_id(&id)?;
    let audit = app.store.audit_of(id.to_string()).await?;
    let trace = app.store.trace(id).await?.ok_or_else(|| Refusal::new(ErrorCode::NotFound))?;
    let entries = entries(&trace, &audit);
    let replies = trace.replies.into_iter().map(outbox_admin::row).collect();
    Ok(Json(EventTrace { event: inbox::row(trace.event), replies, entries }))
}

/// The answer while it grows: a preview, never a delivery.
#[utoipa::path(get, path = "/api/v2/events/{id}/live", tag = "event", params(("id" = String, Path)), responses(
    (status = 200, body = String, content_type = "text/event-stream"), (status = 404, body = ErrorBody),
))]
pub(crate) async fn live(
    State(app): State<AppState>,
    caller: Caller,
    PathId(id): PathId,
) -> Result<Sse<impl Stream<Item = Result<SseEvent, serde_json::Error>> + use<>>, Refusal> {
    let id = event_id(&id)?;
    if caller.key_id().is_some() {
        let event = app.store.inbox().find(id.clone()).await?;
        let event = event.ok_or_else(|| Refusal::new(ErrorCode::NotFound))?;
        caller.may_see(&event.topic.source)?;
    }
    let watched = watch(&app.store, &app.bus, id, Reader::from(&caller), Waiting::GoesOn).await?;
    let watched = watched.ok_or_else(|| Refusal::new(ErrorCode::NotFound))?;
    let watching = app.clone();
    let over = async move {
        tokio::select! {
            () = watching.stopping.cancelled() => {}
            () = watching.keys.revoked(&caller) => {}
        }
    };
    let watched = watched.take_until(over);
    let events = watched.map(|event| Ok(SseEvent::default().event(event.name()).data(event.data()?)));
    Ok(Sse::new(events).keep_alive(KeepAlive::default()))
}

fn entries(trace: &cortex_store::TracedEvent, audit: &[AuditRow]) -> Vec<TraceEntry> {
    let mut entries = Vec::new();
    let mut add = |at: Millis, what: TraceWhat, detail: String| {
        entries.push(TraceEntry { at: at.into(), what, detail })
    };
    let event = &trace.event;
    add(
        event.created_at,
        TraceWhat::Received,
        format!("{} {}", event.topic.source, event.external_message_id),
    );
    for line in audit.iter().rev() {
        add(line.at, TraceWhat::Duplicate, line.detail.clone());
    }
    // A claim is noted when the next one follows; it stands before what came of it in the same millisecond.
    let is_claim = |note: &&TraceNote| matches!(note.kind, NoteKind::Claimed | NoteKind::Leased);
    for note in trace.notes.iter().filter(is_claim) {
        add(note.at, note_word(note.kind), note.detail.clone());
    }
    if let Some(at) = trace.claimed_at {
        add(at, TraceWhat::Claimed, format!("attempt {}", event.attempts));
    }
    for note in trace.notes.iter().filter(|note| !is_claim(note)) {
        add(note.at, note_word(note.kind), note.detail.clone());
    }
    for step in &trace.steps {
        for line in step_lines(&step.body) {
            add(step.at, TraceWhat::Step, line);
        }
    }
    match event.status {
        InboxStatus::Done if trace.replies.is_empty() => {
            add(event.updated_at, TraceWhat::Finished, "silence".to_owned())
        }
        InboxStatus::Done => add(event.updated_at, TraceWhat::Finished, String::new()),
        InboxStatus::Failed => {
            add(event.updated_at, TraceWhat::Failed, event.error.clone().unwrap_or_default())
        }
        InboxStatus::Waiting => add(event.updated_at, TraceWhat::Waiting, String::new()),
        InboxStatus::Pending | InboxStatus::Processing => {}
    }
    for reply in &trace.replies {
        if reply.status == OutboxStatus::Suppressed {
            let reason = reply.last_error.clone().unwrap_or_default();
            add(reply.updated_at, TraceWhat::Suppressed, format!("{}: {reason}", reply.id));
            continue;
        }
        add(reply.created_at, TraceWhat::Queued, reply.id.to_string());
        if let Some(at) = reply.leased_at {
            add(at, TraceWhat::Leased, format!("{}, attempt {}", reply.id, reply.attempts));
        }
        if let Some(at) = reply.delivered_at {
            add(at, TraceWhat::Acked, reply.id.to_string());
        }
    }
    // Stable: what happened in one millisecond stays in the order of the walk.
    entries.sort_by_key(|entry| entry.at);
    entries
}

fn note_word(kind: NoteKind) -> TraceWhat {
    match kind {
        NoteKind::Claimed => TraceWhat::Claimed,
        NoteKind::Leased => TraceWhat::Leased,
        NoteKind::RetryPlanned => TraceWhat::Retry,
        NoteKind::Restarted | NoteKind::Rescued => TraceWhat::Recovered,
        NoteKind::Parked => TraceWhat::Parked,
        NoteKind::Requeued => TraceWhat::Requeued,
        NoteKind::Nacked => TraceWhat::Nacked,
        NoteKind::LeaseExpired => TraceWhat::LeaseExpired,
        NoteKind::Dead => TraceWhat::Dead,
        NoteKind::Discarded => TraceWhat::Discarded,
    }
}

/// A line for a step, and one for each call that a model's answer asks for.
fn step_lines(body: &StepBody) -> Vec<String> {
    let calls = match body {
        StepBody::ModelAnswered { reply, .. } => reply.tool_calls.as_slice(),
        StepBody::ApprovalAsked { .. }
        | StepBody::ApprovalDecided { .. }
        | StepBody::ToolStarted { .. }
        | StepBody::UntrustedRead { .. }
        | StepBody::ToolAnswered { .. } => &[],
    };
    let asked = calls.iter().map(|call| format!("{} called with {}", call.name, call.arguments_json));
    std::iter::once(step_line(body)).chain(asked).map(|line| cut(&line)).collect()
}

fn cut(line: &str) -> String {
    let mut letters = line.char_indices();
    match letters.nth(TRACE_LINE_CHARS_MAX) {
        Some((end, _)) => format!("{}… {} more characters", &line[..end], letters.count() + 1),
        None => line.to_owned(),
    }
}

fn step_line(body: &StepBody) -> String {
    match body {
        StepBody::ModelAnswered { reply, profile, model } => {
            let calls = reply.tool_calls.len();
            let asked = if calls == 0 { String::new() } else { format!(", {calls} tool calls") };
            format!("{profile} {model} answered, {} tokens{asked}", reply.usage.total())
        }
        StepBody::ApprovalAsked { approval, call_id } => format!("{approval} asked about {call_id}"),
        StepBody::ApprovalDecided { approval, decision, .. } => format!("{approval} {}", decision.as_str()),
        StepBody::ToolStarted { name, .. } => format!("{name} started"),
        StepBody::UntrustedRead { from } => format!("read what others wrote: {from}"),
        StepBody::ToolAnswered { name, text, ending, .. } => format!("{name} {}: {text}", ending.as_str()),
    }
}
