//! `GET /api/v2/events/{id}/trace`: the whole way of a message.

use crate::{InboxRow, OutboxRow, WireTime};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// An event and everything that happened to it, in order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventTrace {
    pub event: InboxRow,
    /// What was said in answer, oldest first.
    pub replies: Vec<OutboxRow>,
    pub entries: Vec<TraceEntry>,
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TraceEntry {
    pub at: WireTime,
    pub what: TraceWhat,
    /// A line for people; empty when the word says it all.
    #[serde(default)]
    pub detail: String,
}

/// What can happen to a message on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TraceWhat {
    /// The event was committed to the inbox.
    Received,
    /// The same event came again and was ignored.
    Duplicate,
    /// A turn took it up.
    Claimed,
    /// A model answer or a tool result was recorded.
    Step,
    /// An attempt failed and another will follow.
    Retry,
    /// A restart found it in work and put it back.
    Recovered,
    /// A stop put it back before it was done.
    Parked,
    /// The turn waits for a person.
    Waiting,
    /// The turn ended with a reply or a recorded silence.
    Finished,
    /// The turn ended without one; the user was told.
    Failed,
    /// A person asked for another try.
    Requeued,
    /// A reply was put into the outbox.
    Queued,
    /// A connector took the reply.
    Leased,
    /// The connector delivered it.
    Acked,
    /// The connector could not deliver it.
    Nacked,
    /// The connector neither acked nor nacked in time.
    LeaseExpired,
    /// Delivery was given up after the last attempt.
    Dead,
    /// Recorded and not sent, because a channel is not live.
    Suppressed,
    /// Given up by a person.
    Discarded,
}

impl TraceWhat {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Received => "received",
            Self::Duplicate => "duplicate",
            Self::Claimed => "claimed",
            Self::Step => "step",
            Self::Retry => "retry",
            Self::Recovered => "recovered",
            Self::Parked => "parked",
            Self::Waiting => "waiting",
            Self::Finished => "finished",
            Self::Failed => "failed",
            Self::Requeued => "requeued",
            Self::Queued => "queued",
            Self::Leased => "leased",
            Self::Acked => "acked",
            Self::Nacked => "nacked",
            Self::LeaseExpired => "lease_expired",
            Self::Dead => "dead",
            Self::Suppressed => "suppressed",
            Self::Discarded => "discarded",
        }
    }
}
