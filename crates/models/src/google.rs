//! Google Gemini.

use crate::alternate::{Blocks, Side, alternating, arguments_object, schema_object};
use crate::endpoint::Endpoint;
use crate::error::CallError;
use crate::model::{Model, NamedModel, Piece, PieceStream, RelayWire};
use crate::room::{self, Room};
use crate::sampling::{SamplingNames, sampling_fields};
use crate::sparing::{AtMost, First};
use crate::stream::Decoder;
use crate::tool_name;
use async_trait::async_trait;
use cortex_types::{ChatRequest, FinishReason, JsonText, TokenUsage, ToolSpec};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

pub(crate) const BASE_URL: &str = "https://generativelanguage.googleapis.com";
const SAMPLING_NAMES: SamplingNames = SamplingNames { top_p: "topP", stop: "stopSequences" };
/// Most chunks of an answer in one body, and most parts of one chunk.
const CHUNKS_MAX: usize = 65_536;
const PARTS_MAX: usize = 4_096;

pub(crate) struct Google {
    endpoint: Endpoint,
    model: String,
}

impl Google {
    pub(crate) fn new(endpoint: Endpoint, model: &str) -> Self {
        Self { endpoint, model: model.strip_prefix("models/").unwrap_or(model).to_owned() }
    }
}

#[async_trait]
impl Model for Google {
    fn kind(&self) -> &'static str {
        "google"
    }

    fn name(&self) -> String {
        self.model.clone()
    }

    async fn open(&self, request: &ChatRequest) -> Result<PieceStream, CallError> {
        self.open_as(&self.model, request, room::of_the_assistant()).await
    }

    fn relay(&self) -> Option<RelayWire<'_>> {
        Some(RelayWire::Other(self))
    }
}

#[async_trait]
impl NamedModel for Google {
    async fn open_as(
        &self,
        model: &str,
        request: &ChatRequest,
        room: Arc<dyn Room>,
    ) -> Result<PieceStream, CallError> {
        let model = model.strip_prefix("models/").unwrap_or(model);
        let method = format!("{model}:streamGenerateContent");
        let mut url = self.endpoint.url(&["models", &method]);
        url.query_pairs_mut().append_pair("alt", "sse");
        let response = self.endpoint.post(url, &body(model, request)).await?;
        Ok(self.endpoint.pieces(response, Chunks::default(), room))
    }
}

fn body(model: &str, request: &ChatRequest) -> Value {
    let blocks = Blocks {
        text: |text| json!({ "text": text }),
        call: |call| {
            json!({
                "functionCall": {
                    "name": tool_name::to_wire(&call.name),
                    "args": arguments_object(&call.arguments_json),
                },
            })
        },
        result: |result| {
            let key = if result.is_error { "error" } else { "result" };
            json!({
                "functionResponse": {
                    "name": tool_name::to_wire(result.name),
                    "response": { key: result.text },
                },
            })
        },
    };
    let mut contents: Vec<Value> = alternating(&request.messages, &blocks)
        .into_iter()
        .map(|(side, parts)| {
            let role = match side {
                Side::User => "user",
                Side::Model => "model",
            };
            json!({ "role": role, "parts": parts })
        })
        .collect();
    if wants_signatures(model) {
        contents.iter_mut().for_each(sign_calls);
    }
    let mut body = json!({ "contents": contents });
    if !request.system.is_empty() {
        body["systemInstruction"] = json!({ "parts": [{ "text": request.system }] });
    }
    if !request.tools.is_empty() {
        let declarations: Vec<Value> = request.tools.iter().map(declaration).collect();
        body["tools"] = json!([{ "functionDeclarations": declarations }]);
    }
    let max_tokens = request.max_output_tokens.map(|tokens| ("maxOutputTokens", json!(tokens)));
    let sampling = sampling_fields(&request.sampling, &SAMPLING_NAMES);
    for (name, value) in max_tokens.into_iter().chain(sampling) {
        body["generationConfig"][name] = value;
    }
    body
}

fn declaration(tool: &ToolSpec) -> Value {
    json!({
        "name": tool_name::to_wire(&tool.name),
        "description": tool.description,
        "parametersJsonSchema": schema_object(&tool.input_schema_json),
    })
}

/// From Gemini 3 on, a call in the history without the signature it came with is refused.
fn wants_signatures(model: &str) -> bool {
    !["gemini-1", "gemini-2"].iter().any(|old| model.starts_with(old))
}

