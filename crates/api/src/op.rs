//! `/api/v2/ops`: work in flight elsewhere, for people and for whoever does the work.

use crate::{Client, ClientError, WireTime, schema};
use cortex_types::{OpId, OpStatus};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// `GET /api/v2/ops?…`, newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase")]
pub struct OpQuery {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(schema_with = schema::op_status, required = false)]
    pub status: Option<OpStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 500)]
    pub limit: Option<u32>,
    /// The `nextCursor` of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct OpList {
    pub items: Vec<OpRow>,
    /// Absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// An op.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct OpRow {
    #[schema(value_type = String, example = "op_01J00000000000000000000000")]
    pub op_id: OpId,
    #[serde(rename = "type")]
    pub kind: String,
    pub description: String,
    #[schema(schema_with = schema::op_status)]
    pub status: OpStatus,
    pub source: String,
    pub topic_key: String,
    pub user_id: String,
    #[schema(required = true)]
    pub expected_channel: Option<String>,
    #[schema(required = true)]
    pub run_id: Option<String>,
    pub dispatched_at: WireTime,
    #[schema(required = true)]
    pub completed_at: Option<WireTime>,
    #[schema(required = true)]
    pub result: Option<String>,
    /// When a turn had seen its end.
    #[schema(required = true)]
    pub acknowledged_at: Option<WireTime>,
    #[schema(required = true)]
    pub gardened_at: Option<WireTime>,
}

/// `POST /api/v2/ops`: work that somebody has taken on for a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct OpRequest {
    #[serde(rename = "type")]
    #[schema(example = "router_job")]
    pub kind: String,
    pub description: String,
    pub source: String,
    pub topic_key: String,
    pub user_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_channel: Option<String>,
    /// What will end the op even after this server was restarted; without it the next start fails the op.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
}

/// `POST /api/v2/ops/{id}/complete`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OpResult {
    pub result: String,
}

/// `POST /api/v2/ops/{id}/fail`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OpFailure {
    pub error: String,
}

impl Client {
    pub async fn ops(&self, query: &OpQuery) -> Result<OpList, ClientError> {
        self.get("/api/v2/ops", query).await
    }

    pub async fn op(&self, op: &OpId) -> Result<OpRow, ClientError> {
        self.get(&format!("/api/v2/ops/{op}"), &()).await
    }

    /// Gives up waiting for an op; whoever works on it is not stopped.
    pub async fn cancel_op(&self, op: &OpId) -> Result<OpRow, ClientError> {
        self.post(&format!("/api/v2/ops/{op}/cancel"), &serde_json::json!({})).await
    }
}
