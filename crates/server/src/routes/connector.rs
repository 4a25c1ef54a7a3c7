//! `/connector`: a session for a connector, and the socket it opens (seed 003); `/api/v2/connectors`: those that this server runs.

use crate::auth::{Caller, Verdict};
use crate::body::JsonBody;
use crate::client_connection::ClientConnection;
use crate::connector::{self, Wants};
use crate::fields::Fields;
use crate::guard::Peer;
use crate::json::Json;
use crate::refusal::Refusal;
use crate::state::AppState;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::{Extension, Path, Query, State};
use axum::response::Response;
use cortex_api::{
    ConnectorList, ErrorBody, ErrorCode, LocalConnectorRow, TrustRequest, UnbindAnswer, UnbindRequest,
    UntrustRequest,
};
use cortex_store::{Forgotten, LocalConnector, Trusted};
use cortex_types::{Speaker, is_reserved_source};
use http::HeaderMap;
use http::header::AUTHORIZATION;
use serde::Deserialize;
use std::sync::Arc;
use utoipa::IntoParams;

/// The connectors that this server keeps running.
#[utoipa::path(get, path = "/api/v2/connectors", tag = "connector", responses((status = 200, body = ConnectorList)))]
pub(crate) async fn list(State(app): State<AppState>) -> Json<ConnectorList> {
    let local = app.connector_door.local.rows().into_iter().map(row).collect();
    Json(ConnectorList { items: app.connectors.rows(), local })
}

/// Let a connector without a key use its source.
#[utoipa::path(post, path = "/api/v2/connectors/trust", tag = "connector", request_body = TrustRequest, responses(
    (status = 200, body = LocalConnectorRow), (status = 400, body = ErrorBody),
    (status = 404, body = ErrorBody, description = "No connector of this name spoke"),
    (status = 409, body = ErrorBody, description = "The source or the name belongs to another"),
))]
pub(crate) async fn trust(
    State(app): State<AppState>,
    JsonBody(body): JsonBody,
) -> Result<Json<LocalConnectorRow>, Refusal> {
    let mut fields = Fields::of(&body);
    let connector_id = fields.name("connectorId");
    let named = fields.optional("source").is_some().then(|| fields.name("source"));
    fields.finish()?;
    let local = app.connector_door.local.find(&connector_id).ok_or_else(unheard)?;
    if let (None, Some(other)) = (&named, &local.other_source) {
        let detail = format!(
            "{connector_id} claimed the source {} and then {other}, which may be two programs; \
             say which one is yours with --source",
            local.source
        );
        return Err(Refusal::because(ErrorCode::Conflict, detail));
    }
    let source = named.clone().unwrap_or_else(|| local.source.clone());
    may_be_trusted(&app, &local, &source, named.is_some()).await?;
    // The owner says so himself, whatever the settings list.
    let speaker = Speaker::owner(source.as_str()).on_channel(&connector_id);
    if let Err(refusal) = app.runtime.channels().learn_source(&speaker).await? {
        return Err(Refusal::because(ErrorCode::Conflict, refusal.to_string()));
    }
    changed(&app, &connector_id, Some(source)).await
}

/// Trust a connector without a key no longer.
#[utoipa::path(post, path = "/api/v2/connectors/untrust", tag = "connector", request_body = UntrustRequest, responses(
    (status = 200, body = LocalConnectorRow), (status = 404, body = ErrorBody),
))]
pub(crate) async fn untrust(
    State(app): State<AppState>,
    JsonBody(body): JsonBody,
) -> Result<Json<LocalConnectorRow>, Refusal> {
    let mut fields = Fields::of(&body);
    let connector_id = fields.name("connectorId");
    fields.finish()?;
    changed(&app, &connector_id, None).await
}

