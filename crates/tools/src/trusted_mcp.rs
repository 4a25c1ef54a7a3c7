//! MCP servers whose definitions are pinned: a tool that describes itself anew is not offered until it is trusted.

use crate::awaiting::Offer;
use crate::mcp::{McpServerStatus, McpServers, McpSet, McpSettings};
use crate::registry::ToolProvider;
use crate::schema::InputSchema;
use crate::tool::{CallContext, ToolCallError, ToolDefinition, ToolName, ToolOutcome, ToolRunner};
use crate::trust::{PinGroup, PinnedGroup, TrustStore, TrustStoreError, pin_group, trust_group};
use async_trait::async_trait;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

const PIN_WAIT: Duration = Duration::from_secs(5);

/// The servers, and what of them is trusted.
pub(crate) struct TrustedMcp {
    set: Arc<McpSet>,
    trusted: Arc<dyn TrustStore>,
    pins: Pins,
    /// Ends the task that pins what is first seen.
    watching: tokio::task::JoinHandle<()>,
}

/// What is trusted, as it was last read.
#[derive(Clone, Default)]
struct Pins(watch::Sender<Pinned>);

#[derive(Default)]
struct Pinned {
    all: HashMap<String, [u8; 32]>,
    /// What trusted tools say of themselves: of those that changed it is what they said.
    descriptions: HashMap<String, String>,
    /// The last change of what is offered that was looked at.
    seen: u64,
}

impl Pins {
    fn put(&self, all: HashMap<String, [u8; 32]>, offered: &[ToolDefinition]) {
        self.0.send_modify(|pinned| {
            pinned.all = all;
            for definition in offered {
                let name = definition.name.as_str();
                if pinned.all.get(name) == Some(&definition.hash()) {
                    pinned.descriptions.insert(name.to_owned(), definition.description.clone());
                }
            }
        });
    }

    fn has_seen(&self, change: u64) {
        self.0.send_modify(|pinned| pinned.seen = change);
    }

    fn know(&self, definition: &ToolDefinition) -> bool {
        self.0.borrow().all.contains_key(definition.name.as_str())
    }

    fn hold(&self, definition: &ToolDefinition) -> bool {
        self.0.borrow().all.get(definition.name.as_str()) == Some(&definition.hash())
    }
}

impl TrustedMcp {
    /// Needs a Tokio runtime around it.
    pub(crate) fn connect(servers: McpServers, settings: McpSettings, trusted: Arc<dyn TrustStore>) -> Self {
        let set = Arc::new(McpSet::connect(servers, settings));
        let pins = Pins::default();
        let watching = tokio::spawn(pin_first_seen(Arc::clone(&set), Arc::clone(&trusted), pins.clone()));
        Self { set, trusted, pins, watching }
    }

    pub(crate) fn trusted(&self) -> &dyn TrustStore {
        &*self.trusted
    }

    /// The names that tools of servers begin with.
    pub(crate) fn names(&self) -> impl Iterator<Item = String> {
        self.set.definitions().into_iter().map(|definition| definition.name.skill().to_owned())
    }

    /// What this server offers now; `None` while it offers nothing.
    pub(crate) fn offer<'a>(&self, server: &'a str) -> Option<Offer<'a>> {
        let mut definitions = self.set.definitions();
        definitions.retain(|definition| definition.name.skill() == server);
        let group = PinGroup::Server(server);
        (!definitions.is_empty()).then_some(Offer { group, definitions, code: None })
    }

    /// Trusts this offer, whatever the server says by now.
    pub(crate) async fn trust(&self, offer: &Offer<'_>) -> Result<(), TrustStoreError> {
        trust_group(offer.group, &offer.definitions, &*self.trusted).await?;
        self.pins.put(self.trusted.all().await?, &offer.definitions);
        Ok(())
    }

    /// What this tool said of itself when it was trusted, as far as this process saw it.
    pub(crate) fn trusted_description(&self, definition: &ToolDefinition) -> Option<String> {
        self.pins.0.borrow().descriptions.get(definition.name.as_str()).cloned()
    }

    /// Waits until everything that is offered now was compared with what is trusted.
    async fn caught_up(&self) {
        let change = *self.set.changes().borrow();
        let mut pins = self.pins.0.subscribe();
        // A database that does not answer leaves the tools held back.
        drop(tokio::time::timeout(PIN_WAIT, pins.wait_for(|pinned| pinned.seen >= change)).await);
    }

    /// With a line for each tool that is held back.
    pub(crate) fn status(&self) -> Vec<McpServerStatus> {
        let mut all = self.set.status();
        for definition in self.set.definitions().iter().filter(|definition| !self.pins.hold(definition)) {
            let server = definition.name.skill();
            if let Some(status) = all.iter_mut().find(|status| crate::mcp::name_part(&status.name) == server)
            {
                let name = &definition.name;
                status.problems.push(match self.pins.know(definition) {
                    true => format!(
                        "{name} changed since it was trusted; `cortex skill trust {server}` offers it again"
                    ),
                    false => format!(
                        "{name} was added since {server} was trusted; `cortex skill trust {server}` offers it"
                    ),
                });
            }
        }
        all
    }

    pub(crate) async fn stop(&self) {
        self.watching.abort();
        self.set.stop().await;
    }
}

