//! The request body as a JSON object: size and depth are bounded before anything is built from it.

use crate::refusal::Refusal;
use axum::body::{Body, HttpBody};
use axum::extract::{FromRequest, Request};
use cortex_api::ErrorCode;
use cortex_types::limits::{BODY_BYTES_MAX, IMPORT_BYTES_MAX, JSON_DEPTH_MAX};
use serde_json::{Map, Value};
use std::time::Duration;

/// A body that takes longer holds a place that others wait for.
const READ_MAX: Duration = Duration::from_secs(60);

/// A JSON object of at most `BODY_BYTES_MAX` bytes and `JSON_DEPTH_MAX` levels.
pub struct JsonBody(pub Map<String, Value>);

impl<S: Send + Sync> FromRequest<S> for JsonBody {
    type Rejection = Refusal;

    async fn from_request(request: Request, _state: &S) -> Result<Self, Refusal> {
        let bytes = read(request.into_body(), BODY_BYTES_MAX).await?;
        object_in(&bytes).map(Self)
    }
}

/// The JSON object that these bytes are.
pub(crate) fn object_in(bytes: &[u8]) -> Result<Map<String, Value>, Refusal> {
    if is_too_deep(bytes) {
        let detail = format!("Request body must not be nested deeper than {JSON_DEPTH_MAX} levels");
        return Err(Refusal::invalid(vec![detail]));
    }
    match serde_json::from_slice(bytes) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(Refusal::invalid(vec!["Request body must be a JSON object".to_owned()])),
        Err(_) => Err(Refusal::invalid(vec!["Request body must be valid JSON".to_owned()])),
    }
}

/// Lines of text of at most `IMPORT_BYTES_MAX` bytes.
pub(crate) struct TextBody(pub(crate) String);

impl<S: Send + Sync> FromRequest<S> for TextBody {
    type Rejection = Refusal;

    async fn from_request(request: Request, _state: &S) -> Result<Self, Refusal> {
        let bytes = read(request.into_body(), IMPORT_BYTES_MAX).await?;
        let text = String::from_utf8(bytes.into());
        text.map(Self).map_err(|_| Refusal::invalid(vec!["Request body must be UTF-8".to_owned()]))
    }
}

/// Reads a body of at most so many bytes.
pub(crate) async fn read(body: Body, bytes_max: usize) -> Result<axum::body::Bytes, Refusal> {
    let too_large = || {
        let detail = format!("Request body must be at most {bytes_max} bytes");
        Refusal::because(ErrorCode::PayloadTooLarge, detail)
    };
    // An honest length is refused before a byte is read.
    if body.size_hint().lower() > bytes_max as u64 {
        return Err(too_large());
    }
    let reading = tokio::time::timeout(READ_MAX, axum::body::to_bytes(body, bytes_max)).await;
    let read = reading.map_err(|_| {
        Refusal::because(
            ErrorCode::RequestTimeout,
            format!("Request body must come within {} s", READ_MAX.as_secs()),
        )
    })?;
    read.map_err(|error| {
        let source = std::error::Error::source(&error);
        if source.is_some_and(|source| source.is::<http_body_util::LengthLimitError>()) {
            too_large()
        } else {
            Refusal::invalid(vec!["Request body could not be read".to_owned()])
        }
    })
}

/// Counts brackets outside strings; one pass, no stack.
pub(crate) fn is_too_deep(bytes: &[u8]) -> bool {
    let (mut depth, mut in_string, mut escaped) = (0usize, false, false);
    for byte in bytes {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => depth += 1,
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > JSON_DEPTH_MAX {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_counts_brackets_outside_strings_only() {
        let nested = |levels: usize| [b"[".repeat(levels), b"]".repeat(levels)].concat();
        assert!(!is_too_deep(&nested(JSON_DEPTH_MAX)));
        assert!(is_too_deep(&nested(JSON_DEPTH_MAX + 1)));
        assert!(!is_too_deep(format!("\"{}\\\"{}\"", "[".repeat(500), "{".repeat(500)).as_bytes()));
        assert!(is_too_deep(&b"[".repeat(1_000_000)));
    }
}
