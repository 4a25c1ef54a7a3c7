//! `/outbox/*` for connectors, and `/api/v2/outbox` for people.

use crate::{WireTime, schema};
use cortex_types::{EventId, LeaseToken, OutboxId, OutboxStatus};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// `POST /outbox/poll`: claim messages for one source.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PollRequest {
    #[schema(example = "telegram", min_length = 1, max_length = 512)]
    pub source: String,
    /// Most messages to hand out; `outboxPollDefaultBatch` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 100, example = 20)]
    pub max: Option<u32>,
    /// How long the caller may take to deliver; `outboxLeaseSeconds` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 10, maximum = 300, example = 60)]
    pub lease_seconds: Option<u32>,
    /// Hold a message back while an earlier one of its topic is undelivered.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ordered: bool,
    /// How long to wait for a message when there is none; not at all when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 60, example = 25)]
    pub wait_seconds: Option<u32>,
    /// Only messages of this topic; of all topics of the source when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 512)]
    pub topic_key: Option<String>,
    /// A name that this connector keeps over its restarts, so that `/outbox/release` can give its leases back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 512)]
    pub holder: Option<String>,
}

/// `POST /outbox/release`: a connector that starts again gives back what it held when it ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseRequest {
    #[schema(example = "telegram", min_length = 1, max_length = 512)]
    pub source: String,
    /// The name that it polled under.
    #[schema(example = "telegram-home", min_length = 1, max_length = 512)]
    pub holder: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReleaseAnswer {
    pub ok: bool,
    /// How many messages are due again.
    pub released: usize,
}

/// The claimed messages, each under a lease of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PollAnswer {
    pub messages: Vec<PolledMessage>,
}

/// A message to deliver: exactly these five fields.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolledMessage {
    #[schema(value_type = String, example = "out_01J00000000000000000000000")]
    pub message_id: OutboxId,
    #[schema(value_type = String, example = "lease_01J00000000000000000000000")]
    pub lease_token: LeaseToken,
    #[schema(example = "chat-42:thread-root")]
    pub topic_key: String,
    pub text: String,
    /// Buttons and the like; null for plain text.
    #[schema(value_type = Option<Object>, required = true)]
    pub payload: Option<serde_json::Value>,
}

/// `POST /outbox/ack`: it was delivered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AckRequest {
    #[schema(value_type = String, example = "out_01J00000000000000000000000")]
    pub message_id: OutboxId,
    #[schema(value_type = String, example = "lease_01J00000000000000000000000")]
    pub lease_token: LeaseToken,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AckAnswer {
    pub ok: bool,
    pub status: AckStatus,
}

/// Whether this ack was the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AckStatus {
    Delivered,
    AlreadyDelivered,
}

/// `POST /outbox/nack`: it could not be delivered (D3).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NackRequest {
    #[schema(value_type = String, example = "out_01J00000000000000000000000")]
    pub message_id: OutboxId,
    #[schema(value_type = String, example = "lease_01J00000000000000000000000")]
    pub lease_token: LeaseToken,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Never try sooner than this, for a far side that said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<u32>,
    /// No retry can help: straight to the dead letters.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub permanent: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NackAnswer {
    pub ok: bool,
    pub status: NackStatus,
}

/// Where a nack leaves the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum NackStatus {
    Pending,
    Dead,
    /// A channel is no longer live; it does not come again.
    Suppressed,
}

/// `GET /api/v2/outbox?…`, newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase")]
pub struct OutboxQuery {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(schema_with = schema::outbox_status, required = false)]
    pub status: Option<OutboxStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 500)]
    pub limit: Option<u32>,
    /// The `nextCursor` of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
}

/// A page of the outbox.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct OutboxList {
    pub items: Vec<OutboxRow>,
    /// Absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// A message as the outbox keeps it, without its lease token.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct OutboxRow {
    #[schema(value_type = String, example = "out_01J00000000000000000000000")]
    pub message_id: OutboxId,
    /// The event it answers; null when nobody asked.
    #[schema(value_type = Option<String>, required = true)]
    pub event_id: Option<EventId>,
    pub source: String,
    pub topic_key: String,
    pub text: String,
    #[schema(value_type = Option<Object>, required = true)]
    pub payload: Option<serde_json::Value>,
    #[schema(schema_with = schema::outbox_status)]
    pub status: OutboxStatus,
    pub attempts: u32,
    pub next_attempt_at: WireTime,
    #[schema(required = true)]
    pub lease_expires_at: Option<WireTime>,
    #[schema(required = true)]
    pub last_error: Option<String>,
    pub created_at: WireTime,
    pub updated_at: WireTime,
}
