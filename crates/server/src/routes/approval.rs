//! `/api/v2/approvals` and `/api/v2/grants`: the owner answers questions.

use super::inbox::{checked, page};
use crate::body::JsonBody;
use crate::fields::Fields;
use crate::json::Json;
use crate::path_id::PathId;
use crate::refusal::Refusal;
use crate::state::AppState;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use cortex_api::{
    ApprovalList, ApprovalQuery, ApprovalRow, ErrorBody, ErrorCode, GrantAnswer, GrantList, GrantQuery,
    GrantRequest, GrantRow,
};
use cortex_store::{Grant, Granted, Resolved};
use cortex_types::{Approval, ApprovalId, ApprovalStatus, Decision, GrantId};
use http::StatusCode;
use std::time::Duration;

/// Longest grant.
const GRANT_SECONDS_MAX: u32 = 24 * 60 * 60;

/// Open questions, newest first.
#[utoipa::path(get, path = "/api/v2/approvals", tag = "approval", params(ApprovalQuery), responses(
    (status = 200, body = ApprovalList), (status = 400, body = ErrorBody),
))]
pub(crate) async fn list(
    State(app): State<AppState>,
    query: Result<Query<ApprovalQuery>, QueryRejection>,
) -> Result<Json<ApprovalList>, Refusal> {
    let query = checked(query)?;
    let page = page(query.limit, query.before.as_deref())?;
    let found = app.runtime.approvals().list(!query.all, page).await?;
    let next_cursor = found.next_before.map(|place| place.to_string());
    let items = found.rows.into_iter().map(|found| row(&app, found)).collect();
    Ok(Json(ApprovalList { items, next_cursor }))
}

/// One question.
#[utoipa::path(get, path = "/api/v2/approvals/{id}", tag = "approval", params(("id" = String, Path)), responses(
    (status = 200, body = ApprovalRow), (status = 404, body = ErrorBody),
))]
pub(crate) async fn show(
    State(app): State<AppState>,
    PathId(id): PathId,
) -> Result<Json<ApprovalRow>, Refusal> {
    let found = app.runtime.approvals().find(approval_id(&id)?).await?;
    found.map(|found| Json(row(&app, found))).ok_or_else(|| Refusal::new(ErrorCode::NotFound))
}

/// Let the call run.
#[utoipa::path(post, path = "/api/v2/approvals/{id}/approve", tag = "approval", params(("id" = String, Path)), responses(
    (status = 200, body = ApprovalRow), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody),
))]
pub(crate) async fn approve(
    State(app): State<AppState>,
    PathId(id): PathId,
) -> Result<Json<ApprovalRow>, Refusal> {
    decide(&app, &id, Decision::Approved).await
}

/// Do not let the call run.
#[utoipa::path(post, path = "/api/v2/approvals/{id}/deny", tag = "approval", params(("id" = String, Path)), responses(
    (status = 200, body = ApprovalRow), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody),
))]
pub(crate) async fn deny(
    State(app): State<AppState>,
    PathId(id): PathId,
) -> Result<Json<ApprovalRow>, Refusal> {
    decide(&app, &id, Decision::Denied).await
}

/// Allow exactly this call again for a while.
#[utoipa::path(post, path = "/api/v2/approvals/{id}/grant", tag = "approval", params(("id" = String, Path)),
    request_body = GrantRequest, responses(
    (status = 201, body = GrantAnswer), (status = 400, body = ErrorBody), (status = 404, body = ErrorBody),
    (status = 409, body = ErrorBody),
))]
pub(crate) async fn grant(
    State(app): State<AppState>,
    PathId(id): PathId,
    JsonBody(body): JsonBody,
) -> Result<(StatusCode, Json<GrantAnswer>), Refusal> {
    let mut fields = Fields::of(&body);
    let seconds = fields.number("seconds", 1, GRANT_SECONDS_MAX);
    if fields.optional("seconds").is_none() {
        fields.complain("seconds is required".to_owned());
    }
    fields.finish()?;
    let lasting = Duration::from_secs(u64::from(seconds.unwrap_or_default()));
    match app.runtime.approvals().grant(approval_id(&id)?, lasting).await? {
        Granted::Made(grant_id) => Ok((StatusCode::CREATED, Json(GrantAnswer { grant_id }))),
        Granted::Denied => {
            let why = format!(
                "{id} was denied; let the assistant ask again, and grant the call from that question"
            );
            Err(Refusal::because(ErrorCode::Conflict, why))
        }
        Granted::Unknown => Err(Refusal::new(ErrorCode::NotFound)),
    }
}

