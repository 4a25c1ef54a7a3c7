//! Connectors on this machine that come without a key: each has a namespace of its own until the owner trusts it.

use cortex_store::{LocalConnector, Store, StoreError};
use cortex_types::limits::LOCAL_NAME_CHARS_MAX;
use cortex_types::{Clock, Speaker};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::{Mutex, watch};

/// Those that were heard of, by the name they give themselves. Sockets watch it: trust that changes ends them.
pub(crate) struct LocalConnectors {
    store: Store,
    clock: Arc<dyn Clock>,
    known: watch::Sender<Arc<BTreeMap<String, LocalConnector>>>,
    /// One change at a time, from the disk to what is in force: what was read before trust ended must not bring it back.
    changes: Mutex<()>,
}

impl LocalConnectors {
    pub(crate) async fn read(store: Store, clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        let known = by_name(store.connectors().locals().await?);
        Ok(Self { store, clock, known: watch::Sender::new(known), changes: Mutex::default() })
    }

    /// Who speaks when a connector without a key calls itself so.
    pub(crate) fn speaker(&self, connector_id: &str, source: &str) -> Result<Speaker, String> {
        if connector_id.chars().count() > LOCAL_NAME_CHARS_MAX {
            return Err(format!(
                "without a key a connectorId may have at most {LOCAL_NAME_CHARS_MAX} characters"
            ));
        }
        match self.trusted_source(connector_id) {
            None => Ok(Speaker::local(connector_id)),
            Some(trusted) if trusted == source => Ok(Speaker::trusted(trusted, connector_id)),
            Some(trusted) => {
                Err(format!("the connector {connector_id} is trusted for the source {trusted} alone"))
            }
        }
    }

    /// The source that a connector of this name is trusted for, or claimed last.
    pub(super) fn source_of(&self, connector_id: &str) -> Option<String> {
        let known = self.known.borrow();
        let local = known.get(connector_id)?;
        Some(local.trusted_source.clone().unwrap_or_else(|| local.source.clone()))
    }

    pub(super) fn trusted_source(&self, connector_id: &str) -> Option<String> {
        self.known.borrow().get(connector_id)?.trusted_source.clone()
    }

    pub(super) fn watch(&self) -> watch::Receiver<Arc<BTreeMap<String, LocalConnector>>> {
        self.known.subscribe()
    }

    /// Notes that a connector without a key is here, and tells the owner the first time.
    pub(super) async fn hear(&self, connector_id: &str, source: &str) -> Result<(), StoreError> {
        let is_new = !self.known.borrow().contains_key(connector_id);
        let _one_at_a_time = self.changes.lock().await;
        let now = self.clock.now();
        let connectors = self.store.connectors();
        connectors.hear_local(connector_id.to_owned(), source.to_owned(), now).await?;
        self.refresh().await?;
        if is_new {
            tracing::warn!(
                connector = ?connector_id,
                source = ?source,
                "A connector without a key speaks for the first time; it sees only its own conversation. \
                 `cortex connector trust <connectorId>` makes it yours"
            );
        }
        Ok(())
    }

    /// All that came without a key, by name.
    pub(crate) fn rows(&self) -> Vec<LocalConnector> {
        self.known.borrow().values().cloned().collect()
    }

    /// Names of those that the owner does not trust.
    pub(crate) fn untrusted(&self) -> Vec<String> {
        let known = self.known.borrow();
        let strangers = known.values().filter(|local| local.trusted_source.is_none());
        strangers.map(|local| local.connector_id.clone()).collect()
    }

    pub(crate) fn find(&self, connector_id: &str) -> Option<LocalConnector> {
        self.known.borrow().get(connector_id).cloned()
    }

    /// Lets a connector use a source without a key, or takes that back; false when nobody has this name.
    pub(crate) async fn set_trust(
        &self,
        connector_id: &str,
        source: Option<String>,
    ) -> Result<bool, StoreError> {
        let _one_at_a_time = self.changes.lock().await;
        let now = self.clock.now();
        let is_known = self.store.connectors().set_trust(connector_id.to_owned(), source, now).await?;
        self.refresh().await?;
        Ok(is_known)
    }

    async fn refresh(&self) -> Result<(), StoreError> {
        let known = by_name(self.store.connectors().locals().await?);
        // Everybody's sockets listen; only a change of trust is news to them.
        self.known.send_if_modified(|current| {
            let is_news = trust_in(current) != trust_in(&known);
            *current = known;
            is_news
        });
        Ok(())
    }
}

/// Who is trusted, with what.
fn trust_in(known: &BTreeMap<String, LocalConnector>) -> Vec<(&String, &String)> {
    let trusted = known.iter().filter_map(|(name, local)| Some((name, local.trusted_source.as_ref()?)));
    trusted.collect()
}

fn by_name(locals: Vec<LocalConnector>) -> Arc<BTreeMap<String, LocalConnector>> {
    Arc::new(locals.into_iter().map(|local| (local.connector_id.clone(), local)).collect())
}
