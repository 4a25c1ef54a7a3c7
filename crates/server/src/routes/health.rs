//! `/health`, `/healthz`, `/readyz`: open to all, and silent about everything else.

use crate::json::Json;
use crate::state::AppState;
use axum::extract::State;
use cortex_api::{Health, HealthStatus};
use http::StatusCode;

/// Whether the server can keep what it is given.
#[utoipa::path(get, path = "/health", tag = "health", responses(
    (status = 200, body = Health), (status = 503, body = Health),
))]
pub(crate) async fn health(State(app): State<AppState>) -> (StatusCode, Json<Health>) {
    let status = app.health();
    answer(status, status == HealthStatus::Healthy)
}

/// Whether the process is alive.
#[utoipa::path(get, path = "/healthz", tag = "health", responses((status = 200, body = Health)))]
pub(crate) async fn healthz() -> (StatusCode, Json<Health>) {
    answer(HealthStatus::Healthy, true)
}

/// Whether the server answers.
#[utoipa::path(get, path = "/readyz", tag = "health", responses(
    (status = 200, body = Health), (status = 503, body = Health),
))]
pub(crate) async fn readyz(State(app): State<AppState>) -> (StatusCode, Json<Health>) {
    let status = match app.models.get() {
        Some(_) => app.health(),
        None => HealthStatus::Degraded,
    };
    // Whoever keeps requests away from a server that is not ready would keep away the approvals and acks that make room.
    answer(status, matches!(status, HealthStatus::Healthy | HealthStatus::Full))
}

fn answer(status: HealthStatus, is_well: bool) -> (StatusCode, Json<Health>) {
    let code = if is_well { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (code, Json(Health { status }))
}
