//! The routes and their OpenAPI document, from one list.

use crate::guard::guard;
use crate::openai::{self, OpenAiRefusal};
use crate::refusal::Refusal;
use crate::state::AppState;
use axum::response::{IntoResponse, Response};
use axum::{Router, middleware};
use cortex_api::ErrorCode;
use http::Uri;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

mod approval;
mod approve;
mod channel;
mod chat;
mod connector;
mod context;
mod embeddings;
mod engram;
mod event;
mod gardener;
mod health;
mod hook;
mod inbox;
pub(crate) mod ingest;
mod key;
mod memory;
mod metrics;
mod models;
mod op;
mod openapi;
pub(crate) mod outbox;
mod outbox_admin;
mod responses;
mod schedule;
mod status;
pub(crate) mod tool;
mod usage;

/// A route that needs no credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenRoute {
    /// With a star at its end: everything below it.
    pub path: &'static str,
    pub to: OpenTo,
}

/// Who needs none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenTo {
    Everybody,
    /// A program on this machine that is no web page, where `engram.allowLocal` says so.
    LocalEngramClients,
    /// Who shows what the hook asks for; the handler judges that (D72).
    SendersOfHooks,
    /// The same where `connector.allowLocal` says so, as it does by default (D23).
    LocalConnectors,
}

/// The routes that need no credential. Every other route answers 401 without one.
pub const OPEN_ROUTES: &[OpenRoute] = &[
    OpenRoute { path: "/health", to: OpenTo::Everybody },
    OpenRoute { path: "/healthz", to: OpenTo::Everybody },
    OpenRoute { path: "/readyz", to: OpenTo::Everybody },
    // Each page below opens by its own token, once.
    OpenRoute { path: "/approve/*", to: OpenTo::Everybody },
    OpenRoute { path: "/engram/*", to: OpenTo::LocalEngramClients },
    OpenRoute { path: "/hooks/*", to: OpenTo::SendersOfHooks },
    OpenRoute { path: "/connector", to: OpenTo::LocalConnectors },
    OpenRoute { path: "/api/cortex-m/v1/connector", to: OpenTo::LocalConnectors },
    // The session in the path is the credential.
    OpenRoute { path: "/connector/*", to: OpenTo::Everybody },
    OpenRoute { path: "/api/cortex-m/v1/connector/*", to: OpenTo::Everybody },
];

/// The routes that are answered whatever else goes on.
pub(crate) const HEALTH_ROUTES: &[&str] = &["/health", "/healthz", "/readyz"];

/// What the addresses of sockets begin with; a session follows.
pub(crate) const SOCKET_ROUTES: &[&str] = &["/connector/", "/api/cortex-m/v1/connector/"];

/// Where a request may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectorRoute {
    /// With a star for one part of it that can be anything.
    pub path: &'static str,
}

/// The routes that a connector's key opens; each lets it see only its own source.
pub const CONNECTOR_ROUTES: &[ConnectorRoute] = &[
    ConnectorRoute { path: "/ingest" },
    ConnectorRoute { path: "/outbox/poll" },
    ConnectorRoute { path: "/outbox/ack" },
    ConnectorRoute { path: "/outbox/nack" },
    ConnectorRoute { path: "/outbox/release" },
    ConnectorRoute { path: "/connector" },
    ConnectorRoute { path: "/api/cortex-m/v1/connector" },
    ConnectorRoute { path: "/api/v2/events/*/live" },
];

impl ConnectorRoute {
    pub(crate) fn is_at(self, path: &str) -> bool {
        match self.path.split_once('*') {
            Some((start, end)) => path
                .strip_prefix(start)
                .and_then(|rest| rest.strip_suffix(end))
                .is_some_and(|part| !part.is_empty() && !part.contains('/')),
            None => path == self.path,
        }
    }
}

impl OpenRoute {
    pub(crate) fn is_at(self, path: &str) -> bool {
        match self.path.strip_suffix('*') {
            Some(start) => path.starts_with(start),
            None => path == self.path,
        }
    }
}

/// The whole service: every route behind the guard.
pub(crate) fn router(app: AppState, more_routes: Router) -> Router {
    let (router, _) = documented().split_for_parts();
    router
        .with_state(app.clone())
        .merge(more_routes)
        .fallback(|uri: Uri| async move { refused_at(uri.path(), Refusal::new(ErrorCode::NotFound)) })
        .method_not_allowed_fallback(|uri: Uri| async move {
            refused_at(uri.path(), Refusal::new(ErrorCode::MethodNotAllowed))
        })
        .layer(middleware::from_fn_with_state(app, guard))
}

