//! `/api/v2/ops`: the owner looks and cancels; whoever does the work reports its end.

use super::inbox::{checked, page};
use crate::body::JsonBody;
use crate::fields::Fields;
use crate::json::Json;
use crate::path_id::PathId;
use crate::refusal::Refusal;
use crate::state::AppState;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use cortex_api::{ErrorBody, ErrorCode, OpFailure, OpList, OpQuery, OpRequest, OpResult, OpRow};
use cortex_runtime::Dispatch;
use cortex_store::Settled;
use cortex_types::{Op, OpId, TopicRef};
use http::StatusCode;

/// The error of an op that the owner gave up.
const CANCELLED: &str = "cancelled by the owner";

/// Ops, newest first.
#[utoipa::path(get, path = "/api/v2/ops", tag = "op", params(OpQuery), responses(
    (status = 200, body = OpList), (status = 400, body = ErrorBody),
))]
pub(crate) async fn list(
    State(app): State<AppState>,
    query: Result<Query<OpQuery>, QueryRejection>,
) -> Result<Json<OpList>, Refusal> {
    let query = checked(query)?;
    let found = app.runtime.ops().list(query.status, page(query.limit, query.before.as_deref())?).await?;
    let next_cursor = found.next_before.map(|row| row.to_string());
    Ok(Json(OpList { items: found.rows.into_iter().map(row).collect(), next_cursor }))
}

/// One op.
#[utoipa::path(get, path = "/api/v2/ops/{id}", tag = "op", params(("id" = String, Path)), responses(
    (status = 200, body = OpRow), (status = 404, body = ErrorBody),
))]
pub(crate) async fn show(State(app): State<AppState>, PathId(id): PathId) -> Result<Json<OpRow>, Refusal> {
    let found = app.runtime.ops().find(op_id(&id)?).await?;
    found.map(|op| Json(row(op))).ok_or_else(|| Refusal::new(ErrorCode::NotFound))
}

/// Track work that was taken on for a conversation.
#[utoipa::path(post, path = "/api/v2/ops", tag = "op", request_body = OpRequest, responses(
    (status = 201, body = OpRow), (status = 400, body = ErrorBody),
))]
pub(crate) async fn add(
    State(app): State<AppState>,
    JsonBody(body): JsonBody,
) -> Result<(StatusCode, Json<OpRow>), Refusal> {
    let mut fields = Fields::of(&body);
    let dispatch = Dispatch {
        kind: fields.name("type"),
        description: fields.text("description"),
        topic: TopicRef { source: fields.name("source"), topic_key: fields.name("topicKey") },
        user_id: fields.name("userId"),
        event: None,
        expected_channel: fields.optional("expectedChannel").map(|_| fields.name("expectedChannel")),
        run_id: fields.optional("runId").map(|_| fields.name("runId")),
    };
    fields.finish()?;
    let desk = app.runtime.ops();
    let id = desk.add(dispatch).await?;
    let op = desk.find(id).await?.ok_or_else(|| Refusal::new(ErrorCode::NotFound))?;
    Ok((StatusCode::CREATED, Json(row(op))))
}

/// Report a result.
#[utoipa::path(post, path = "/api/v2/ops/{id}/complete", tag = "op", params(("id" = String, Path)),
    request_body = OpResult, responses(
    (status = 200, body = OpRow), (status = 400, body = ErrorBody), (status = 404, body = ErrorBody),
    (status = 409, body = ErrorBody, description = "The op has its end already"),
))]
pub(crate) async fn complete(
    State(app): State<AppState>,
    PathId(id): PathId,
    JsonBody(body): JsonBody,
) -> Result<Json<OpRow>, Refusal> {
    let mut fields = Fields::of(&body);
    let result = fields.text("result");
    fields.finish()?;
    settled(app.runtime.ops().complete(op_id(&id)?, result).await?)
}

/// Report a failure.
#[utoipa::path(post, path = "/api/v2/ops/{id}/fail", tag = "op", params(("id" = String, Path)),
    request_body = OpFailure, responses(
    (status = 200, body = OpRow), (status = 400, body = ErrorBody), (status = 404, body = ErrorBody),
    (status = 409, body = ErrorBody, description = "The op has its end already"),
))]
pub(crate) async fn fail(
    State(app): State<AppState>,
    PathId(id): PathId,
    JsonBody(body): JsonBody,
) -> Result<Json<OpRow>, Refusal> {
    let mut fields = Fields::of(&body);
    let error = fields.text("error");
    fields.finish()?;
    settled(app.runtime.ops().fail(op_id(&id)?, error).await?)
}

/// Give up waiting for an op.
#[utoipa::path(post, path = "/api/v2/ops/{id}/cancel", tag = "op", params(("id" = String, Path)), responses(
    (status = 200, body = OpRow), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody),
))]
pub(crate) async fn cancel(State(app): State<AppState>, PathId(id): PathId) -> Result<Json<OpRow>, Refusal> {
    settled(app.runtime.ops().fail(op_id(&id)?, CANCELLED.to_owned()).await?)
}

fn settled(settled: Settled) -> Result<Json<OpRow>, Refusal> {
    match settled {
        Settled::Now(op) => Ok(Json(row(op))),
        Settled::Already(op) => {
            Err(Refusal::because(ErrorCode::Conflict, format!("{} is {}", op.id, op.status)))
        }
        Settled::Unknown => Err(Refusal::new(ErrorCode::NotFound)),
    }
}

fn op_id(text: &str) -> Result<OpId, Refusal> {
    text.parse().map_err(|_| Refusal::new(ErrorCode::NotFound))
}

fn row(op: Op) -> OpRow {
    OpRow {
        op_id: op.id,
        kind: op.kind,
        description: op.description,
        status: op.status,
        source: op.topic.source,
        topic_key: op.topic.topic_key,
        user_id: op.user_id,
        expected_channel: op.expected_channel,
        run_id: op.run_id,
        dispatched_at: op.dispatched_at.into(),
        completed_at: op.completed_at.map(Into::into),
        result: op.result,
        acknowledged_at: op.acknowledged_at.map(Into::into),
        gardened_at: op.gardened_at.map(Into::into),
    }
}
