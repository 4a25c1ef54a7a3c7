//! `/connector`: CloudEvents over a WebSocket.

use cortex_types::{EventId, OutboxId};
use serde::{Deserialize, Serialize};

/// What a connector sends.
pub const INBOUND_TYPE: &str = "assistant.message.inbound";
/// That a connector has a message, in a session with `?ack=1`.
pub const ACK_TYPE: &str = "assistant.message.ack";
/// That a connector could not deliver a message, in a session with `?ack=1`.
pub const NACK_TYPE: &str = "assistant.message.nack";
/// An event is on disk, in a session with `?receipts=1`.
pub const ACCEPTED_TYPE: &str = "assistant.message.accepted";
/// The turn of an event has ended, in a session with `?receipts=1`.
pub const SETTLED_TYPE: &str = "assistant.message.settled";
/// The WebSocket subprotocol of CloudEvents in JSON.
pub const SUBPROTOCOL: &str = "cloudevents.json";
/// What a connector gets.
pub const OUTBOUND_TYPE: &str = "assistant.message.outbound";
/// A piece of an answer that still grows, in a session with `?stream=1`; a preview, never a delivery.
pub const DELTA_TYPE: &str = "assistant.message.delta";
/// A frame that was not accepted.
pub const ERROR_TYPE: &str = "assistant.message.error";
/// The `source` of everything the server sends.
pub const SERVER_SOURCE: &str = "urn:cortex-m";

/// The session is unknown, over, or its key was revoked.
pub const CLOSE_SESSION: u16 = 4401;
/// A frame over the limit.
pub const CLOSE_TOO_BIG: u16 = 1009;
/// A client that sends nothing that can be read.
pub const CLOSE_POLICY: u16 = 1008;
/// A reader that is too slow, or too many sockets.
pub const CLOSE_TRY_LATER: u16 = 1013;
/// The server stops.
pub const CLOSE_GOING_AWAY: u16 = 1001;

/// An event of the server, in CloudEvents 1.0.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CloudEvent<Data> {
    pub specversion: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub source: String,
    /// Of a message: its outbox id as a UUID, equal on every delivery.
    pub id: String,
    pub time: String,
    pub datacontenttype: String,
    /// The `id` of the event that this answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub causationid: Option<String>,
    pub data: Data,
}

impl<Data> CloudEvent<Data> {
    pub fn of_server(kind: &str, id: String, time: String, causationid: Option<String>, data: Data) -> Self {
        Self {
            specversion: "1.0".to_owned(),
            kind: kind.to_owned(),
            source: SERVER_SOURCE.to_owned(),
            id,
            time,
            datacontenttype: "application/json".to_owned(),
            causationid,
            data,
        }
    }
}

/// A message for a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OutboundData {
    pub connector_id: String,
    pub conversation_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub room_id: Option<String>,
    pub text: String,
    /// Buttons and the like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<serde_json::Value>,
    pub message_id: OutboxId,
}

/// A piece of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeltaData {
    pub connector_id: String,
    pub conversation_id: String,
    pub text: String,
    /// What was previewed of this answer before is void.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub restart: bool,
}

/// The receipt of an event that is on disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AcceptedData {
    pub connector_id: String,
    pub conversation_id: String,
    /// How `cortex trace` names it.
    pub event_id: EventId,
    /// It came before, and is not run again.
    pub duplicate: bool,
}

/// How the turn of an event ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SettledData {
    pub connector_id: String,
    pub conversation_id: String,
    pub event_id: EventId,
    pub outcome: SettledOutcome,
    /// Messages for this conversation that it led to; they come by themselves, before this or after it.
    pub replies: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SettledOutcome {
    Done,
    Failed,
}

/// Why a frame was not accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ErrorData {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connector_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation_id: Option<String>,
    pub code: FrameErrorCode,
    /// One line for a person.
    pub message: String,
    /// Whether the same frame may be accepted later.
    pub retryable: bool,
    /// How long to wait before it is sent again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<u64>,
}

/// Why, as a closed list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FrameErrorCode {
    /// No JSON object.
    InvalidJson,
    /// No CloudEvent, or one with bad fields; `message` names each.
    InvalidEvent,
    /// The session or its key belongs to another connector.
    Forbidden,
    /// The channel is off: nothing was kept.
    ChannelOff,
    /// The disk does not take it: nothing was kept.
    StorageUnavailable,
    /// The database is damaged: nothing is kept until a backup is restored.
    StorageDamaged,
    /// The database is as large as the settings allow: nothing was kept.
    StorageFull,
    /// As many events wait as the settings allow: nothing was kept.
    QueueFull,
    /// More events than this caller may send in a minute: nothing was kept.
    TooManyRequests,
    InternalError,
}

/// An outbox id as a UUID of version 7: the same 128 bits in the other spelling.
pub fn outbound_uuid(id: &OutboxId) -> String {
    uuid_text(id.ulid_bits())
}

/// 128 bits in the spelling of a UUID.
pub fn uuid_text(bits: u128) -> String {
    let hex = format!("{bits:032x}");
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

/// A random UUID (version 4) of these bits.
pub fn random_uuid(bits: u128) -> String {
    let (version, variant) = (0x4_u128 << 76, 0x2_u128 << 62);
    uuid_text(bits & !(0xf_u128 << 76) & !(0x3_u128 << 62) | version | variant)
}

/// The outbox id that a text names: as it is, or as a UUID.
pub fn named_message(text: &str) -> Option<OutboxId> {
    if let Ok(id) = text.parse() {
        return Some(id);
    }
    let groups: Vec<usize> = text.split('-').map(str::len).collect();
    let hex: String = text.split('-').collect();
    let bits = u128::from_str_radix(&hex, 16).ok().filter(|_| groups == [8, 4, 4, 4, 12])?;
    Some(OutboxId::from_bits(bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_random_id_is_a_uuid_of_version_four() {
        assert_eq!(random_uuid(0), "00000000-0000-4000-8000-000000000000");
        assert_eq!(random_uuid(u128::MAX), "ffffffff-ffff-4fff-bfff-ffffffffffff");
    }

    #[test]
    fn a_message_is_named_by_its_id_and_by_its_uuid() {
        let id = OutboxId::from_bits(0x0191_2345_6789_abcd_ef01_2345_6789_abcd);
        let uuid = outbound_uuid(&id);
        assert_eq!(uuid, "01912345-6789-abcd-ef01-23456789abcd");
        assert_eq!(named_message(&uuid), Some(id.clone()));
        assert_eq!(named_message(id.as_str()), Some(id));
        for bad in
            ["", "out_", "0191234567-89-abcd-ef01-23456789abcd", "x1912345-6789-abcd-ef01-23456789abcd"]
        {
            assert_eq!(named_message(bad), None, "{bad}");
        }
    }
}
