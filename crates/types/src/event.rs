//! The inbound event: what a connector hands in, and what the inbox keeps of it.

use crate::{Audience, EventId, GivenAnswer, InboxStatus, Millis, NameRefusal, Sight, Standing};
use serde::{Deserialize, Serialize};

/// Who goes first across topics; FIFO inside one priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Priority {
    Urgent,
    #[default]
    Normal,
    Background,
}

impl Priority {
    pub const ALL: [Self; 3] = [Self::Urgent, Self::Normal, Self::Background];

    /// The number the inbox sorts by; smaller goes first.
    pub fn rank(self) -> i64 {
        match self {
            Self::Urgent => 0,
            Self::Normal => 1,
            Self::Background => 2,
        }
    }

    pub fn from_rank(rank: i64) -> Self {
        Self::ALL.into_iter().find(|priority| priority.rank() == rank).unwrap_or_default()
    }

    pub fn from_word(word: &str) -> Option<Self> {
        match word {
            "urgent" => Some(Self::Urgent),
            "normal" => Some(Self::Normal),
            "background" => Some(Self::Background),
            _ => None,
        }
    }
}

/// The identity of a topic: two connectors never share one (D6).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TopicRef {
    pub source: String,
    pub topic_key: String,
}

/// A checked event that is not yet in the inbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEvent {
    pub id: EventId,
    pub source: String,
    pub external_message_id: String,
    pub idempotency_key: String,
    pub topic_key: String,
    pub user_id: String,
    pub text: String,
    pub occurred_at: Millis,
    /// The metadata object as JSON text, exactly as it came.
    pub metadata_json: Option<String>,
    pub priority: Priority,
    /// Where it came from when that is not its source, such as `cron` (D18).
    pub channel: Option<String>,
    /// What its sender is to the owner; none is the owner himself (D17).
    pub relationship: Option<String>,
    /// How its source proved itself.
    pub standing: Standing,
    /// What it answers, when it answers a question; tokens are blanked in its text and metadata.
    pub answer: Option<GivenAnswer>,
}

/// What the inbox says to a new event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AcceptedEvent {
    Queued(EventId),
    /// Same source and external id as an earlier event; `same_body` is false when the content differs (D6).
    Duplicate {
        first: EventId,
        same_body: bool,
    },
    /// Its channel is off: nothing was kept (D18).
    ChannelOff,
    /// The name of its channel is not its own: nothing was kept (D23).
    NameRefused(NameRefusal),
}

/// An event as the inbox keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Arrival order, and the inbox's internal key.
    pub seq: i64,
    pub id: EventId,
    pub topic: TopicRef,
    /// The source, unless the event came from inside (D18).
    pub channel: String,
    pub external_message_id: String,
    pub idempotency_key: String,
    pub user_id: String,
    pub text: String,
    pub occurred_at: Millis,
    pub metadata_json: Option<String>,
    pub priority: Priority,
    pub status: InboxStatus,
    pub attempts: u32,
    pub error: Option<String>,
    pub created_at: Millis,
    pub updated_at: Millis,
    /// How its source proved itself.
    pub standing: Standing,
    /// Who reads its topic.
    pub audience: Audience,
    /// What it answers, when it answers a question.
    pub answer: Option<GivenAnswer>,
}

impl Event {
    /// What its turn may see of the owner's memory.
    pub fn sight(&self) -> Sight {
        self.standing.sight(&self.topic.source, self.audience)
    }
}
