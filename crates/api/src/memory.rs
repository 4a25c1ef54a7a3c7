//! `/api/v2/memory`: what is remembered, for its owner.

use crate::{Client, ClientError, WireTime, schema};
use cortex_types::{FactId, FactSourceKind, FactTier};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// `GET /api/v2/memory?…`, newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase")]
pub struct FactQuery {
    /// global, user, channel or topic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// Which user, channel or topic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(schema_with = schema::fact_tier, required = false)]
    pub tier: Option<FactTier>,
    /// Only those that stand in every prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pinned: Option<bool>,
    /// Only those that no person has looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unreviewed: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 500)]
    pub limit: Option<u32>,
    /// The `nextCursor` of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FactList {
    pub items: Vec<FactRow>,
    /// Absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// A fact.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FactRow {
    #[schema(value_type = String, example = "fct_01J00000000000000000000000")]
    pub fact_id: FactId,
    pub text: String,
    #[schema(required = true)]
    pub category: Option<String>,
    /// global, user, channel or topic.
    pub scope: String,
    /// Empty for a global fact.
    pub scope_key: String,
    #[schema(schema_with = schema::fact_tier)]
    pub tier: FactTier,
    pub pinned: bool,
    /// The topic it was learned in from what others wrote; nothing else sees it until a person has looked. None is reviewed.
    #[schema(required = true)]
    pub unreviewed_in: Option<String>,
    /// From 0 to 1; it fades by the day.
    pub strength: f64,
    pub hit_count: u32,
    pub created_at: WireTime,
    pub updated_at: WireTime,
    pub last_accessed_at: WireTime,
    /// Where it came from, oldest first.
    pub sources: Vec<FactSourceRow>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FactSourceRow {
    #[schema(schema_with = schema::fact_source_kind)]
    pub kind: FactSourceKind,
    /// An event, an op, a file or a user.
    pub reference: String,
    /// As this source said it.
    pub text: String,
    pub at: WireTime,
}

/// `GET /api/v2/memory/search?…`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase")]
pub struct MemoryQuery {
    pub query: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 100)]
    pub limit: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MemoryHits {
    pub items: Vec<MemoryHit>,
}

/// Something that was found; a higher score is a better hit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemoryHit {
    #[schema(inline)]
    pub kind: MemoryHitKind,
    pub score: f64,
    /// A fact's id, or the event that a line of the history belongs to.
    pub id: String,
    pub text: String,
    /// A fact's category, or who said the line.
    #[schema(required = true)]
    pub label: Option<String>,
    pub at: WireTime,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum MemoryHitKind {
    Fact,
    Turn,
}

/// `GET /api/v2/memory/status`: memory in numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemoryState {
    /// The Engram service that keeps what is learned from now on; none when it is kept in this home.
    #[schema(required = true)]
    pub engram_url: Option<String>,
    pub facts: FactNumbers,
    pub turns: TurnNumbers,
    pub embedder: EmbedderState,
    pub vectors: VectorNumbers,
    pub reembedding: ReembeddingState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FactNumbers {
    pub hot: u64,
    pub cold: u64,
    /// Of the hot ones.
    pub pinned: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TurnNumbers {
    /// Lines of the history, without silence.
    pub said: u64,
    pub indexed: u64,
}

/// Who makes the vectors.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EmbedderState {
    pub model: String,
    /// None while it has made no vector.
    #[schema(required = true)]
    pub dims: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VectorNumbers {
    /// Facts and indexed turns.
    pub texts: u64,
    /// Those that have a vector of the model in use.
    pub done: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReembeddingState {
    pub is_running: bool,
    /// Why the last vector could not be made.
    #[schema(required = true)]
    pub last_error: Option<String>,
}

/// What to change; what is not named stays.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FactChange {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
}

/// What an import did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ImportAnswer {
    pub created: u64,
    /// Further sources of facts that said the same.
    pub merged: u64,
    /// Were here already.
    pub known: u64,
    /// Were pinned where they come from; here as many as fit are pinned already.
    pub unpinned: u64,
}

impl Client {
    pub async fn facts(&self, query: &FactQuery) -> Result<FactList, ClientError> {
        self.get("/api/v2/memory", query).await
    }

    pub async fn search_memory(&self, query: &MemoryQuery) -> Result<MemoryHits, ClientError> {
        self.get("/api/v2/memory/search", query).await
    }

    pub async fn memory_state(&self) -> Result<MemoryState, ClientError> {
        self.get("/api/v2/memory/status", &()).await
    }

    pub async fn fact(&self, fact: &FactId) -> Result<FactRow, ClientError> {
        self.get(&format!("/api/v2/memory/{fact}"), &()).await
    }

    pub async fn edit_fact(&self, fact: &FactId, change: &FactChange) -> Result<FactRow, ClientError> {
        self.post(&format!("/api/v2/memory/{fact}"), change).await
    }

    pub async fn pin_fact(&self, fact: &FactId) -> Result<FactRow, ClientError> {
        self.post(&format!("/api/v2/memory/{fact}/pin"), &serde_json::json!({})).await
    }

    /// A person has looked at it: it holds wherever its scope does.
    pub async fn review_fact(&self, fact: &FactId) -> Result<FactRow, ClientError> {
        self.post(&format!("/api/v2/memory/{fact}/review"), &serde_json::json!({})).await
    }

    pub async fn unpin_fact(&self, fact: &FactId) -> Result<FactRow, ClientError> {
        self.post(&format!("/api/v2/memory/{fact}/unpin"), &serde_json::json!({})).await
    }

    /// The fact as it was; it is gone.
    pub async fn forget_fact(&self, fact: &FactId) -> Result<FactRow, ClientError> {
        self.post(&format!("/api/v2/memory/{fact}/forget"), &serde_json::json!({})).await
    }

    /// Every fact, a line of JSON each.
    pub async fn export_memory(&self) -> Result<String, ClientError> {
        self.get_text("/api/v2/memory/export").await
    }

    /// Takes the lines of an export.
    pub async fn import_memory(&self, lines: String) -> Result<ImportAnswer, ClientError> {
        self.post_text("/api/v2/memory/import", lines).await
    }
}
