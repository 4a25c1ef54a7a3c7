//! What leaves: a reply to be queued, and a delivery handed to a connector.

use crate::{LeaseToken, Millis, OutboxId, TopicRef};

/// A message that a finished turn puts into the outbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewReply {
    pub id: OutboxId,
    pub topic: TopicRef,
    pub text: String,
    /// Buttons and the like as JSON text; `None` for plain text.
    pub payload_json: Option<String>,
}

/// A message under lease, as a connector gets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    pub id: OutboxId,
    pub lease: LeaseToken,
    pub lease_expires_at: Millis,
    pub topic: TopicRef,
    pub text: String,
    pub payload_json: Option<String>,
    pub attempts: u32,
}
