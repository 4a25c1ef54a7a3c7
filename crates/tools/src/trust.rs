//! Pinned definitions: what a tool said of itself when it was first seen is what it must go on saying.

use crate::tool::{ToolDefinition, ToolName};
use async_trait::async_trait;
use cortex_store::{Store, StoreError};
use cortex_types::Clock;
use std::collections::HashMap;
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

impl From<StoreError> for TrustStoreError {
    fn from(error: StoreError) -> Self {
        Self(error.to_string())
    }
}

/// Trusts the definitions that are seen for the first time, and names those that changed since they were trusted.
pub async fn pin_definitions(
    definitions: &[ToolDefinition],
    trusted: &dyn TrustStore,
) -> Result<Vec<ToolName>, TrustStoreError> {
    let known = trusted.all().await?;
    let (mut first_seen, mut changed) = (Vec::new(), Vec::new());
    for definition in definitions {
        match known.get(definition.name.as_str()) {
            None => first_seen.push((definition.name.to_string(), definition.hash())),
            Some(hash) if *hash == definition.hash() => {}
            Some(_) => changed.push(definition.name.clone()),
        }
    }
    if !first_seen.is_empty() {
        trusted.put(first_seen).await?;
    }
    Ok(changed)
}

/// Trusts the definitions as they are now.
pub async fn trust_definitions(
    definitions: &[ToolDefinition],
    trusted: &dyn TrustStore,
) -> Result<(), TrustStoreError> {
    let hash_of = |definition: &ToolDefinition| (definition.name.to_string(), definition.hash());
    trusted.put(definitions.iter().map(hash_of).collect()).await
}
