//! `POST /ingest`: an event comes in and is on disk before the answer.

use crate::auth::Caller;
use crate::body::JsonBody;
use crate::fields::Fields;
use crate::json::Json;
use crate::moment::{BadMoment, parse_iso};
use crate::refusal::Refusal;
use crate::speaker;
use crate::state::AppState;
use axum::extract::State;
use cortex_api::{ErrorBody, ErrorCode, IngestAnswer, IngestRequest, IngestStatus};
use cortex_runtime::IncomingEvent;
use cortex_types::{AcceptedEvent, Millis, Priority};
use fail::fail_point;
use http::StatusCode;
use serde_json::{Map, Value};

/// Queue a new inbound event.
#[utoipa::path(post, path = "/ingest", tag = "connector", request_body = IngestRequest, responses(
    (status = 202, body = IngestAnswer, description = "Queued and on disk"),
    (status = 200, body = IngestAnswer, description = "The same source and externalMessageId was here before, or the channel is off"),
    (status = 400, body = ErrorBody), (status = 401, body = ErrorBody), (status = 413, body = ErrorBody),
    (status = 403, body = ErrorBody, description = "The key belongs to another source, or the name to another connector"),
    (status = 503, body = ErrorBody, description = "The disk does not take it; nothing was kept"),
))]
pub(crate) async fn ingest(
    State(app): State<AppState>,
    caller: Caller,
    JsonBody(body): JsonBody,
) -> Result<(StatusCode, Json<IngestAnswer>), Refusal> {
    let (source, event) = read_event(&body)?;
    let speaker = speaker::of_request(&caller, &source)?;
    let accepted = app.intake.accept(&speaker, event).await?;
    fail_point!("ingest.before_response");
    answered(accepted)
}

/// What the sender is told.
pub(crate) fn answered(accepted: AcceptedEvent) -> Result<(StatusCode, Json<IngestAnswer>), Refusal> {
    let (code, event_id, status) = match accepted {
        AcceptedEvent::Queued(id) => (StatusCode::ACCEPTED, Some(id), IngestStatus::Queued),
        AcceptedEvent::Duplicate { first, .. } => {
            (StatusCode::OK, Some(first), IngestStatus::DuplicateIgnored)
        }
        AcceptedEvent::ChannelOff => (StatusCode::OK, None, IngestStatus::ChannelOff),
        AcceptedEvent::NameRefused(why) => {
            return Err(Refusal::because(ErrorCode::Forbidden, why.to_string()));
        }
    };
    Ok((code, Json(IngestAnswer { event_id, status })))
}

/// Checks the body of an ingest: the source it claims, and the event. A refusal names every bad field.
pub fn read_event(body: &Map<String, Value>) -> Result<(String, IncomingEvent), Refusal> {
    let mut fields = Fields::of(body);
    let source = fields.name("source");
    let external_message_id = fields.name("externalMessageId");
    let idempotency_key = fields.name("idempotencyKey");
    let topic_key = fields.name("topicKey");
    let user_id = fields.name("userId");
    let text = fields.text("text");
    let occurred_at = read_occurred_at(&mut fields);
    let (metadata_json, priority) = read_metadata(&mut fields);
    fields.finish()?;
    let event = IncomingEvent {
        external_message_id,
        idempotency_key,
        topic_key,
        user_id,
        text,
        occurred_at,
        metadata_json,
        priority,
    };
    Ok((source, event))
}

fn read_occurred_at(fields: &mut Fields<'_>) -> Millis {
    let Some(value) = fields.optional("occurredAt") else {
        fields.complain("occurredAt is required".to_owned());
        return Millis::default();
    };
    let complaint = match value.as_str().ok_or(BadMoment::NotIso).and_then(parse_iso) {
        Ok(moment) => return moment,
        Err(BadMoment::NotIso) => "occurredAt must be a valid ISO 8601 date string",
        Err(BadMoment::Implausible) => "occurredAt must be between the years 1970 and 2999",
    };
    fields.complain(complaint.to_owned());
    Millis::default()
}

fn read_metadata(fields: &mut Fields<'_>) -> (Option<String>, Priority) {
    let Some(value) = fields.optional("metadata") else { return (None, Priority::default()) };
    let Some(metadata) = value.as_object() else {
        fields.complain("metadata must be an object".to_owned());
        return (None, Priority::default());
    };
    let priority = read_priority(metadata);
    if priority.is_none() {
        fields.complain("metadata.priority must be urgent, normal or background".to_owned());
    }
    (Some(value.to_string()), priority.unwrap_or_default())
}

/// `metadata.priority`; none when it is no such word.
pub(crate) fn read_priority(metadata: &Map<String, Value>) -> Option<Priority> {
    match metadata.get("priority") {
        None | Some(Value::Null) => Some(Priority::default()),
        Some(word) => word.as_str().and_then(Priority::from_word),
    }
}
