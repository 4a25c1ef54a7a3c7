//! `/api/v2/inbox`: the accepted events, for people.

use crate::json::Json;
use crate::path_id::PathId;
use crate::refusal::Refusal;
use crate::state::AppState;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use cortex_api::{ErrorBody, ErrorCode, InboxList, InboxQuery, InboxRow};
use cortex_store::{PageRequest, RetryRefused};
use cortex_types::{Event, EventId, blank_tokens};
use http::StatusCode;

/// Rows a listing has when nobody says.
pub(super) const LIMIT: u32 = 50;

/// Events, newest first.
#[utoipa::path(get, path = "/api/v2/inbox", tag = "inbox", params(InboxQuery), responses(
    (status = 200, body = InboxList), (status = 400, body = ErrorBody),
))]
pub(crate) async fn list(
    State(app): State<AppState>,
    query: Result<Query<InboxQuery>, QueryRejection>,
) -> Result<Json<InboxList>, Refusal> {
    let query = checked(query)?;
    let page = page(query.limit, query.before.as_deref())?;
    let found = app.store.inbox().list(query.status, page).await?;
    let next_cursor = found.next_before.map(|seq| seq.to_string());
    Ok(Json(InboxList { items: found.rows.into_iter().map(row).collect(), next_cursor }))
}

/// One event.
#[utoipa::path(get, path = "/api/v2/inbox/{id}", tag = "inbox", params(("id" = String, Path)), responses(
    (status = 200, body = InboxRow), (status = 404, body = ErrorBody),
))]
pub(crate) async fn show(State(app): State<AppState>, PathId(id): PathId) -> Result<Json<InboxRow>, Refusal> {
    let event = app.store.inbox().find(event_id(&id)?).await?;
    event.map(|event| Json(row(event))).ok_or_else(|| Refusal::new(ErrorCode::NotFound))
}

/// Try a failed event again.
#[utoipa::path(post, path = "/api/v2/inbox/{id}/retry", tag = "inbox", params(("id" = String, Path)), responses(
    (status = 202, body = InboxRow), (status = 404, body = ErrorBody),
    (status = 409, body = ErrorBody, description = "Only a failed event can be retried"),
))]
pub(crate) async fn retry(
    State(app): State<AppState>,
    PathId(id): PathId,
) -> Result<(StatusCode, Json<InboxRow>), Refusal> {
    let id = event_id(&id)?;
    app.intake.retry(id.clone()).await?.map_err(|refused| match refused {
        RetryRefused::NotFound => Refusal::new(ErrorCode::NotFound),
        RetryRefused::Is(status) => Refusal::because(
            ErrorCode::Conflict,
            format!("{id} is {status}; only a failed event can be retried"),
        ),
    })?;
    let event = app.store.inbox().find(id).await?.ok_or_else(|| Refusal::new(ErrorCode::NotFound))?;
    Ok((StatusCode::ACCEPTED, Json(row(event))))
}

/// A query string that cannot be read names what is wrong with it.
pub(super) fn checked<T>(query: Result<Query<T>, QueryRejection>) -> Result<T, Refusal> {
    query.map(|Query(query)| query).map_err(|error| Refusal::invalid(vec![error.body_text()]))
}

pub(super) fn page(limit: Option<u32>, before: Option<&str>) -> Result<PageRequest, Refusal> {
    let most = cortex_types::limits::LIST_ROWS_MAX;
    let limit = limit.unwrap_or(LIMIT);
    if !(1..=most).contains(&limit) {
        return Err(Refusal::invalid(vec![format!("limit must be between 1 and {most}")]));
    }
    let before = before.map(str::parse).transpose();
    let before =
        before.map_err(|_| Refusal::invalid(vec!["before must be the nextCursor of a page".to_owned()]))?;
    Ok(PageRequest { before, limit })
}

/// A text that is no event id names no event.
pub(super) fn event_id(text: &str) -> Result<EventId, Refusal> {
    text.parse().map_err(|_| Refusal::new(ErrorCode::NotFound))
}

pub(super) fn row(event: Event) -> InboxRow {
    InboxRow {
        event_id: event.id,
        source: event.topic.source,
        external_message_id: event.external_message_id,
        idempotency_key: event.idempotency_key,
        topic_key: event.topic.topic_key,
        user_id: event.user_id,
        // Rows from before may still hold a token.
        text: blank_tokens(&event.text).into_owned(),
        metadata: event
            .metadata_json
            .and_then(|metadata| serde_json::from_str(&blank_tokens(&metadata)).ok()),
        priority: event.priority,
        status: event.status,
        attempts: event.attempts,
        error: event.error,
        occurred_at: event.occurred_at.into(),
        created_at: event.created_at.into(),
        updated_at: event.updated_at.into(),
    }
}
