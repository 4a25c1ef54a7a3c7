//! Looks back in a request for what the user said.

use cortex_types::{ChatMessage, ChatRequest};

/// Everything the user said, oldest first.
pub(crate) fn user_texts(request: &ChatRequest) -> Vec<&str> {
    request
        .messages
        .iter()
        .filter_map(|message| match message {
            ChatMessage::User { text } => Some(text.as_str()),
            ChatMessage::Assistant { .. } | ChatMessage::Tool { .. } => None,
        })
        .collect()
}

/// What the user said last; nothing when they said nothing.
pub(crate) fn last_user_text(request: &ChatRequest) -> &str {
    user_texts(request).last().copied().unwrap_or_default()
}
