//! `/api/v2/outbox`: messages on their way out, for people.

use super::inbox::{checked, page};
use crate::json::Json;
use crate::path_id::PathId;
use crate::refusal::Refusal;
use crate::state::AppState;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use cortex_api::{ErrorBody, ErrorCode, OutboxList, OutboxQuery, OutboxRow};
use cortex_store::{DiscardOutcome, Page, RequeueOutcome};
use cortex_types::{OutboxId, OutboxStatus, blank_tokens};

/// Messages, newest first.
#[utoipa::path(get, path = "/api/v2/outbox", tag = "outbox", params(OutboxQuery), responses(
    (status = 200, body = OutboxList), (status = 400, body = ErrorBody),
))]
pub(crate) async fn list(
    State(app): State<AppState>,
    query: Result<Query<OutboxQuery>, QueryRejection>,
) -> Result<Json<OutboxList>, Refusal> {
    let query = checked(query)?;
    let page = page(query.limit, query.before.as_deref())?;
    Ok(Json(listed(app.store.outbox().list(query.status, query.source, page).await?)))
}

/// The dead letters, newest first.
#[utoipa::path(get, path = "/api/v2/outbox/dead", tag = "outbox", params(OutboxQuery), responses(
    (status = 200, body = OutboxList), (status = 400, body = ErrorBody),
))]
pub(crate) async fn dead(
    State(app): State<AppState>,
    query: Result<Query<OutboxQuery>, QueryRejection>,
) -> Result<Json<OutboxList>, Refusal> {
    let query = checked(query)?;
    let page = page(query.limit, query.before.as_deref())?;
    Ok(Json(listed(app.store.outbox().list(Some(OutboxStatus::Dead), query.source, page).await?)))
}

/// One message.
#[utoipa::path(get, path = "/api/v2/outbox/{id}", tag = "outbox", params(("id" = String, Path)), responses(
    (status = 200, body = OutboxRow), (status = 404, body = ErrorBody),
))]
pub(crate) async fn show(
    State(app): State<AppState>,
    PathId(id): PathId,
) -> Result<Json<OutboxRow>, Refusal> {
    found(&app, outbox_id(&id)?).await
}

/// Try a dead message again.
#[utoipa::path(post, path = "/api/v2/outbox/{id}/retry", tag = "outbox", params(("id" = String, Path)), responses(
    (status = 200, body = OutboxRow), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody),
))]
pub(crate) async fn retry(
    State(app): State<AppState>,
    PathId(id): PathId,
) -> Result<Json<OutboxRow>, Refusal> {
    let id = outbox_id(&id)?;
    match app.outbox.requeue(id.clone()).await? {
        RequeueOutcome::Requeued => found(&app, id).await,
        RequeueOutcome::NotFound => Err(Refusal::new(ErrorCode::NotFound)),
        RequeueOutcome::Is(status) => {
            Err(conflict(&id, status, "only a dead or discarded message can be retried"))
        }
        RequeueOutcome::HeldBack(reason) => {
            Err(Refusal::because(ErrorCode::Conflict, format!("{id} cannot be sent now: {reason}")))
        }
    }
}

/// Give a message up.
#[utoipa::path(post, path = "/api/v2/outbox/{id}/discard", tag = "outbox", params(("id" = String, Path)), responses(
    (status = 200, body = OutboxRow), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody),
))]
pub(crate) async fn discard(
    State(app): State<AppState>,
    PathId(id): PathId,
) -> Result<Json<OutboxRow>, Refusal> {
    let id = outbox_id(&id)?;
    match app.outbox.discard(id.clone()).await? {
        DiscardOutcome::Discarded => found(&app, id).await,
        DiscardOutcome::NotFound => Err(Refusal::new(ErrorCode::NotFound)),
        DiscardOutcome::Is(status) => Err(conflict(&id, status, "its way has ended already")),
    }
}

fn conflict(id: &OutboxId, status: OutboxStatus, rule: &str) -> Refusal {
    Refusal::because(ErrorCode::Conflict, format!("{id} is {status}; {rule}"))
}

async fn found(app: &AppState, id: OutboxId) -> Result<Json<OutboxRow>, Refusal> {
    let found = app.store.outbox().find(id).await?;
    found.map(|found| Json(row(found))).ok_or_else(|| Refusal::new(ErrorCode::NotFound))
}

fn outbox_id(text: &str) -> Result<OutboxId, Refusal> {
    text.parse().map_err(|_| Refusal::new(ErrorCode::NotFound))
}

fn listed(page: Page<cortex_store::OutboxMessage>) -> OutboxList {
    let next_cursor = page.next_before.map(|seq| seq.to_string());
    OutboxList { items: page.rows.into_iter().map(row).collect(), next_cursor }
}

pub(super) fn row(row: cortex_store::OutboxMessage) -> OutboxRow {
    OutboxRow {
        message_id: row.id,
        event_id: row.event,
        source: row.topic.source,
        topic_key: row.topic.topic_key,
        // A list is no place for what opens a question; whoever polls for its source gets it.
        text: blank_tokens(&row.text).into_owned(),
        payload: row.payload_json.and_then(|payload| serde_json::from_str(&blank_tokens(&payload)).ok()),
        status: row.status,
        attempts: row.attempts,
        next_attempt_at: row.next_attempt_at.into(),
        lease_expires_at: row.lease_expires_at.map(Into::into),
        last_error: row.last_error,
        created_at: row.created_at.into(),
        updated_at: row.updated_at.into(),
    }
}
