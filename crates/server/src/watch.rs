//! Watches the store: asks an unwell one until it is well, and looks for damage that nobody has met yet.

use cortex_store::{Store, StoreHealth};
use cortex_types::{Clock, SystemClock};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How often an unwell store is asked whether it is well again.
const PROBE_EVERY: Duration = Duration::from_secs(1);
/// How often all pages are looked at, beside the start.
const LOOK_EVERY: Duration = Duration::from_secs(24 * 60 * 60);

/// Compares the file with itself once, then watches until `stop`.
pub(crate) async fn store(store: Store, stop: CancellationToken) {
    tokio::select! {
        () = stop.cancelled() => {}
        () = watched(store) => {}
    }
}

async fn watched(store: Store) {
    let mut found = looked(store.check_integrity().await);
    let clock = SystemClock::start();
    let mut looked_at = clock.now();
    loop {
        tokio::time::sleep(PROBE_EVERY).await;
        match store.health() {
            StoreHealth::Healthy => {}
            StoreHealth::Degraded(_) => {
                if let Err(error) = store.probe().await {
                    tracing::debug!(%error, "The store is still unwell");
                }
                continue;
            }
            // A request met it; a look at the whole file says where it is.
            StoreHealth::Damaged(_) if found == Found::Nothing => {
                found = Found::Damage;
                looked(store.check_integrity().await);
            }
            StoreHealth::Damaged(_) => {}
        }
        if found == Found::Nothing && clock.now().since(looked_at) >= LOOK_EVERY {
            found = looked(store.check_structure().await);
            looked_at = clock.now();
        }
    }
}

/// Whether the place of damage is known.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    Nothing,
    Damage,
}

fn looked(result: Result<(), cortex_store::StoreError>) -> Found {
    match result {
        Ok(()) => Found::Nothing,
        // The store has logged it.
        Err(error) if !error.is_news() => Found::Damage,
        Err(error) => {
            tracing::warn!(%error, "The database could not be looked at");
            Found::Nothing
        }
    }
}
