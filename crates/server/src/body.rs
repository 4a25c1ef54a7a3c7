//! The request body as a JSON object: size, depth and what it takes to hold are bounded before anything is built from it.

use crate::held_body::Revoked;
use crate::load::{Load, Overload};
use crate::refusal::Refusal;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{FromRequest, Request};
use cortex_api::ErrorCode;
use cortex_types::limits::{BODY_BYTES_MAX, IMPORT_BYTES_MAX, JSON_DEPTH_MAX, JSON_VALUES_BYTES_MAX};
use http_body_util::BodyExt;
use serde_json::{Map, Value};
use std::time::Duration;

/// A body that takes longer holds a place that others wait for.
const READ_MAX: Duration = Duration::from_secs(60);

/// A JSON object of at most `BODY_BYTES_MAX` bytes and `JSON_DEPTH_MAX` levels.
pub struct JsonBody(pub Map<String, Value>);

impl<S: Send + Sync> FromRequest<S> for JsonBody {
    type Rejection = Refusal;

    async fn from_request(request: Request, _state: &S) -> Result<Self, Refusal> {
        let load = Load::of(&request);
        let body = read_json(request.into_body(), BODY_BYTES_MAX, JSON_VALUES_BYTES_MAX).await?;
        object_in(&body, &load).map(Self)
    }
}

/// The JSON object that a body is; what it takes to hold is part of the request's load.
pub(crate) fn object_in(body: &Weighed, load: &Load) -> Result<Map<String, Value>, Refusal> {
    load.hold(body.held)?;
    match serde_json::from_slice(&body.bytes) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(Refusal::invalid(vec!["Request body must be a JSON object".to_owned()])),
        Err(_) => Err(Refusal::invalid(vec!["Request body must be valid JSON".to_owned()])),
    }
}

fn too_much(too_much: TooMuch) -> Refusal {
    match too_much {
        TooMuch::Depth => {
            let detail = format!("Request body must not be nested deeper than {JSON_DEPTH_MAX} levels");
            Refusal::invalid(vec![detail])
        }
        TooMuch::Values => {
            let detail = "Request body has too many values; send fewer, or in several requests";
            Refusal::because(ErrorCode::PayloadTooLarge, detail)
        }
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

/// JSON that was read, and how many bytes it may take beside it when it is held as values.
pub(crate) struct Weighed {
    pub(crate) bytes: Bytes,
    held: usize,
}

/// Reads JSON of at most so many bytes. It is weighed while it comes in: what would take too much is not read to its end.
pub(crate) async fn read_json(
    body: Body,
    bytes_max: usize,
    values_bytes_max: usize,
) -> Result<Weighed, Refusal> {
    let mut scale = Scale::new(values_bytes_max);
    let bytes = read_seen(body, bytes_max, |data| scale.add(data).map_err(too_much)).await?;
    Ok(Weighed { held: scale.held_with(&bytes), bytes })
}

/// Reads a body of at most so many bytes.
pub(crate) async fn read(body: Body, bytes_max: usize) -> Result<Bytes, Refusal> {
    read_seen(body, bytes_max, |_| Ok(())).await
}

async fn read_seen(
    body: Body,
    bytes_max: usize,
    see: impl FnMut(&[u8]) -> Result<(), Refusal>,
) -> Result<Bytes, Refusal> {
    // An honest length is refused before a byte is read.
    if body.size_hint().lower() > bytes_max as u64 {
        return Err(too_large(bytes_max));
    }
    let reading = tokio::time::timeout(READ_MAX, collect(body, bytes_max, see)).await;
    reading.unwrap_or_else(|_| Err(too_slow(READ_MAX)))
}

async fn collect(
    mut body: Body,
    bytes_max: usize,
    mut see: impl FnMut(&[u8]) -> Result<(), Refusal>,
) -> Result<Bytes, Refusal> {
    // Nobody fills a buffer by promising: pages that are not written to take no memory.
    let promised = usize::try_from(body.size_hint().lower()).unwrap_or(bytes_max).min(bytes_max);
    let mut first: Option<Bytes> = None;
    let mut rest = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(unread)?.into_data() else { continue };
        see(&data)?;
        if first.is_none() && rest.is_empty() {
            first = Some(data);
        } else {
            if let Some(first) = first.take() {
                rest.reserve_exact(promised.max(first.len() + data.len()));
                rest.extend_from_slice(&first);
            }
            rest.extend_from_slice(&data);
        }
        if first.as_ref().map_or(rest.len(), Bytes::len) > bytes_max {
            return Err(too_large(bytes_max));
        }
    }
    Ok(first.unwrap_or_else(|| rest.into()))
}

fn unread(error: axum::Error) -> Refusal {
    let error = error.into_inner();
    if error.is::<Revoked>() {
        return Refusal::new(ErrorCode::Unauthorized);
    }
    match error.downcast::<Overload>().map(|overload| *overload) {
        Ok(Overload::Full(full)) => full.into(),
        Ok(Overload::Slow(most)) => too_slow(most),
        Err(_) => Refusal::invalid(vec!["Request body could not be read".to_owned()]),
    }
}

fn too_large(bytes_max: usize) -> Refusal {
    let detail = format!("Request body must be at most {bytes_max} bytes");
    Refusal::because(ErrorCode::PayloadTooLarge, detail)
}

fn too_slow(most: Duration) -> Refusal {
    let detail = format!("Request body must come within {} s", most.as_secs());
    Refusal::because(ErrorCode::RequestTimeout, detail)
}

/// Why JSON is not read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TooMuch {
    Depth,
    Values,
}

