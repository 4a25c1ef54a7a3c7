//! Ops: work in flight elsewhere that a conversation waits for.

use crate::status::UnknownStatus;
use crate::{EventId, Millis, OpId, TopicRef};
use serde::{Deserialize, Serialize};

crate::status::status_type!(
    /// The life of an op. Its end is final: a late result never overwrites it (D20).
    OpStatus, "pending, completed, failed, gardened, archived", {
        Pending = "pending",
        Completed = "completed",
        Failed = "failed",
        /// Its result was read, and what is worth remembering was taken from it.
        Gardened = "gardened",
        Archived = "archived",
    }
);

/// An op to be tracked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewOp {
    pub id: OpId,
    /// Such as `router_job`.
    pub kind: String,
    pub description: String,
    /// The conversation that asked for it.
    pub topic: TopicRef,
    pub user_id: String,
    /// The event whose turn asked, where one did.
    pub event: Option<EventId>,
    pub expected_channel: Option<String>,
    /// The durable run that owns it; one without is failed at the next start.
    pub run_id: Option<String>,
}

/// How an op came to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpEnding {
    Completed { result: String },
    Failed { error: String },
}

/// An op as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Op {
    pub id: OpId,
    pub kind: String,
    pub description: String,
    pub status: OpStatus,
    pub topic: TopicRef,
    pub user_id: String,
    pub expected_channel: Option<String>,
    pub run_id: Option<String>,
    pub dispatched_at: Millis,
    pub completed_at: Option<Millis>,
    pub result: Option<String>,
    /// When a turn had seen its end.
    pub acknowledged_at: Option<Millis>,
    pub gardened_at: Option<Millis>,
}
