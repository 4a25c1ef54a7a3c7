//! Frames: CloudEvents from a connector are checked, events for it are written.

use crate::body::{TooMuch, weigh};
use crate::fields::Fields;
use crate::moment::parse_iso;
use crate::prompt::text_to_type;
use crate::refusal::{QUEUE_RETRY, ROOM_RETRY, STORAGE_RETRY};
use crate::routes::ingest::read_priority;
use crate::routes::outbox::{Undelivered, read_undelivered};
use cortex_api::{
    ACCEPTED_TYPE, ACK_TYPE, AcceptedData, CloudEvent, DELTA_TYPE, DeltaData, ERROR_TYPE, ErrorData,
    FrameErrorCode, INBOUND_TYPE, NACK_TYPE, OUTBOUND_TYPE, OutboundData, SETTLED_TYPE, SettledData,
    named_message, outbound_uuid, random_uuid,
};
use cortex_runtime::IncomingEvent;
use cortex_store::ConnectorBinding;
use cortex_types::limits::{FIELD_CHARS_MAX, JSON_DEPTH_MAX, JSON_VALUES_BYTES_MAX};
use cortex_types::{EventId, Millis, OutboxId, is_machine_channel};
use serde_json::{Map, Value};
use std::time::Duration;

/// What a connector said.
pub(super) enum Frame {
    Ping,
    Inbound(Box<Inbound>),
    /// The connector has this message.
    Ack(OutboxId),
    /// The connector could not deliver this message.
    Nack(OutboxId, Undelivered),
    /// An event that is not for us.
    Unknown,
}

/// An event for the inbox, with the connector that it names.
pub(super) struct Inbound {
    /// As it calls itself.
    pub(super) claim: ConnectorBinding,
    pub(super) event: IncomingEvent,
}

impl Inbound {
    /// The refusal of this event.
    pub(super) fn refused(self, code: FrameErrorCode, message: String) -> FrameError {
        FrameError {
            code,
            message,
            id: Some(self.event.external_message_id),
            connector_id: Some(self.claim.connector_id),
            conversation_id: Some(self.event.topic_key),
            retry_after: None,
        }
    }

    /// The refusal of an event that came before its time.
    pub(super) fn too_often(self, wait: Duration) -> FrameError {
        let seconds = wait.as_millis().div_ceil(1_000).max(1);
        let message = format!("too many events; nothing was kept, send it again in {seconds} s");
        FrameError { retry_after: Some(wait), ..self.refused(FrameErrorCode::TooManyRequests, message) }
    }
}

/// A frame that was not accepted, and what it was about as far as that can be told.
#[derive(Debug)]
pub(super) struct FrameError {
    pub(super) code: FrameErrorCode,
    pub(super) message: String,
    pub(super) id: Option<String>,
    pub(super) connector_id: Option<String>,
    pub(super) conversation_id: Option<String>,
    /// When the same frame may be accepted.
    pub(super) retry_after: Option<Duration>,
}

const ATTRIBUTES: [&str; 9] =
    ["specversion", "type", "source", "id", "time", "datacontenttype", "dataschema", "subject", "data"];

pub(super) fn read_frame(text: &str, now: Millis) -> Result<Frame, FrameError> {
    if text.trim().eq_ignore_ascii_case("ping") {
        return Ok(Frame::Ping);
    }
    let invalid = |message: String| FrameError {
        code: FrameErrorCode::InvalidJson,
        message,
        id: None,
        connector_id: None,
        conversation_id: None,
        retry_after: None,
    };
    match weigh(text.as_bytes(), JSON_VALUES_BYTES_MAX) {
        Ok(_) => {}
        Err(TooMuch::Depth) => {
            return Err(invalid(format!("the frame must not be nested deeper than {JSON_DEPTH_MAX} levels")));
        }
        Err(TooMuch::Values) => return Err(invalid("the frame has too many values; send fewer".to_owned())),
    }
    let event = match serde_json::from_str(text) {
        Ok(Value::Object(event)) => event,
        Ok(_) => return Err(invalid("the frame must be a JSON object".to_owned())),
        Err(error) => return Err(invalid(format!("the frame must be valid JSON: {error}"))),
    };
    read_event(event, now)
}

