//! Models of the providers: the client's request goes on to them, and their answer comes back.

use super::ASSISTANT;
use super::body::OpenAiBody;
use super::refusal::{ErrorKind, OpenAiRefusal};
use crate::load::AnswerRoom;
use crate::refusal::Refusal;
use crate::state::AppState;
use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use cortex_models::{Models, RelayBody, RelayPath, RelayRefused, RelayRequest, Room};
use cortex_store::Store;
use cortex_types::ModelCall;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode};
use std::sync::Arc;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// Passes a request on to whoever has the model.
pub(crate) async fn relayed(
    app: &AppState,
    path: RelayPath,
    body: &OpenAiBody,
) -> Result<Response, OpenAiRefusal> {
    let model = body.model()?.to_owned();
    let models = app.models.get().ok_or_else(super::answer::stopping)?;
    if app.runtime.day_tokens_left().await? == Some(0) {
        let message = "maxTokensPerDay is used up; it begins anew at midnight UTC";
        let refusal = OpenAiRefusal::new(StatusCode::TOO_MANY_REQUESTS, ErrorKind::RateLimit, message);
        return Err(refusal.code("insufficient_quota"));
    }
    let request = RelayRequest { path, model, stream: body.wants_stream()?, body: body.bytes.clone() };
    let (calls, made) = unbounded_channel();
    tokio::spawn(keep_books(app.store.clone(), made));
    let answer = Arc::new(body.load.answer());
    let room = Arc::clone(&answer) as Arc<dyn Room>;
    let relayed = models.relay(&request, &calls, &room).await;
    let relayed = relayed.map_err(|refused| refusal(models, &request.model, refused, &answer))?;
    let body = match relayed.body {
        RelayBody::Whole(bytes) => Body::from(Bytes::from_owner(Kept { bytes, _room: answer })),
        RelayBody::Stream(chunks) => Body::from_stream(chunks),
    };
    let mut response =
        (StatusCode::from_u16(relayed.status).unwrap_or(StatusCode::BAD_GATEWAY), body).into_response();
    let content_type = HeaderValue::from_str(&relayed.content_type);
    let content_type = content_type.unwrap_or(HeaderValue::from_static("application/json"));
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    Ok(response)
}

/// An answer that keeps its room until its last byte is written, however slowly it is read.
struct Kept {
    bytes: Bytes,
    _room: Arc<AnswerRoom>,
}

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Until the last call of a request is over; a stream may outlive its handler.
async fn keep_books(store: Store, mut made: UnboundedReceiver<ModelCall>) {
    while let Some(call) = made.recv().await {
        if let Err(error) = store.record_usage(vec![call]).await {
            tracing::warn!(%error, "What a client's call of a model cost could not be written down");
        }
    }
}

/// No model of this name; says which there are.
pub(crate) fn unknown_model(models: Option<&Models>, model: &str) -> OpenAiRefusal {
    let listed = models.map(Models::set_up_models).unwrap_or_default();
    let names: Vec<&str> =
        std::iter::once(ASSISTANT).chain(listed.iter().map(|model| model.id.as_str())).collect();
    let message = format!("there is no model {model:?}; there are: {}", names.join(", "));
    OpenAiRefusal::new(StatusCode::NOT_FOUND, ErrorKind::InvalidRequest, message)
        .param("model")
        .code("model_not_found")
}

fn refusal(models: &Models, model: &str, refused: RelayRefused, room: &AnswerRoom) -> OpenAiRefusal {
    match refused {
        RelayRefused::NoRoom(_) => Refusal::from(room.full()).into(),
        RelayRefused::UnknownModel => unknown_model(Some(models), model),
        RelayRefused::Untranslatable(message) => {
            OpenAiRefusal::new(StatusCode::BAD_REQUEST, ErrorKind::InvalidRequest, message)
                .code("unsupported_by_provider")
        }
        RelayRefused::Limited { retry_after, message } => {
            OpenAiRefusal::new(StatusCode::TOO_MANY_REQUESTS, ErrorKind::RateLimit, message)
                .code("rate_limit_exceeded")
                .retry_after(retry_after)
        }
        RelayRefused::Exhausted { retry_after, message } => {
            OpenAiRefusal::new(StatusCode::BAD_GATEWAY, ErrorKind::Server, message)
                .code("providers_exhausted")
                .retry_after(retry_after)
        }
    }
}
