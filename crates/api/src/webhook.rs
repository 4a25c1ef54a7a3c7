//! What an outgoing webhook posts.

use crate::WireTime;
use cortex_types::{EventId, OutboxId};
use serde::{Deserialize, Serialize};

/// The body of an outgoing webhook: one message of the outbox, the same bytes each time it is sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WebhookMessage {
    /// Also the `webhook-id`.
    pub message_id: OutboxId,
    pub source: String,
    pub topic_key: String,
    pub text: String,
    /// Buttons and the like; null for plain text.
    pub payload: Option<serde_json::Value>,
    /// The event that led to it.
    pub event_id: Option<EventId>,
    /// What its sender called that event.
    pub external_message_id: Option<String>,
    pub created_at: WireTime,
}
