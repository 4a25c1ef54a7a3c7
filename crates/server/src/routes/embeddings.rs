//! `POST /v1/embeddings`: vectors of the embedder in use, or of a provider's model.

use crate::openai::{ASSISTANT, ErrorKind, OpenAiBody, OpenAiRefusal, relayed};
use crate::state::AppState;
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cortex_api::{
    EmbeddingRow, EmbeddingVector, EmbeddingsList, EmbeddingsRequest, EmbeddingsUsage, OpenAiRefused,
};
use cortex_models::{EmbedError, Embedder, RelayPath};
use http::StatusCode;
use serde_json::Value;

/// As many as OpenAI takes.
const INPUTS_MAX: usize = 2_048;
/// Texts that are embedded before others get a turn.
const AT_ONCE: usize = 64;

/// Make vectors of texts.
#[utoipa::path(post, path = "/v1/embeddings", tag = "openai", request_body = EmbeddingsRequest, responses(
    (status = 200, body = EmbeddingsList), (status = 400, body = OpenAiRefused), (status = 401, body = OpenAiRefused),
    (status = 404, body = OpenAiRefused, description = "No provider has this model"), (status = 413, body = OpenAiRefused),
    (status = 429, body = OpenAiRefused), (status = 502, body = OpenAiRefused),
))]
pub(crate) async fn create(State(app): State<AppState>, body: OpenAiBody) -> Result<Response, OpenAiRefusal> {
    let memory = app.runtime.memory();
    let embedder = memory.embedder();
    let model = body.model()?;
    if model != ASSISTANT && model != embedder.name() {
        return relayed(&app, RelayPath::Embeddings, &body).await;
    }
    let texts = texts(&body)?;
    let encoding = encoding(&body)?;
    check_dimensions(&body, embedder)?;
    let mut data = Vec::with_capacity(texts.len());
    for batch in texts.chunks(AT_ONCE) {
        let vectors = embedder.embed(batch).await.map_err(refused)?;
        data.extend(vectors.into_iter().map(|vector| encoding.write(vector)));
        tokio::task::yield_now().await;
    }
    let row = |(index, embedding)| EmbeddingRow { object: "embedding".to_owned(), index, embedding };
    // About four bytes are a token; nobody is billed by it.
    let tokens = texts.iter().map(|text| text.len().div_ceil(4) as u64).sum();
    let list = EmbeddingsList {
        object: "list".to_owned(),
        data: data.into_iter().enumerate().map(row).collect(),
        model: model.to_owned(),
        usage: EmbeddingsUsage { prompt_tokens: tokens, total_tokens: tokens },
    };
    Ok(Json(list).into_response())
}

fn texts(body: &OpenAiBody) -> Result<Vec<&str>, OpenAiRefusal> {
    let bad = |problem: String| Err(OpenAiRefusal::bad("input", problem));
    let texts: Option<Vec<&str>> = match body.object.get("input") {
        Some(Value::String(text)) => Some(vec![text]),
        Some(Value::Array(items)) if items.iter().any(|item| item.is_number() || item.is_array()) => {
            return bad(
                "this embedder takes texts, not tokens: input must be a text or a list of texts".into()
            );
        }
        Some(Value::Array(items)) => items.iter().map(Value::as_str).collect(),
        Some(_) | None => None,
    };
    match texts {
        None => bad("input must be a text or a list of texts".to_owned()),
        Some(texts) if texts.is_empty() || texts.len() > INPUTS_MAX => {
            bad(format!("input must have between 1 and {INPUTS_MAX} texts"))
        }
        Some(texts) if texts.iter().any(|text| text.is_empty()) => {
            bad("input must not have empty texts".into())
        }
        Some(texts) => Ok(texts),
    }
}

/// How vectors are written; OpenAI's own clients ask for base64.
#[derive(Clone, Copy)]
enum Encoding {
    Float,
    Base64,
}

impl Encoding {
    fn write(self, vector: Vec<f32>) -> EmbeddingVector {
        match self {
            Self::Float => EmbeddingVector::Floats(vector),
            Self::Base64 => {
                let bytes: Vec<u8> = vector.iter().flat_map(|part| part.to_le_bytes()).collect();
                EmbeddingVector::Base64(STANDARD.encode(bytes))
            }
        }
    }
}

fn encoding(body: &OpenAiBody) -> Result<Encoding, OpenAiRefusal> {
    match body.object.get("encoding_format") {
        None | Some(Value::Null) => Ok(Encoding::Float),
        Some(word) if word == "float" => Ok(Encoding::Float),
        Some(word) if word == "base64" => Ok(Encoding::Base64),
        Some(_) => Err(OpenAiRefusal::bad("encoding_format", "encoding_format must be float or base64")),
    }
}

fn check_dimensions(body: &OpenAiBody, embedder: &Embedder) -> Result<(), OpenAiRefusal> {
    let Some(wanted) = body.object.get("dimensions").filter(|wanted| !wanted.is_null()) else {
        return Ok(());
    };
    let own = embedder.dims().map(u64::from);
    if own.is_some() && wanted.as_u64() == own {
        return Ok(());
    }
    let own = own.map_or_else(|| "those of its model".to_owned(), |own| own.to_string());
    Err(OpenAiRefusal::bad(
        "dimensions",
        format!("the dimensions of this embedder are {own}; leave them out"),
    ))
}

fn refused(error: EmbedError) -> OpenAiRefusal {
    match &error {
        EmbedError::Away(_) => {
            OpenAiRefusal::new(StatusCode::BAD_GATEWAY, ErrorKind::Server, error.to_string())
        }
        EmbedError::Refused(_) => OpenAiRefusal::bad("input", error.to_string()),
    }
}
