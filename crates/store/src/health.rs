//! Whether the store can keep what it is given; what `/health` and `/readyz` answer from.

use tokio::sync::watch;

/// The store's state as its last write saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    Healthy,
    Degraded(String),
}

/// The writer's side of the health flag.
#[derive(Clone)]
pub(crate) struct HealthFlag(watch::Sender<Health>);

impl HealthFlag {
    pub(crate) fn healthy() -> Self {
        Self(watch::Sender::new(Health::Healthy))
    }

    pub(crate) fn set(&self, health: Health) {
        self.0.send_if_modified(|current| {
            let changed = *current != health;
            *current = health;
            changed
        });
    }

    pub(crate) fn current(&self) -> Health {
        self.0.borrow().clone()
    }
}
