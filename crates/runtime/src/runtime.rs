//! The runtime as a whole: what its parts share, and what happens once at the start.

use crate::config::RuntimeConfig;
use crate::floor::FloorReader;
use crate::intake::Intake;
use crate::mint;
use crate::outbox::OutboxDesk;
use crate::pump::Pump;
use cortex_brain::{FailureNotice, notice_text};
use cortex_bus::Bus;
use cortex_models::Models;
use cortex_store::{Recovered, Store, StoreError};
use cortex_types::{Clock, NewReply};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// No lease and no planned retry lies further ahead than this; see `Outbox::clamp_future`.
const FUTURE_MAX: Duration = Duration::from_secs(3_600);

/// What every part of the flow needs.
pub(crate) struct Parts {
    pub(crate) store: Store,
    pub(crate) bus: Bus,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) config: RuntimeConfig,
    pub(crate) floor: FloorReader,
    /// Rings when an event may have become claimable.
    pub(crate) arrived: Notify,
}

/// The flow of one home. Clones share it.
#[derive(Clone)]
pub struct Runtime(Arc<Parts>);

/// What the start found and put right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BootReport {
    pub recovered: Recovered,
    /// Messages and events whose lease or wait lay too far ahead, because a clock was set back.
    pub clamped: usize,
}

impl Runtime {
    pub fn new(config: RuntimeConfig, store: Store, bus: Bus, clock: Arc<dyn Clock>) -> Self {
        let floor = FloorReader::new(config.workspace.clone());
        Self(Arc::new(Parts { store, bus, clock, config, floor, arrived: Notify::new() }))
    }

    /// Puts back what the process before left in flight. Only for the holder of the home's lock, before the pump.
    pub async fn recover(&self) -> Result<BootReport, StoreError> {
        let parts = &self.0;
        let now = parts.clock.now();
        let notice = move |event: &cortex_types::Event| NewReply {
            id: mint::outbox_id(now),
            topic: event.topic.clone(),
            text: notice_text(&FailureNotice::Restarts),
            payload_json: None,
        };
        let recovered = parts.store.inbox().recover(parts.config.inbox_max_restarts, now, notice).await?;
        let messages = parts.store.outbox().clamp_future(FUTURE_MAX, now).await?;
        let clamped = messages + parts.store.inbox().clamp_future(FUTURE_MAX, now).await?;
        Ok(BootReport { recovered, clamped })
    }

    pub fn intake(&self) -> Intake {
        Intake(Arc::clone(&self.0))
    }

    pub fn outbox(&self) -> OutboxDesk {
        OutboxDesk(Arc::clone(&self.0))
    }

    /// The pump that answers events with these models; run it once.
    pub fn pump(&self, models: Arc<Models>) -> Pump {
        Pump::new(Arc::clone(&self.0), models)
    }
}
