//! The MCP client: the servers of `mcpServers`, kept connected, and their tools as tools of ours.

mod call;
mod child;
mod config;
mod connection;
mod content;
mod offer;
mod supervisor;

pub(crate) use config::name_part;
pub use config::{McpServer, McpServers, McpServersError};

use crate::tool::{CallContext, ToolCallError, ToolDefinition, ToolName, ToolOutcome, ToolRunner};
use async_trait::async_trait;
use rmcp::model::JsonObject;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use supervisor::{Supervisor, View};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

/// How servers are started and how long they are waited for.
#[derive(Debug, Clone)]
pub struct McpSettings {
    /// This process's environment. A child gets PATH, HOME, LANG, TZ and TMPDIR of it, and its own `env`.
    pub environment: BTreeMap<String, String>,
    pub connect_timeout: Duration,
    /// The longest a call may take, whatever the caller waits for.
    pub call_timeout: Duration,
    pub first_backoff: Duration,
    pub longest_backoff: Duration,
}

impl Default for McpSettings {
    fn default() -> Self {
        Self {
            environment: BTreeMap::new(),
            connect_timeout: Duration::from_secs(60),
            call_timeout: Duration::from_secs(300),
            first_backoff: Duration::from_secs(1),
            longest_backoff: Duration::from_secs(60),
        }
    }
}

impl McpSettings {
    fn backoff(&self, failures: u32) -> Duration {
        let doubled = 2_u32.saturating_pow(failures.saturating_sub(1).min(16));
        self.first_backoff.saturating_mul(doubled).min(self.longest_backoff)
    }
}

/// Where a server stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum McpState {
    Connecting,
    Ready { tools: usize },
    Down { error: String, retry_in: Duration },
    Stopped,
}

/// A server, as `status` and `doctor` show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpServerStatus {
    pub name: String,
    pub state: McpState,
    /// Tools that are not offered, and why.
    pub problems: Vec<String>,
}

/// All configured servers. Dropping it ends them.
pub struct McpSet {
    /// By the name their tools begin with.
    servers: BTreeMap<String, Server>,
    changes: watch::Receiver<u64>,
    settings: Arc<McpSettings>,
    stop: CancellationToken,
    _stop_on_drop: DropGuard,
}

struct Server {
    name: String,
    view: watch::Receiver<View>,
}

impl McpSet {
    /// Begins to connect to every server and returns at once; the tools appear as the servers answer.
    /// Needs a Tokio runtime around it.
    pub fn connect(servers: McpServers, settings: McpSettings) -> Self {
        let settings = Arc::new(settings);
        let stop = CancellationToken::new();
        let (count, changes) = watch::channel(0);
        let count = Arc::new(count);
        let start = |(name, server): (String, McpServer)| {
            let (view, seen) = watch::channel(View::connecting());
            let supervisor = Supervisor {
                name: name.clone(),
                server,
                settings: Arc::clone(&settings),
                view,
                changes: Arc::clone(&count),
                stop: stop.clone(),
            };
            tokio::spawn(supervisor.run());
            (name_part(&name), Server { name, view: seen })
        };
        let servers = servers.0.into_iter().map(start).collect();
        Self { servers, changes, settings, _stop_on_drop: stop.clone().drop_guard(), stop }
    }

    /// The tools that can be called now.
    pub fn definitions(&self) -> Vec<ToolDefinition> {
        let offered = |server: &Server| {
            let view = server.view.borrow();
            view.offer.tools.values().map(|tool| tool.definition.clone()).collect::<Vec<_>>()
        };
        self.servers.values().flat_map(offered).collect()
    }

    /// Changes each time [`Self::definitions`] does.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.clone()
    }

    pub fn status(&self) -> Vec<McpServerStatus> {
        let status = |server: &Server| {
            let view = server.view.borrow();
            McpServerStatus {
                name: server.name.clone(),
                state: view.state.clone(),
                problems: view.offer.problems.clone(),
            }
        };
        self.servers.values().map(status).collect()
    }

    /// Ends all servers and waits until they are gone.
    pub async fn stop(&self) {
        self.stop.cancel();
        for server in self.servers.values() {
            let mut view = server.view.clone();
            // An error means that its task is gone, and the server with it.
            drop(view.wait_for(|view| view.state == McpState::Stopped).await);
        }
    }
}

#[async_trait]
impl ToolRunner for McpSet {
    async fn run(
        &self,
        name: &ToolName,
        arguments_json: &str,
        context: &CallContext,
    ) -> Result<ToolOutcome, ToolCallError> {
        let not_run = |reason: String| ToolCallError::NotRun(reason);
        let server =
            self.servers.get(name.skill()).ok_or_else(|| not_run(format!("no MCP server offers {name}")))?;
        let View { state, offer, line } = server.view.borrow().clone();
        let line = line.ok_or_else(|| not_run(not_connected(&server.name, &state)))?;
        let tool = offer.tools.get(name).ok_or_else(|| not_run(format!("{name} is no longer offered")))?;
        let arguments: JsonObject = serde_json::from_str(arguments_json)
            .map_err(|error| not_run(format!("the arguments are no object: {error}")))?;
        line.call(tool, arguments, context, self.settings.call_timeout).await
    }
}

fn not_connected(server: &str, state: &McpState) -> String {
    match state {
        McpState::Connecting | McpState::Ready { .. } => {
            format!("the MCP server {server:?} is still connecting")
        }
        McpState::Down { error, .. } => format!("the MCP server {server:?} is down: {error}"),
        McpState::Stopped => format!("the MCP server {server:?} is stopped"),
    }
}
