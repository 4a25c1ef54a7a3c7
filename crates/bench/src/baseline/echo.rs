//! Echo: the same router, guard, body parse and field checks as the real route, then an answer without the store.

use crate::client::Routes;
use axum::Router;
use axum::routing::post;
use cortex_api::{AckAnswer, AckStatus, IngestAnswer, IngestStatus, PollAnswer, PolledMessage};
use cortex_server::Json;
use cortex_server::{JsonBody, Refusal, read_event};
use cortex_types::{EventId, LeaseToken, OutboxId};
use ulid::Ulid;

pub(crate) const ECHO_INGEST: &str = "/bench/echo/ingest";
pub(crate) const ECHO_CONNECTOR: Routes = Routes { poll: "/bench/echo/poll", ack: "/bench/echo/ack" };
/// Messages of an echoed poll that does not say how many.
const BATCH: u64 = 20;

pub(crate) fn echo_routes() -> Router {
    Router::new()
        .route(ECHO_INGEST, post(ingest))
        .route(ECHO_CONNECTOR.poll, post(poll))
        .route(ECHO_CONNECTOR.ack, post(ack))
}

async fn ingest(JsonBody(body): JsonBody) -> Result<(axum::http::StatusCode, Json<IngestAnswer>), Refusal> {
    let (_, event) = read_event(&body)?;
    Ok(accepted(event))
}

/// The answer of a real ingest; the event it is for goes away here.
pub(super) fn accepted(
    _event: cortex_runtime::IncomingEvent,
) -> (axum::http::StatusCode, Json<IngestAnswer>) {
    let answer = IngestAnswer { event_id: Some(EventId::from_ulid(mint())), status: IngestStatus::Queued };
    (axum::http::StatusCode::ACCEPTED, Json(answer))
}

async fn poll(JsonBody(body): JsonBody) -> Json<PollAnswer> {
    let wanted = body.get("max").and_then(serde_json::Value::as_u64).unwrap_or(BATCH);
    let message = |number: u64| PolledMessage {
        message_id: OutboxId::from_ulid(mint()),
        lease_token: LeaseToken::from_ulid(mint()),
        topic_key: format!("chat-{number}"),
        text: crate::fill::REPLY.to_owned(),
        payload: None,
    };
    Json(PollAnswer { messages: (0..wanted).map(message).collect() })
}

async fn ack(JsonBody(body): JsonBody) -> Json<AckAnswer> {
    let text = |name: &str| body.get(name).and_then(serde_json::Value::as_str).unwrap_or_default();
    let ok =
        text("messageId").parse::<OutboxId>().is_ok() && text("leaseToken").parse::<LeaseToken>().is_ok();
    Json(AckAnswer { ok, status: AckStatus::Delivered })
}

pub(super) fn mint() -> Ulid {
    Ulid::from_parts(rand::random(), rand::random())
}