/// Grants, newest first.
#[utoipa::path(get, path = "/api/v2/grants", tag = "approval", params(GrantQuery), responses(
    (status = 200, body = GrantList), (status = 400, body = ErrorBody),
))]
pub(crate) async fn grants(
    State(app): State<AppState>,
    query: Result<Query<GrantQuery>, QueryRejection>,
) -> Result<Json<GrantList>, Refusal> {
    let query = checked(query)?;
    let found = app.runtime.approvals().grants(page(query.limit, query.before.as_deref())?).await?;
    let next_cursor = found.next_before.map(|place| place.to_string());
    Ok(Json(GrantList { items: found.rows.into_iter().map(grant_row).collect(), next_cursor }))
}

/// End a grant.
#[utoipa::path(post, path = "/api/v2/grants/{id}/revoke", tag = "approval", params(("id" = String, Path)), responses(
    (status = 204, description = "Revoked"), (status = 404, body = ErrorBody),
))]
pub(crate) async fn revoke(State(app): State<AppState>, PathId(id): PathId) -> Result<StatusCode, Refusal> {
    let id: GrantId = id.parse().map_err(|_| Refusal::new(ErrorCode::NotFound))?;
    if app.runtime.approvals().revoke(id).await? {
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(Refusal::new(ErrorCode::NotFound))
    }
}

async fn decide(app: &AppState, id: &str, decision: Decision) -> Result<Json<ApprovalRow>, Refusal> {
    match app.runtime.approvals().decide(approval_id(id)?, decision).await? {
        Resolved::Decided { approval, .. } => Ok(Json(row(app, approval))),
        Resolved::Already(approval) | Resolved::Expired(approval) => {
            Err(Refusal::because(ErrorCode::Conflict, answered_before(&approval)))
        }
        Resolved::NotYours | Resolved::Unknown => Err(Refusal::new(ErrorCode::NotFound)),
    }
}

/// Why a question takes no answer any more, and what to do.
fn answered_before(approval: &Approval) -> String {
    let id = &approval.id;
    match approval.status {
        ApprovalStatus::Expired => format!("{id} has expired and nothing was run; ask the assistant again"),
        ApprovalStatus::Denied => {
            format!("{id} was already denied; ask the assistant again to be asked anew")
        }
        ApprovalStatus::Approved | ApprovalStatus::Pending => {
            format!(
                "{id} was already {}; `cortex approvals show {id}` tells when and by whom",
                approval.status
            )
        }
    }
}

fn approval_id(text: &str) -> Result<ApprovalId, Refusal> {
    text.parse().map_err(|_| Refusal::new(ErrorCode::NotFound))
}

fn row(app: &AppState, approval: Approval) -> ApprovalRow {
    let question = app.runtime.approvals().question(&approval);
    ApprovalRow {
        approval_id: approval.id,
        event_id: approval.event,
        source: approval.topic.source,
        topic_key: approval.topic.topic_key,
        user_id: approval.user_id,
        tool_name: approval.tool_name,
        tool_arguments_json: approval.tool_arguments_json,
        question: question.words,
        verbatim: question.verbatim,
        status: approval.status,
        resolved_by: approval.resolved_by,
        resolved_at: approval.resolved_at.map(Into::into),
        expires_at: approval.expires_at.into(),
        created_at: approval.created_at.into(),
    }
}

fn grant_row(grant: Grant) -> GrantRow {
    GrantRow {
        grant_id: grant.id,
        source: grant.topic.source,
        topic_key: grant.topic.topic_key,
        user_id: grant.user_id,
        tool_name: grant.tool_name,
        tool_arguments_json: grant.tool_arguments_json,
        created_at: grant.created_at.into(),
        expires_at: grant.expires_at.into(),
        revoked_at: grant.revoked_at.map(Into::into),
    }
}
