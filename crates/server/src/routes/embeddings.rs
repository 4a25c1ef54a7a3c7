//! `POST /v1/embeddings`: vectors of the embedder in use, or of a provider's model.

use crate::json::Json;
use crate::openai::{ASSISTANT, ErrorKind, OpenAiBody, OpenAiRefusal, relayed};
use crate::state::AppState;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cortex_api::{
    EmbeddingRow, EmbeddingVector, EmbeddingsList, EmbeddingsRequest, EmbeddingsUsage, OpenAiRefused,
};
use cortex_models::{EmbedError, Embedder, RelayPath};
use cortex_runtime::text_of_tokens;
use http::StatusCode;
use serde_json::Value;
use std::borrow::Cow;

/// As many as OpenAI takes.
const INPUTS_MAX: usize = 2_048;
/// Tokens of one text, and of all of them: as many as OpenAI takes. A token stands for up to a hundred letters.
const TOKENS_MAX: usize = 8_192;
const TOKENS_ALL_MAX: usize = 300_000;
/// Texts that are embedded before others get a turn.
const AT_ONCE: usize = 64;

/// Make vectors of texts, or of tokens in OpenAI's `cl100k_base`.
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
        let batch: Vec<&str> = batch.iter().map(AsRef::as_ref).collect();
        let vectors = embedder.embed(&batch).await.map_err(refused)?;
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

fn texts(body: &OpenAiBody) -> Result<Vec<Cow<'_, str>>, OpenAiRefusal> {
    const FORMS: &str = "input must be a text, a list of texts, or tokens of one or of several texts";
    let bad = |problem: &str| OpenAiRefusal::bad("input", problem);
    let texts = match body.object.get("input") {
        Some(Value::String(text)) => vec![Cow::Borrowed(text.as_str())],
        Some(Value::Array(items)) => match items.first() {
            Some(Value::Number(_)) => vec![decoded(items, &mut 0)?],
            Some(Value::Array(_)) if items.len() <= INPUTS_MAX => {
                let mut total = 0;
                let lists = items.iter().map(|item| item.as_array().ok_or_else(|| bad(FORMS)));
                lists.map(|tokens| decoded(tokens?, &mut total)).collect::<Result<_, _>>()?
            }
            _ => {
                let texts: Option<Vec<&str>> = items.iter().map(Value::as_str).collect();
                texts.ok_or_else(|| bad(FORMS))?.into_iter().map(Cow::Borrowed).collect()
            }
        },
        Some(_) | None => return Err(bad(FORMS)),
    };
    if texts.is_empty() || texts.len() > INPUTS_MAX {
        return Err(bad(&format!("input must have between 1 and {INPUTS_MAX} texts")));
    }
    if texts.iter().any(|text| text.is_empty()) {
        return Err(bad("input must not have empty texts"));
    }
    Ok(texts)
}

/// The text of one list of tokens; `total` counts those of the whole request.
fn decoded<'a>(tokens: &[Value], total: &mut usize) -> Result<Cow<'a, str>, OpenAiRefusal> {
    *total += tokens.len();
    if tokens.len() > TOKENS_MAX || *total > TOKENS_ALL_MAX {
        let problem =
            format!("input must have at most {TOKENS_MAX} tokens a text, and {TOKENS_ALL_MAX} in all");
        return Err(OpenAiRefusal::bad("input", problem));
    }
    let number = |token: &Value| token.as_u64().and_then(|token| u32::try_from(token).ok());
    let tokens: Option<Vec<u32>> = tokens.iter().map(number).collect();
    let text = tokens.and_then(|tokens| text_of_tokens(&tokens));
    let unknown = || OpenAiRefusal::bad("input", "input has tokens that are not of cl100k_base");
    text.map(Cow::Owned).ok_or_else(unknown)
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
