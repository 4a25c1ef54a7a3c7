//! `/engram/*`: the shapes of the Engram memory service, as its clients know them.

use crate::WireTime;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `POST /engram/remember`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EngramRemember {
    pub content: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chat_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub metadata: Option<serde_json::Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// A known key gets this content; needs a key.
    #[serde(default)]
    pub upsert: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EngramRemembered {
    pub id: String,
    #[schema(inline)]
    pub status: EngramKept,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum EngramKept {
    Created,
    Updated,
}

/// `POST /engram/recall` and `POST /engram/context/hydrate`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EngramRecall {
    /// A blank one asks for the strongest memories.
    pub query: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 100)]
    pub limit: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 1)]
    pub min_strength: Option<f64>,
    /// This scope and what has none; without it, everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope_id: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EngramRecalled {
    pub memories: Vec<EngramRow>,
    /// The query was blank.
    pub fallback_mode: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EngramContext {
    pub context: Vec<EngramRow>,
    pub fallback_mode: bool,
}

/// A memory as it is recalled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EngramRow {
    pub id: String,
    pub content: String,
    #[schema(required = true)]
    pub category: Option<String>,
    /// As it had faded before this recall made it strong again.
    pub strength: f64,
    /// Higher is better.
    pub relevance: f64,
    pub created_at: WireTime,
    pub access_count: u32,
}

/// `POST /engram/forget`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EngramForget {
    pub id: String,
    /// The scope of the memory; without it, only one that has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope_id: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EngramForgotten {
    pub id: String,
    pub deleted: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EngramCapabilities {
    pub version: String,
    #[schema(inline)]
    pub features: EngramFeatures,
    pub tools: Vec<String>,
}

/// What an Engram may be able to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EngramFeatures {
    pub scopes: bool,
    pub idempotency: bool,
    pub context_hydration: bool,
    pub work_items: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EngramStats {
    pub total: u64,
    pub hot: u64,
    pub cold: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EngramHealth {
    #[schema(inline)]
    pub status: EngramWell,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum EngramWell {
    Healthy,
    Degraded,
}

/// What an import did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EngramImported {
    pub imported: u64,
    /// Were here already.
    pub skipped: u64,
}

/// Every refusal below `/engram`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EngramRefused {
    #[schema(example = "content is required")]
    pub error: String,
}
