//! `POST /ingest`: an event comes in.

use cortex_types::EventId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a connector hands in. The server checks the raw JSON field by field, so that a refusal lists every bad one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct IngestRequest {
    /// The connector's name; with `externalMessageId` it is the identity of the event.
    #[schema(example = "telegram", min_length = 1, max_length = 512)]
    pub source: String,
    #[schema(example = "1234567890", min_length = 1, max_length = 512)]
    pub external_message_id: String,
    /// Kept for observability; never used to find duplicates.
    #[schema(example = "telegram:1234567890", min_length = 1, max_length = 512)]
    pub idempotency_key: String,
    /// One conversation; its events are answered one after the other.
    #[schema(example = "chat-42:thread-root", min_length = 1, max_length = 512)]
    pub topic_key: String,
    #[schema(example = "tg:998877", min_length = 1, max_length = 512)]
    pub user_id: String,
    #[schema(example = "Remind me every weekday at 9", min_length = 1)]
    pub text: String,
    /// When it was said, by the connector's clock. The order of events is the order of arrival.
    #[schema(format = DateTime, example = "2026-02-15T20:30:00Z")]
    pub occurred_at: String,
    /// Anything more; `priority` may be `urgent`, `normal` or `background`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub metadata: Option<serde_json::Map<String, serde_json::Value>>,
}

/// The answer: 202 when queued, 200 when it was here before or when its channel is off.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct IngestAnswer {
    /// None when the channel is off: nothing was kept.
    #[schema(value_type = Option<String>, example = "evt_01J00000000000000000000000")]
    pub event_id: Option<EventId>,
    pub status: IngestStatus,
}

/// What became of the event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum IngestStatus {
    Queued,
    DuplicateIgnored,
    ChannelOff,
    /// The conditions of a webhook do not hold for it.
    Ignored,
}
