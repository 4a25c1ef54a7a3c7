//! Whether the store can keep what it is given; what `/health` and `/readyz` answer from.

use tokio::sync::watch;

/// The store's state as its last write saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreHealth {
    Healthy,
    Degraded(String),
}

/// The writer's side of the health flag.
#[derive(Clone)]
pub(crate) struct HealthFlag(watch::Sender<StoreHealth>);

impl HealthFlag {
    pub(crate) fn healthy() -> Self {
        Self(watch::Sender::new(StoreHealth::Healthy))
    }

    pub(crate) fn set(&self, health: StoreHealth) {
        self.0.send_if_modified(|current| {
            let changed = *current != health;
            *current = health;
            changed
        });
    }

    pub(crate) fn current(&self) -> StoreHealth {
        self.0.borrow().clone()
    }
}
