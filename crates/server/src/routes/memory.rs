//! `/api/v2/memory`: the owner looks at what is remembered, and changes it.

use super::inbox::{checked, page};
use crate::body::{JsonBody, TextBody};
use crate::fields::Fields;
use crate::json::Json;
use crate::path_id::PathId;
use crate::refusal::Refusal;
use crate::state::AppState;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::response::IntoResponse;
use cortex_api::{
    EmbedderState, ErrorBody, ErrorCode, FactChange, FactList, FactNumbers, FactQuery, FactRow,
    FactSourceRow, ImportAnswer, MemoryHit, MemoryHitKind, MemoryHits, MemoryQuery, MemoryState,
    ReembeddingState, TurnNumbers, VectorNumbers,
};
use cortex_runtime::{
    EngramClient, MemoryDesk, MemoryError, Recall, Recalled, RecalledItem, Unreviewed, strength,
};
use cortex_store::{FactFilter, StoreError};
use cortex_types::{Fact, FactId, FactScope, FactTier, Millis};
use http::header::CONTENT_TYPE;

/// Who changes facts here.
const OWNER: &str = "owner";
/// How a hit is labelled that no person has looked at.
const UNREVIEWED: &str = "unreviewed";
const SEARCH_LIMIT: u32 = 10;
const SEARCH_LIMIT_MAX: u32 = 100;

/// Facts, newest first.
#[utoipa::path(get, path = "/api/v2/memory", tag = "memory", params(FactQuery), responses(
    (status = 200, body = FactList), (status = 400, body = ErrorBody),
))]
pub(crate) async fn list(
    State(app): State<AppState>,
    query: Result<Query<FactQuery>, QueryRejection>,
) -> Result<Json<FactList>, Refusal> {
    let query = checked(query)?;
    let page = page(query.limit, query.before.as_deref())?;
    let filter = FactFilter {
        scopes: scope(&query)?,
        category: query.category,
        tier: query.tier,
        pinned: query.pinned.unwrap_or(false),
        unreviewed: query.unreviewed.unwrap_or(false),
    };
    let found = app.runtime.memory().list(filter, page).await?;
    let now = app.clock.now();
    let next_cursor = found.next_before.map(|seq| seq.to_string());
    Ok(Json(FactList { items: found.rows.into_iter().map(|fact| row(fact, now)).collect(), next_cursor }))
}

/// The best hits among facts and what was said.
#[utoipa::path(get, path = "/api/v2/memory/search", tag = "memory", params(MemoryQuery), responses(
    (status = 200, body = MemoryHits), (status = 400, body = ErrorBody),
))]
pub(crate) async fn search(
    State(app): State<AppState>,
    query: Result<Query<MemoryQuery>, QueryRejection>,
) -> Result<Json<MemoryHits>, Refusal> {
    let query = checked(query)?;
    let limit = query.limit.unwrap_or(SEARCH_LIMIT);
    if !(1..=SEARCH_LIMIT_MAX).contains(&limit) {
        return Err(Refusal::invalid(vec![format!("limit must be between 1 and {SEARCH_LIMIT_MAX}")]));
    }
    let asked = Recall { unreviewed: Unreviewed::All, ..Recall::of(&query.query, limit as usize) };
    let hits = app.runtime.memory().recall(asked).await?;
    Ok(Json(MemoryHits { items: hits.into_iter().map(hit).collect() }))
}

/// Memory in numbers, and how far its vectors have come.
#[utoipa::path(get, path = "/api/v2/memory/status", tag = "memory", responses((status = 200, body = MemoryState)))]
pub(crate) async fn status(State(app): State<AppState>) -> Result<Json<MemoryState>, Refusal> {
    let status = app.runtime.memory().status().await?;
    let (facts, turns) = (status.vectors.facts, status.vectors.turns);
    Ok(Json(MemoryState {
        engram_url: app.runtime.engram().map(EngramClient::place),
        facts: FactNumbers { hot: status.hot, cold: status.cold, pinned: status.pinned },
        turns: TurnNumbers { said: status.turns.said, indexed: status.turns.indexed },
        embedder: EmbedderState { model: status.vectors.model, dims: status.dims },
        vectors: VectorNumbers { texts: facts.texts + turns.texts, done: facts.embedded + turns.embedded },
        reembedding: ReembeddingState {
            is_running: status.progress.is_running,
            last_error: status.progress.last_error,
        },
    }))
}

