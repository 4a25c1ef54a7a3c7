//! Keeps one server connected: connects, lists its tools, notices its end, waits and connects again.

use super::call::Line;
use super::config::McpServer;
use super::connection::{Connection, Handshake};
use super::offer::{Offer, OfferedTool};
use super::{McpSettings, McpState};
use crate::schema::Apart;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// A server may say often that its tools changed; it is asked this seldom.
const CHANGES_SETTLE: Duration = Duration::from_millis(200);
/// HTTP has no line that breaks, so the server is looked at now and then.
const HTTP_LOOK_EVERY: Duration = Duration::from_secs(60);
/// A connection that held this long was good: the next failure is a first one.
const STEADY_AFTER: Duration = Duration::from_secs(60);
const LOOK_MAX: Duration = Duration::from_secs(30);

/// What is known about a server right now.
#[derive(Debug, Clone)]
pub(super) struct View {
    pub(super) state: McpState,
    /// What it last offered, also while it is away; nothing before it listed its tools for the first time.
    pub(super) offer: Option<Arc<Offer>>,
    /// There while the server is connected.
    pub(super) line: Option<Arc<Line>>,
}

impl View {
    pub(super) fn connecting() -> Self {
        Self { state: McpState::Connecting, offer: None, line: None }
    }

    pub(super) fn tools(&self) -> impl Iterator<Item = &OfferedTool> {
        self.offer.iter().flat_map(|offer| offer.tools.values())
    }
}

pub(super) struct Supervisor {
    pub(super) name: String,
    pub(super) server: McpServer,
    pub(super) settings: Arc<McpSettings>,
    pub(super) view: watch::Sender<View>,
    /// Counts changes of what is offered, of all servers.
    pub(super) changes: Arc<watch::Sender<u64>>,
    /// Rung by a call that waits for the server: it is tried again at once.
    pub(super) wanted: Arc<Notify>,
    pub(super) apart: Apart,
    pub(super) stop: CancellationToken,
}

/// How a connection ended.
enum Ended {
    Stopped,
    /// It never came about.
    Refused(String),
    Lost(String),
}

impl Supervisor {
    pub(super) async fn run(self) {
        let mut failures: u32 = 0;
        let mut handshake = Handshake::NewestFirst;
        loop {
            let started = Instant::now();
            let error = match self.connect_and_serve(handshake).await {
                Ended::Stopped => break,
                Ended::Lost(error) => error,
                Ended::Refused(error) => {
                    // A server may die of the newest words; it hears the older ones the next time.
                    handshake = handshake.other();
                    error
                }
            };
            // A dying server may tell its environment; the reason is shown in many places.
            let error = self.server.without_secrets(&error);
            failures = if started.elapsed() > STEADY_AFTER { 1 } else { failures.saturating_add(1) };
            let retry_in = self.settings.backoff(failures);
            tracing::warn!(server = %self.name, %error, retry_ms = retry_in.as_millis(), "an MCP server is down");
            self.away(McpState::Down { error, retry_in });
            tokio::select! {
                () = tokio::time::sleep(retry_in) => {}
                () = self.wanted.notified() => failures = 0,
                () = self.stop.cancelled() => break,
            }
            self.away(McpState::Connecting);
        }
        self.publish(McpState::Stopped, None, None);
    }

    async fn connect_and_serve(&self, handshake: Handshake) -> Ended {
        let opening = Connection::open(&self.name, &self.server, &self.settings, handshake);
        let opened = tokio::select! {
            opened = tokio::time::timeout(self.settings.connect_timeout, opening) => opened,
            () = self.stop.cancelled() => return Ended::Stopped,
        };
        let mut connection = match opened {
            Ok(Ok(connection)) => connection,
            Ok(Err(error)) => return Ended::Refused(error),
            Err(_) => return Ended::Refused("it did not answer in time".to_owned()),
        };
        let ended = self.serve(&mut connection).await;
        connection.close().await;
        ended
    }

    async fn serve(&self, connection: &mut Connection) -> Ended {
        let line = Arc::new(Line { peer: connection.peer.clone(), broken: Notify::new() });
        let changed = Arc::clone(&connection.changed);
        let mut subscription = connection.take_subscription();
        loop {
            let tools = tokio::select! {
                tools = tokio::time::timeout(LOOK_MAX, connection.list_tools(&self.name)) => tools,
                () = self.stop.cancelled() => return Ended::Stopped,
            };
            let tools = match tools {
                Ok(Ok(tools)) => tools,
                Ok(Err(error)) => return Ended::Lost(format!("its tools cannot be listed: {error}")),
                Err(_) => return Ended::Lost("it did not list its tools in time".to_owned()),
            };
            let before = self.view.borrow().offer.clone().unwrap_or_default();
            let offer = Offer::new(tools, &before, &self.apart).await;
            self.publish(McpState::Ready { tools: offer.tools.len() }, Some(Arc::new(offer)), Some(&line));
            tokio::select! {
                error = connection.ended() => return Ended::Lost(error),
                () = line.broken.notified() => return Ended::Lost("a call found it gone".to_owned()),
                () = changed.notified() => tokio::time::sleep(CHANGES_SETTLE).await,
                () = Connection::list_changed(&mut subscription) => tokio::time::sleep(CHANGES_SETTLE).await,
                () = self.next_look() => {}
                () = self.stop.cancelled() => return Ended::Stopped,
            }
        }
    }

    async fn next_look(&self) {
        match self.server {
            McpServer::Http { .. } => tokio::time::sleep(HTTP_LOOK_EVERY).await,
            McpServer::Stdio { .. } => std::future::pending().await,
        }
    }

    /// It is not connected; what it offered stands.
    fn away(&self, state: McpState) {
        let offer = self.view.borrow().offer.clone();
        self.publish(state, offer, None);
    }

    fn publish(&self, state: McpState, offer: Option<Arc<Offer>>, line: Option<&Arc<Line>>) {
        let offers_change = self.view.borrow().offer != offer;
        if offers_change {
            for problem in offer.iter().flat_map(|offer| &offer.problems) {
                tracing::warn!(server = %self.name, %problem, "a tool of an MCP server is not offered");
            }
        }
        self.view.send_replace(View { state, offer, line: line.cloned() });
        if offers_change {
            self.changes.send_modify(|count| *count += 1);
        }
    }
}
