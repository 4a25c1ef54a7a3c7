//! A connector's socket as anybody on the machine can open it.

use super::target::Target;
use super::wire::{Request, connect};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::io::ErrorKind;
use std::net::TcpStream;
use std::time::{Duration, Instant};
use tungstenite::{Error, Message, WebSocket};

/// How long a socket is listened to for what should not come.
const EAVESDROP: Duration = Duration::from_millis(1_500);
const PATIENCE: Duration = Duration::from_secs(20);
const READ_SLICE: Duration = Duration::from_millis(100);

pub(crate) struct Socket {
    open: WebSocket<TcpStream>,
}

/// What a connector says about itself in a frame.
pub(crate) struct Posing<'a> {
    pub(crate) source: &'a str,
    pub(crate) connector_id: &'a str,
    pub(crate) conversation: &'a str,
    pub(crate) user: Option<&'a str>,
}

impl Socket {
    /// A session and its socket, with a key or without.
    pub(crate) fn open(target: &Target, key: Option<&str>, query: &str) -> Result<Self> {
        let ask = Request::get(format!("/connector{query}"));
        let ask = key.map_or(ask.clone(), |key| ask.key(key));
        let session = target.ask(&ask)?;
        anyhow::ensure!(session.code == 200, "no session: {} {}", session.code, session.text());
        Self::connect(target, &session.text(), query)
    }

    pub(crate) fn connect(target: &Target, session: &str, query: &str) -> Result<Self> {
        let stream = connect(target.port)?;
        let address = format!("ws://127.0.0.1:{}/connector/{session}{query}", target.port);
        let (open, _) = tungstenite::client(address, stream).ok().context("the socket did not open")?;
        open.get_ref().set_read_timeout(Some(READ_SLICE))?;
        Ok(Self { open })
    }

    pub(crate) fn say(&mut self, as_whom: &Posing<'_>, id: &str, text: &str, metadata: &Value) -> Result<()> {
        let mut data = json!({
            "connectorId": as_whom.connector_id,
            "conversationId": as_whom.conversation,
            "text": text,
            "metadata": metadata,
        });
        if let Some(user) = as_whom.user {
            data["userId"] = json!(user);
        }
        let event = json!({
            "specversion": "1.0",
            "type": "assistant.message.inbound",
            "source": as_whom.source,
            "id": id,
            "time": "2026-02-23T14:00:00Z",
            "datacontenttype": "application/json",
            "data": data,
        });
        Ok(self.open.send(Message::text(event.to_string()))?)
    }

    pub(crate) fn send(&mut self, event: &Value) -> Result<()> {
        Ok(self.open.send(Message::text(event.to_string()))?)
    }

    pub(crate) fn send_text(&mut self, text: &str) -> Result<()> {
        Ok(self.open.send(Message::text(text))?)
    }

    /// The next frame that fits.
    pub(crate) fn wait_for(&mut self, fits: impl Fn(&Value) -> bool) -> Result<Value> {
        let started = Instant::now();
        let mut seen = Vec::new();
        while started.elapsed() < PATIENCE {
            match self.frame()? {
                Some(frame) if fits(&frame) => return Ok(frame),
                Some(frame) => seen.push(frame),
                None => {}
            }
        }
        anyhow::bail!("no such frame came; seen: {seen:?}")
    }

    /// Everything that comes in a while, as one text.
    pub(crate) fn overhear(&mut self) -> String {
        let started = Instant::now();
        let mut heard = String::new();
        while started.elapsed() < EAVESDROP {
            match self.frame() {
                Ok(Some(frame)) => heard += &format!("{frame}\n"),
                Ok(None) => {}
                // A server that hangs up says no more.
                Err(_) => break,
            }
        }
        heard
    }

    fn frame(&mut self) -> Result<Option<Value>> {
        match self.open.read() {
            Ok(Message::Text(text)) => Ok(Some(serde_json::from_str(&text).unwrap_or(Value::Null))),
            Ok(Message::Close(_)) => anyhow::bail!("the socket was closed"),
            Ok(Message::Binary(_) | Message::Ping(_) | Message::Pong(_) | Message::Frame(_)) => Ok(None),
            Err(Error::Io(error)) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }
}
