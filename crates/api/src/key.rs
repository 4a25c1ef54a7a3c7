//! `/api/v2/keys`: keys that belong to one connector.

use crate::WireTime;
use cortex_types::KeyId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A key that is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeyRequest {
    #[schema(example = "telegram at home", min_length = 1, max_length = 512)]
    pub name: String,
    /// The one source that it may use.
    #[schema(example = "telegram", min_length = 1, max_length = 512)]
    pub source: String,
}

/// The new key. It is shown this once; the server keeps only a digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NewKey {
    #[schema(value_type = String)]
    pub id: KeyId,
    pub name: String,
    pub source: String,
    pub key: String,
    /// Connectors that were trusted with the source without a key until now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub untrusted: Vec<String>,
}

/// A key as it can be recognised.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyInfo {
    #[schema(value_type = String)]
    pub id: KeyId,
    pub name: String,
    pub source: String,
    /// How it begins.
    pub prefix: String,
    pub created_at: WireTime,
    #[schema(required = true)]
    pub revoked_at: Option<WireTime>,
}

/// Which key is meant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeyChoice {
    /// Its id or its name.
    pub key: String,
}

/// The keys of connectors, the newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeyList {
    pub items: Vec<KeyInfo>,
}
