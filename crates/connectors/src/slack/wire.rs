//! What comes over the socket, as far as we look at it.

use cortex_types::JsonText;
use serde::Deserialize;

/// The outside of everything that comes.
#[derive(Debug, Deserialize)]
pub(super) struct Envelope {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) envelope_id: Option<String>,
    pub(super) payload: Option<JsonText>,
    /// Why the socket ends.
    pub(super) reason: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct EventPayload {
    pub(super) event: SlackEvent,
}

#[derive(Debug, Deserialize)]
pub(super) struct SlackEvent {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) subtype: Option<String>,
    pub(super) channel: Option<String>,
    #[serde(flatten)]
    pub(super) message: SlackMessage,
    /// What the message is now, in an edit.
    #[serde(rename = "message")]
    pub(super) changed: Option<SlackMessage>,
    pub(super) previous_message: Option<SlackMessage>,
}

#[derive(Debug, Deserialize)]
pub(super) struct SlackMessage {
    pub(super) user: Option<String>,
    pub(super) bot_id: Option<String>,
    #[serde(default)]
    pub(super) text: String,
    #[serde(default)]
    pub(super) ts: String,
    pub(super) thread_ts: Option<String>,
    /// Who began the thread.
    pub(super) parent_user_id: Option<String>,
    pub(super) edited: Option<Edited>,
    #[serde(default)]
    pub(super) files: Vec<SlackFile>,
    #[serde(default)]
    pub(super) attachments: Vec<SlackAttachment>,
}

/// What Slack shows under a message; a message that is shared comes as one.
#[derive(Debug, Deserialize)]
pub(super) struct SlackAttachment {
    #[serde(default)]
    pub(super) is_share: bool,
    pub(super) author_name: Option<String>,
    pub(super) text: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Edited {
    pub(super) ts: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct SlackFile {
    pub(super) name: Option<String>,
    pub(super) mimetype: Option<String>,
    pub(super) size: Option<u64>,
    pub(super) url_private: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Interaction {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) user: HasId,
    pub(super) channel: Option<HasId>,
    pub(super) container: Option<Container>,
    #[serde(default)]
    pub(super) actions: Vec<Action>,
}

#[derive(Debug, Deserialize)]
pub(super) struct HasId {
    pub(super) id: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Container {
    pub(super) message_ts: Option<String>,
    pub(super) thread_ts: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Action {
    #[serde(default)]
    pub(super) value: String,
    #[serde(default)]
    pub(super) action_ts: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct SlashCommand {
    pub(super) user_id: String,
    pub(super) channel_id: String,
    pub(super) trigger_id: String,
    #[serde(default)]
    pub(super) text: String,
}
