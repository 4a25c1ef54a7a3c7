//! Naive: the same as echo plus one transaction a request, as durable as ours: WAL, `synchronous=FULL`.
//!
//! The table is the seed's: a TEXT primary key, a UNIQUE pair and two full indexes. The connection stands behind a
//! mutex and is used on the blocking pool.

use super::echo::{accepted, mint};
use super::keep_like_the_store;
use crate::BenchError;
use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use cortex_api::{ErrorBody, ErrorCode};
use cortex_runtime::IncomingEvent;
use cortex_server::Json;
use cortex_server::{JsonBody, read_event};
use cortex_types::{Clock, EventId, Millis, SystemClock};
use rusqlite::{Connection, params};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

pub(crate) const NAIVE_INGEST: &str = "/bench/naive/ingest";

const SCHEMA: &str = "
CREATE TABLE inbox_messages (
  id TEXT PRIMARY KEY,
  source TEXT NOT NULL,
  external_message_id TEXT NOT NULL,
  topic_key TEXT NOT NULL,
  user_id TEXT NOT NULL,
  text TEXT NOT NULL,
  occurred_at INTEGER NOT NULL,
  idempotency_key TEXT NOT NULL,
  metadata_json TEXT,
  status TEXT NOT NULL DEFAULT 'pending',
  attempts INTEGER NOT NULL DEFAULT 0,
  error TEXT,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  UNIQUE(source, external_message_id)
);
CREATE INDEX idx_inbox_status_created ON inbox_messages(status, created_at);
CREATE INDEX idx_inbox_topic_status ON inbox_messages(topic_key, status);";

const INSERT: &str = "INSERT INTO inbox_messages(id, source, external_message_id, topic_key, user_id, text,
  occurred_at, idempotency_key, metadata_json, created_at, updated_at)
  VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?10)";

struct Naive {
    connection: Mutex<Connection>,
    clock: SystemClock,
}

/// Creates the database at `path` and the route that writes to it.
pub(crate) fn naive_routes(path: &Path) -> Result<Router, BenchError> {
    let connection = Connection::open(path)?;
    keep_like_the_store(&connection)?;
    connection.execute_batch(SCHEMA)?;
    let naive = Naive { connection: Mutex::new(connection), clock: SystemClock::start() };
    Ok(Router::new().route(NAIVE_INGEST, post(ingest)).with_state(Arc::new(naive)))
}

async fn ingest(State(naive): State<Arc<Naive>>, JsonBody(body): JsonBody) -> Response {
    let (source, event) = match read_event(&body) {
        Ok(event) => event,
        Err(refusal) => return refusal.into_response(),
    };
    let kept = tokio::task::spawn_blocking(move || naive.keep(&source, &event).map(|()| event)).await;
    match kept {
        Ok(Ok(event)) => accepted(event).into_response(),
        Ok(Err(_)) | Err(_) => {
            let body = ErrorBody::new(ErrorCode::StorageUnavailable);
            (axum::http::StatusCode::SERVICE_UNAVAILABLE, Json(body)).into_response()
        }
    }
}

impl Naive {
    fn keep(&self, source: &str, event: &IncomingEvent) -> rusqlite::Result<()> {
        let id = EventId::from_ulid(mint_at(self.clock.now()));
        // A panic in between leaves no half transaction behind: each insert is one.
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        connection.prepare_cached(INSERT)?.execute(params![
            id.as_str(),
            source,
            event.external_message_id,
            event.topic_key,
            event.user_id,
            event.text,
            event.occurred_at.0,
            event.idempotency_key,
            event.metadata_json,
            self.clock.now().0,
        ])?;
        Ok(())
    }
}

fn mint_at(now: Millis) -> ulid::Ulid {
    ulid::Ulid::from_parts(u64::try_from(now.0).unwrap_or(0), mint().random())
}
