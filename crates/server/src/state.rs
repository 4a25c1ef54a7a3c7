//! What every handler can reach.

use crate::auth::KeyRing;
use crate::board::ConnectorBoard;
use crate::config::ReadChannels;
use crate::connector::ConnectorDoor;
use crate::guard::Doors;
use crate::hook::Hooks;
use crate::openai::Followed;
use crate::share::Shares;
use cortex_api::HealthStatus;
use cortex_bus::Bus;
use cortex_models::Models;
use cortex_runtime::{Gardener, Intake, OutboxDesk, Runtime};
use cortex_store::{Store, StoreHealth};
use cortex_tools::Toolbox;
use cortex_types::{Clock, Millis};
use metrics_exporter_prometheus::PrometheusHandle;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use tokio_util::sync::CancellationToken;

/// Shared by all requests of one server.
pub(crate) type AppState = Arc<App>;

pub(crate) struct App {
    /// Reads the settings of channels again.
    pub(crate) read_channels: ReadChannels,
    pub(crate) runtime: Runtime,
    pub(crate) toolbox: Arc<Toolbox>,
    pub(crate) connectors: ConnectorBoard,
    pub(crate) intake: Intake,
    pub(crate) outbox: OutboxDesk,
    pub(crate) store: Store,
    pub(crate) bus: Bus,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) keys: KeyRing,
    pub(crate) hooks: Hooks,
    pub(crate) connector_door: ConnectorDoor,
    /// What is waited for at OpenAI's door.
    pub(crate) followed: Followed,
    pub(crate) doors: Doors,
    pub(crate) shares: Shares,
    pub(crate) metrics: PrometheusHandle,
    pub(crate) address: SocketAddr,
    pub(crate) started_at: Millis,
    /// Set once the models are chosen; until then the server accepts but does not answer.
    pub(crate) models: OnceLock<Arc<Models>>,
    /// Set with the models, which think for it.
    pub(crate) gardener: OnceLock<Gardener>,
    /// Ends what would otherwise stay open for ever, such as a live stream.
    pub(crate) stopping: CancellationToken,
}

impl App {
    /// How the server is, in one word.
    pub(crate) fn health(&self) -> HealthStatus {
        match self.store.health() {
            StoreHealth::Damaged(_) => HealthStatus::Damaged,
            StoreHealth::Degraded(_) => HealthStatus::Degraded,
            StoreHealth::Healthy if self.runtime.watchdog().stranded > 0 => HealthStatus::Degraded,
            StoreHealth::Healthy if self.store.full().is_some() => HealthStatus::Full,
            StoreHealth::Healthy => HealthStatus::Healthy,
        }
    }

    /// Why the server is not well, if it is not.
    pub(crate) fn degraded(&self) -> Option<String> {
        match self.store.health() {
            StoreHealth::Damaged(place) => Some(format!(
                "the database is damaged ({place}): nothing new is accepted; stop the server, keep a copy of the \
                 file, then restore a backup"
            )),
            StoreHealth::Degraded(reason) => Some(reason),
            StoreHealth::Healthy => match self.runtime.watchdog().stranded {
                0 => self.store.full().map(|full| full.to_string()),
                count => {
                    Some(format!("{count} events were in flight in no task; the watchdog puts them back"))
                }
            },
        }
    }
}
