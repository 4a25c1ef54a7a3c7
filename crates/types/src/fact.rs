//! Facts: what is remembered, where it holds, and where it came from.

use crate::speaker::{Sight, is_owners_source};
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
    /// What is not a person's own, holds in this topic of this channel, and is seen there.
    pub fn places(sight: Sight, topic: &TopicRef, channel: &str) -> Vec<Self> {
        let own = [Self::Channel(channel.to_owned()), Self::of_topic(topic)];
        let mut places = match sight {
            Sight::Everything => vec![Self::Global],
            Sight::Place => return own.into(),
            Sight::Nothing => return Vec::new(),
        };
        places.extend(own);
        // A memory client of the owner may name the owner's own topic by its bare key. Elsewhere others choose the key, and
        // would read any client's scope by choosing its name; with a colon it would be the name of another topic.
        if is_owners_source(&topic.source) && !topic.topic_key.contains(':') {
            places.push(Self::Topic(topic.topic_key.clone()));
        }
        places
    }

    pub fn of_topic(topic: &TopicRef) -> Self {
        Self::Topic(Self::topic_name(topic))
    }

    /// How facts name a topic: its source, a colon and its key. Colons of the source are escaped, so that the first colon
    /// ends it and no two topics share a name.
    pub fn topic_name(topic: &TopicRef) -> String {
        let source = topic.source.replace('%', "%25").replace(':', "%3A");
        format!("{source}:{}", topic.topic_key)
    }

    /// The topic that has this name; `None` when no topic can have it.
    pub fn topic_named(name: &str) -> Option<TopicRef> {
        let (source, topic_key) = name.split_once(':')?;
        let source = source.replace("%3A", ":").replace("%25", "%");
        let topic = TopicRef { source, topic_key: topic_key.to_owned() };
        (Self::topic_name(&topic) == name).then_some(topic)
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn topic(source: &str, topic_key: &str) -> TopicRef {
        TopicRef { source: source.to_owned(), topic_key: topic_key.to_owned() }
    }

    proptest! {
        /// Whoever reads a name gets the topic it was made of, so no other topic has it.
        #[test]
        fn two_topics_never_share_a_name(
            one in ("[ab:%235A]{0,6}", "[ab:%235A]{0,6}"),
            other in ("[ab:%235A]{0,6}", "[ab:%235A]{0,6}"),
        ) {
            let (one, other) = (topic(&one.0, &one.1), topic(&other.0, &other.1));
            let (name, other_name) = (FactScope::topic_name(&one), FactScope::topic_name(&other));
            prop_assert_eq!(FactScope::topic_named(&name), Some(one.clone()));
            prop_assert_eq!(one == other, name == other_name);
        }

        #[test]
        fn what_can_be_read_as_a_name_is_that_topics_name(text in "[ab:%235A]{0,9}") {
            if let Some(topic) = FactScope::topic_named(&text) {
                prop_assert_eq!(FactScope::topic_name(&topic), text);
            }
        }
    }

    #[test]
    fn plain_sources_keep_their_names_and_moved_colons_make_another() {
        assert_eq!(FactScope::topic_name(&topic("matrix", "!room:server")), "matrix:!room:server");
        assert_eq!(FactScope::topic_name(&topic("local:x", "c")), "local%3Ax:c");
        assert_ne!(FactScope::topic_name(&topic("a:b", "c")), FactScope::topic_name(&topic("a", "b:c")));
        for nobodys in ["", "main", "a%3Ab%3Ac", "a%b:c"] {
            assert_eq!(FactScope::topic_named(nobodys), None, "{nobodys}");
        }
    }

    #[test]
    fn a_bare_key_is_read_in_the_owners_own_topics_alone() {
        let bare = |source: &str, key: &str| {
            FactScope::places(Sight::Everything, &topic(source, key), source)
                .contains(&FactScope::Topic(key.to_owned()))
        };
        assert!(bare("cli", "notes") && bare("openai", "notes"));
        assert!(!bare("slack", "notes") && !bare("slack", "discord:123") && !bare("cli", "discord:123"));
    }
}
