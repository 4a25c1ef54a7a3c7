//! A request body, as an object to read and as the bytes that came.

use super::refusal::OpenAiRefusal;
use crate::body::{object_in, read_json};
use crate::load::Load;
use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use cortex_types::limits::{CHAT_BODY_BYTES_MAX, CHAT_VALUES_BYTES_MAX};
use serde_json::{Map, Value};

/// A JSON object of at most `CHAT_BODY_BYTES_MAX` bytes.
pub(crate) struct OpenAiBody {
    pub(crate) object: Map<String, Value>,
    pub(crate) bytes: Bytes,
    pub(crate) load: Load,
}

impl<S: Send + Sync> FromRequest<S> for OpenAiBody {
    type Rejection = OpenAiRefusal;

    async fn from_request(request: Request, _state: &S) -> Result<Self, OpenAiRefusal> {
        let load = Load::of(&request);
        let body = read_json(request.into_body(), CHAT_BODY_BYTES_MAX, CHAT_VALUES_BYTES_MAX).await?;
        Ok(Self { object: object_in(&body, &load)?, bytes: body.bytes, load })
    }
}

impl OpenAiBody {
    pub(crate) fn model(&self) -> Result<&str, OpenAiRefusal> {
        let model = self.object.get("model").and_then(Value::as_str).filter(|model| !model.trim().is_empty());
        model.ok_or_else(|| OpenAiRefusal::bad("model", "model is required: cortex is the assistant"))
    }

    pub(crate) fn wants_stream(&self) -> Result<bool, OpenAiRefusal> {
        match self.object.get("stream") {
            None | Some(Value::Null) => Ok(false),
            Some(Value::Bool(stream)) => Ok(*stream),
            Some(_) => Err(OpenAiRefusal::bad("stream", "stream must be true or false")),
        }
    }
}