/// One fact with where it came from.
#[utoipa::path(get, path = "/api/v2/memory/{id}", tag = "memory", params(("id" = String, Path)), responses(
    (status = 200, body = FactRow), (status = 404, body = ErrorBody),
))]
pub(crate) async fn show(State(app): State<AppState>, PathId(id): PathId) -> Result<Json<FactRow>, Refusal> {
    found(&app, &fact_id(&id)?).await
}

/// Change a fact's text or category; what is not named stays.
#[utoipa::path(post, path = "/api/v2/memory/{id}", tag = "memory", params(("id" = String, Path)),
    request_body = FactChange, responses(
    (status = 200, body = FactRow), (status = 400, body = ErrorBody), (status = 404, body = ErrorBody),
))]
pub(crate) async fn edit(
    State(app): State<AppState>,
    PathId(id): PathId,
    JsonBody(body): JsonBody,
) -> Result<Json<FactRow>, Refusal> {
    let mut fields = Fields::of(&body);
    let text = fields.optional("text").map(|_| fields.text("text"));
    let category = fields.optional("category").map(|_| fields.name("category"));
    if text.is_none() && category.is_none() {
        fields.complain("text or category is required".to_owned());
    }
    fields.finish()?;
    let id = fact_id(&id)?;
    changed(app.runtime.memory().edit(id.clone(), text, category, OWNER).await?)?;
    found(&app, &id).await
}

/// Keep a fact in every prompt.
#[utoipa::path(post, path = "/api/v2/memory/{id}/pin", tag = "memory", params(("id" = String, Path)), responses(
    (status = 200, body = FactRow), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody),
))]
pub(crate) async fn pin(State(app): State<AppState>, PathId(id): PathId) -> Result<Json<FactRow>, Refusal> {
    let id = fact_id(&id)?;
    changed(app.runtime.memory().pin(id.clone()).await?)?;
    found(&app, &id).await
}

/// A person has looked at a fact that was learned from what others wrote: it holds wherever its scope does.
#[utoipa::path(post, path = "/api/v2/memory/{id}/review", tag = "memory", params(("id" = String, Path)), responses(
    (status = 200, body = FactRow), (status = 404, body = ErrorBody),
))]
pub(crate) async fn review(
    State(app): State<AppState>,
    PathId(id): PathId,
) -> Result<Json<FactRow>, Refusal> {
    let id = fact_id(&id)?;
    changed(app.runtime.memory().review(id.clone()).await?)?;
    found(&app, &id).await
}

/// Let a fact go cold again.
#[utoipa::path(post, path = "/api/v2/memory/{id}/unpin", tag = "memory", params(("id" = String, Path)), responses(
    (status = 200, body = FactRow), (status = 404, body = ErrorBody),
))]
pub(crate) async fn unpin(State(app): State<AppState>, PathId(id): PathId) -> Result<Json<FactRow>, Refusal> {
    let id = fact_id(&id)?;
    changed(app.runtime.memory().unpin(id.clone()).await?)?;
    found(&app, &id).await
}

/// Take a fact away for good; the answer shows it for the last time.
#[utoipa::path(post, path = "/api/v2/memory/{id}/forget", tag = "memory", params(("id" = String, Path)), responses(
    (status = 200, body = FactRow), (status = 404, body = ErrorBody),
))]
pub(crate) async fn forget(
    State(app): State<AppState>,
    PathId(id): PathId,
) -> Result<Json<FactRow>, Refusal> {
    let id = fact_id(&id)?;
    let last = match app.runtime.memory().find(id.clone()).await {
        // That it cannot be read is one reason more to want it gone.
        Err(MemoryError::Store(StoreError::Damaged(_))) => damaged_row(id.clone(), app.clock.now()),
        fact => row(fact?.ok_or_else(|| Refusal::new(ErrorCode::NotFound))?, app.clock.now()),
    };
    changed(app.runtime.memory().forget(id).await?)?;
    Ok(Json(last))
}

/// Every fact, a line of JSON each.
#[utoipa::path(get, path = "/api/v2/memory/export", tag = "memory", responses(
    (status = 200, content_type = "application/x-ndjson", body = String),
))]
pub(crate) async fn export(State(app): State<AppState>) -> Result<impl IntoResponse, Refusal> {
    Ok(exported(&app.runtime.memory(), None).await?)
}

