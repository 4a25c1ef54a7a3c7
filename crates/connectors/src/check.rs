//! Whether a server speaks the connector protocol: one finding for each promise, for any server that anybody points it at.

mod basics;
mod extras;
mod wire;

use reqwest::Url;
use secrecy::SecretString;
use serde::Serialize;
use std::time::Duration;
use ulid::Ulid;
use wire::Wire;

const SOON: Duration = Duration::from_secs(5);

/// What is checked, in this order. The first part is the protocol itself; an extra may be missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Promise {
    Session,
    InvalidSession,
    Reply,
    Echo,
    UnknownType,
    SessionCode,
    OtherPath,
    Causation,
    Subprotocol,
    Ping,
    MalformedJson,
    MissingAttribute,
    BoundSession,
    SameId,
    OptionalAttributes,
    Stream,
    Receipts,
    AckRedelivery,
    AckEnds,
    Nack,
    Reconnect,
    TooBig,
}

/// How it stands with a promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PromiseState {
    Ok,
    Failed,
    /// An extra that the server does not have.
    Absent,
    /// Something that it needs was not there.
    Skipped,
}

/// One line of the report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub check: Promise,
    pub state: PromiseState,
    pub extra: bool,
    pub expected: &'static str,
    /// What was seen instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seen: Option<String>,
}

/// Whom to check, and as whom.
#[derive(Debug, Clone)]
pub struct ConformanceCheck {
    /// Where `/connector` is below.
    pub url: Url,
    pub key: Option<SecretString>,
    /// The `source` of what is said; a connector's key may use only its own.
    pub source: String,
    pub connector_id: String,
    /// How long an answer of the assistant may take.
    pub patience: Duration,
}

impl ConformanceCheck {
    /// Checks every promise and tells each finding as soon as it is there.
    pub async fn run(self, mut tell: impl FnMut(&Finding)) -> Vec<Finding> {
        let mut report = Report { findings: Vec::new(), tell: &mut tell };
        match self.room() {
            Ok(room) => {
                // All the frames and sockets in between are too much for one stack.
                if let Some(basics) = Box::pin(basics::check(&room, &mut report)).await {
                    Box::pin(extras::check(&room, &basics, &mut report)).await;
                }
            }
            Err(error) => report.put(Promise::Session, Look::Fails(error.to_string())),
        }
        report.skip_the_rest();
        report.findings
    }

    fn room(self) -> Result<Room, reqwest::Error> {
        let builder = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).no_proxy();
        // A machine without certificates still checks a server that needs none.
        let builder = if self.url.scheme() == "http" { builder.tls_certs_only([]) } else { builder };
        let wire = Wire {
            base: without_door(self.url),
            client: builder.build()?,
            key: self.key,
            source: self.source,
            connector_id: self.connector_id,
        };
        Ok(Room { wire, conversation: format!("check-{}", Ulid::generate()), patience: self.patience })
    }
}

/// Where a check happens.
struct Room {
    wire: Wire,
    conversation: String,
    patience: Duration,
}

impl Room {
    /// How long a server may take for what needs no model.
    fn soon(&self) -> Duration {
        SOON.min(self.patience)
    }
}

/// What one look came to.
enum Look {
    Holds,
    Fails(String),
    /// An extra that is not there.
    Absent(String),
}

struct Report<'a> {
    findings: Vec<Finding>,
    tell: &'a mut dyn FnMut(&Finding),
}

impl Report<'_> {
    fn put(&mut self, promise: Promise, look: Look) {
        let (state, seen) = match look {
            Look::Holds => (PromiseState::Ok, None),
            Look::Fails(seen) => (PromiseState::Failed, Some(seen)),
            Look::Absent(seen) if promise.is_extra() => (PromiseState::Absent, Some(seen)),
            Look::Absent(seen) => (PromiseState::Failed, Some(seen)),
        };
        self.add(promise, state, seen);
    }

    /// Something that the promise needs was not there.
    fn skip(&mut self, promise: Promise) {
        self.add(promise, PromiseState::Skipped, None);
    }

    fn add(&mut self, check: Promise, state: PromiseState, seen: Option<String>) {
        let finding = Finding { check, state, extra: check.is_extra(), expected: check.expected(), seen };
        (self.tell)(&finding);
        self.findings.push(finding);
    }

    fn skip_the_rest(&mut self) {
        for promise in Promise::ALL {
            if self.findings.iter().all(|finding| finding.check != promise) {
                self.skip(promise);
            }
        }
    }
}

impl Look {
    /// A problem of a promise that every server gives.
    fn required(result: Result<(), String>) -> Self {
        result.map_or_else(Self::Fails, |()| Self::Holds)
    }

    /// A problem of one that a server may not give.
    fn extra(result: Result<(), String>) -> Self {
        result.map_or_else(Self::Absent, |()| Self::Holds)
    }
}