fn read_event(mut event: Map<String, Value>, now: Millis) -> Result<Frame, FrameError> {
    let mut check = Check::default();
    let version = check.word(&mut event, "specversion");
    if !version.is_empty() && version != "1.0" {
        check.complain("specversion must be \"1.0\"");
    }
    let kind = check.word(&mut event, "type");
    let source = check.word(&mut event, "source");
    let id = check.word(&mut event, "id");
    let occurred_at = check.time(&mut event, now);
    let known = match kind.as_str() {
        INBOUND_TYPE => Known::Inbound,
        ACK_TYPE => Known::Ack,
        NACK_TYPE => Known::Nack,
        _ => Known::Neither,
    };
    // What data an event has that is not for us is not for us either.
    if known != Known::Neither {
        check.content_type(&mut event);
    }
    let data = match event.remove("data") {
        Some(Value::Object(data)) => Some(data),
        Some(_) | None => None,
    };
    let about = |name: &str| data.as_ref()?.get(name)?.as_str().map(str::to_owned);
    let (connector_id, conversation_id) = (about("connectorId"), about("conversationId"));
    let frame = match (known, data) {
        (Known::Neither, _) => Some(Frame::Unknown),
        (Known::Ack, data) => check.acked(&event, &data.unwrap_or_default()).map(Frame::Ack),
        (Known::Nack, data) => {
            let data = data.unwrap_or_default();
            let undelivered = check.undelivered(&data);
            check.acked(&event, &data).map(|message| Frame::Nack(message, undelivered))
        }
        (Known::Inbound, Some(data)) => {
            let head = Head { source, id: id.clone(), occurred_at };
            Some(Frame::Inbound(Box::new(check.inbound(head, data, event))))
        }
        (Known::Inbound, None) => {
            check.complain("data must be an object");
            None
        }
    };
    match frame {
        Some(frame) if check.complaints.is_empty() => Ok(frame),
        Some(_) | None => Err(FrameError {
            code: FrameErrorCode::InvalidEvent,
            message: check.complaints.join("; "),
            id: Some(id).filter(|id| !id.is_empty()),
            connector_id,
            conversation_id,
            retry_after: None,
        }),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Known {
    Inbound,
    Ack,
    Nack,
    Neither,
}

struct Head {
    source: String,
    id: String,
    occurred_at: Millis,
}

/// Collects everything that is wrong with an event.
#[derive(Default)]
struct Check {
    complaints: Vec<String>,
}

impl Check {
    fn complain(&mut self, complaint: impl Into<String>) {
        self.complaints.push(complaint.into());
    }

    /// A required, non-empty text; taken out, so that what stays are extensions.
    fn word(&mut self, object: &mut Map<String, Value>, name: &str) -> String {
        self.text(object, name, name, FIELD_CHARS_MAX)
    }

    fn text(&mut self, object: &mut Map<String, Value>, name: &str, shown: &str, chars_max: usize) -> String {
        match object.remove(name) {
            None | Some(Value::Null) => self.complain(format!("{shown} is required")),
            Some(Value::String(text)) if text.trim().is_empty() => {
                self.complain(format!("{shown} must be a non-empty string"));
            }
            Some(Value::String(text)) if text.contains('\0') => {
                self.complain(format!("{shown} must not contain NUL characters"));
            }
            Some(Value::String(text)) if text.len() > chars_max && text.chars().count() > chars_max => {
                self.complain(format!("{shown} must be at most {chars_max} characters"));
            }
            Some(Value::String(text)) => return text,
            Some(_) => self.complain(format!("{shown} must be a non-empty string")),
        }
        String::new()
    }

    fn time(&mut self, event: &mut Map<String, Value>, now: Millis) -> Millis {
        match event.remove("time") {
            None | Some(Value::Null) => now,
            Some(time) => time.as_str().and_then(|time| parse_iso(time).ok()).unwrap_or_else(|| {
                self.complain("time must be a valid ISO 8601 date string");
                now
            }),
        }
    }

    fn content_type(&mut self, event: &mut Map<String, Value>) {
        let is_json = |value: &str| {
            let media = value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
            media == "application/json" || media.ends_with("+json")
        };
        match event.remove("datacontenttype") {
            None | Some(Value::Null) => {}
            Some(Value::String(value)) if is_json(&value) => {}
            Some(_) => self.complain("datacontenttype must be \"application/json\""),
        }
        if event.contains_key("data_base64") {
            self.complain("data_base64 is not understood; send data as an object");
        }
    }

    fn inbound(
        &mut self,
        head: Head,
        mut data: Map<String, Value>,
        extensions: Map<String, Value>,
    ) -> Inbound {
        let connector_id = self.text(&mut data, "connectorId", "data.connectorId", FIELD_CHARS_MAX);
        if is_machine_channel(&connector_id) {
            self.complain("data.connectorId must not be the name of a channel of the server's own");
        }
        let topic_key = self.text(&mut data, "conversationId", "data.conversationId", FIELD_CHARS_MAX);
        let text = self.text(&mut data, "text", "data.text", usize::MAX);
        let user_id = match data.get("userId") {
            None | Some(Value::Null) => topic_key.clone(),
            Some(_) => self.text(&mut data, "userId", "data.userId", FIELD_CHARS_MAX),
        };
        let metadata = self.metadata(data, extensions);
        let priority = read_priority(&metadata).unwrap_or_else(|| {
            self.complain("data.metadata.priority must be urgent, normal or background");
            cortex_types::Priority::default()
        });
        let event = IncomingEvent {
            idempotency_key: format!("{}:{}", head.source, head.id),
            external_message_id: head.id,
            topic_key,
            user_id,
            text,
            occurred_at: head.occurred_at,
            metadata_json: (!metadata.is_empty()).then(|| Value::Object(metadata).to_string()),
            priority,
        };
        Inbound { claim: ConnectorBinding { connector_id, source: head.source }, event }
    }

    /// Extensions, then what the data says beyond its words, then what it says explicitly.
    fn metadata(
        &mut self,
        mut data: Map<String, Value>,
        extensions: Map<String, Value>,
    ) -> Map<String, Value> {
        let mut metadata: Map<String, Value> =
            extensions.into_iter().filter(|(name, _)| !ATTRIBUTES.contains(&name.as_str())).collect();
        for name in ["roomId", "attachments"] {
            if let Some(value) = data.remove(name).filter(|value| !value.is_null()) {
                metadata.insert(name.to_owned(), value);
            }
        }
        match data.remove("metadata") {
            None | Some(Value::Null) => {}
            Some(Value::Object(more)) => metadata.extend(more),
            Some(_) => self.complain("data.metadata must be an object"),
        }
        metadata
    }

    fn undelivered(&mut self, data: &Map<String, Value>) -> Undelivered {
        let mut fields = Fields::of(data);
        let undelivered = read_undelivered(&mut fields);
        self.complaints.extend(fields.complaints().into_iter().map(|complaint| format!("data.{complaint}")));
        undelivered
    }

    /// Named by `data.messageId` in either spelling, or as the cause of the ack.
    fn acked(&mut self, event: &Map<String, Value>, data: &Map<String, Value>) -> Option<OutboxId> {
        let named = data.get("messageId").or_else(|| data.get("id")).or_else(|| event.get("causationid"));
        let message = named.and_then(Value::as_str).and_then(named_message);
        if message.is_none() {
            self.complain("data.messageId must be the id of a message");
        }
        message
    }
}

/// A message as a frame; the same bytes on every delivery.
pub(super) fn outbound(connector_id: &str, message: &OutboundMessage<'_>, causation: Option<&str>) -> String {
    let data = OutboundData {
        connector_id: connector_id.to_owned(),
        conversation_id: message.conversation.to_owned(),
        room_id: message.metadata_json.and_then(room_of),
        // A client of this wire may know nothing but text.
        text: text_to_type(message.text, message.payload_json),
        payload: message.payload_json.and_then(|payload| serde_json::from_str(payload).ok()),
        message_id: message.id.clone(),
    };
    let (id, time) = (outbound_uuid(message.id), message.created_at.to_rfc3339());
    written(&CloudEvent::of_server(OUTBOUND_TYPE, id, time, causation.map(str::to_owned), data))
}

/// What a message frame is made of.
pub(super) struct OutboundMessage<'a> {
    pub(super) id: &'a OutboxId,
    pub(super) conversation: &'a str,
    pub(super) text: &'a str,
    pub(super) payload_json: Option<&'a str>,
    pub(super) metadata_json: Option<&'a str>,
    pub(super) created_at: Millis,
}

pub(super) fn delta(data: DeltaData, causation: String, now: Millis) -> String {
    let id = random_uuid(rand::random());
    written(&CloudEvent::of_server(DELTA_TYPE, id, now.to_rfc3339(), Some(causation), data))
}

/// The receipt of an event that is on disk.
pub(super) fn accepted(inbound: &Inbound, event: &EventId, is_duplicate: bool, now: Millis) -> String {
    let data = AcceptedData {
        connector_id: inbound.claim.connector_id.clone(),
        conversation_id: inbound.event.topic_key.clone(),
        event_id: event.clone(),
        duplicate: is_duplicate,
    };
    let cause = Some(inbound.event.external_message_id.clone());
    written(&CloudEvent::of_server(ACCEPTED_TYPE, random_uuid(rand::random()), now.to_rfc3339(), cause, data))
}

/// The receipt of an event whose turn has ended.
pub(super) fn settled(data: SettledData, causation: String, now: Millis) -> String {
    let id = random_uuid(rand::random());
    written(&CloudEvent::of_server(SETTLED_TYPE, id, now.to_rfc3339(), Some(causation), data))
}

pub(super) fn error(error: FrameError, now: Millis) -> String {
    let wait = wait_of(error.code);
    let seconds = |wait: Duration| u64::try_from(wait.as_millis().div_ceil(1_000).max(1)).unwrap_or(u64::MAX);
    let data = ErrorData {
        connector_id: error.connector_id,
        conversation_id: error.conversation_id,
        code: error.code,
        message: error.message,
        retryable: wait.is_some(),
        retry_after_seconds: error.retry_after.or(wait).map(seconds),
    };
    written(&CloudEvent::of_server(ERROR_TYPE, random_uuid(rand::random()), now.to_rfc3339(), error.id, data))
}

/// How long to wait at least before the same frame is sent again, as `/ingest` says it; `None` where that helps nothing.
fn wait_of(code: FrameErrorCode) -> Option<Duration> {
    match code {
        FrameErrorCode::StorageUnavailable | FrameErrorCode::TooManyRequests => Some(STORAGE_RETRY),
        FrameErrorCode::QueueFull => Some(QUEUE_RETRY),
        FrameErrorCode::StorageFull => Some(ROOM_RETRY),
        FrameErrorCode::InvalidJson
        | FrameErrorCode::InvalidEvent
        | FrameErrorCode::Forbidden
        | FrameErrorCode::ChannelOff
        | FrameErrorCode::StorageDamaged
        | FrameErrorCode::InternalError => None,
    }
}

fn written(event: &impl serde::Serialize) -> String {
    // Strings, numbers and objects with string keys always can be written.
    serde_json::to_string(event).unwrap_or_default()
}

fn room_of(metadata_json: &str) -> Option<String> {
    let metadata: Map<String, Value> = serde_json::from_str(metadata_json).ok()?;
    metadata.get("roomId").and_then(Value::as_str).map(str::to_owned)
}
