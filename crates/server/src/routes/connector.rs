//! `GET /api/v2/connectors`.

use crate::state::AppState;
use axum::Json;
use axum::extract::State;
use cortex_api::ConnectorList;

/// The connectors that this server keeps running.
#[utoipa::path(get, path = "/api/v2/connectors", tag = "connector", responses((status = 200, body = ConnectorList)))]
pub(crate) async fn list(State(app): State<AppState>) -> Json<ConnectorList> {
    Json(ConnectorList { items: app.connectors.rows() })
}
