//! `GET /api/v2/connectors`: the connectors that the server keeps running.

use crate::WireTime;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Every connector that the settings enable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConnectorList {
    pub items: Vec<ConnectorRow>,
    /// Connectors on this machine that came without a key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub local: Vec<LocalConnectorRow>,
}

/// A connector that came without a key, as it calls itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalConnectorRow {
    #[schema(example = "matrix-1")]
    pub connector_id: String,
    /// The source that it claimed first.
    pub source: String,
    /// Another source that was claimed under its name later, perhaps by another program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_source: Option<String>,
    /// The one source that it may use; null while you do not trust it, and it sees only its own conversation.
    #[schema(required = true)]
    pub trusted_source: Option<String>,
    pub first_seen_at: WireTime,
    /// When a socket of it was last opened, open or closed.
    pub last_seen_at: WireTime,
}

/// Which connector without a key to trust.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrustRequest {
    pub connector_id: String,
    /// The source that it may use; the one that it claims when this is missing. 409 when it claimed several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// Which connector to trust no longer, or to forget.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UntrustRequest {
    pub connector_id: String,
}

/// One connector's process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConnectorRow {
    #[schema(example = "telegram")]
    pub name: String,
    pub state: ConnectorState,
    /// Of the running process.
    #[schema(required = true)]
    pub pid: Option<u32>,
    /// Since when it is in this state.
    pub since: WireTime,
    /// How often it was started again.
    pub restarts: u32,
    /// Why it ended last.
    #[schema(required = true)]
    pub last_error: Option<String>,
}

/// `POST /api/v2/connectors/unbind`: forget which channel a source is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UnbindRequest {
    #[schema(example = "urn:connector:matrix-1", min_length = 1, max_length = 512)]
    pub source: String,
}

/// The source that is free again, and the channel that it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UnbindAnswer {
    pub source: String,
    pub channel: String,
    /// Messages that wait for the next connector of this source.
    pub waiting: u64,
    /// Messages that its mode no longer lets out; they have ended.
    pub suppressed: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ConnectorState {
    Running,
    /// It ended and is started again soon.
    Backoff,
    /// Its settings are wrong: it is not started again before the server is.
    Misconfigured,
}

impl ConnectorState {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Backoff => "backoff",
            Self::Misconfigured => "misconfigured",
        }
    }
}
