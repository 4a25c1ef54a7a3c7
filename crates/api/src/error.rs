//! The one shape of every refusal.

use serde::{Deserialize, Serialize};
use std::fmt;
use utoipa::ToSchema;

/// Why a request was refused, as a closed list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    InvalidRequest,
    Unauthorized,
    Forbidden,
    HostNotAllowed,
    OriginNotAllowed,
    NotFound,
    MethodNotAllowed,
    RequestTimeout,
    /// The row is not in a state that allows this.
    Conflict,
    /// The lease expired or belongs to somebody else.
    LeaseConflict,
    PayloadTooLarge,
    UnsupportedMediaType,
    TooManyRequests,
    /// Other callers use what this one needs; it is free again in a moment.
    Busy,
    InternalError,
    /// The disk is full or broken; nothing was accepted.
    StorageUnavailable,
    /// The database is damaged; nothing is accepted until a backup is restored.
    StorageDamaged,
    /// The database is as large as the settings allow.
    StorageFull,
    /// As many events wait as the settings allow.
    QueueFull,
    ShuttingDown,
    /// A code of a newer server.
    #[serde(other)]
    Unknown,
}

impl ErrorCode {
    /// The HTTP status that goes with the code.
    pub fn http_status(self) -> u16 {
        match self {
            Self::InvalidRequest => 400,
            Self::Unauthorized => 401,
            Self::Forbidden | Self::OriginNotAllowed => 403,
            Self::NotFound => 404,
            Self::MethodNotAllowed => 405,
            Self::RequestTimeout => 408,
            Self::Conflict | Self::LeaseConflict => 409,
            Self::PayloadTooLarge => 413,
            Self::UnsupportedMediaType => 415,
            Self::HostNotAllowed => 421,
            Self::TooManyRequests => 429,
            Self::InternalError | Self::Unknown => 500,
            Self::Busy
            | Self::StorageUnavailable
            | Self::StorageDamaged
            | Self::StorageFull
            | Self::QueueFull
            | Self::ShuttingDown => 503,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::InvalidRequest => "invalid_request",
            Self::Unauthorized => "unauthorized",
            Self::Forbidden => "forbidden",
            Self::HostNotAllowed => "host_not_allowed",
            Self::OriginNotAllowed => "origin_not_allowed",
            Self::NotFound => "not_found",
            Self::MethodNotAllowed => "method_not_allowed",
            Self::RequestTimeout => "request_timeout",
            Self::Conflict => "conflict",
            Self::LeaseConflict => "lease_conflict",
            Self::PayloadTooLarge => "payload_too_large",
            Self::UnsupportedMediaType => "unsupported_media_type",
            Self::TooManyRequests => "too_many_requests",
            Self::Busy => "busy",
            Self::InternalError => "internal_error",
            Self::StorageUnavailable => "storage_unavailable",
            Self::StorageDamaged => "storage_damaged",
            Self::StorageFull => "storage_full",
            Self::QueueFull => "queue_full",
            Self::ShuttingDown => "shutting_down",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// `{"error":"invalid_request","details":["text is required"]}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ErrorBody {
    pub error: ErrorCode,
    /// One line for each thing that is wrong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub details: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

impl ErrorBody {
    pub fn new(error: ErrorCode) -> Self {
        Self { error, details: Vec::new(), retry_after_ms: None }
    }

    pub fn with_details(error: ErrorCode, details: Vec<String>) -> Self {
        Self { error, details, retry_after_ms: None }
    }
}

impl fmt::Display for ErrorBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.error)?;
        if !self.details.is_empty() {
            write!(f, ": {}", self.details.join("; "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_without_details_is_only_its_code() {
        let body = ErrorBody::new(ErrorCode::Unauthorized);
        assert_eq!(serde_json::to_string(&body).unwrap(), r#"{"error":"unauthorized"}"#);
    }

    #[test]
    fn a_code_of_a_newer_server_is_still_read() {
        let body: ErrorBody = serde_json::from_str(r#"{"error":"teapot","details":["short"]}"#).unwrap();
        assert_eq!(body, ErrorBody::with_details(ErrorCode::Unknown, vec!["short".into()]));
    }
}
