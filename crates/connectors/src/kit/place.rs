//! Where a message goes: a chat, perhaps a thread in it, and how a topic names them.

use cortex_types::Audience;
use serde::{Deserialize, Serialize};

/// A place on the platform where people talk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChatPlace {
    pub chat: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// Several people read here.
    pub is_group: bool,
}

impl ChatPlace {
    /// `<chat>` or `<chat>:<thread>`, the topic of its first conversation.
    pub fn key(&self) -> String {
        match &self.thread {
            Some(thread) => format!("{}:{thread}", self.chat),
            None => self.chat.clone(),
        }
    }

    /// Who reads what is said here.
    pub fn audience(&self) -> Audience {
        if self.is_group { Audience::Group } else { Audience::Private }
    }
}

/// The topic of a place's nth conversation: the first is named after the place alone.
pub(crate) fn topic_key(place_key: &str, conversation: u32) -> String {
    if conversation < 2 { place_key.to_owned() } else { format!("{place_key}#{conversation}") }
}

/// The place's key of a topic, whichever conversation it is.
pub(crate) fn place_key(topic_key: &str) -> &str {
    match topic_key.rsplit_once('#') {
        Some((place, number)) if number.parse::<u32>().is_ok_and(|number| number >= 2) => place,
        Some(_) | None => topic_key,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_conversation_of_a_place_leads_back_to_it() {
        for conversation in [1, 2, 17] {
            assert_eq!(place_key(&topic_key("-100:7", conversation)), "-100:7");
        }
        assert_eq!(topic_key("42", 1), "42");
        assert_eq!(topic_key("42", 2), "42#2");
        assert_eq!(place_key("#general"), "#general");
        assert_eq!(place_key("a#1"), "a#1");
    }
}
