//! A connection to one server: opened over stdio or Streamable HTTP, in either era of the protocol.

use super::McpSettings;
use super::backlog::Bounded;
use super::child::McpChild;
use super::config::McpServer;
use super::http::BoundedClient;
use super::offer::{Found, TOOLS_MAX};
use super::sieve::{Sieve, SievedLines};
use crate::tls;
use ::http::HeaderValue;
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use rmcp::model::SubscriptionFilter;
use rmcp::model::{
    ClientCapabilities, ClientConfig, Implementation, PaginatedRequestParams, ProtocolVersion,
};
use rmcp::service::{NotificationContext, RunningService, RunningServiceCancellationToken, Subscription};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::common::client_side_sse::ExponentialBackoff;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{IntoTransport, StreamableHttpClientTransport};
use rmcp::{ClientHandler, ClientLifecycleMode, ClientServiceExt, Peer, RoleClient, ServiceError};
use secrecy::ExposeSecret;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// One message of a server; results are cut far below this.
const MESSAGE_BYTES_MAX: usize = 4 * 1024 * 1024;
const LIST_PAGES_MAX: usize = 32;
const CLOSE_WAIT: Duration = Duration::from_secs(1);
const CONNECT_WAIT: Duration = Duration::from_secs(10);
const STREAM_RETRIES_MAX: usize = 3;

/// An open connection. Dropping it ends the child with all its children.
pub(super) struct Connection {
    pub(super) peer: Peer<RoleClient>,
    /// Rung when the server says that its list of tools changed.
    pub(super) changed: Arc<Notify>,
    /// Rung when the server takes nothing of what is sent to it.
    overrun: Arc<Notify>,
    closed: Shared<BoxFuture<'static, ()>>,
    cancel: Option<RunningServiceCancellationToken>,
    child: Option<McpChild>,
    subscription: Option<Subscription>,
}

/// How the two sides agree on a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Handshake {
    /// Asks in the words of the newest version and falls back to `initialize`.
    NewestFirst,
    /// `initialize` alone, for servers that cannot bear an unknown first word.
    Initialize,
}

impl Handshake {
    pub(super) fn other(self) -> Self {
        match self {
            Self::NewestFirst => Self::Initialize,
            Self::Initialize => Self::NewestFirst,
        }
    }
}

/// Our side of the conversation: it offers nothing and listens for changed tools.
struct Listener {
    changed: Arc<Notify>,
}

impl ClientHandler for Listener {
    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }

    fn get_info(&self) -> ClientConfig {
        let about = Implementation::new("cortex", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), about)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }
}

impl Connection {
    pub(super) async fn open(
        name: &str,
        server: &McpServer,
        settings: &McpSettings,
        handshake: Handshake,
    ) -> Result<Self, String> {
        match server {
            McpServer::Stdio { command, .. } => {
                let started = McpChild::start(name, server, settings);
                let (mut child, stdout, stdin) =
                    started.map_err(|error| format!("{command:?} cannot be started: {error}"))?;
                let stdout = SievedLines { inner: stdout, sieve: Sieve::default() };
                let transport =
                    AsyncRwTransport::new_client(stdout, stdin).with_max_line_length(MESSAGE_BYTES_MAX);
                match Self::shake_hands(transport, handshake).await {
                    Ok(connection) => Ok(Self { child: Some(child), ..connection }),
                    Err(error) => Err(match child.last_words().await {
                        Some(words) => format!("{error}; it wrote: {words}"),
                        None => error,
                    }),
                }
            }
            McpServer::Http { .. } => Self::shake_hands(http_transport(server)?, handshake).await,
        }
    }

    /// Its tools, one more than are offered at most. A server without the capability has none.
    pub(super) async fn list_tools(&self, server: &str) -> Result<Vec<Found>, ServiceError> {
        let mut found = Vec::new();
        let has_tools = self.peer.peer_info().is_some_and(|info| info.capabilities.tools.is_some());
        let mut cursor = None;
        for _ in 0..if has_tools { LIST_PAGES_MAX } else { 0 } {
            let page =
                self.peer.list_tools(Some(PaginatedRequestParams::default().with_cursor(cursor))).await?;
            // Read at once, so that nothing of a page stays but what is offered of it.
            let room = (TOOLS_MAX + 1).saturating_sub(found.len());
            found.extend(page.tools.into_iter().take(room).map(|tool| Found::new(server, tool)));
            cursor = page.next_cursor;
            if cursor.is_none() || found.len() > TOOLS_MAX {
                break;
            }
        }
        Ok(found)
    }

