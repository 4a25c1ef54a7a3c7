//! What the conformance program says and hears: sessions over HTTP, frames over a WebSocket.

use cortex_api::{ACK_TYPE, ERROR_TYPE, INBOUND_TYPE, NACK_TYPE, OUTBOUND_TYPE};
use futures::{SinkExt, StreamExt};
use reqwest::{StatusCode, Url};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async_with_config};
use ulid::Ulid;

/// How long a server may take to accept a request or a socket.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// What a person needs to see of a frame.
const SHOWN_CHARS: usize = 300;

/// A server, and who speaks to it.
pub(super) struct Wire {
    pub(super) base: Url,
    pub(super) client: reqwest::Client,
    pub(super) key: Option<SecretString>,
    pub(super) source: String,
    pub(super) connector_id: String,
}

/// What a socket has to say next.
#[derive(Debug)]
pub(super) enum Heard {
    /// A CloudEvent.
    Event(Value),
    /// Text that is none.
    Words(String),
    Pong,
    Closed {
        code: Option<u16>,
    },
    /// Nothing, for as long as one listened.
    Silence,
}

pub(super) struct Socket(WebSocketStream<MaybeTlsStream<TcpStream>>);

impl Wire {
    /// `GET <prefix>/connector`; the error is what was seen instead.
    pub(super) async fn session(&self, prefix: &str, is_named: bool) -> Result<String, String> {
        let mut url = self.address(prefix, "");
        if is_named {
            url.query_pairs_mut().append_pair("connectorId", &self.connector_id);
        }
        let mut request = self.client.get(url).timeout(CONNECT_MAX);
        if let Some(key) = &self.key {
            request = request.bearer_auth(key.expose_secret());
        }
        let answer = request.send().await.map_err(|error| innermost(&error.without_url()))?;
        let status = answer.status();
        let text = answer.text().await.map_err(|error| innermost(&error.without_url()))?;
        match status {
            StatusCode::OK => Ok(text.trim().to_owned()),
            StatusCode::UNAUTHORIZED => Err("401; give a key with --key".to_owned()),
            status => Err(format!("{status}: {}", shown(&text))),
        }
    }

    /// Opens a socket with these options in its query.
    pub(super) async fn socket(
        &self,
        prefix: &str,
        session: &str,
        options: &[(&str, &str)],
    ) -> Result<Socket, String> {
        connected(self.socket_address(prefix, session, options)?.as_str()).await
    }

    /// Opens a socket that offers a subprotocol; one that is not confirmed is an error.
    pub(super) async fn socket_offering(&self, session: &str, offered: &str) -> Result<Socket, String> {
        let request = self.socket_address("", session, &[])?.as_str().into_client_request();
        let mut request = request.map_err(|error| error.to_string())?;
        let offered = offered.parse().map_err(|_| "the subprotocol is no header".to_owned())?;
        request.headers_mut().insert("sec-websocket-protocol", offered);
        connected(request).await
    }

    fn socket_address(&self, prefix: &str, session: &str, options: &[(&str, &str)]) -> Result<Url, String> {
        let mut url = self.address(prefix, &format!("/{session}"));
        if !options.is_empty() {
            url.query_pairs_mut().extend_pairs(options);
        }
        let scheme = if url.scheme() == "https" { "wss" } else { "ws" };
        url.set_scheme(scheme).map_err(|()| "the address cannot be one of a WebSocket".to_owned())?;
        Ok(url)
    }

    /// A message with these words, all attributes set.
    pub(super) fn inbound(&self, conversation: &str, text: &str) -> Value {
        json!({
            "specversion": "1.0",
            "type": INBOUND_TYPE,
            "source": self.source,
            "id": new_id(),
            "time": "2026-02-23T14:00:00Z",
            "datacontenttype": "application/json",
            "data": {
                "connectorId": self.connector_id,
                "conversationId": conversation,
                "roomId": "!check:example.org",
                "text": text,
            },
        })
    }

    pub(super) fn ack(&self, message: &Value) -> Value {
        json!({
            "specversion": "1.0",
            "type": ACK_TYPE,
            "source": self.source,
            "id": new_id(),
            "data": {"connectorId": self.connector_id, "messageId": message["id"]},
        })
    }

    /// Gives a message back.
    pub(super) fn nack(&self, message: &Value) -> Value {
        json!({
            "specversion": "1.0",
            "type": NACK_TYPE,
            "source": self.source,
            "id": new_id(),
            "data": {"connectorId": self.connector_id, "messageId": message["id"], "error": "connector check"},
        })
    }

    fn address(&self, prefix: &str, rest: &str) -> Url {
        let mut url = self.base.clone();
        let before = url.path().trim_end_matches('/').to_owned();
        url.set_path(&format!("{before}{prefix}/connector{rest}"));
        url
    }
}

