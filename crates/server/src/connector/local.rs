//! Connectors on this machine that come without a key: each has a namespace of its own until the owner trusts it.

use cortex_store::{LocalConnector, Store, StoreError, Trusted};
use cortex_types::limits::LOCAL_NAME_CHARS_MAX;
use cortex_types::{Clock, Speaker};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, watch};

/// How often it is written down that a connector is here.
const SEEN_EVERY: Duration = Duration::from_secs(1);

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

    /// The source that a connector of this name is trusted for, or claimed first.
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

    /// Notes that a connector whose session is bound already is here.
    pub(super) async fn come(&self, connector_id: &str, source: &str) -> Result<(), StoreError> {
        match self.find(connector_id) {
            Some(_) => self.see(connector_id).await,
            // It was forgotten for others while it was silent.
            None => self.hear(connector_id, source).await,
        }
    }

    /// Notes that one that is known is here still, or leaves.
    pub(super) async fn see(&self, connector_id: &str) -> Result<(), StoreError> {
        let now = self.clock.now();
        let is_news = |local: LocalConnector| now.since(local.last_seen_at) >= SEEN_EVERY;
        if !self.find(connector_id).is_some_and(is_news) {
            return Ok(());
        }
        self.store.connectors().see_local(connector_id.to_owned(), now).await?;
        self.known.send_if_modified(|known| {
            if let Some(local) = Arc::make_mut(known).get_mut(connector_id) {
                local.last_seen_at = local.last_seen_at.max(now);
            }
            false
        });
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

    /// Lets a connector use a source without a key, or takes that back.
    pub(crate) async fn set_trust(
        &self,
        connector_id: &str,
        source: Option<String>,
    ) -> Result<Trusted, StoreError> {
        let _one_at_a_time = self.changes.lock().await;
        let now = self.clock.now();
        let outcome = self.store.connectors().set_trust(connector_id.to_owned(), source, now).await?;
        self.refresh().await?;
        Ok(outcome)
    }

    /// Forgets a connector, with what it was trusted with; its sockets end. None when nobody has this name.
    pub(crate) async fn forget(&self, connector_id: &str) -> Result<Option<LocalConnector>, StoreError> {
        let _one_at_a_time = self.changes.lock().await;
        let forgotten = self.find(connector_id);
        self.store.connectors().forget_local(connector_id.to_owned(), self.clock.now()).await?;
        self.refresh().await?;
        if forgotten.is_some() {
            // Also one that nobody trusted has sockets.
            self.known.send_modify(|_| {});
        }
        Ok(forgotten)
    }

    /// Puts in force what a change of keys meant for those without one.
    pub(crate) async fn read_again(&self) -> Result<(), StoreError> {
        let _one_at_a_time = self.changes.lock().await;
        self.refresh().await
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
