//! `GET /api/v2/status`: the running server, for its owner.

use cortex_types::{InboxStatus, OutboxStatus};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerStatus {
    pub pid: u32,
    pub version: String,
    pub uptime_ms: u64,
    #[schema(example = "127.0.0.1:7751")]
    pub address: String,
    /// The models that answer, in the order in which they are asked.
    pub models: Vec<ModelStatus>,
    /// Events by status.
    #[schema(value_type = BTreeMap<String, u64>)]
    pub inbox: BTreeMap<InboxStatus, u64>,
    /// Messages by status.
    #[schema(value_type = BTreeMap<String, u64>)]
    pub outbox: BTreeMap<OutboxStatus, u64>,
    /// How much of its limits the database uses.
    #[serde(default)]
    pub storage: StorageStatus,
    /// What the watchdog did since the start.
    #[serde(default)]
    pub watchdog: WatchdogStatus,
    /// Why `/health` says degraded; null when it does not.
    #[schema(required = true)]
    pub degraded: Option<String>,
    /// Names of connectors without a key that spoke and that you do not trust.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub untrusted_connectors: Vec<String>,
}

/// What the database holds, and the most that it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StorageStatus {
    /// Events that wait for their turn or are in it.
    pub queued_events: u64,
    /// `maxQueuedEvents`; null is no limit.
    pub queued_events_max: Option<u64>,
    /// Bytes of the database that are in use.
    pub database_bytes: u64,
    /// `maxDatabaseMiB` in bytes; null is no limit.
    pub database_bytes_max: Option<u64>,
    /// What connectors without a key have filled of it, with what came of their events, roughly.
    #[serde(default)]
    pub strangers_bytes: u64,
    /// The most that they may fill together: a tenth of `maxDatabaseMiB`; null is no limit.
    #[serde(default)]
    pub strangers_bytes_max: Option<u64>,
}

/// Events that would have waited for ever: they were in flight in no task, or pending while nothing held their topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WatchdogStatus {
    /// Found by the last look.
    pub stranded: u64,
    /// Put back since the start.
    pub requeued: u64,
    /// Failed since the start, with a notice to their users.
    pub failed: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelStatus {
    /// The profile's name.
    pub name: String,
    /// The wire it speaks: `openai`, `anthropic`, `google`, `offline`, …
    pub kind: String,
    pub model: String,
}
