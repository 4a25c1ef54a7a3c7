//! `GET /metrics`: counters of this process and the depth of its queues, for Prometheus.

use crate::refusal::Refusal;
use crate::state::AppState;
use axum::extract::State;
use cortex_store::{StoreError, StoreHealth};
use metrics::gauge;

/// Prometheus text.
#[utoipa::path(get, path = "/metrics", tag = "admin", responses((status = 200, body = String, content_type = "text/plain")))]
pub(crate) async fn metrics(State(app): State<AppState>) -> Result<String, Refusal> {
    let health = app.store.health();
    let is_damaged = matches!(health, StoreHealth::Damaged(_));
    gauge!("cortex_store_healthy").set(if health == StoreHealth::Healthy { 1.0 } else { 0.0 });
    gauge!("cortex_store_damaged").set(if is_damaged { 1.0 } else { 0.0 });
    gauge!("cortex_store_full").set(if app.store.full().is_some() { 1.0 } else { 0.0 });
    let used = app.store.usage();
    gauge!("cortex_queued_events").set(used.queued_events as f64);
    gauge!("cortex_queued_events_max").set(limit(used.limits.queued_events_max));
    gauge!("cortex_database_bytes").set(used.database_bytes as f64);
    gauge!("cortex_database_bytes_max").set(limit(used.limits.database_bytes_max));
    gauge!("cortex_strangers_bytes").set(used.strangers_bytes as f64);
    gauge!("cortex_strangers_bytes_max").set(limit(used.limits.strangers_bytes_max()));
    match queues(&app).await {
        Ok(()) => {}
        // The rows cannot be counted in a damaged file; that it is damaged is worth telling all the more.
        Err(StoreError::FileDamaged(_)) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(app.metrics.render())
}

fn limit(max: u64) -> f64 {
    if max == u64::MAX { f64::INFINITY } else { max as f64 }
}

async fn queues(app: &AppState) -> Result<(), StoreError> {
    let inbox = app.store.inbox().counts().await?;
    for (status, count) in [
        ("pending", inbox.pending),
        ("processing", inbox.processing),
        ("waiting", inbox.waiting),
        ("failed", inbox.failed),
        ("done", inbox.done),
    ] {
        gauge!("cortex_inbox_events", "status" => status).set(count as f64);
    }
    let outbox = app.store.outbox().counts().await?;
    for (status, count) in [
        ("pending", outbox.pending),
        ("leased", outbox.leased),
        ("dead", outbox.dead),
        ("delivered", outbox.delivered),
    ] {
        gauge!("cortex_outbox_messages", "status" => status).set(count as f64);
    }
    Ok(())
}
