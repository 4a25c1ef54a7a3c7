//! What the model sees of a turn: the floor, who speaks from where, the topic's history, and the event verbatim.

use cortex_types::{ChatMessage, Event};

/// The files people write about their assistant, as they stand in the workspace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Floor {
    pub soul: String,
    pub identity: String,
    pub user: String,
    pub memory: String,
}

/// Who said a line of history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaker {
    User,
    Assistant,
}

/// One line of the topic's history, oldest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryLine {
    pub speaker: Speaker,
    pub content: String,
}

/// Everything a turn's prompt is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnContext {
    pub floor: Floor,
    /// The lines of work in flight elsewhere.
    pub ops: Vec<String>,
    pub history: Vec<HistoryLine>,
    pub event: Event,
}

impl TurnContext {
    /// The system text. Channel, sender and time stand here, so that the last user message stays verbatim.
    pub(crate) fn system(&self) -> String {
        let floor = [
            ("Soul", &self.floor.soul),
            ("Identity", &self.floor.identity),
            ("User", &self.floor.user),
            ("Memory", &self.floor.memory),
        ];
        let mut text = String::new();
        for (title, body) in floor.iter().filter(|(_, body)| !body.trim().is_empty()) {
            text.push_str(&format!("# {title}\n{}\n\n", body.trim()));
        }
        if !self.ops.is_empty() {
            text.push_str(&format!("## Active Operations\n{}\n\n", self.ops.join("\n")));
        }
        let topic = &self.event.topic;
        text.push_str(&format!(
            "# This message\nChannel: {}\nTopic: {}\nSender: {}\nReceived: {}\n\n\
             Answer the last user message. Answer exactly NO_REPLY when nothing should be said.",
            one_line(&topic.source),
            one_line(&topic.topic_key),
            one_line(&self.event.user_id),
            self.event.created_at.to_rfc3339(),
        ));
        text
    }

    /// The conversation up to and with the event; neighbours of one role are joined, as providers ask.
    pub(crate) fn messages(&self) -> Vec<ChatMessage> {
        let mut messages: Vec<ChatMessage> = Vec::with_capacity(self.history.len() + 1);
        for line in &self.history {
            match (line.speaker, messages.last_mut()) {
                (Speaker::User, Some(ChatMessage::User { text }))
                | (Speaker::Assistant, Some(ChatMessage::Assistant { text, .. })) => {
                    text.push_str("\n\n");
                    text.push_str(&line.content);
                }
                (Speaker::User, _) => messages.push(ChatMessage::User { text: line.content.clone() }),
                (Speaker::Assistant, _) => messages
                    .push(ChatMessage::Assistant { text: line.content.clone(), tool_calls: Vec::new() }),
            }
        }
        messages.push(ChatMessage::User { text: self.event.text.clone() });
        messages
    }
}

/// Header fields come from outside: a line break in them must not look like another header.
fn one_line(field: &str) -> String {
    field.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}
