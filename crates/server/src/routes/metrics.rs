//! `GET /metrics`: counters of this process and the depth of its queues, for Prometheus.

use crate::refusal::Refusal;
use crate::state::AppState;
use axum::extract::State;
use metrics::gauge;

/// Prometheus text.
#[utoipa::path(get, path = "/metrics", tag = "admin", responses((status = 200, body = String, content_type = "text/plain")))]
pub(crate) async fn metrics(State(app): State<AppState>) -> Result<String, Refusal> {
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
    Ok(app.metrics.render())
}