async fn changed(
    app: &AppState,
    connector_id: &str,
    source: Option<String>,
) -> Result<Json<LocalConnectorRow>, Refusal> {
    let local = &app.connector_door.local;
    match local.set_trust(connector_id, source.clone()).await? {
        Trusted::Changed => {}
        Trusted::Unheard => return Err(unheard()),
        Trusted::Guarded => return Err(guarded(&source.unwrap_or_default())),
    }
    local.find(connector_id).map(|local| Json(row(local))).ok_or_else(unheard)
}

/// Forget a connector without a key, until it comes again.
#[utoipa::path(post, path = "/api/v2/connectors/forget", tag = "connector", request_body = UntrustRequest, responses(
    (status = 200, body = LocalConnectorRow), (status = 404, body = ErrorBody),
))]
pub(crate) async fn forget_connector(
    State(app): State<AppState>,
    JsonBody(body): JsonBody,
) -> Result<Json<LocalConnectorRow>, Refusal> {
    let mut fields = Fields::of(&body);
    let connector_id = fields.name("connectorId");
    fields.finish()?;
    let forgotten = app.connector_door.local.forget(&connector_id).await?;
    forgotten.map(|local| Json(row(local))).ok_or_else(unheard)
}

/// A name that a program chose must not bring it what belongs to somebody else.
async fn may_be_trusted(
    app: &AppState,
    local: &LocalConnector,
    source: &str,
    is_named: bool,
) -> Result<(), Refusal> {
    let connector_id = local.connector_id.as_str();
    let conflict = |detail: String| Err(Refusal::because(ErrorCode::Conflict, detail));
    if local.trusted_source.as_deref() == Some(source) {
        return Ok(());
    }
    if is_reserved_source(connector_id) {
        return conflict(format!(
            "the name {connector_id} belongs to the server itself; give the program another connectorId"
        ));
    }
    if is_reserved_source(source) {
        return conflict(format!(
            "the source {source} belongs to the server itself; give the program another source"
        ));
    }
    if app.keys.guards(source) {
        return Err(guarded(source));
    }
    let connectors = app.store.connectors();
    if !is_named && connectors.is_source_in_use(source.to_owned()).await? {
        return conflict(format!(
            "the source {source} is in use already; if this connector is the one, say so with --source {source}"
        ));
    }
    Ok(())
}

fn guarded(source: &str) -> Refusal {
    let detail = format!("the source {source} has a key; give it to the connector instead");
    Refusal::because(ErrorCode::Conflict, detail)
}

fn unheard() -> Refusal {
    let detail = "no connector without a key has this name; `cortex connector status` shows them";
    Refusal::because(ErrorCode::NotFound, detail)
}

fn row(local: LocalConnector) -> LocalConnectorRow {
    LocalConnectorRow {
        connector_id: local.connector_id,
        source: local.source,
        other_source: local.other_source,
        trusted_source: local.trusted_source,
        first_seen_at: local.first_seen_at.into(),
        last_seen_at: local.last_seen_at.into(),
    }
}

/// What may be said when a session is opened.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionQuery {
    /// Binds the session at once, so that what waits for this connector is sent as soon as it connects.
    connector_id: Option<String>,
}

/// Forget which channel a source is, for a connector that was renamed.
#[utoipa::path(post, path = "/api/v2/connectors/unbind", tag = "connector", request_body = UnbindRequest, responses(
    (status = 200, body = UnbindAnswer), (status = 400, body = ErrorBody),
    (status = 404, body = ErrorBody, description = "The source is no channel of another name"),
))]
pub(crate) async fn unbind(
    State(app): State<AppState>,
    JsonBody(body): JsonBody,
) -> Result<Json<UnbindAnswer>, Refusal> {
    let mut fields = Fields::of(&body);
    let source = fields.name("source");
    fields.finish()?;
    let forgotten = app.runtime.channels().forget_source(&source).await?;
    let Forgotten { channel, waiting, suppressed } =
        forgotten.ok_or_else(|| Refusal::new(ErrorCode::NotFound))?;
    tracing::info!(source, channel, waiting, suppressed, "A source is no longer bound to its channel");
    Ok(Json(UnbindAnswer { source, channel, waiting, suppressed }))
}

