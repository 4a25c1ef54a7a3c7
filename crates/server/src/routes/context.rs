//! `/api/v2/context`: what the model would see in a topic now.

use super::gardener::gardener;
use super::inbox::checked;
use crate::body::JsonBody;
use crate::fields::Fields;
use crate::json::Json;
use crate::refusal::Refusal;
use crate::state::AppState;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use cortex_api::{
    ContextCompacted, ContextQuery, ContextSection, ContextShown, ContextUndone, ErrorBody, ErrorCode,
};
use cortex_runtime::{ContextError, GardenerAnswer};
use cortex_types::TopicRef;

/// The prompt of a topic, part by part.
#[utoipa::path(get, path = "/api/v2/context", tag = "context", params(ContextQuery), responses(
    (status = 200, body = ContextShown), (status = 400, body = ErrorBody), (status = 404, body = ErrorBody),
    (status = 409, body = ErrorBody, description = "Several sources have such a topic"),
))]
pub(crate) async fn show(
    State(app): State<AppState>,
    query: Result<Query<ContextQuery>, QueryRejection>,
) -> Result<Json<ContextShown>, Refusal> {
    let query = checked(query)?;
    let desk = app.runtime.context();
    let topic = desk.topic(&query.topic, query.source.as_deref()).await?;
    let shown = desk.show(topic).await?;
    let sections: Vec<ContextSection> = shown
        .sections
        .into_iter()
        .map(|section| ContextSection {
            name: section.name.as_str().to_owned(),
            tokens: section.tokens,
            text: section.text,
        })
        .collect();
    Ok(Json(ContextShown {
        source: shown.topic.source,
        topic_key: shown.topic.topic_key,
        tokens: sections.iter().map(|section| section.tokens).sum::<u32>() + shown.tool_tokens,
        sections,
        tool_tokens: shown.tool_tokens,
        window: shown.window,
    }))
}

/// Let a summary stand for the older turns of a topic now. Every turn stays.
#[utoipa::path(post, path = "/api/v2/context/compact", tag = "context", request_body = ContextQuery, responses(
    (status = 200, body = ContextCompacted), (status = 400, body = ErrorBody), (status = 404, body = ErrorBody),
    (status = 409, body = ErrorBody, description = "Several sources have such a topic"),
))]
pub(crate) async fn compact(
    State(app): State<AppState>,
    JsonBody(body): JsonBody,
) -> Result<Json<ContextCompacted>, Refusal> {
    let topic = named_topic(&app, &body).await?;
    let (done, report) = match gardener(&app)?.compact_topic(&topic).await {
        GardenerAnswer::Done { report } => (true, report),
        GardenerAnswer::Failed { reason } => (false, reason),
        GardenerAnswer::AlreadyRunning => (false, "it is being compacted already".to_owned()),
    };
    Ok(Json(ContextCompacted { source: topic.source, topic_key: topic.topic_key, done, report }))
}

/// Take the newest summary of a topic back: its turns are seen again.
#[utoipa::path(post, path = "/api/v2/context/undo", tag = "context", request_body = ContextQuery, responses(
    (status = 200, body = ContextUndone), (status = 400, body = ErrorBody), (status = 404, body = ErrorBody),
    (status = 409, body = ErrorBody, description = "Several sources have such a topic"),
))]
pub(crate) async fn undo(
    State(app): State<AppState>,
    JsonBody(body): JsonBody,
) -> Result<Json<ContextUndone>, Refusal> {
    let topic = named_topic(&app, &body).await?;
    let undone = app.runtime.context().undo(topic.clone()).await?;
    Ok(Json(ContextUndone {
        source: topic.source,
        topic_key: topic.topic_key,
        summary: undone.map(|summary| summary.content),
    }))
}

async fn named_topic(
    app: &AppState,
    body: &serde_json::Map<String, serde_json::Value>,
) -> Result<TopicRef, Refusal> {
    let mut fields = Fields::of(body);
    let topic = fields.name("topic");
    let source = fields.optional("source").map(|_| ()).map(|()| fields.name("source"));
    fields.finish()?;
    Ok(app.runtime.context().topic(&topic, source.as_deref()).await?)
}

impl From<ContextError> for Refusal {
    fn from(error: ContextError) -> Self {
        match error {
            ContextError::NoTopic(_) => Self::because(ErrorCode::NotFound, error.to_string()),
            ContextError::Ambiguous { .. } => Self::because(ErrorCode::Conflict, error.to_string()),
            ContextError::Store(error) => error.into(),
        }
    }
}
