//! Pinned definitions: what a tool said of itself when it was first seen is what it must go on saying.

use crate::tool::{ToolDefinition, ToolName};
use async_trait::async_trait;
use cortex_store::{Store, StoreError, look_at_pins};
use cortex_types::Clock;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// Where the hashes of trusted definitions are kept, by tool name.
#[async_trait]
pub trait TrustStore: Send + Sync {
    async fn all(&self) -> Result<HashMap<String, [u8; 32]>, TrustStoreError>;

    async fn put(&self, hashes: Vec<(String, [u8; 32])>) -> Result<(), TrustStoreError>;
}

/// The hashes could not be read or written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("what is trusted cannot be looked up: {0}")]
pub struct TrustStoreError(pub String);

/// The hashes in the server's own database.
pub struct StoredTrust {
    pub store: Store,
    pub clock: Arc<dyn Clock>,
}

#[async_trait]
impl TrustStore for StoredTrust {
    async fn all(&self) -> Result<HashMap<String, [u8; 32]>, TrustStoreError> {
        self.store.tool_pins().all().await.map_err(TrustStoreError::from)
    }

    async fn put(&self, hashes: Vec<(String, [u8; 32])>) -> Result<(), TrustStoreError> {
        self.store.tool_pins().pin(hashes, self.clock.now()).await.map_err(TrustStoreError::from)
    }
}

/// The hashes in a database that no server serves. Looking trusts nothing.
pub struct SeenTrust(HashMap<String, [u8; 32]>);

impl SeenTrust {
    /// Nothing is trusted where there is no database yet.
    pub fn of(database: &Path) -> Result<Self, TrustStoreError> {
        if !database.exists() {
            return Ok(Self(HashMap::new()));
        }
        look_at_pins(database).map(Self).map_err(TrustStoreError::from)
    }

    pub(crate) fn pins(&self) -> &HashMap<String, [u8; 32]> {
        &self.0
    }
}

#[async_trait]
impl TrustStore for SeenTrust {
    async fn all(&self) -> Result<HashMap<String, [u8; 32]>, TrustStoreError> {
        Ok(self.0.clone())
    }

    async fn put(&self, _: Vec<(String, [u8; 32])>) -> Result<(), TrustStoreError> {
        Ok(())
    }
}

impl From<StoreError> for TrustStoreError {
    fn from(error: StoreError) -> Self {
        Self(error.to_string())
    }
}

/// What a group of tools said since it was trusted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PinnedGroup {
    /// Tools that say something else of themselves.
    pub changed: Vec<ToolName>,
    /// Tools that were not there when the group was trusted.
    pub added: Vec<ToolName>,
    /// Whether the code behind them is another one.
    pub has_new_code: bool,
}

/// Tools that are trusted together. A skill and an MCP server may have the same name and are two groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PinGroup<'a> {
    /// A skill, and the hash of its code.
    Skill(&'a str, [u8; 32]),
    /// An MCP server; what it runs is not known here.
    Server(&'a str),
}

impl PinGroup<'_> {
    fn name(&self) -> &str {
        match self {
            Self::Skill(name, _) | Self::Server(name) => name,
        }
    }

    /// The pin that stands for the whole group; no tool can have such a name.
    fn key(&self) -> String {
        match self {
            Self::Skill(name, _) => format!("{name}/"),
            Self::Server(name) => format!("mcp:{name}/"),
        }
    }

    fn code(&self) -> [u8; 32] {
        match self {
            Self::Skill(_, code) => *code,
            Self::Server(_) => NO_CODE,
        }
    }

    /// Where the pin of a server stood before it had a place of its own.
    fn old_key(&self) -> Option<String> {
        match self {
            Self::Skill(..) => None,
            Self::Server(name) => Some(format!("{name}/")),
        }
    }
}

const NO_CODE: [u8; 32] = [0; 32];

/// Whether this code is another one than was trusted, among these pins.
pub(crate) fn is_other_code(group: PinGroup<'_>, known: &HashMap<String, [u8; 32]>) -> bool {
    known.get(&group.key()).is_some_and(|pinned| *pinned != group.code())
}

/// Whether nothing of this group was ever trusted, among these pins.
pub(crate) fn is_first_seen(group: PinGroup<'_>, known: &HashMap<String, [u8; 32]>) -> bool {
    // A skill of that name has a code, and is no sign of the server.
    let old_pin = group.old_key().and_then(|key| known.get(&key)).filter(|code| **code == NO_CODE);
    let prefix = format!("{}.", group.name());
    let is_pinned = known.contains_key(&group.key()) || old_pin.is_some();
    !is_pinned && !known.keys().any(|name| name.starts_with(&prefix))
}

/// Trusts a group that is seen for the first time with all its tools. Later, whatever changed or was added waits.
pub async fn pin_group(
    group: PinGroup<'_>,
    definitions: &[ToolDefinition],
    trusted: &dyn TrustStore,
) -> Result<PinnedGroup, TrustStoreError> {
    let known = trusted.all().await?;
    let is_known = !is_first_seen(group, &known);
    let mut found = PinnedGroup { has_new_code: is_other_code(group, &known), ..PinnedGroup::default() };
    let mut first_seen = Vec::new();
    for definition in definitions {
        match known.get(definition.name.as_str()) {
            None if is_known => found.added.push(definition.name.clone()),
            None => first_seen.push((definition.name.to_string(), definition.hash())),
            Some(hash) if *hash == definition.hash() => {}
            Some(_) => found.changed.push(definition.name.clone()),
        }
    }
    if !known.contains_key(&group.key()) {
        first_seen.push((group.key(), group.code()));
    }
    if !first_seen.is_empty() {
        trusted.put(first_seen).await?;
    }
    Ok(found)
}

/// A name, and the hash that is trusted under it.
pub(crate) type Pin = (String, [u8; 32]);

/// All that is trusted with a group as it is now.
pub(crate) fn pins_of(group: PinGroup<'_>, definitions: &[ToolDefinition]) -> Vec<Pin> {
    let pins = definitions.iter().map(|definition| (definition.name.to_string(), definition.hash()));
    pins.chain([(group.key(), group.code())]).collect()
}

/// Trusts a group as it is now.
pub async fn trust_group(
    group: PinGroup<'_>,
    definitions: &[ToolDefinition],
    trusted: &dyn TrustStore,
) -> Result<(), TrustStoreError> {
    trusted.put(pins_of(group, definitions)).await
}
