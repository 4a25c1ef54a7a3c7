//! `/engram/*`: the built-in memory, spoken to as an Engram memory service.

use super::memory::exported;
use crate::body::{JsonBody, TextBody};
use crate::json::Json;
use crate::refusal::Refusal;
use crate::state::AppState;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use cortex_api::{
    EngramCapabilities, EngramContext, EngramFeatures, EngramForget, EngramForgotten, EngramHealth,
    EngramImported, EngramKept, EngramRecall, EngramRecalled, EngramRefused, EngramRemember,
    EngramRemembered, EngramRow, EngramStats, EngramWell,
};
use cortex_runtime::{MemoryError, NewMemory, Recall, RecalledItem, access_count};
use cortex_store::{Keep, KeptAs};
use cortex_types::{FactId, FactScope, FactSource, FactSourceKind, FactTier};
use http::StatusCode;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

const LIMIT: u32 = 10;
const LIMIT_MAX: u32 = 100;
const MIN_STRENGTH: f64 = 0.1;
/// Who says what comes through this door.
const CLIENT: &str = "engram";
/// Names that a client may give a memory besides its scope; they are kept in its metadata.
const MORE_IDS: [&str; 4] = ["session_id", "chat_id", "thread_id", "task_id"];

/// A refusal in Engram's shape.
#[derive(Debug)]
pub(crate) struct EngramRefusal {
    status: StatusCode,
    error: String,
}

impl EngramRefusal {
    fn bad(error: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, error: error.into() }
    }
}

impl IntoResponse for EngramRefusal {
    fn into_response(self) -> Response {
        (self.status, Json(EngramRefused { error: self.error })).into_response()
    }
}

impl From<Refusal> for EngramRefusal {
    fn from(refusal: Refusal) -> Self {
        let (status, error) = refusal.in_words();
        Self { status, error }
    }
}

impl From<MemoryError> for EngramRefusal {
    fn from(error: MemoryError) -> Self {
        Refusal::from(error).into()
    }
}

type Answer<T> = Result<Json<T>, EngramRefusal>;

/// Remember something.
#[utoipa::path(post, path = "/engram/remember", tag = "engram", request_body = EngramRemember, responses(
    (status = 200, body = EngramRemembered), (status = 400, body = EngramRefused),
))]
pub(crate) async fn remember(
    State(app): State<AppState>,
    body: Result<JsonBody, Refusal>,
) -> Answer<EngramRemembered> {
    let JsonBody(body) = body?;
    required(&body, "content")?;
    let metadata_json = metadata(&body);
    let request: EngramRemember = read(body)?;
    let new = NewMemory {
        text: request.content,
        category: request.category,
        scope: scope(request.scope_id),
        source: FactSource { kind: FactSourceKind::Import, reference: CLIENT.to_owned() },
        metadata_json,
        idempotency_key: request.idempotency_key,
        unreviewed_in: None,
        keep: if request.upsert { Keep::Upsert } else { Keep::Once },
    };
    let kept = app.runtime.memory().remember(new).await?;
    let status = match kept.outcome {
        // A replay gets the answer of the first time.
        KeptAs::Created | KeptAs::Replayed | KeptAs::Forgotten => EngramKept::Created,
        KeptAs::Updated | KeptAs::Merged => EngramKept::Updated,
    };
    Ok(Json(EngramRemembered { id: kept.id.to_string(), status }))
}

/// The best memories for a query; a blank one gets the strongest.
#[utoipa::path(post, path = "/engram/recall", tag = "engram", request_body = EngramRecall, responses(
    (status = 200, body = EngramRecalled), (status = 400, body = EngramRefused),
))]
pub(crate) async fn recall(
    State(app): State<AppState>,
    body: Result<JsonBody, Refusal>,
) -> Answer<EngramRecalled> {
    let JsonBody(body) = body?;
    if body.get("query").is_none_or(Value::is_null) {
        return Err(EngramRefusal::bad("query is required"));
    }
    let (memories, fallback_mode) = recalled(&app, read(body)?).await?;
    Ok(Json(EngramRecalled { memories, fallback_mode }))
}

/// Memories to begin a conversation with.
#[utoipa::path(post, path = "/engram/context/hydrate", tag = "engram", request_body = EngramRecall, responses(
    (status = 200, body = EngramContext), (status = 400, body = EngramRefused),
))]
pub(crate) async fn hydrate(
    State(app): State<AppState>,
    body: Result<JsonBody, Refusal>,
) -> Answer<EngramContext> {
    let JsonBody(mut body) = body?;
    body.entry("query").or_insert_with(|| json!(""));
    let (context, fallback_mode) = recalled(&app, read(body)?).await?;
    Ok(Json(EngramContext { context, fallback_mode }))
}

/// Forget a memory; one that is not there is not an error.
#[utoipa::path(post, path = "/engram/forget", tag = "engram", request_body = EngramForget, responses(
    (status = 200, body = EngramForgotten), (status = 400, body = EngramRefused),
))]
pub(crate) async fn forget(
    State(app): State<AppState>,
    body: Result<JsonBody, Refusal>,
) -> Answer<EngramForgotten> {
    let JsonBody(body) = body?;
    required(&body, "id")?;
    let request: EngramForget = read(body)?;
    let memory = app.runtime.memory();
    let deleted = match request.id.parse::<FactId>() {
        Ok(id) => match memory.find(id.clone()).await? {
            Some(fact) if fact.scope == scope(request.scope_id) => memory.forget(id).await?,
            Some(_) | None => false,
        },
        Err(_) => false,
    };
    Ok(Json(EngramForgotten { id: request.id, deleted }))
}

