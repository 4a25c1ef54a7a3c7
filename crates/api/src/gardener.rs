//! `/api/v2/gardener`: the chores, when they ran and what came of them.

use crate::{Client, ClientError, WireTime, schema};
use cortex_types::GardenerTask;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What thinks for the gardener.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum GardenerThinks {
    Model,
    /// No model is configured: fixed rules do what they can.
    Rules,
}

/// How the gardener is doing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GardenerReport {
    #[schema(inline)]
    pub thinks_with: GardenerThinks,
    /// What its models cost today (UTC).
    pub tokens_today: u64,
    /// Absent when there is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_per_day: Option<u64>,
    pub tasks: Vec<GardenerRow>,
}

/// One task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GardenerRow {
    #[schema(schema_with = schema::gardener_task)]
    pub task: GardenerTask,
    pub interval_seconds: u64,
    #[schema(required = true)]
    pub last_run_at: Option<WireTime>,
    #[schema(required = true)]
    pub last_report: Option<String>,
    pub runs: u64,
    pub next_run_at: WireTime,
    pub is_running: bool,
}

/// What came of a run that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GardenerRunAnswer {
    #[schema(schema_with = schema::gardener_task)]
    pub task: GardenerTask,
    pub done: bool,
    /// What was done, or why nothing was.
    pub report: String,
}

impl Client {
    pub async fn gardener(&self) -> Result<GardenerReport, ClientError> {
        self.get("/api/v2/gardener", &()).await
    }

    /// Runs a task now and waits for its end.
    pub async fn run_gardener(&self, task: GardenerTask) -> Result<GardenerRunAnswer, ClientError> {
        self.post(&format!("/api/v2/gardener/{task}/run"), &serde_json::json!({})).await
    }
}