/// What may be said when a socket is opened.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SocketQuery {
    connector_id: Option<String>,
    /// `1`: pieces of answers are sent while they grow.
    stream: Option<String>,
    /// `1`: a message is delivered once the connector says so.
    ack: Option<String>,
    /// `1`: the server tells that an event was accepted, and how its turn ended.
    receipts: Option<String>,
}

/// Open a session; the answer is its id, a UUID.
#[utoipa::path(get, path = "/connector", tag = "connector", params(SessionQuery), responses(
    (status = 200, body = String, content_type = "text/plain"), (status = 401, body = ErrorBody),
))]
pub(crate) async fn open_session(
    State(app): State<AppState>,
    caller: Caller,
    Query(query): Query<SessionQuery>,
) -> Result<String, Refusal> {
    connector::open_session(&app, &caller, query.connector_id).await
}

/// The same where connectors of the original look for it.
#[utoipa::path(get, path = "/api/cortex-m/v1/connector", tag = "connector", params(SessionQuery), responses(
    (status = 200, body = String, content_type = "text/plain"), (status = 401, body = ErrorBody),
))]
pub(crate) async fn open_session_below(
    state: State<AppState>,
    caller: Caller,
    query: Query<SessionQuery>,
) -> Result<String, Refusal> {
    open_session(state, caller, query).await
}

/// Connect a session's WebSocket; CloudEvents go both ways.
#[utoipa::path(get, path = "/connector/{session}", tag = "connector",
    params(("session" = String, Path), SocketQuery),
    responses((status = 101, description = "A WebSocket; an unknown session is closed with 4401"),
        (status = 400, body = ErrorBody), (status = 429, body = ErrorBody)),
)]
pub(crate) async fn open_socket(
    State(app): State<AppState>,
    Extension(peer): Extension<Peer>,
    Extension(connection): Extension<Arc<ClientConnection>>,
    Path(session): Path<String>,
    Query(query): Query<SocketQuery>,
    headers: HeaderMap,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Refusal> {
    let upgrade = upgrade.map_err(|_| {
        Refusal::because(
            ErrorCode::InvalidRequest,
            "this address speaks WebSocket; connect with a client of it",
        )
    })?;
    // A credential is not needed here; one that is brought has to be right all the same.
    let caller = match app.keys.judge(&headers, peer.0) {
        Verdict::Known(caller) => caller,
        Verdict::Missing => Caller::Anybody,
        Verdict::Wrong => return Err(Refusal::new(ErrorCode::Unauthorized)),
        Verdict::Throttled { retry_after } => {
            return Err(Refusal::new(ErrorCode::TooManyRequests).retry_after(retry_after));
        }
    };
    let wants = Wants {
        connector_id: query.connector_id,
        stream: query.stream.as_deref() == Some("1"),
        ack: query.ack.as_deref() == Some("1"),
        receipts: query.receipts.as_deref() == Some("1"),
        brings: headers.contains_key(AUTHORIZATION).then_some(caller),
        peer: peer.0,
        connection,
    };
    connector::open_socket(app, upgrade, session, wants).await
}

/// The same where connectors of the original look for it.
#[utoipa::path(get, path = "/api/cortex-m/v1/connector/{session}", tag = "connector",
    params(("session" = String, Path), SocketQuery),
    responses((status = 101, description = "A WebSocket; an unknown session is closed with 4401"),
        (status = 400, body = ErrorBody), (status = 429, body = ErrorBody)),
)]
pub(crate) async fn open_socket_below(
    state: State<AppState>,
    peer: Extension<Peer>,
    connection: Extension<Arc<ClientConnection>>,
    session: Path<String>,
    query: Query<SocketQuery>,
    headers: HeaderMap,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Refusal> {
    open_socket(state, peer, connection, session, query, headers, upgrade).await
}
