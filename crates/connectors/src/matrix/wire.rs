//! What the client-server API sends, as far as we look at it.

use cortex_types::JsonText;
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Debug, Deserialize)]
pub(super) struct SyncAnswer {
    pub(super) next_batch: String,
    #[serde(default)]
    pub(super) rooms: Rooms,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Rooms {
    #[serde(default)]
    pub(super) join: BTreeMap<String, JoinedRoom>,
    #[serde(default)]
    pub(super) invite: BTreeMap<String, InvitedRoom>,
}

#[derive(Debug, Deserialize)]
pub(super) struct JoinedRoom {
    #[serde(default)]
    pub(super) summary: RoomSummary,
    #[serde(default)]
    pub(super) timeline: Timeline,
}

/// Given only when it changed.
#[derive(Debug, Default, Deserialize)]
pub(super) struct RoomSummary {
    #[serde(rename = "m.joined_member_count")]
    pub(super) joined: Option<usize>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Timeline {
    #[serde(default)]
    pub(super) events: Vec<JsonText>,
    /// Something lies between the last sync and these events.
    #[serde(default)]
    pub(super) limited: bool,
    pub(super) prev_batch: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct InvitedRoom {
    #[serde(default)]
    pub(super) invite_state: InviteState,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct InviteState {
    #[serde(default)]
    pub(super) events: Vec<JsonText>,
}

/// The state of a room as an invitation shows it.
#[derive(Debug, Deserialize)]
pub(super) struct StrippedEvent {
    pub(super) sender: String,
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) state_key: String,
    pub(super) content: Membership,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Membership {
    pub(super) membership: Option<String>,
}

/// Older events, the newest first.
#[derive(Debug, Deserialize)]
pub(super) struct MessagesAnswer {
    #[serde(default)]
    pub(super) chunk: Vec<JsonText>,
    pub(super) end: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct WhoAmI {
    pub(super) user_id: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct ProfileName {
    pub(super) displayname: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct JoinedMembers {
    pub(super) joined: BTreeMap<String, serde::de::IgnoredAny>,
}

#[derive(Debug, Deserialize)]
pub(super) struct SentEvent {
    pub(super) event_id: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct RoomEvent {
    pub(super) event_id: String,
    pub(super) sender: String,
    #[serde(rename = "type")]
    pub(super) kind: String,
    #[serde(default)]
    pub(super) origin_server_ts: i64,
    pub(super) state_key: Option<String>,
    #[serde(default)]
    pub(super) content: Content,
    #[serde(default)]
    pub(super) unsigned: Unsigned,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Unsigned {
    pub(super) prev_content: Option<Membership>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Content {
    pub(super) msgtype: Option<String>,
    pub(super) body: Option<String>,
    /// Of a file; the body is a caption when it says something else.
    pub(super) filename: Option<String>,
    /// `mxc://…`; an encrypted file has none.
    pub(super) url: Option<String>,
    pub(super) info: Option<FileInfo>,
    pub(super) membership: Option<String>,
    #[serde(rename = "m.relates_to")]
    pub(super) relates_to: Option<Relation>,
    #[serde(rename = "m.new_content")]
    pub(super) new_content: Option<Box<Content>>,
    #[serde(rename = "m.mentions")]
    pub(super) mentions: Option<Mentions>,
}

#[derive(Debug, Deserialize)]
pub(super) struct FileInfo {
    pub(super) mimetype: Option<String>,
    pub(super) size: Option<u64>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Mentions {
    #[serde(default)]
    pub(super) user_ids: Vec<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Relation {
    pub(super) rel_type: Option<String>,
    pub(super) event_id: Option<String>,
    /// Of a reaction.
    pub(super) key: Option<String>,
    /// The reply is there only for clients that know no threads.
    #[serde(default)]
    pub(super) is_falling_back: bool,
    #[serde(rename = "m.in_reply_to")]
    pub(super) in_reply_to: Option<InReplyTo>,
}

#[derive(Debug, Deserialize)]
pub(super) struct InReplyTo {
    pub(super) event_id: String,
}

impl RoomEvent {
    fn related(&self, rel_type: &str) -> Option<&str> {
        let relation = self.content.relates_to.as_ref()?;
        relation.event_id.as_deref().filter(|_| relation.rel_type.as_deref() == Some(rel_type))
    }

    pub(super) fn thread_root(&self) -> Option<&str> {
        self.related("m.thread")
    }

    /// The event that this one replaces.
    pub(super) fn replaces(&self) -> Option<&str> {
        self.related("m.replace")
    }

    /// The event under which this sign is.
    pub(super) fn annotates(&self) -> Option<&str> {
        self.related("m.annotation")
    }

    pub(super) fn replies_to(&self) -> Option<&str> {
        let relation = self.content.relates_to.as_ref()?;
        let reply = relation.in_reply_to.as_ref().filter(|_| !relation.is_falling_back)?;
        Some(&reply.event_id)
    }
}
