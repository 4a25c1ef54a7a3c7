//! A refusal in OpenAI's shape.

use crate::json::Json;
use crate::refusal::Refusal;
use axum::response::{IntoResponse, Response};
use cortex_api::{ErrorCode, OpenAiError, OpenAiRefused};
use cortex_store::StoreError;
use http::header::RETRY_AFTER;
use http::{HeaderValue, StatusCode};
use std::time::Duration;

/// What clients sort refusals by, besides the status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ErrorKind {
    InvalidRequest,
    RateLimit,
    Server,
}

impl ErrorKind {
    fn as_str(self) -> &'static str {
        match self {
            Self::InvalidRequest => "invalid_request_error",
            Self::RateLimit => "rate_limit_error",
            Self::Server => "server_error",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OpenAiRefusal {
    status: StatusCode,
    kind: ErrorKind,
    message: String,
    param: Option<&'static str>,
    code: Option<&'static str>,
    retry_after: Option<Duration>,
}

impl OpenAiRefusal {
    pub(crate) fn new(status: StatusCode, kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { status, kind, message: message.into(), param: None, code: None, retry_after: None }
    }

    /// A field that is not as it should be.
    pub(crate) fn bad(param: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, ErrorKind::InvalidRequest, message)
            .param(param)
            .code("invalid_value")
    }

    /// A field that asks for what the assistant cannot do.
    pub(crate) fn unsupported(param: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, ErrorKind::InvalidRequest, message)
            .param(param)
            .code("unsupported_parameter")
    }

    pub(crate) fn param(mut self, param: &'static str) -> Self {
        self.param = Some(param);
        self
    }

    pub(crate) fn code(mut self, code: &'static str) -> Self {
        self.code = Some(code);
        self
    }

    pub(crate) fn retry_after(mut self, wait: Option<Duration>) -> Self {
        self.retry_after = wait;
        self
    }

    /// As it stands in a stream that has already begun.
    pub(crate) fn body(&self) -> OpenAiRefused {
        OpenAiRefused {
            error: OpenAiError {
                message: self.message.clone(),
                kind: self.kind.as_str().to_owned(),
                param: self.param.map(str::to_owned),
                code: self.code.map(str::to_owned),
            },
        }
    }
}

impl From<Refusal> for OpenAiRefusal {
    fn from(refusal: Refusal) -> Self {
        let (code, wait) = (refusal.code(), refusal.wait());
        let (status, words) = refusal.in_words();
        let kind = match status {
            StatusCode::TOO_MANY_REQUESTS => ErrorKind::RateLimit,
            status if status.is_server_error() => ErrorKind::Server,
            _ => ErrorKind::InvalidRequest,
        };
        let (message, code) = if code == ErrorCode::Unauthorized {
            ("a key is missing or wrong; `cortex key show ingest` prints one".to_owned(), "invalid_api_key")
        } else if code == ErrorCode::TooManyRequests {
            ("too many requests or wrong keys; try again later".to_owned(), "rate_limit_exceeded")
        } else if code == ErrorCode::NotFound {
            (format!("{words}: /openapi.json says what is there"), code.as_str())
        } else {
            (words, code.as_str())
        };
        Self::new(status, kind, message).code(code).retry_after(wait)
    }
}

impl From<StoreError> for OpenAiRefusal {
    fn from(error: StoreError) -> Self {
        Refusal::from(error).into()
    }
}

impl IntoResponse for OpenAiRefusal {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.body())).into_response();
        if let Some(wait) = self.retry_after {
            let seconds = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).div_ceil(1_000).max(1);
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}