/// What this service can do.
#[utoipa::path(get, path = "/engram/capabilities", tag = "engram", responses((status = 200, body = EngramCapabilities)))]
pub(crate) async fn capabilities() -> Json<EngramCapabilities> {
    let tools = ["remember", "recall", "forget", "capabilities", "context_hydrate"];
    Json(EngramCapabilities {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        features: EngramFeatures {
            scopes: true,
            idempotency: true,
            context_hydration: true,
            work_items: false,
        },
        tools: tools.map(str::to_owned).to_vec(),
    })
}

/// How much is remembered.
#[utoipa::path(get, path = "/engram/stats", tag = "engram", responses((status = 200, body = EngramStats)))]
pub(crate) async fn stats(State(app): State<AppState>) -> Answer<EngramStats> {
    let memory = app.runtime.memory();
    let (hot, cold) = (memory.count(FactTier::Hot).await?, memory.count(FactTier::Cold).await?);
    Ok(Json(EngramStats { total: hot + cold, hot, cold }))
}

/// Whether the service is well.
#[utoipa::path(get, path = "/engram/health", tag = "engram", responses(
    (status = 200, body = EngramHealth), (status = 503, body = EngramHealth),
))]
pub(crate) async fn health(State(app): State<AppState>) -> (StatusCode, Json<EngramHealth>) {
    let (status, well) = match app.degraded() {
        None => (StatusCode::OK, EngramWell::Healthy),
        Some(_) => (StatusCode::SERVICE_UNAVAILABLE, EngramWell::Degraded),
    };
    (status, Json(EngramHealth { status: well }))
}

/// Every memory, a line of JSON each.
#[utoipa::path(get, path = "/engram/export", tag = "engram", responses(
    (status = 200, content_type = "application/x-ndjson", body = String),
))]
pub(crate) async fn export(State(app): State<AppState>) -> Result<impl IntoResponse, EngramRefusal> {
    Ok(exported(&app.runtime.memory(), None).await?)
}

/// Take the lines of an export; what is here already changes nothing.
#[utoipa::path(post, path = "/engram/import", tag = "engram",
    request_body(content = String, content_type = "application/x-ndjson"), responses(
    (status = 200, body = EngramImported), (status = 400, body = EngramRefused),
))]
pub(crate) async fn import(
    State(app): State<AppState>,
    lines: Result<TextBody, Refusal>,
) -> Answer<EngramImported> {
    let TextBody(lines) = lines?;
    let done = app.runtime.memory().import(&lines, CLIENT).await?;
    Ok(Json(EngramImported { imported: done.created + done.merged, skipped: done.known }))
}

async fn recalled(app: &AppState, request: EngramRecall) -> Result<(Vec<EngramRow>, bool), EngramRefusal> {
    let limit = request.limit.unwrap_or(LIMIT);
    if !(1..=LIMIT_MAX).contains(&limit) {
        return Err(EngramRefusal::bad(format!("limit must be between 1 and {LIMIT_MAX}")));
    }
    let is_blank = request.query.trim().is_empty();
    let asked = Recall {
        scopes: request.scope_id.map(|id| vec![scope(Some(id)), FactScope::Global]),
        category: request.category,
        min_strength: request.min_strength.unwrap_or(MIN_STRENGTH),
        include_turns: false,
        ..Recall::of(&request.query, limit as usize)
    };
    let hits = app.runtime.memory().recall(asked).await?;
    let rows = hits.into_iter().filter_map(|hit| match hit.item {
        RecalledItem::Fact { fact, strength } => Some(EngramRow {
            id: fact.id.to_string(),
            content: fact.text,
            category: fact.category,
            strength,
            relevance: hit.score,
            created_at: fact.created_at.into(),
            access_count: access_count(fact.hit_count),
        }),
        RecalledItem::Turn(_) => None,
    });
    Ok((rows.collect(), is_blank))
}

fn scope(scope_id: Option<String>) -> FactScope {
    scope_id.filter(|id| !id.is_empty()).map_or(FactScope::Global, FactScope::Topic)
}

fn required(body: &Map<String, Value>, field: &str) -> Result<(), EngramRefusal> {
    let text = body.get(field).and_then(Value::as_str).unwrap_or_default();
    if text.trim().is_empty() { Err(EngramRefusal::bad(format!("{field} is required"))) } else { Ok(()) }
}

fn read<T: DeserializeOwned>(body: Map<String, Value>) -> Result<T, EngramRefusal> {
    serde_json::from_value(Value::Object(body)).map_err(|error| EngramRefusal::bad(error.to_string()))
}

/// The client's own metadata and its other names for the memory.
fn metadata(body: &Map<String, Value>) -> Option<String> {
    let mut metadata = body.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
    for name in MORE_IDS {
        if let Some(id) = body.get(name).filter(|id| id.is_string()) {
            metadata.entry(name).or_insert_with(|| id.clone());
        }
    }
    (!metadata.is_empty()).then(|| Value::Object(metadata).to_string())
}
