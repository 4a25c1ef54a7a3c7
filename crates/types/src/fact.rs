//! Facts: what is remembered, where it holds, and where it came from.

use crate::status::UnknownStatus;
use crate::{FactId, Millis, TopicRef};
use serde::{Deserialize, Serialize};

/// Where a fact holds. A turn sees what holds everywhere, for its person, its channel and its topic.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "kind", content = "key", rename_all = "lowercase")]
pub enum FactScope {
    Global,
    /// A person.
    User(String),
    Channel(String),
    /// A conversation, or the scope a memory client named.
    Topic(String),
}

impl FactScope {
    /// What is not a person's own and holds in this topic of this channel.
    pub fn places(topic: &TopicRef, channel: &str) -> Vec<Self> {
        // The last is the topic as a memory client names it.
        let named = Self::Topic(topic.topic_key.clone());
        vec![Self::Global, Self::Channel(channel.to_owned()), Self::of_topic(topic), named]
    }

    pub fn of_topic(topic: &TopicRef) -> Self {
        Self::Topic(Self::topic_name(topic))
    }

    /// How facts name a topic.
    pub fn topic_name(topic: &TopicRef) -> String {
        format!("{}:{}", topic.source, topic.topic_key)
    }

    pub fn kind(&self) -> &'static str {
        match self {
            Self::Global => "global",
            Self::User(_) => "user",
            Self::Channel(_) => "channel",
            Self::Topic(_) => "topic",
        }
    }

    pub fn key(&self) -> &str {
        match self {
            Self::Global => "",
            Self::User(key) | Self::Channel(key) | Self::Topic(key) => key,
        }
    }

    pub fn from_parts(kind: &str, key: &str) -> Option<Self> {
        match kind {
            "global" => Some(Self::Global),
            "user" => Some(Self::User(key.to_owned())),
            "channel" => Some(Self::Channel(key.to_owned())),
            "topic" => Some(Self::Topic(key.to_owned())),
            _ => None,
        }
    }
}

crate::status::status_type!(
    /// How near a fact is: hot facts are in every prompt, cold ones are searched for.
    FactTier, "hot, cold", {
        Hot = "hot",
        Cold = "cold",
    }
);

crate::status::status_type!(
    /// Who or what said a fact.
    FactSourceKind, "turn, op, import, person, tool", {
        Turn = "turn",
        Op = "op",
        Import = "import",
        Person = "person",
        Tool = "tool",
    }
);

/// One place a fact came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FactSource {
    pub kind: FactSourceKind,
    /// An event, an op, a file or a user.
    pub reference: String,
}

/// What a source of a fact said, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FactOrigin {
    pub source: FactSource,
    pub text: String,
    pub at: Millis,
}

/// A fact to be kept.
#[derive(Debug, Clone, PartialEq)]
pub struct NewFact {
    pub id: FactId,
    pub text: String,
    /// fact, preference, decision or summary; memory clients may use words of their own.
    pub category: Option<String>,
    pub scope: FactScope,
    pub source: FactSource,
    pub metadata_json: Option<String>,
    /// The same key in the same scope is the same fact.
    pub idempotency_key: Option<String>,
    /// Learned from what others wrote: until a person has looked, only this topic sees it (`FactScope::topic_name`).
    pub unreviewed_in: Option<String>,
}

/// A fact as it is kept.
#[derive(Debug, Clone, PartialEq)]
pub struct Fact {
    pub seq: i64,
    pub id: FactId,
    pub text: String,
    pub category: Option<String>,
    pub scope: FactScope,
    pub tier: FactTier,
    pub pinned: bool,
    /// As it was at the last access.
    pub strength: f64,
    pub hit_count: u32,
    pub created_at: Millis,
    pub updated_at: Millis,
    pub last_accessed_at: Millis,
    /// When it went cold.
    pub archived_at: Option<Millis>,
    pub metadata_json: Option<String>,
    /// In its scope each of them means this fact; one that was merged has several.
    pub idempotency_keys: Vec<String>,
    /// The only topic that sees it until a person has looked; `None` is reviewed.
    pub unreviewed_in: Option<String>,
    /// Where it came from, oldest first.
    pub origins: Vec<FactOrigin>,
}
