//! `/health`, `/healthz`, `/readyz`: open to all, and silent about everything else.

use crate::state::AppState;
use axum::Json;
use axum::extract::State;
use cortex_api::{Health, HealthStatus};
use http::StatusCode;

/// Whether the server can keep what it is given.
#[utoipa::path(get, path = "/health", tag = "health", responses(
    (status = 200, body = Health), (status = 503, body = Health),
))]
pub(crate) async fn health(State(app): State<AppState>) -> (StatusCode, Json<Health>) {
    answer(app.degraded().is_none())
}

/// Whether the process is alive.
#[utoipa::path(get, path = "/healthz", tag = "health", responses((status = 200, body = Health)))]
pub(crate) async fn healthz() -> (StatusCode, Json<Health>) {
    answer(true)
}

/// Whether the server accepts and answers.
#[utoipa::path(get, path = "/readyz", tag = "health", responses(
    (status = 200, body = Health), (status = 503, body = Health),
))]
pub(crate) async fn readyz(State(app): State<AppState>) -> (StatusCode, Json<Health>) {
    answer(app.degraded().is_none() && app.models.get().is_some())
}

fn answer(well: bool) -> (StatusCode, Json<Health>) {
    if well {
        (StatusCode::OK, Json(Health { status: HealthStatus::Healthy }))
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, Json(Health { status: HealthStatus::Degraded }))
    }
}
