//! `GET /openapi.json`: the one document of every route.

use axum::Json;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{ComponentsBuilder, InfoBuilder, OpenApi, OpenApiBuilder, SecurityRequirement};

/// The OpenAPI document.
#[utoipa::path(get, path = "/openapi.json", tag = "admin", responses((status = 200, body = Object)))]
pub(crate) async fn document() -> Json<OpenApi> {
    Json(super::openapi())
}

pub(crate) fn info() -> OpenApi {
    let bearer = SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build());
    OpenApiBuilder::new()
        .info(
            InfoBuilder::new()
                .title("Cortex")
                .version(env!("CARGO_PKG_VERSION"))
                .description(Some("A self-hosted brain for assistants and agents.")),
        )
        .components(Some(ComponentsBuilder::new().security_scheme("key", bearer).build()))
        .security(Some([SecurityRequirement::new::<_, [&str; 0], _>("key", [])]))
        .build()
}