/// A history that other providers wrote to has no signatures: this is the value Google documents for that.
fn sign_calls(content: &mut Value) {
    let parts = content.get_mut("parts").and_then(Value::as_array_mut);
    for part in parts.into_iter().flatten().filter(|part| part.get("functionCall").is_some()) {
        part["thoughtSignature"] = json!("skip_thought_signature_validator");
    }
}

#[derive(Default)]
struct Chunks {
    calls: usize,
}

impl Decoder for Chunks {
    fn event(&mut self, data: &str) -> Result<Vec<Piece>, CallError> {
        let chunk: Chunk = serde_json::from_str(data)
            .map_err(|error| CallError::Malformed(format!("an event is not JSON: {error}")))?;
        self.chunk(chunk)
    }

    /// Without `alt=sse` this wire answers with an array of chunks, or with a single one.
    fn body(&mut self, json: &str) -> Result<Vec<Piece>, CallError> {
        let not_json = |error: serde_json::Error| CallError::Malformed(format!("not JSON: {error}"));
        if !json.trim_start().starts_with('[') {
            return self.chunk(serde_json::from_str(json).map_err(not_json)?);
        }
        let mut pieces = Vec::new();
        for chunk in serde_json::from_str::<AtMost<Chunk, CHUNKS_MAX>>(json).map_err(not_json)?.0 {
            pieces.append(&mut self.chunk(chunk)?);
        }
        Ok(pieces)
    }
}

impl Chunks {
    fn chunk(&mut self, chunk: Chunk) -> Result<Vec<Piece>, CallError> {
        if let Some(error) = chunk.error {
            let kind = if error.status.is_empty() { error.code.to_string() } else { error.status };
            return Err(CallError::from_stream(&kind, error.message));
        }
        let mut pieces = Vec::new();
        pieces.extend(chunk.usage_metadata.map(usage_piece));
        if chunk.prompt_feedback.is_some_and(|feedback| feedback.block_reason.is_some()) {
            pieces.push(Piece::Finish(FinishReason::Filtered));
        }
        let Some(candidate) = chunk.candidates.0 else { return Ok(pieces) };
        for part in candidate.content.unwrap_or_default().parts.0 {
            if let Some(call) = part.function_call {
                let slot = self.calls;
                self.calls += 1;
                let json = call.args.map_or_else(String::new, |args| args.as_str().to_owned());
                pieces.push(Piece::ToolStart { slot, id: call.id, name: call.name });
                pieces.push(Piece::ToolArguments { slot, json });
            } else if !part.thought {
                pieces.extend(part.text.map(Piece::Text));
            }
        }
        if let Some(reason) = candidate.finish_reason {
            pieces.push(Piece::Finish(finish_reason(&reason)?));
        }
        Ok(pieces)
    }
}

fn finish_reason(reason: &str) -> Result<FinishReason, CallError> {
    match reason {
        "MAX_TOKENS" => Ok(FinishReason::Length),
        "SAFETY" | "RECITATION" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII" => Ok(FinishReason::Filtered),
        "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" => Err(CallError::Malformed(reason.to_owned())),
        _ => Ok(FinishReason::Stop),
    }
}

fn usage_piece(usage: UsageMetadata) -> Piece {
    Piece::Usage(TokenUsage {
        input: usage.prompt_token_count,
        output: usage.candidates_token_count.saturating_add(usage.thoughts_token_count),
        cached: usage.cached_content_token_count,
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Chunk {
    #[serde(default)]
    candidates: First<Candidate>,
    prompt_feedback: Option<PromptFeedback>,
    usage_metadata: Option<UsageMetadata>,
    error: Option<Failure>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate {
    content: Option<Content>,
    finish_reason: Option<String>,
}

#[derive(Deserialize, Default)]
struct Content {
    #[serde(default)]
    parts: AtMost<Part, PARTS_MAX>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Part {
    text: Option<String>,
    #[serde(default)]
    thought: bool,
    function_call: Option<FunctionCall>,
}

#[derive(Deserialize)]
struct FunctionCall {
    #[serde(default)]
    id: String,
    #[serde(default)]
    name: String,
    args: Option<JsonText>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PromptFeedback {
    block_reason: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct UsageMetadata {
    prompt_token_count: u64,
    candidates_token_count: u64,
    thoughts_token_count: u64,
    cached_content_token_count: u64,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Failure {
    code: u16,
    status: String,
    message: String,
}
