//! Every refusal as one coded JSON body.

use crate::json::Json;
use axum::response::{IntoResponse, Response};
use cortex_api::{ErrorBody, ErrorCode};
use cortex_store::{Full, StoreError};
use http::header::RETRY_AFTER;
use http::{HeaderValue, StatusCode};
use std::time::Duration;

/// How long a client should wait when the disk is the matter.
pub(crate) const STORAGE_RETRY: Duration = Duration::from_secs(1);

/// How long a client should wait for room in the queue, which empties by itself, and in the database, which a person makes.
pub(crate) const QUEUE_RETRY: Duration = Duration::from_secs(5);
pub(crate) const ROOM_RETRY: Duration = Duration::from_secs(60);
/// What whoever is refused by a damaged database can do.
pub(crate) const DAMAGED_WORDS: &str = "the database is damaged, so nothing new is accepted: run `cortex doctor` to \
     see what is damaged, then restore a backup (docs/backup.md)";

/// A request that is not done, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal(ErrorBody);

impl Refusal {
    pub(crate) fn new(code: ErrorCode) -> Self {
        Self(ErrorBody::new(code))
    }

    pub(crate) fn because(code: ErrorCode, detail: impl Into<String>) -> Self {
        Self(ErrorBody::with_details(code, vec![detail.into()]))
    }

    /// A bad request, with a line for each bad field.
    pub(crate) fn invalid(details: Vec<String>) -> Self {
        Self(ErrorBody::with_details(ErrorCode::InvalidRequest, details))
    }

    pub(crate) fn retry_after(mut self, wait: Duration) -> Self {
        self.0.retry_after_ms = Some(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
        self
    }
}

impl Refusal {
    /// The status and one line, for a door that has another shape of refusal.
    pub(crate) fn in_words(self) -> (StatusCode, String) {
        let status = self.status();
        let words = if self.0.details.is_empty() {
            self.0.error.as_str().to_owned()
        } else {
            self.0.details.join("; ")
        };
        (status, words)
    }

    pub(crate) fn code(&self) -> ErrorCode {
        self.0.error
    }

    /// How long the client is asked to wait.
    pub(crate) fn wait(&self) -> Option<Duration> {
        self.0.retry_after_ms.map(Duration::from_millis)
    }

    fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.0.error.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unavailable(_) | StoreError::Closed => {
                Self::new(ErrorCode::StorageUnavailable).retry_after(STORAGE_RETRY)
            }
            StoreError::Damaged(reason) => {
                tracing::error!(reason, "Stored data is damaged");
                Self::because(ErrorCode::InternalError, "stored data is damaged; see the server's log")
            }
            StoreError::FileDamaged(_) => Self::because(ErrorCode::StorageDamaged, DAMAGED_WORDS),
            StoreError::Full(
                full @ (Full::QueuedEvents { .. }
                | Full::EventsOfSource { .. }
                | Full::EventsOfStrangers { .. }),
            ) => Self::because(ErrorCode::QueueFull, full.to_string()).retry_after(QUEUE_RETRY),
            StoreError::Full(full @ (Full::Database { .. } | Full::DatabaseOfStrangers { .. })) => {
                Self::because(ErrorCode::StorageFull, full.to_string()).retry_after(ROOM_RETRY)
            }
            StoreError::Fault(reason) => {
                tracing::error!(reason, "The store failed");
                Self::because(ErrorCode::InternalError, "the store failed; see the server's log")
            }
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = self.status();
        let seconds = self.0.retry_after_ms.map(|wait| wait.div_ceil(1_000).max(1));
        let mut response = (status, Json(self.0)).into_response();
        if let Some(seconds) = seconds {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}
