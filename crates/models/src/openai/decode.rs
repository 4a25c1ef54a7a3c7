//! Reads what an OpenAI-compatible server says.

use crate::error::CallError;
use crate::model::Piece;
use crate::stream::Decoder;
use cortex_types::{FinishReason, TokenUsage};
use serde::Deserialize;
use serde_json::Value;

#[derive(Default)]
pub(super) struct Chunks {
    calls: Vec<SeenCall>,
}

/// A tool call of this stream: its position here is its slot.
struct SeenCall {
    index: Option<u64>,
    id: String,
}

impl Decoder for Chunks {
    fn event(&mut self, data: &str) -> Result<Vec<Piece>, CallError> {
        if data.trim() == "[DONE]" {
            return Ok(vec![Piece::Done]);
        }
        let chunk: Chunk = serde_json::from_str(data)
            .map_err(|error| CallError::Malformed(format!("an event is not JSON: {error}")))?;
        self.chunk(chunk)
    }

    fn body(&mut self, json: &str) -> Result<Vec<Piece>, CallError> {
        let chunk: Chunk =
            serde_json::from_str(json).map_err(|error| CallError::Malformed(format!("not JSON: {error}")))?;
        let mut pieces = self.chunk(chunk)?;
        pieces.push(Piece::Done);
        Ok(pieces)
    }
}

impl Chunks {
    fn chunk(&mut self, chunk: Chunk) -> Result<Vec<Piece>, CallError> {
        if let Some(error) = chunk.error {
            return Err(failure(&error));
        }
        let mut pieces = Vec::new();
        pieces.extend(chunk.usage.map(usage_piece));
        let Some(choice) = chunk.choices.into_iter().next() else { return Ok(pieces) };
        if let Some(said) = choice.delta.or(choice.message) {
            pieces.extend(said.content.map(|content| Piece::Text(content.text())));
            for call in said.tool_calls.unwrap_or_default() {
                pieces.extend(self.call_pieces(call));
            }
        }
        pieces.extend(choice.finish_reason.as_deref().map(|reason| Piece::Finish(finish_reason(reason))));
        Ok(pieces)
    }

    fn call_pieces(&mut self, call: CallDelta) -> Vec<Piece> {
        let CallDelta { index, id, function } = call;
        let (id, function) = (id.unwrap_or_default(), function.unwrap_or_default());
        let name = function.name.unwrap_or_default();
        // Some servers number every call 0, and some number none: a new id is a new call all the same.
        let known = self.calls.iter().rposition(|seen| match (index, id.is_empty()) {
            (Some(_), true) => seen.index == index,
            (Some(_), false) => seen.index == index && (seen.id == id || seen.id.is_empty()),
            (None, true) => name.is_empty(),
            (None, false) => seen.id == id,
        });
        let slot = known.unwrap_or_else(|| {
            self.calls.push(SeenCall { index, id: id.clone() });
            self.calls.len() - 1
        });
        let mut pieces = Vec::new();
        if known.is_none() || !id.is_empty() || !name.is_empty() {
            pieces.push(Piece::ToolStart { slot, id, name });
        }
        match function.arguments {
            None | Some(Value::Null) => {}
            Some(Value::String(json)) => pieces.push(Piece::ToolArguments { slot, json }),
            // Ollama has been seen to send an object where the protocol says text.
            Some(object) => pieces.push(Piece::ToolArguments { slot, json: object.to_string() }),
        }
        pieces
    }
}

fn finish_reason(reason: &str) -> FinishReason {
    match reason {
        "tool_calls" | "function_call" => FinishReason::ToolCalls,
        "length" => FinishReason::Length,
        "content_filter" => FinishReason::Filtered,
        _ => FinishReason::Stop,
    }
}

fn usage_piece(usage: Usage) -> Piece {
    Piece::Usage(TokenUsage {
        input: usage.prompt_tokens.unwrap_or(0),
        output: usage.completion_tokens.unwrap_or(0),
        cached: usage.prompt_tokens_details.and_then(|details| details.cached_tokens).unwrap_or(0),
    })
}

fn failure(error: &Value) -> CallError {
    let text_of = |key: &str| match &error[key] {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    let message = text_of("message").unwrap_or_else(|| error.to_string());
    let kind = text_of("type").or_else(|| text_of("code")).unwrap_or_default();
    CallError::from_stream(&kind, message)
}

#[derive(Deserialize)]
struct Chunk {
    #[serde(default)]
    choices: Vec<Choice>,
    usage: Option<Usage>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Choice {
    delta: Option<Said>,
    message: Option<Said>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Said {
    content: Option<Content>,
    tool_calls: Option<Vec<CallDelta>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

impl Content {
    fn text(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::Parts(parts) => parts.into_iter().map(|part| part.text).collect(),
        }
    }
}

#[derive(Deserialize)]
struct Part {
    #[serde(default)]
    text: String,
}

#[derive(Deserialize)]
struct CallDelta {
    index: Option<u64>,
    id: Option<String>,
    function: Option<FunctionDelta>,
}

#[derive(Deserialize, Default)]
struct FunctionDelta {
    name: Option<String>,
    arguments: Option<Value>,
}

#[derive(Deserialize)]
struct Usage {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    prompt_tokens_details: Option<PromptDetails>,
}

#[derive(Deserialize)]
struct PromptDetails {
    cached_tokens: Option<u64>,
}
