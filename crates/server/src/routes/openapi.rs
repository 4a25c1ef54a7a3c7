//! `GET /openapi.json`: the one document of every route.

use super::{OPEN_ROUTES, OpenTo};
use crate::json::Json;
use crate::openai;
use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{
    ComponentsBuilder, ContentBuilder, InfoBuilder, OpenApi, OpenApiBuilder, PathItem, Ref, RefOr, Response,
    ResponseBuilder, SecurityRequirement,
};

/// What any route may answer before or instead of its handler.
const ALWAYS: [(&str, &str); 4] = [
    ("403", "A web page of another origin, or a key that may not do this"),
    ("421", "A host name that is not this server's"),
    ("429", "Too many requests or wrong keys; `Retry-After` says how long to wait"),
    ("503", "The disk fails or the server stops; `Retry-After` says how long to wait"),
];
/// What a route with a body may answer before its handler has read it.
const WITH_BODY: [(&str, &str); 3] = [
    ("400", "The body is not what the route takes"),
    ("408", "The body took too long"),
    ("413", "The body is too large"),
];
const NO_KEY: (&str, &str) = ("401", "A key is missing or wrong");

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
        .security(Some([by_key()]))
        .build()
}

fn by_key() -> SecurityRequirement {
    SecurityRequirement::new::<_, [&str; 0], _>("key", [])
}

/// Says of every route what the guard before it answers, and of the open ones that they need no key.
pub(crate) fn with_guard(mut document: OpenApi) -> OpenApi {
    for (path, item) in &mut document.paths.paths {
        for operation in operations(item) {
            declare(path, operation);
        }
    }
    document
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    let PathItem { get, put, post, delete, options, head, patch, trace, .. } = item;
    [get, put, post, delete, options, head, patch, trace].into_iter().flatten()
}

fn declare(path: &str, operation: &mut Operation) {
    let open = OPEN_ROUTES.iter().find(|route| route.is_at(path)).map(|route| route.to);
    let mut answers: Vec<(&str, &str)> = ALWAYS.to_vec();
    if operation.request_body.is_some() {
        answers.extend(WITH_BODY);
    }
    match open {
        None => answers.push(NO_KEY),
        // A local program comes in without a key where the settings say so; everybody else needs one.
        Some(OpenTo::LocalEngramClients | OpenTo::LocalConnectors) => {
            answers.push(NO_KEY);
            operation.security = Some(vec![by_key(), SecurityRequirement::default()]);
        }
        Some(OpenTo::Everybody | OpenTo::SendersOfHooks) => operation.security = Some(Vec::new()),
    }
    for (status, why) in answers {
        operation.responses.responses.entry(status.to_owned()).or_insert_with(|| refusal(path, why));
    }
}

/// In the shape that clients of this path know.
fn refusal(path: &str, why: &str) -> RefOr<Response> {
    let shape = if openai::is_at(path) { "OpenAiRefused" } else { "ErrorBody" };
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name(shape))).build();
    RefOr::T(ResponseBuilder::new().description(why).content("application/json", content).build())
}
