//! A connector as a test writes it: a session, a WebSocket, CloudEvents both ways.

#![expect(clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

use crate::server::RunningTestServer;
use futures::{SinkExt, StreamExt};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

/// Two busy cores make honest work slow.
const PATIENCE: Duration = Duration::from_secs(60);

/// A connected connector.
pub struct TestConnector {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    subprotocol: Option<String>,
}

/// What a connector hears.
#[derive(Debug, Clone, PartialEq)]
pub enum Heard {
    Event(Value),
    /// A text that is no JSON, such as `pong`.
    Text(String),
    Closed(Option<u16>),
}

/// An inbound event of the connector `name` in this conversation.
pub fn said_over(name: &str, conversation: &str, id: &str, text: &str) -> Value {
    json!({
        "specversion": "1.0",
        "type": "assistant.message.inbound",
        "source": format!("urn:connector:{name}"),
        "id": id,
        "time": "2026-02-23T14:00:00Z",
        "datacontenttype": "application/json",
        "data": { "connectorId": name, "conversationId": conversation, "text": text },
    })
}

impl TestConnector {
    /// A new session without a key, and its socket.
    pub async fn connect(server: &RunningTestServer, query: &str) -> Self {
        let session = Self::session(server, "").await;
        Self::open(server.address(), &session, query).await.expect("the socket opens")
    }

    /// A new session that the owner's key opened, and its socket: its source counts as proven.
    pub async fn of_owner(server: &RunningTestServer, query: &str) -> Self {
        let answer = server.get("/connector").await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        Self::open(server.address(), &answer.text(), query).await.expect("the socket opens")
    }

    /// A session as a program on this machine gets it.
    pub async fn session(server: &RunningTestServer, query: &str) -> String {
        let answer = server.request("GET", &format!("/connector{query}")).without_key().send().await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.text()
    }

    /// Opens the socket of a session.
    pub async fn open(address: SocketAddr, session: &str, query: &str) -> Result<Self, String> {
        Self::open_with(address, &format!("/connector/{session}{query}"), &[]).await
    }

    /// The same at any path and with more headers; an error says what the server answered.
    pub async fn open_with(
        address: SocketAddr,
        path: &str,
        headers: &[(&'static str, &str)],
    ) -> Result<Self, String> {
        let mut request =
            format!("ws://{address}{path}").into_client_request().expect("an address is a request");
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().expect("a header"));
        }
        let connected = connect_async(request).await;
        let (socket, answer) = connected.map_err(|error| error.to_string())?;
        let subprotocol = answer.headers().get("sec-websocket-protocol");
        let subprotocol = subprotocol.map(|name| name.to_str().expect("a name").to_owned());
        Ok(Self { socket, subprotocol })
    }

    /// The subprotocol that the server chose.
    pub fn subprotocol(&self) -> Option<&str> {
        self.subprotocol.as_deref()
    }

    /// The beginning of a message that goes on; false when the server hung up.
    pub async fn send_half(&mut self, text: &str) -> bool {
        let half = Frame::message(text.to_owned(), OpCode::Data(Data::Text), false);
        self.socket.send(Message::Frame(half)).await.is_ok()
    }

    /// The end of a message that was begun.
    pub async fn send_rest(&mut self, text: &str) {
        let rest = Frame::message(text.to_owned(), OpCode::Data(Data::Continue), true);
        self.socket.send(Message::Frame(rest)).await.expect("the socket takes it");
    }

    /// Whether the server answers a ping of the protocol; what it said before that is passed over.
    pub async fn is_alive(&mut self) -> bool {
        if self.socket.send(Message::Ping("alive?".into())).await.is_err() {
            return false;
        }
        loop {
            match tokio::time::timeout(PATIENCE, self.socket.next()).await.expect("something is heard") {
                Some(Ok(Message::Pong(_))) => return true,
                Some(Ok(Message::Close(_)) | Err(_)) | None => return false,
                Some(Ok(_)) => {}
            }
        }
    }

    pub async fn send(&mut self, event: &Value) {
        self.send_text(&event.to_string()).await;
    }

    pub async fn send_text(&mut self, text: &str) {
        self.socket.send(Message::text(text)).await.expect("the socket takes it");
    }

    pub async fn send_bytes(&mut self, bytes: Vec<u8>) {
        self.socket.send(Message::binary(bytes)).await.expect("the socket takes it");
    }

    /// Acknowledges an outbound event.
    pub async fn ack(&mut self, outbound: &Value) {
        let ack = json!({
            "specversion": "1.0",
            "type": "assistant.message.ack",
            "source": "urn:connector:any",
            "id": format!("ack-{}", outbound["id"].as_str().unwrap_or_default()),
            "data": { "messageId": outbound["id"] },
        });
        self.send(&ack).await;
    }

    pub async fn hear(&mut self) -> Heard {
        loop {
            let heard = tokio::time::timeout(PATIENCE, self.socket.next()).await.expect("something is heard");
            match heard {
                Some(Ok(Message::Text(text))) => {
                    let event = serde_json::from_str(&text).map(Heard::Event);
                    return event.unwrap_or_else(|_| Heard::Text(text.to_string()));
                }
                Some(Ok(Message::Close(frame))) => {
                    return Heard::Closed(frame.map(|frame| frame.code.into()));
                }
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Heard::Closed(None),
            }
        }
    }

    /// The next event, which must be one.
    pub async fn event(&mut self) -> Value {
        match self.hear().await {
            Heard::Event(event) => event,
            other @ (Heard::Text(_) | Heard::Closed(_)) => panic!("expected an event, heard {other:?}"),
        }
    }

    /// Asks for a `pong` and gives every event that came before it.
    pub async fn so_far(&mut self) -> Vec<Value> {
        self.send_text("ping").await;
        let mut events = Vec::new();
        loop {
            match self.hear().await {
                Heard::Event(event) => events.push(event),
                Heard::Text(text) if text == "pong" => return events,
                other @ (Heard::Text(_) | Heard::Closed(_)) => {
                    panic!("expected events and a pong, heard {other:?}")
                }
            }
        }
    }

    pub async fn close(mut self) {
        self.socket.close(None).await.unwrap_or_default();
        while let Some(Ok(_)) = self.socket.next().await {}
    }
}
