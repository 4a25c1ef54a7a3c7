//! Anthropic Messages.

use crate::alternate::{Blocks, Side, alternating, arguments_object, schema_object};
use crate::endpoint::Endpoint;
use crate::error::CallError;
use crate::model::{Model, NamedModel, Piece, PieceStream, RelayWire};
use crate::room::{self, Room};
use crate::sampling::{SamplingNames, sampling_fields};
use crate::sparing::AtMost;
use crate::stream::Decoder;
use crate::tool_name;
use async_trait::async_trait;
use cortex_types::{ChatRequest, FinishReason, JsonText, TokenUsage, ToolSpec};
use reqwest::header::{HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

pub(crate) const BASE_URL: &str = "https://api.anthropic.com";
const SAMPLING_NAMES: SamplingNames = SamplingNames { top_p: "top_p", stop: "stop_sequences" };
/// This wire has no default of its own.
const MAX_TOKENS: u32 = 8_192;
/// Most blocks of an answer in one body.
const BLOCKS_MAX: usize = 4_096;

pub(crate) struct Anthropic {
    endpoint: Endpoint,
    model: String,
}

impl Anthropic {
    pub(crate) fn new(endpoint: Endpoint, model: String) -> Self {
        let version = HeaderName::from_static("anthropic-version");
        Self { endpoint: endpoint.with_header(version, HeaderValue::from_static("2023-06-01")), model }
    }
}

#[async_trait]
impl Model for Anthropic {
    fn kind(&self) -> &'static str {
        "anthropic"
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
impl NamedModel for Anthropic {
    async fn open_as(
        &self,
        model: &str,
        request: &ChatRequest,
        room: Arc<dyn Room>,
    ) -> Result<PieceStream, CallError> {
        let response = self.endpoint.post(self.endpoint.url(&["messages"]), &body(model, request)).await?;
        Ok(self.endpoint.pieces(response, Events::default(), room))
    }
}

fn body(model: &str, request: &ChatRequest) -> Value {
    let blocks = Blocks {
        text: |text| json!({ "type": "text", "text": text }),
        call: |call| {
            json!({
                "type": "tool_use",
                "id": call.id,
                "name": tool_name::to_wire(&call.name),
                "input": arguments_object(&call.arguments_json),
            })
        },
        result: |result| {
            json!({
                "type": "tool_result",
                "tool_use_id": result.call_id,
                "content": result.text,
                "is_error": result.is_error,
            })
        },
    };
    let mut sides = alternating(&request.messages, &blocks);
    // The next round of tools begins with all of this.
    if let Some(last) = sides.last_mut().and_then(|(_, content)| content.last_mut()) {
        last["cache_control"] = cache_marker();
    }
    let messages: Vec<Value> = sides
        .into_iter()
        .map(|(side, content)| {
            let role = match side {
                Side::User => "user",
                Side::Model => "assistant",
            };
            json!({ "role": role, "content": content })
        })
        .collect();
    let mut body = json!({
        "model": model,
        "max_tokens": request.max_output_tokens.unwrap_or(MAX_TOKENS),
        "messages": messages,
        "stream": true,
    });
    if !request.system.is_empty() {
        body["system"] = system(request);
    }
    if !request.tools.is_empty() {
        body["tools"] = request.tools.iter().map(tool).collect();
    }
    for (name, value) in sampling_fields(&request.sampling, &SAMPLING_NAMES) {
        body[name] = value;
    }
    body
}

/// The part that stays the same from turn to turn ends in a marker: up to there, tools included, the provider keeps it.
fn system(request: &ChatRequest) -> Value {
    match request.system.split_at_checked(request.stable_system_bytes) {
        Some((stable, changing)) if !stable.is_empty() => {
            let mut blocks = vec![json!({ "type": "text", "text": stable, "cache_control": cache_marker() })];
            if !changing.is_empty() {
                blocks.push(json!({ "type": "text", "text": changing }));
            }
            json!(blocks)
        }
        Some(_) | None => json!(request.system),
    }
}

fn cache_marker() -> Value {
    json!({ "type": "ephemeral" })
}

fn tool(tool: &ToolSpec) -> Value {
    json!({
        "name": tool_name::to_wire(&tool.name),
        "description": tool.description,
        "input_schema": schema_object(&tool.input_schema_json),
    })
}

#[derive(Default)]
struct Events {
    finish: Option<FinishReason>,
}

impl Decoder for Events {
    fn event(&mut self, data: &str) -> Result<Vec<Piece>, CallError> {
        let event: Event = serde_json::from_str(data)
            .map_err(|error| CallError::Malformed(format!("an event is not JSON: {error}")))?;
        let mut pieces = Vec::new();
        match event.kind.as_str() {
            "error" => return Err(failure(event.error)),
            "message_start" => {
                pieces.extend(event.message.and_then(|message| message.usage).map(usage_piece));
            }
            "content_block_start" => {
                if let Some(block) = event.content_block {
                    pieces.extend(block_pieces(event.index, block));
                }
            }
            "content_block_delta" => {
                pieces.extend(event.delta.and_then(|delta| delta_piece(event.index, delta)))
            }
            "message_delta" => {
                pieces.extend(event.usage.map(usage_piece));
                let reason = event.delta.and_then(|delta| delta.stop_reason);
                self.finish = reason.as_deref().map(finish_reason).or(self.finish);
            }
            "message_stop" => {
                pieces.push(Piece::Finish(self.finish.unwrap_or(FinishReason::Stop)));
                pieces.push(Piece::Done);
            }
            // New kinds of events may be added at any time, says the protocol.
            _ => {}
        }
        Ok(pieces)
    }

    fn body(&mut self, json: &str) -> Result<Vec<Piece>, CallError> {
        let message: Message =
            serde_json::from_str(json).map_err(|error| CallError::Malformed(format!("not JSON: {error}")))?;
        if message.error.is_some() {
            return Err(failure(message.error));
        }
        let Some(reason) = message.stop_reason else {
            return Err(CallError::Malformed("no stop_reason in it".to_owned()));
        };
        let mut pieces = Vec::new();
        for (slot, block) in message.content.0.into_iter().enumerate() {
            pieces.extend(block_pieces(slot, block));
        }
        pieces.extend(message.usage.map(usage_piece));
        pieces.push(Piece::Finish(finish_reason(&reason)));
        pieces.push(Piece::Done);
        Ok(pieces)
    }
}

fn block_pieces(slot: usize, block: Block) -> Vec<Piece> {
    match block.kind.as_str() {
        "text" => vec![Piece::Text(block.text)],
        "tool_use" => {
            let mut pieces = vec![Piece::ToolStart { slot, id: block.id, name: block.name }];
            // In a stream the block begins with an empty input and its JSON follows.
            let entries = |json: &str| json.strip_prefix('{').map(|rest| !rest.trim_start().starts_with('}'));
            if let Some(input) = block.input.filter(|input| entries(input.as_str()) == Some(true)) {
                pieces.push(Piece::ToolArguments { slot, json: input.as_str().to_owned() });
            }
            pieces
        }
        _ => Vec::new(),
    }
}

fn delta_piece(slot: usize, delta: BlockDelta) -> Option<Piece> {
    match delta.kind.as_str() {
        "text_delta" => Some(Piece::Text(delta.text)),
        "input_json_delta" => Some(Piece::ToolArguments { slot, json: delta.partial_json }),
        _ => None,
    }
}

fn finish_reason(reason: &str) -> FinishReason {
    match reason {
        "tool_use" => FinishReason::ToolCalls,
        "max_tokens" | "model_context_window_exceeded" => FinishReason::Length,
        "refusal" => FinishReason::Filtered,
        _ => FinishReason::Stop,
    }
}

fn usage_piece(usage: Usage) -> Piece {
    let cached = usage.cache_read_input_tokens.unwrap_or(0);
    let written = usage.cache_creation_input_tokens.unwrap_or(0);
    Piece::Usage(TokenUsage {
        // This wire counts the cache apart from the input; we count it in, as the others do.
        input: usage.input_tokens.unwrap_or(0).saturating_add(cached).saturating_add(written),
        output: usage.output_tokens.unwrap_or(0),
        cached,
    })
}

fn failure(error: Option<Failure>) -> CallError {
    let Failure { kind, message } = error.unwrap_or_default();
    CallError::from_stream(&kind, message)
}

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    index: usize,
    message: Option<Started>,
    content_block: Option<Block>,
    delta: Option<BlockDelta>,
    usage: Option<Usage>,
    error: Option<Failure>,
}

#[derive(Deserialize)]
struct Started {
    usage: Option<Usage>,
}

#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    content: AtMost<Block, BLOCKS_MAX>,
    stop_reason: Option<String>,
    usage: Option<Usage>,
    error: Option<Failure>,
}

#[derive(Deserialize)]
struct Block {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    text: String,
    #[serde(default)]
    id: String,
    #[serde(default)]
    name: String,
    input: Option<JsonText>,
}

#[derive(Deserialize)]
struct BlockDelta {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    text: String,
    #[serde(default)]
    partial_json: String,
    stop_reason: Option<String>,
}

#[derive(Deserialize)]
struct Usage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Failure {
    #[serde(rename = "type")]
    kind: String,
    message: String,
}
