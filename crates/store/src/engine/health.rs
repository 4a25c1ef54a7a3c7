//! Whether the store can keep what it is given; what `/health` and `/readyz` answer from.

use crate::StoreError;
use tokio::sync::watch;

/// What stands behind the reason when the file is whole all the same.
const FOUND_WHOLE: &str = "; a look at the whole file found nothing wrong: restart the server, and restore a backup only if \
                           this comes again";

/// The store's state as its last write saw it, or as damage was met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreHealth {
    Healthy,
    Degraded(String),
    /// The file is damaged, and where. It stays so while the process lives: a success elsewhere in the file mends nothing.
    Damaged(String),
}

/// The side of the health flag that those who meet a fault hold.
#[derive(Clone)]
pub(crate) struct HealthFlag(watch::Sender<StoreHealth>);

impl HealthFlag {
    pub(crate) fn healthy() -> Self {
        Self(watch::Sender::new(StoreHealth::Healthy))
    }

    /// A commit is on disk.
    pub(crate) fn well(&self) {
        self.set(StoreHealth::Healthy);
    }

    /// A write failed.
    pub(crate) fn unwell(&self, error: &StoreError) {
        match error {
            StoreError::FileDamaged(reason) => self.damaged(reason),
            StoreError::Unavailable(_)
            | StoreError::Damaged(_)
            | StoreError::Full(_)
            | StoreError::Closed
            | StoreError::Fault(_) => self.set(StoreHealth::Degraded(error.to_string())),
        }
    }

    /// What a reader met: only damage says something of the whole store.
    pub(crate) fn met<T>(&self, result: &Result<T, StoreError>) {
        if let Err(StoreError::FileDamaged(reason)) = result
            && self.damage().is_none()
        {
            self.damaged(reason);
        }
    }

    /// The file is damaged; a closer look may say more of it than the request that met it.
    pub(crate) fn damaged(&self, reason: &str) {
        let before = self.0.send_replace(StoreHealth::Damaged(reason.to_owned()));
        if !matches!(before, StoreHealth::Damaged(_)) {
            tracing::error!(
                reason,
                "The database is damaged: nothing new is accepted; run `cortex doctor`, then restore a backup"
            );
        }
    }

    /// A look at the whole file found nothing wrong. Somebody met damage all the same, so nothing is written before a
    /// person has restarted the server; but he is told that a backup may not be needed.
    pub(crate) fn found_whole(&self) {
        self.0.send_if_modified(|current| match current {
            StoreHealth::Damaged(reason) if !reason.ends_with(FOUND_WHOLE) => {
                tracing::warn!(
                    reason = reason.as_str(),
                    "The database was met damaged, but a look at the whole file finds nothing wrong"
                );
                reason.push_str(FOUND_WHOLE);
                true
            }
            StoreHealth::Damaged(_) | StoreHealth::Healthy | StoreHealth::Degraded(_) => false,
        });
    }

    pub(crate) fn damage(&self) -> Option<String> {
        match &*self.0.borrow() {
            StoreHealth::Damaged(reason) => Some(reason.clone()),
            StoreHealth::Healthy | StoreHealth::Degraded(_) => None,
        }
    }

    pub(crate) fn current(&self) -> StoreHealth {
        self.0.borrow().clone()
    }

    fn set(&self, health: StoreHealth) {
        self.0.send_if_modified(|current| {
            let changes = *current != health && !matches!(current, StoreHealth::Damaged(_));
            if changes {
                *current = health;
            }
            changes
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_stays_until_the_process_ends_and_may_be_named_better() {
        let health = HealthFlag::healthy();
        health.unwell(&StoreError::Unavailable("full".to_owned()));
        health.well();
        assert_eq!(health.current(), StoreHealth::Healthy);
        health.met(&Err::<(), _>(StoreError::Damaged("a row".to_owned())));
        assert_eq!(health.current(), StoreHealth::Healthy);
        health.met(&Err::<(), _>(StoreError::FileDamaged("malformed".to_owned())));
        health.well();
        health.unwell(&StoreError::Unavailable("full".to_owned()));
        assert_eq!(health.current(), StoreHealth::Damaged("malformed".to_owned()));
        health.damaged("table turns, page 7");
        health.met(&Err::<(), _>(StoreError::FileDamaged("malformed".to_owned())));
        assert_eq!(health.damage().as_deref(), Some("table turns, page 7"));
        for _ in 0..2 {
            health.found_whole();
            let reason = health.damage().unwrap();
            assert!(
                reason.starts_with("table turns, page 7; a look at the whole file found nothing"),
                "{reason}"
            );
            assert_eq!(reason.matches("restart the server").count(), 1, "{reason}");
        }
        let healthy = HealthFlag::healthy();
        healthy.found_whole();
        assert_eq!(healthy.current(), StoreHealth::Healthy);
    }
}