    /// Waits until the server is gone, and says how.
    pub(super) async fn ended(&mut self) -> String {
        let Self { closed, child, overrun, .. } = self;
        let overrun = async {
            overrun.notified().await;
            "it asks without reading the answers".to_owned()
        };
        let how = match child {
            Some(child) => tokio::select! {
                biased;
                how = overrun => how,
                how = child.ended() => how,
                () = closed.clone() => "it closed its output".to_owned(),
            },
            None => tokio::select! {
                biased;
                how = overrun => how,
                () = closed.clone() => "the connection closed".to_owned(),
            },
        };
        match child {
            Some(child) => match child.last_words().await {
                Some(words) => format!("{how}; it wrote: {words}"),
                None => how,
            },
            None => how,
        }
    }

    /// Waits for a word that the list of tools changed, in the newest version of the protocol.
    pub(super) async fn list_changed(subscription: &mut Option<Subscription>) {
        if let Some(open) = subscription
            && matches!(open.next().await, Ok(Some(_)))
        {
            return;
        }
        // It ended or there never was one: nothing comes on this way any more.
        *subscription = None;
        std::future::pending().await
    }

    /// The subscription to changes, to be watched beside the connection.
    pub(super) fn take_subscription(&mut self) -> Option<Subscription> {
        self.subscription.take()
    }

    /// Says goodbye, so that a server can put its things in order.
    pub(super) async fn close(mut self) {
        if let Some(cancel) = self.cancel.take() {
            cancel.cancel();
        }
        if tokio::time::timeout(CLOSE_WAIT, self.closed).await.is_err() {
            tracing::debug!("an MCP server did not take its leave in time");
        }
        if let Some(child) = &mut self.child
            && tokio::time::timeout(CLOSE_WAIT, child.ended()).await.is_err()
        {
            tracing::debug!("an MCP server stays after its input closed; it is killed");
        }
    }

    async fn shake_hands<T, E, A>(transport: T, handshake: Handshake) -> Result<Self, String>
    where
        T: IntoTransport<RoleClient, E, A>,
        E: std::error::Error + Send + Sync + 'static,
    {
        let changed = Arc::new(Notify::new());
        let listener = Listener { changed: Arc::clone(&changed) };
        let lifecycle = match handshake {
            Handshake::Initialize => ClientLifecycleMode::Initialize,
            Handshake::NewestFirst => ClientLifecycleMode::Auto {
                preferred_versions: vec![ProtocolVersion::LATEST],
                legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
            },
        };
        let overrun = Arc::new(Notify::new());
        let transport = Bounded::new(transport.into_transport(), Arc::clone(&overrun));
        let running = listener.serve_with_lifecycle(transport, lifecycle).await;
        let running = running.map_err(|error| error.to_string())?;
        let subscription = subscribe(&running).await;
        let (peer, cancel) = (running.peer().clone(), running.cancellation_token());
        let closed = running.waiting().map(drop).boxed().shared();
        Ok(Self { peer, changed, overrun, closed, cancel: Some(cancel), child: None, subscription })
    }
}

/// The newest version sends changes to those alone who asked for them.
async fn subscribe(running: &RunningService<RoleClient, Listener>) -> Option<Subscription> {
    let info = running.peer().peer_info()?;
    let changes = info.capabilities.tools.as_ref()?.list_changed == Some(true);
    if !changes || info.protocol_version.has_initialize() {
        return None;
    }
    let filter = SubscriptionFilter::builder().tools_list_changed().build();
    match tokio::time::timeout(CLOSE_WAIT, running.peer().listen(filter)).await {
        Ok(Ok(subscription)) => Some(subscription),
        Ok(Err(error)) => {
            tracing::debug!(%error, "an MCP server takes no subscription");
            None
        }
        Err(_) => None,
    }
}

fn http_transport(server: &McpServer) -> Result<StreamableHttpClientTransport<BoundedClient>, String> {
    let McpServer::Http { url, headers } = server else {
        return Err("this server has no url".to_owned());
    };
    let mut config =
        StreamableHttpClientTransportConfig::with_uri(url.as_str()).max_sse_event_size(MESSAGE_BYTES_MAX);
    let mut backoff = ExponentialBackoff::default();
    backoff.max_times = Some(STREAM_RETRIES_MAX);
    config.retry_config = Arc::new(backoff);
    for (name, value) in headers {
        let mut value = HeaderValue::from_str(value.expose_secret()).map_err(|error| error.to_string())?;
        value.set_sensitive(true);
        config.custom_headers.insert(name.clone(), value);
    }
    let client = BoundedClient { inner: http_client()?, message_bytes_max: MESSAGE_BYTES_MAX };
    Ok(StreamableHttpClientTransport::with_client(client, config))
}

/// Redirects are refused: a redirected request would carry the headers to another host.
fn http_client() -> Result<reqwest::Client, String> {
    let tls = tls::tls_config().map_err(|error| format!("TLS cannot be set up: {error}"))?;
    reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .connect_timeout(CONNECT_WAIT)
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("cortex/", env!("CARGO_PKG_VERSION")))
        .no_proxy()
        .build()
        .map_err(|error| error.to_string())
}