impl Socket {
    pub(super) async fn send(&mut self, event: &Value) -> Result<(), String> {
        self.say(event.to_string()).await
    }

    pub(super) async fn say(&mut self, text: String) -> Result<(), String> {
        let sent = tokio::time::timeout(CONNECT_MAX, self.0.send(Message::Text(text.into()))).await;
        sent.map_err(|_| "the socket takes nothing".to_owned())?.map_err(|error| error.to_string())
    }

    /// The next thing, within this time.
    pub(super) async fn hear(&mut self, wait: Duration) -> Heard {
        let until = Instant::now() + wait;
        loop {
            let heard = match timeout_at(until, self.0.next()).await {
                Err(_) => return Heard::Silence,
                Ok(heard) => heard,
            };
            return match heard {
                None | Some(Err(_)) => Heard::Closed { code: None },
                Some(Ok(Message::Close(frame))) => {
                    Heard::Closed { code: frame.map(|frame| frame.code.into()) }
                }
                Some(Ok(Message::Pong(_))) => Heard::Pong,
                Some(Ok(Message::Ping(_) | Message::Frame(_))) => continue,
                Some(Ok(Message::Text(text))) => read(text.as_str()),
                Some(Ok(Message::Binary(bytes))) => read(&String::from_utf8_lossy(&bytes)),
            };
        }
    }

    /// The answer to an event; pieces of it and words are passed over.
    pub(super) async fn reply(&mut self, id: &Value, wait: Duration) -> Result<Value, String> {
        let until = Instant::now() + wait;
        loop {
            match self.hear(until.saturating_duration_since(Instant::now())).await {
                Heard::Event(event) if event["type"] == ERROR_TYPE => return Err(shown(&event.to_string())),
                Heard::Event(event) if event["type"] == OUTBOUND_TYPE => {
                    // A server that does not say what it answers answers in order.
                    let causation = event.get("causationid").unwrap_or(id);
                    if causation == id {
                        return Ok(event);
                    }
                }
                Heard::Event(_) | Heard::Words(_) | Heard::Pong => {}
                closed @ Heard::Closed { .. } => return Err(closed.to_string()),
                Heard::Silence => return Err(format!("nothing within {} s", wait.as_secs())),
            }
        }
    }

    /// Whether the server still answers a ping of the protocol, and what it said before that.
    pub(super) async fn is_alive(&mut self, wait: Duration) -> Result<Vec<Heard>, String> {
        let ping = tokio::time::timeout(CONNECT_MAX, self.0.send(Message::Ping("check".into()))).await;
        if !matches!(ping, Ok(Ok(()))) {
            return Err("the socket was closed".to_owned());
        }
        let until = Instant::now() + wait;
        let mut before = Vec::new();
        loop {
            match self.hear(until.saturating_duration_since(Instant::now())).await {
                Heard::Pong => return Ok(before),
                heard @ (Heard::Closed { .. } | Heard::Silence) => return Err(heard.to_string()),
                heard @ (Heard::Event(_) | Heard::Words(_)) => before.push(heard),
            }
        }
    }

    pub(super) async fn close(mut self) {
        // The other side may be gone already, which is as good.
        drop(tokio::time::timeout(CONNECT_MAX, self.0.close(None)).await);
        drop(
            tokio::time::timeout(CONNECT_MAX, async { while let Some(Ok(_)) = self.0.next().await {} }).await,
        );
    }
}

async fn connected(request: impl IntoClientRequest + Unpin) -> Result<Socket, String> {
    let connecting = connect_async_with_config(request, Some(WebSocketConfig::default()), true);
    match tokio::time::timeout(CONNECT_MAX, connecting).await {
        Ok(Ok((socket, _))) => Ok(Socket(socket)),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no socket within {} s", CONNECT_MAX.as_secs())),
    }
}

fn read(text: &str) -> Heard {
    match serde_json::from_str(text) {
        Ok(event @ Value::Object(_)) => Heard::Event(event),
        Ok(_) | Err(_) => Heard::Words(text.to_owned()),
    }
}

impl std::fmt::Display for Heard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Event(event) => f.write_str(&shown(&event.to_string())),
            Self::Words(words) => write!(f, "{:?}", shown(words)),
            Self::Pong => f.write_str("a pong"),
            Self::Closed { code: Some(code) } => write!(f, "the socket was closed with {code}"),
            Self::Closed { code: None } => f.write_str("the socket was closed without a code"),
            Self::Silence => f.write_str("silence"),
        }
    }
}

/// A random id in the spelling of a UUID.
pub(super) fn new_id() -> String {
    cortex_api::random_uuid(Ulid::generate().0)
}

pub(super) fn shown(text: &str) -> String {
    let cut: String = text.chars().take(SHOWN_CHARS).collect();
    if cut.len() < text.len() { format!("{cut}…") } else { cut }
}

fn innermost(error: &dyn std::error::Error) -> String {
    let mut inner = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}
