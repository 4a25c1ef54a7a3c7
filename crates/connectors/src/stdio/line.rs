//! The lines between the bridge and its program.

use cortex_api::IngestRequest;
use cortex_types::{Millis, OutboxId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Longest line that is read.
pub(super) const LINE_BYTES_MAX: usize = 1024 * 1024;

/// What the program says.
#[derive(Debug, PartialEq)]
pub(super) enum Given {
    Event(Box<GivenEvent>),
    Ack(OutboxId),
    Nack(GivenNack),
}

/// `{"id","topic","user","text"}` and, if it likes, `occurredAt` and `metadata`.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct GivenEvent {
    id: Name,
    topic: Name,
    user: Name,
    text: String,
    occurred_at: Option<String>,
    metadata: Option<Map<String, Value>>,
}

/// `{"nack":"out_…"}` and, if it likes, why.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct GivenNack {
    #[serde(rename = "nack")]
    pub(super) message: OutboxId,
    pub(super) error: Option<String>,
    pub(super) retry_after_seconds: Option<u32>,
    #[serde(default)]
    pub(super) permanent: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GivenAck {
    ack: OutboxId,
}

/// Programs write ids as texts or as numbers.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(untagged)]
enum Name {
    Text(String),
    Number(i64),
}

impl Name {
    fn into_text(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::Number(number) => number.to_string(),
        }
    }
}

impl Given {
    /// What a line says, or what is wrong with it.
    pub(super) fn read(line: &[u8]) -> Result<Self, String> {
        if line.len() > LINE_BYTES_MAX {
            return Err(format!("the line is longer than {LINE_BYTES_MAX} bytes"));
        }
        let value: Value = serde_json::from_slice(line).map_err(|error| format!("not JSON: {error}"))?;
        let Value::Object(fields) = &value else { return Err("the line must be a JSON object".to_owned()) };
        let read = if fields.contains_key("ack") {
            GivenAck::deserialize(value).map(|given| Self::Ack(given.ack))
        } else if fields.contains_key("nack") {
            GivenNack::deserialize(value).map(Self::Nack)
        } else {
            GivenEvent::deserialize(value).map(|event| Self::Event(Box::new(event)))
        };
        read.map_err(|error| error.to_string())
    }
}

impl GivenEvent {
    pub(super) fn request(self, source: &str, now: Millis) -> IngestRequest {
        let id = self.id.into_text();
        IngestRequest {
            source: source.to_owned(),
            idempotency_key: format!("{source}:{id}"),
            external_message_id: id,
            topic_key: self.topic.into_text(),
            user_id: self.user.into_text(),
            text: self.text,
            occurred_at: self.occurred_at.unwrap_or_else(|| now.to_rfc3339()),
            metadata: self.metadata,
        }
    }
}

/// What the program is told.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Spoken<'a> {
    #[serde(rename_all = "camelCase")]
    Message {
        message_id: &'a OutboxId,
        topic: &'a str,
        text: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        payload: Option<&'a Value>,
    },
    Error {
        error: &'a str,
        /// Which of the program's lines it is about.
        line: u64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_acks_and_nacks_are_read() {
        let read = |line: &str| Given::read(line.as_bytes());
        let Ok(Given::Event(event)) = read(r#"{"id": 7, "topic": "t", "user": "u", "text": "hi"}"#) else {
            panic!("an event")
        };
        let request = event.request("door", Millis(0));
        assert_eq!((request.source.as_str(), request.external_message_id.as_str()), ("door", "7"));
        assert_eq!(request.occurred_at, "1970-01-01T00:00:00.000Z");
        let id = "out_01J00000000000000000000000";
        assert_eq!(read(&format!(r#"{{"ack": "{id}"}}"#)), Ok(Given::Ack(id.parse().unwrap())));
        assert!(matches!(read(&format!(r#"{{"nack": "{id}", "permanent": true}}"#)), Ok(Given::Nack(_))));
    }

    #[test]
    fn a_wrong_line_is_told_what_is_wrong_with_it() {
        for (line, expected) in [
            ("hello", "not JSON"),
            ("[]", "the line must be a JSON object"),
            (r#"{"topic": "t", "user": "u", "text": "x"}"#, "missing field `id`"),
            (r#"{"id": 1, "topic": "t", "user": "u", "text": "x", "txt": 1}"#, "unknown field `txt`"),
            (r#"{"ack": "evt_1"}"#, "is not an id of the form out_"),
        ] {
            let told = Given::read(line.as_bytes()).unwrap_err();
            assert!(told.contains(expected), "{line}: {told}");
        }
        let long = vec![b'x'; LINE_BYTES_MAX + 1];
        assert!(Given::read(&long).unwrap_err().contains("longer than"));
    }
}
