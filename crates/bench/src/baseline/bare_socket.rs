//! Sockets without a product behind them: an echo in this binary, and npm's `ws` doing the door's work in memory.

use crate::BenchError;
use crate::client::Target;
use axum::Router;
use axum::extract::ws::{Message, WebSocketUpgrade};
use axum::routing::any;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

pub(crate) const ECHO_SOCKET: &str = "/bench/echo/socket";

/// Behind the same guard and listener as the real door: what comes goes back.
pub(crate) fn echo_socket_routes() -> Router {
    let upgrade = |upgrade: WebSocketUpgrade| async {
        upgrade.on_upgrade(|mut socket| async move {
            while let Some(Ok(message)) = socket.recv().await {
                let answer = match message {
                    text @ Message::Text(_) => text,
                    Message::Close(_) => return,
                    Message::Binary(_) | Message::Ping(_) | Message::Pong(_) => continue,
                };
                if socket.send(answer).await.is_err() {
                    return;
                }
            }
        })
    };
    Router::new().route(ECHO_SOCKET, any(upgrade))
}

/// Parses, finds the event by its identity and answers with what it has, as the door does; nothing is on a disk.
const NODE_SERVER: &str = r#"
const { WebSocketServer } = require("ws");
const answers = new Map();
const server = new WebSocketServer({ host: "127.0.0.1", port: 0, perMessageDeflate: false }, () => {
  console.log(server.address().port);
});
server.on("connection", (socket) => {
  socket._socket.setNoDelay(true);
  socket.on("message", (frame) => {
    const event = JSON.parse(frame);
    if (event.specversion !== "1.0" || !event.data.text) return;
    const identity = event.source + "\0" + event.id;
    let answer = answers.get(identity);
    if (!answer) {
      answer = JSON.stringify({
        specversion: "1.0", type: "assistant.message.outbound", source: "urn:node", id: event.id,
        time: new Date().toISOString(), datacontenttype: "application/json", causationid: event.id,
        data: { connectorId: event.data.connectorId, conversationId: event.data.conversationId, text: event.data.text },
      });
      answers.set(identity, answer);
    }
    socket.send(answer);
  });
});
process.stdin.on("end", () => process.exit(0)).resume();
"#;

/// A Node process of our own; it ends when its input does.
pub(crate) struct NodeSockets {
    child: Child,
    pub(crate) target: Target,
}

impl NodeSockets {
    /// `node_modules` is the folder in which npm put `ws`.
    pub(crate) fn start(node_modules: &Path) -> Result<Self, BenchError> {
        let mut child = Command::new("node")
            .args(["-e", NODE_SERVER])
            .env("NODE_PATH", node_modules)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| BenchError::Broken(format!("node does not start: {error}")))?;
        let mut line = String::new();
        if let Some(output) = child.stdout.take() {
            BufReader::new(output).read_line(&mut line)?;
        }
        match line.trim().parse::<u16>() {
            Ok(port) => {
                let target = Target { address: ([127, 0, 0, 1], port).into(), key: String::new() };
                Ok(Self { child, target })
            }
            Err(_) => {
                drop(child.kill().and_then(|()| child.wait()));
                let told = format!("node says no port; is npm's ws in {}?", node_modules.display());
                Err(BenchError::Broken(told))
            }
        }
    }
}

impl Drop for NodeSockets {
    fn drop(&mut self) {
        // One that has ended already cannot be killed, and need not be.
        if self.child.kill().is_ok() {
            drop(self.child.wait());
        }
    }
}
