//! `GET /api/v2/status`: the running server, for its owner.

use crate::json::Json;
use crate::refusal::Refusal;
use crate::state::AppState;
use axum::extract::State;
use cortex_api::{ModelStatus, ServerStatus, StorageStatus, WatchdogStatus};
use cortex_runtime::WatchdogReport;
use cortex_store::{StoreError, StoreUse};
use cortex_types::{InboxStatus, OutboxStatus};
use std::collections::BTreeMap;

/// The running server.
#[utoipa::path(get, path = "/api/v2/status", tag = "admin", responses((status = 200, body = ServerStatus)))]
pub(crate) async fn status(State(app): State<AppState>) -> Result<Json<ServerStatus>, Refusal> {
    let (inbox, outbox) = match counts(&app).await {
        Ok(counts) => counts,
        // What is wrong is what the owner came for.
        Err(StoreError::FileDamaged(_)) => Default::default(),
        Err(error) => return Err(error.into()),
    };
    let models = app.models.get().map(|models| models.describe()).unwrap_or_default();
    let uptime = app.clock.now().since(app.started_at);
    Ok(Json(ServerStatus {
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        uptime_ms: u64::try_from(uptime.as_millis()).unwrap_or(u64::MAX),
        address: app.address.to_string(),
        models: models
            .into_iter()
            .map(|model| ModelStatus {
                name: model.name,
                kind: model.provider.to_owned(),
                model: model.model,
            })
            .collect(),
        inbox,
        outbox,
        storage: storage(app.store.usage()),
        watchdog: watchdog(app.runtime.watchdog()),
        degraded: app.degraded(),
        untrusted_connectors: app.connector_door.local.untrusted(),
    }))
}

type Counts = (BTreeMap<InboxStatus, u64>, BTreeMap<OutboxStatus, u64>);

async fn counts(app: &AppState) -> Result<Counts, StoreError> {
    let inbox = app.store.inbox().counts().await?;
    let outbox = app.store.outbox().counts().await?;
    let inbox = [
        (InboxStatus::Pending, inbox.pending),
        (InboxStatus::Processing, inbox.processing),
        (InboxStatus::Waiting, inbox.waiting),
        (InboxStatus::Done, inbox.done),
        (InboxStatus::Failed, inbox.failed),
    ];
    let outbox = [
        (OutboxStatus::Pending, outbox.pending),
        (OutboxStatus::Leased, outbox.leased),
        (OutboxStatus::Delivered, outbox.delivered),
        (OutboxStatus::Dead, outbox.dead),
        (OutboxStatus::Suppressed, outbox.suppressed),
        (OutboxStatus::Discarded, outbox.discarded),
    ];
    Ok((inbox.into(), outbox.into()))
}

fn storage(used: StoreUse) -> StorageStatus {
    let set = |max: u64| (max != u64::MAX).then_some(max);
    StorageStatus {
        queued_events: used.queued_events,
        queued_events_max: set(used.limits.queued_events_max),
        database_bytes: used.database_bytes,
        database_bytes_max: set(used.limits.database_bytes_max),
        strangers_bytes: used.strangers_bytes,
        strangers_bytes_max: set(used.limits.strangers_bytes_max()),
    }
}

fn watchdog(report: WatchdogReport) -> WatchdogStatus {
    WatchdogStatus { stranded: report.stranded as u64, requeued: report.requeued, failed: report.failed }
}