impl Promise {
    pub const ALL: [Self; 22] = [
        Self::Session,
        Self::InvalidSession,
        Self::Reply,
        Self::Echo,
        Self::UnknownType,
        Self::SessionCode,
        Self::OtherPath,
        Self::Causation,
        Self::Subprotocol,
        Self::Ping,
        Self::MalformedJson,
        Self::MissingAttribute,
        Self::BoundSession,
        Self::SameId,
        Self::OptionalAttributes,
        Self::Stream,
        Self::Receipts,
        Self::AckRedelivery,
        Self::AckEnds,
        Self::Nack,
        Self::Reconnect,
        Self::TooBig,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::InvalidSession => "invalid-session",
            Self::Reply => "reply",
            Self::Echo => "echo",
            Self::UnknownType => "unknown-type",
            Self::SessionCode => "session-code",
            Self::OtherPath => "other-path",
            Self::Causation => "causation",
            Self::Subprotocol => "subprotocol",
            Self::Ping => "ping",
            Self::MalformedJson => "malformed-json",
            Self::MissingAttribute => "missing-attribute",
            Self::BoundSession => "bound-session",
            Self::SameId => "same-id",
            Self::OptionalAttributes => "optional-attributes",
            Self::Stream => "stream",
            Self::Receipts => "receipts",
            Self::AckRedelivery => "ack-redelivery",
            Self::AckEnds => "ack-ends",
            Self::Nack => "nack",
            Self::Reconnect => "reconnect",
            Self::TooBig => "too-big",
        }
    }

    /// What a server that keeps it does.
    pub fn expected(self) -> &'static str {
        match self {
            Self::Session => "GET /connector answers 200 with a UUID",
            Self::InvalidSession => "a socket with a session that was never given is closed at once",
            Self::Reply => {
                "an inbound event is answered on its socket by an outbound one with every attribute"
            }
            Self::Echo => "the answer has the connectorId and the conversationId of the event",
            Self::UnknownType => "an event of an unknown type is ignored, and the socket lives",
            Self::SessionCode => "a session that was never given is closed with 4401",
            Self::OtherPath => "the same door is below /api/cortex-m/v1",
            Self::Causation => "the answer names the event in causationid, and itself in data.messageId",
            Self::Subprotocol => "the subprotocol cloudevents.json is confirmed when it is offered",
            Self::Ping => "the text ping is answered with pong, in any case of letters",
            Self::MalformedJson => "malformed JSON is answered with an error event, and the socket lives",
            Self::MissingAttribute => "an event without a required attribute is answered with an error event",
            Self::BoundSession => "a session of one connectorId refuses events of another",
            Self::SameId => "an event that is sent again gets the same answer again",
            Self::OptionalAttributes => "an event without time and datacontenttype is answered",
            Self::Stream => "with ?stream=1 pieces of an answer come before it",
            Self::Receipts => "with ?receipts=1 an event is told to be accepted and to be settled",
            Self::AckRedelivery => "with ?ack=1 a message that was not acked comes again with the same id",
            Self::AckEnds => "a message that was acked does not come again",
            Self::Nack => "a message that was given back with a nack comes again",
            Self::Reconnect => "an answer that nobody was there for comes after a reconnect",
            Self::TooBig => "a frame of more than 1 MiB closes the socket with 1009",
        }
    }

    /// Whether a server may do without it.
    pub fn is_extra(self) -> bool {
        match self {
            Self::Session | Self::InvalidSession | Self::Reply | Self::Echo | Self::UnknownType => false,
            Self::SessionCode
            | Self::OtherPath
            | Self::Causation
            | Self::Subprotocol
            | Self::Ping
            | Self::MalformedJson
            | Self::MissingAttribute
            | Self::BoundSession
            | Self::SameId
            | Self::OptionalAttributes
            | Self::Stream
            | Self::Receipts
            | Self::AckRedelivery
            | Self::AckEnds
            | Self::Nack
            | Self::Reconnect
            | Self::TooBig => true,
        }
    }
}

impl PromiseState {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed => "FAILED",
            Self::Absent => "extra: no",
            Self::Skipped => "skipped",
        }
    }
}

/// People paste the whole address of the door.
fn without_door(mut url: Url) -> Url {
    let path = url.path().trim_end_matches('/');
    let path = path.strip_suffix("/connector").unwrap_or(path).to_owned();
    url.set_path(&path);
    url.set_query(None);
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_the_door_and_of_the_server_are_the_same() {
        for given in ["http://h:1", "http://h:1/", "http://h:1/connector", "http://h:1/connector/?x=1"] {
            assert_eq!(without_door(given.parse().unwrap()).as_str(), "http://h:1/", "{given}");
        }
        let below = without_door("http://h/api/cortex-m/v1/connector".parse().unwrap());
        assert_eq!(below.as_str(), "http://h/api/cortex-m/v1");
    }
}
