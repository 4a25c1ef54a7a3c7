//! `/api/v2/channels`: what each channel may do, and what goes on there.

use crate::{WireTime, schema};
use cortex_types::{ChannelLayer, ChannelMode};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The channels that are listed or were heard of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChannelList {
    /// False: events queue up and no turn runs.
    pub enabled: bool,
    /// Of channels that are not listed.
    #[schema(schema_with = schema::channel_mode)]
    pub default_mode: ChannelMode,
    pub items: Vec<ChannelInfo>,
}

/// One channel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChannelInfo {
    pub name: String,
    #[schema(schema_with = schema::channel_mode)]
    pub mode: ChannelMode,
    /// Whether the settings name it; otherwise its mode is the default one.
    pub is_listed: bool,
    /// Where an answer goes that is sent here from another channel; without one, the newest conversation.
    #[schema(required = true)]
    pub topic: Option<String>,
    #[schema(required = true)]
    pub last_message_at: Option<WireTime>,
    /// Events that are not answered yet.
    pub unread_count: u64,
    pub summary: String,
    #[schema(schema_with = schema::channel_layer)]
    pub layer: ChannelLayer,
}
