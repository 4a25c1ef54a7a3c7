//! `GET /api/v2/connectors`: the connectors that the server keeps running.

use crate::WireTime;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Every connector that the settings enable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConnectorList {
    pub items: Vec<ConnectorRow>,
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