/// What values take beyond their text, on the safe side: an object has a node of eleven entries however few it has.
const OBJECT_BYTES: usize = 672;
const LIST_BYTES: usize = 160;
const VALUE_BYTES: usize = 96;
const ENTRY_BYTES: usize = 64;
const STRING_BYTES: usize = 16;

/// How many bytes this JSON may take when it is held as values beside its text, at most so many for the values
/// themselves.
pub(crate) fn weigh(bytes: &[u8], values_bytes_max: usize) -> Result<usize, TooMuch> {
    let mut scale = Scale::new(values_bytes_max);
    scale.add(bytes)?;
    Ok(scale.held_with(bytes))
}

/// Weighs JSON piece by piece; one pass, no stack.
struct Scale {
    depth: usize,
    in_string: bool,
    escaped: bool,
    held: usize,
    values_bytes_max: usize,
}

impl Scale {
    fn new(values_bytes_max: usize) -> Self {
        Self { depth: 0, in_string: false, escaped: false, held: 0, values_bytes_max }
    }

    fn add(&mut self, bytes: &[u8]) -> Result<(), TooMuch> {
        let Self { mut depth, mut in_string, mut escaped, mut held, values_bytes_max } = *self;
        for byte in bytes {
            if in_string {
                match byte {
                    _ if escaped => escaped = false,
                    b'\\' => escaped = true,
                    b'"' => in_string = false,
                    _ => {}
                }
                continue;
            }
            match byte {
                b'"' => {
                    in_string = true;
                    held += STRING_BYTES;
                }
                b'{' => {
                    depth += 1;
                    held += OBJECT_BYTES;
                }
                b'[' => {
                    depth += 1;
                    held += LIST_BYTES;
                }
                b',' => held += VALUE_BYTES,
                b':' => held += ENTRY_BYTES,
                b'}' | b']' => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth > JSON_DEPTH_MAX {
                return Err(TooMuch::Depth);
            }
        }
        *self = Self { depth, in_string, escaped, held, values_bytes_max };
        if held > values_bytes_max { Err(TooMuch::Values) } else { Ok(()) }
    }

    fn held_with(&self, bytes: &[u8]) -> usize {
        2 * bytes.len() + self.held
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::response::IntoResponse;

    fn weigh(bytes: &[u8]) -> Result<usize, TooMuch> {
        super::weigh(bytes, JSON_VALUES_BYTES_MAX)
    }

    #[test]
    fn depth_counts_brackets_outside_strings_only() {
        let nested = |levels: usize| [b"[".repeat(levels), b"]".repeat(levels)].concat();
        assert!(weigh(&nested(JSON_DEPTH_MAX)).is_ok());
        assert_eq!(weigh(&nested(JSON_DEPTH_MAX + 1)), Err(TooMuch::Depth));
        assert!(weigh(format!("\"{}\\\"{}\"", "[".repeat(500), "{".repeat(500)).as_bytes()).is_ok());
        assert_eq!(weigh(&b"[".repeat(1_000_000)), Err(TooMuch::Depth));
    }

    #[tokio::test]
    async fn a_body_that_would_take_too_much_is_not_read_to_its_end() {
        let crumbs = Bytes::from(r#"{"":0},"#.repeat(1_000));
        let read = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let counted = std::sync::Arc::clone(&read);
        let pieces = futures::stream::repeat_with(move || {
            counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            Ok::<_, std::io::Error>(crumbs.clone())
        });
        let body = Body::from_stream(pieces);
        let refused = read_json(body, BODY_BYTES_MAX, 10_000_000).await.err().unwrap();
        assert_eq!(refused.into_response().status(), 413);
        let read = read.load(std::sync::atomic::Ordering::Relaxed);
        assert!(read < 20, "{read} pieces were read");
        let split =
            ["{\"a", "\\\"[[\": [", "1, 2]}"].map(|piece| Ok::<_, std::io::Error>(Bytes::from(piece)));
        let whole = r#"{"a\"[[": [1, 2]}"#;
        let body = Body::from_stream(futures::stream::iter(split));
        let weighed = read_json(body, BODY_BYTES_MAX, JSON_VALUES_BYTES_MAX).await.ok().unwrap();
        assert_eq!((&weighed.bytes[..], weighed.held), (whole.as_bytes(), weigh(whole.as_bytes()).unwrap()));
    }

    #[test]
    fn text_weighs_what_it_is_and_crumbs_weigh_what_they_become() {
        let text = format!("{{\"text\":\"{}\"}}", ",{[".repeat(BODY_BYTES_MAX / 4));
        assert!(weigh(text.as_bytes()).unwrap() < 2 * BODY_BYTES_MAX);
        let crumbs = |count: usize| format!("[{}0]", r#"{"":0},"#.repeat(count));
        let taken = weigh(crumbs(1_000).as_bytes()).unwrap();
        assert!((640_000..1_000_000).contains(&taken), "{taken}");
        assert_eq!(weigh(crumbs(100_000).as_bytes()), Err(TooMuch::Values));
    }
}