/// Pins what is seen for the first time, each time the servers offer something else.
async fn pin_first_seen(set: Arc<McpSet>, trusted: Arc<dyn TrustStore>, pins: Pins) {
    let mut changes = set.changes();
    loop {
        let change = *changes.borrow_and_update();
        match pin(&set, &*trusted).await {
            Ok((all, found)) => {
                pins.put(all, &set.definitions());
                for name in found.changed {
                    tracing::warn!(tool = %name, "An MCP tool changed since it was trusted and is not offered; `cortex skill trust {}` offers it again", name.skill());
                }
                for name in found.added {
                    tracing::warn!(tool = %name, "An MCP tool was added since its server was trusted and is not offered; `cortex skill trust {}` offers it", name.skill());
                }
            }
            Err(error) => tracing::warn!(%error, "MCP tools are not offered now"),
        }
        pins.has_seen(change);
        if changes.changed().await.is_err() {
            return;
        }
    }
}

async fn pin(
    set: &McpSet,
    trusted: &dyn TrustStore,
) -> Result<(HashMap<String, [u8; 32]>, PinnedGroup), TrustStoreError> {
    let mut all = PinnedGroup::default();
    for (server, definitions) in set.listed() {
        let found = pin_group(PinGroup::Server(&server), &definitions, trusted).await?;
        all.changed.extend(found.changed);
        all.added.extend(found.added);
    }
    Ok((trusted.all().await?, all))
}

#[async_trait]
impl ToolRunner for TrustedMcp {
    async fn ready(&self, definition: &ToolDefinition, context: &CallContext) -> Result<(), ToolCallError> {
        self.set.ready(definition, context).await?;
        self.caught_up().await;
        Ok(())
    }

    async fn run(
        &self,
        name: &ToolName,
        arguments_json: &str,
        context: &CallContext,
    ) -> Result<ToolOutcome, ToolCallError> {
        // Between check and run the server may have described itself anew.
        if !self.definitions().iter().any(|definition| definition.name == *name) {
            return Err(ToolCallError::NotRun(format!("{name} is not offered now")));
        }
        self.set.run(name, arguments_json, context).await
    }
}

#[async_trait]
impl ToolProvider for TrustedMcp {
    fn schema(&self, name: &ToolName) -> Option<Arc<InputSchema>> {
        self.set.schema(name)
    }

    async fn settled(&self, name: &ToolName) -> Result<(), ToolCallError> {
        self.set.settled(name).await?;
        self.caught_up().await;
        let server = name.skill();
        let is_held_back = |tool: &ToolDefinition| tool.name == *name && !self.pins.hold(tool);
        if self.set.definitions().iter().any(is_held_back) {
            let reason = format!("{name} is held back until a person runs `cortex skill trust {server}`");
            return Err(ToolCallError::NotRun(reason));
        }
        Ok(())
    }

    fn would_wait(&self, name: &ToolName) -> Option<Duration> {
        self.set.would_wait(name)
    }

    async fn opened(&self) {
        self.set.opened().await;
        self.caught_up().await;
    }

    fn definitions(&self) -> Vec<ToolDefinition> {
        let mut all = self.set.definitions();
        all.retain(|definition| self.pins.hold(definition));
        all
    }
}