/// Take the lines of an export; what is here already changes nothing.
#[utoipa::path(post, path = "/api/v2/memory/import", tag = "memory",
    request_body(content = String, content_type = "application/x-ndjson"), responses(
    (status = 200, body = ImportAnswer), (status = 400, body = ErrorBody),
))]
pub(crate) async fn import(
    State(app): State<AppState>,
    TextBody(lines): TextBody,
) -> Result<Json<ImportAnswer>, Refusal> {
    let done = app.runtime.memory().import(&lines, OWNER).await?;
    Ok(Json(ImportAnswer {
        created: done.created,
        merged: done.merged,
        known: done.known,
        unpinned: done.unpinned,
    }))
}

/// The lines of an export as a body.
pub(super) async fn exported(
    memory: &MemoryDesk,
    scopes: Option<Vec<FactScope>>,
) -> Result<impl IntoResponse + use<>, MemoryError> {
    let mut lines = memory.export(scopes).await?.join("\n");
    if !lines.is_empty() {
        lines.push('\n');
    }
    Ok(([(CONTENT_TYPE, "application/x-ndjson")], lines))
}

async fn found(app: &AppState, id: &FactId) -> Result<Json<FactRow>, Refusal> {
    let fact = app.runtime.memory().find(id.clone()).await?;
    fact.map(|fact| Json(row(fact, app.clock.now()))).ok_or_else(|| Refusal::new(ErrorCode::NotFound))
}

fn changed(was_there: bool) -> Result<(), Refusal> {
    if was_there { Ok(()) } else { Err(Refusal::new(ErrorCode::NotFound)) }
}

fn fact_id(text: &str) -> Result<FactId, Refusal> {
    text.parse().map_err(|_| Refusal::new(ErrorCode::NotFound))
}

fn scope(query: &FactQuery) -> Result<Option<Vec<FactScope>>, Refusal> {
    let Some(kind) = &query.scope else { return Ok(None) };
    let key = query.scope_key.as_deref().unwrap_or_default();
    let scope = FactScope::from_parts(kind, key)
        .ok_or_else(|| Refusal::invalid(vec!["scope must be global, user, channel or topic".to_owned()]))?;
    Ok(Some(vec![scope]))
}

fn row(fact: Fact, now: Millis) -> FactRow {
    let strength = strength(&fact, now);
    let sources = fact.origins.into_iter().map(|origin| FactSourceRow {
        kind: origin.source.kind,
        reference: origin.source.reference,
        text: origin.text,
        at: origin.at.into(),
    });
    FactRow {
        fact_id: fact.id,
        text: fact.text,
        category: fact.category,
        scope: fact.scope.kind().to_owned(),
        scope_key: fact.scope.key().to_owned(),
        tier: fact.tier,
        pinned: fact.pinned,
        unreviewed_in: fact.unreviewed_in,
        strength,
        hit_count: fact.hit_count,
        created_at: fact.created_at.into(),
        updated_at: fact.updated_at.into(),
        last_accessed_at: fact.last_accessed_at.into(),
        sources: sources.collect(),
    }
}

/// What is told of a fact that cannot be read and is gone now.
fn damaged_row(fact_id: FactId, now: Millis) -> FactRow {
    FactRow {
        fact_id,
        text: "(damaged on disk; its words could not be read)".to_owned(),
        category: None,
        scope: String::new(),
        scope_key: String::new(),
        tier: FactTier::Cold,
        pinned: false,
        unreviewed_in: None,
        strength: 0.0,
        hit_count: 0,
        created_at: now.into(),
        updated_at: now.into(),
        last_accessed_at: now.into(),
        sources: Vec::new(),
    }
}

fn hit(found: Recalled) -> MemoryHit {
    let score = found.score;
    match found.item {
        RecalledItem::Fact { fact, .. } => MemoryHit {
            kind: MemoryHitKind::Fact,
            score,
            id: fact.id.to_string(),
            text: fact.text,
            label: if fact.unreviewed_in.is_some() { Some(UNREVIEWED.to_owned()) } else { fact.category },
            at: fact.created_at.into(),
        },
        RecalledItem::Turn(turn) => MemoryHit {
            kind: MemoryHitKind::Turn,
            score,
            id: turn.event.to_string(),
            label: Some(turn.speaker().to_owned()),
            text: turn.content,
            at: turn.at.into(),
        },
    }
}

impl From<MemoryError> for Refusal {
    fn from(error: MemoryError) -> Self {
        match error {
            MemoryError::Empty
            | MemoryError::TooLong
            | MemoryError::UpsertWithoutKey
            | MemoryError::BadLine { .. } => Self::invalid(vec![error.to_string()]),
            MemoryError::PinsFull => Self::because(ErrorCode::Conflict, error.to_string()),
            MemoryError::Store(error) => error.into(),
        }
    }
}
