//! What clients were told, found in the bytes the server sent them, with the moment it began to say so.

use super::trace::Happening;
use crate::faults::http::Message;
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};

/// Something a client may rely on from `since` on, an index into the happenings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Promise {
    pub(crate) since: usize,
    pub(crate) what: Promised,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Promised {
    /// 202 or 200: the event is kept.
    Event { id: String },
    /// A poll showed the message: it must not be forgotten, else its event is answered again in another one.
    Message { id: String },
    /// 200 to an ack: the message is delivered.
    Delivered { id: String },
}

/// One conversation over a kept connection: questions and answers in turn.
#[derive(Default)]
struct Conversation {
    heard: Vec<u8>,
    said: Vec<u8>,
    /// When the answer that is being said began.
    said_since: Option<usize>,
    questions: VecDeque<Question>,
}

struct Question {
    path: String,
    body: Value,
}

pub(crate) fn promises(happenings: &[Happening]) -> Vec<Promise> {
    let mut conversations: BTreeMap<&str, Conversation> = BTreeMap::new();
    let mut promises = Vec::new();
    for (index, happening) in happenings.iter().enumerate() {
        match happening {
            Happening::Heard { socket, bytes } => {
                conversations.entry(socket).or_default().hear(bytes);
            }
            Happening::Said { socket, bytes } => {
                let told = conversations.entry(socket).or_default().say(index, bytes);
                promises.extend(told);
            }
            Happening::Created { .. }
            | Happening::Wrote { .. }
            | Happening::Truncated { .. }
            | Happening::Renamed { .. }
            | Happening::Unlinked { .. }
            | Happening::SyncBegan { .. }
            | Happening::SyncEnded { .. } => {}
        }
    }
    promises
}

impl Conversation {
    fn hear(&mut self, bytes: &[u8]) {
        self.heard.extend_from_slice(bytes);
        while let Some(message) = Message::read(&self.heard) {
            let path = message.first_line.split(' ').nth(1).unwrap_or_default().to_owned();
            let body = serde_json::from_slice(message.body).unwrap_or(Value::Null);
            let length = message.length;
            self.questions.push_back(Question { path, body });
            self.heard.drain(..length);
        }
    }

    fn say(&mut self, index: usize, bytes: &[u8]) -> Vec<Promise> {
        let since = *self.said_since.get_or_insert(index);
        self.said.extend_from_slice(bytes);
        let mut promises = Vec::new();
        while let Some(message) = Message::read(&self.said) {
            let code = message.first_line.split(' ').nth(1).unwrap_or_default().to_owned();
            let body: Value = serde_json::from_slice(message.body).unwrap_or(Value::Null);
            let length = message.length;
            if let Some(question) = self.questions.pop_front() {
                let told = promised(&question, &code, &body);
                promises.extend(told.into_iter().map(|what| Promise { since, what }));
            }
            self.said.drain(..length);
            self.said_since = None;
        }
        promises
    }
}

fn promised(question: &Question, code: &str, body: &Value) -> Vec<Promised> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    match (question.path.as_str(), code) {
        ("/ingest", "202" | "200") => vec![Promised::Event { id: text(&body["eventId"]) }],
        ("/outbox/poll", "200") => {
            let messages = body["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
            messages.iter().map(|message| Promised::Message { id: text(&message["messageId"]) }).collect()
        }
        ("/outbox/ack", "200") => vec![Promised::Delivered { id: text(&question.body["messageId"]) }],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn http(first_line: &str, body: &str) -> Vec<u8> {
        format!("{first_line}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
    }

    fn heard(path: &str, body: &str) -> Happening {
        let bytes = http(&format!("POST {path} HTTP/1.1"), body);
        Happening::Heard { socket: "socket:[1]".to_owned(), bytes }
    }

    fn said(bytes: &[u8]) -> Happening {
        Happening::Said { socket: "socket:[1]".to_owned(), bytes: bytes.to_vec() }
    }

    #[test]
    fn an_accepted_event_is_promised_from_the_first_byte_of_its_answer() {
        let answer = http("HTTP/1.1 202 Accepted", r#"{"eventId":"evt_1","status":"queued"}"#);
        let told = promises(&[heard("/ingest", "{}"), said(&answer[..5]), said(&answer[5..])]);
        assert_eq!(told, [Promise { since: 1, what: Promised::Event { id: "evt_1".to_owned() } }]);
    }

    #[test]
    fn a_refusal_promises_nothing() {
        let refusal = http("HTTP/1.1 503 Service Unavailable", r#"{"error":"storage_unavailable"}"#);
        assert_eq!(promises(&[heard("/ingest", "{}"), said(&refusal)]), []);
    }

    #[test]
    fn an_ack_is_promised_for_the_message_that_was_asked_about() {
        let polled = http("HTTP/1.1 200 OK", r#"{"messages":[{"messageId":"out_1"},{"messageId":"out_2"}]}"#);
        let acked = http("HTTP/1.1 200 OK", r#"{"ok":true,"status":"delivered"}"#);
        let told = promises(&[
            heard("/outbox/poll", "{}"),
            said(&polled),
            heard("/outbox/ack", r#"{"messageId":"out_2"}"#),
            said(&acked),
        ]);
        let id = |id: &str| id.to_owned();
        assert_eq!(
            told.into_iter().map(|promise| promise.what).collect::<Vec<_>>(),
            [
                Promised::Message { id: id("out_1") },
                Promised::Message { id: id("out_2") },
                Promised::Delivered { id: id("out_2") },
            ]
        );
    }
}
