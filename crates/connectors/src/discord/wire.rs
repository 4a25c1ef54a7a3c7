//! What the gateway sends, as far as we look at it.

use cortex_types::JsonText;
use serde::Deserialize;

/// The outside of everything that comes.
#[derive(Debug, Deserialize)]
pub(super) struct GatewayFrame {
    pub(super) op: u8,
    pub(super) s: Option<u64>,
    pub(super) t: Option<String>,
    pub(super) d: Option<JsonText>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Hello {
    pub(super) heartbeat_interval: u64,
}

#[derive(Debug, Deserialize)]
pub(super) struct Ready {
    pub(super) session_id: String,
    pub(super) resume_gateway_url: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct DiscordUser {
    pub(super) id: String,
    #[serde(default)]
    pub(super) username: String,
    pub(super) global_name: Option<String>,
    #[serde(default)]
    pub(super) bot: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct DiscordMessage {
    pub(super) id: String,
    pub(super) channel_id: String,
    /// Missing in a conversation of two, and when the message was fetched.
    pub(super) guild_id: Option<String>,
    pub(super) author: Option<DiscordUser>,
    pub(super) webhook_id: Option<String>,
    #[serde(rename = "type", default)]
    pub(super) kind: u8,
    #[serde(default)]
    pub(super) content: String,
    pub(super) edited_timestamp: Option<String>,
    #[serde(default)]
    pub(super) mentions: Vec<DiscordUser>,
    #[serde(default)]
    pub(super) attachments: Vec<DiscordFile>,
    #[serde(default)]
    pub(super) sticker_items: Vec<DiscordSticker>,
    pub(super) referenced_message: Option<Box<DiscordMessage>>,
    /// What was forwarded, as it was then; who said it is not told.
    #[serde(default)]
    pub(super) message_snapshots: Vec<DiscordSnapshot>,
}

#[derive(Debug, Deserialize)]
pub(super) struct DiscordSnapshot {
    pub(super) message: SnapshotMessage,
}

#[derive(Debug, Deserialize)]
pub(super) struct SnapshotMessage {
    #[serde(default)]
    pub(super) content: String,
    #[serde(default)]
    pub(super) attachments: Vec<DiscordFile>,
}

#[derive(Debug, Deserialize)]
pub(super) struct DiscordFile {
    pub(super) filename: String,
    pub(super) content_type: Option<String>,
    pub(super) size: Option<u64>,
    pub(super) url: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct DiscordSticker {
    pub(super) name: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct DiscordInteraction {
    pub(super) id: String,
    pub(super) token: String,
    #[serde(rename = "type")]
    pub(super) kind: u8,
    pub(super) channel_id: Option<String>,
    pub(super) guild_id: Option<String>,
    pub(super) data: Option<InteractionData>,
    /// Who did it, in a guild.
    pub(super) member: Option<GuildMember>,
    /// Who did it, in a conversation of two.
    pub(super) user: Option<DiscordUser>,
    pub(super) message: Option<HasMessageId>,
}

#[derive(Debug, Deserialize)]
pub(super) struct InteractionData {
    #[serde(default)]
    pub(super) custom_id: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct GuildMember {
    pub(super) user: DiscordUser,
}

#[derive(Debug, Deserialize)]
pub(super) struct HasMessageId {
    pub(super) id: String,
}