/// A refusal in the shape that clients of this path know.
pub(crate) fn refused_at(path: &str, refusal: Refusal) -> Response {
    if openai::is_at(path) { OpenAiRefusal::from(refusal).into_response() } else { refusal.into_response() }
}

/// The OpenAPI document of this server.
pub fn openapi() -> OpenApi {
    openapi::with_guard(documented().split_for_parts().1)
}

fn documented() -> OpenApiRouter<AppState> {
    OpenApiRouter::with_openapi(openapi::info())
        .merge(spine())
        .merge(doors())
        .merge(hands_and_mind())
        .merge(openai_door())
}

/// What OpenAI's clients know.
fn openai_door() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(chat::completions))
        .routes(routes!(responses::create))
        .routes(routes!(models::list))
        .routes(routes!(models::show))
        .routes(routes!(embeddings::create))
        .routes(routes!(approve::show, approve::decide))
}

/// A message in, its way, and out.
fn spine() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(ingest::ingest))
        .routes(routes!(hook::receive))
        .routes(routes!(outbox::poll))
        .routes(routes!(outbox::ack))
        .routes(routes!(outbox::nack))
        .routes(routes!(outbox::release))
        .routes(routes!(health::health))
        .routes(routes!(health::healthz))
        .routes(routes!(health::readyz))
        .routes(routes!(metrics::metrics))
        .routes(routes!(openapi::document))
        .routes(routes!(inbox::list))
        .routes(routes!(inbox::show))
        .routes(routes!(inbox::retry))
        .routes(routes!(outbox_admin::list))
        .routes(routes!(outbox_admin::dead))
        .routes(routes!(outbox_admin::show))
        .routes(routes!(outbox_admin::retry))
        .routes(routes!(outbox_admin::discard))
        .routes(routes!(event::trace))
        .routes(routes!(event::live))
        .routes(routes!(usage::usage))
        .routes(routes!(status::status))
}

/// Who may come in, and connectors that stay.
fn doors() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(key::create, key::list))
        .routes(routes!(key::revoke))
        .routes(routes!(connector::open_session))
        .routes(routes!(connector::open_session_below))
        .routes(routes!(connector::open_socket))
        .routes(routes!(connector::open_socket_below))
}

/// What the assistant may do, and what it knows.
fn hands_and_mind() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(approval::list))
        .routes(routes!(approval::show))
        .routes(routes!(approval::approve))
        .routes(routes!(approval::deny))
        .routes(routes!(approval::grant))
        .routes(routes!(approval::grants))
        .routes(routes!(approval::revoke))
        .routes(routes!(channel::list))
        .routes(routes!(channel::reload))
        .routes(routes!(channel::shadow))
        .routes(routes!(connector::list))
        .routes(routes!(connector::trust))
        .routes(routes!(connector::untrust))
        .routes(routes!(connector::forget_connector))
        .routes(routes!(connector::unbind))
        .routes(routes!(context::show))
        .routes(routes!(context::compact))
        .routes(routes!(context::undo))
        .routes(routes!(schedule::list))
        .routes(routes!(schedule::create))
        .routes(routes!(schedule::preview))
        .routes(routes!(schedule::show))
        .routes(routes!(schedule::update))
        .routes(routes!(schedule::pause))
        .routes(routes!(schedule::resume))
        .routes(routes!(schedule::delete))
        .routes(routes!(schedule::run_now))
        .routes(routes!(op::list))
        .routes(routes!(op::add))
        .routes(routes!(op::show))
        .routes(routes!(op::complete))
        .routes(routes!(op::fail))
        .routes(routes!(op::cancel))
        .routes(routes!(gardener::status))
        .routes(routes!(gardener::run))
        .routes(routes!(memory::list))
        .routes(routes!(memory::search))
        .routes(routes!(memory::export))
        .routes(routes!(memory::import))
        .routes(routes!(memory::status))
        .routes(routes!(memory::show))
        .routes(routes!(memory::edit))
        .routes(routes!(memory::pin))
        .routes(routes!(memory::unpin))
        .routes(routes!(memory::review))
        .routes(routes!(memory::forget))
        .routes(routes!(engram::remember))
        .routes(routes!(engram::recall))
        .routes(routes!(engram::hydrate))
        .routes(routes!(engram::forget))
        .routes(routes!(engram::capabilities))
        .routes(routes!(engram::stats))
        .routes(routes!(engram::health))
        .routes(routes!(engram::export))
        .routes(routes!(engram::import))
        .routes(routes!(tool::list))
        .routes(routes!(tool::trust))
}
