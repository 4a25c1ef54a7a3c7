//! Reads what an OpenAI-compatible server says.

use crate::error::CallError;
use crate::model::Piece;
use crate::sparing::{AtMost, First, Loose};
use crate::stream::Decoder;
use cortex_types::{FinishReason, JsonText, TokenUsage};
use serde::Deserialize;
use serde::de::{Deserializer, Error, SeqAccess, Visitor};
use std::fmt;

/// Most tool calls of one answer, and the longest id of one that is told apart.
const CALLS_MAX: usize = 2_048;
const ID_BYTES_MAX: usize = 256;

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
            return Err(failure(error.as_str()));
        }
        let mut pieces = Vec::new();
        pieces.extend(chunk.usage.map(usage_piece));
        let Some(choice) = chunk.choices.0 else { return Ok(pieces) };
        if let Some(said) = choice.delta.or(choice.message) {
            pieces.extend(said.content.map(|content| Piece::Text(content.0)));
            for call in said.tool_calls.unwrap_or_default().0 {
                pieces.extend(self.call_pieces(call)?);
            }
        }
        pieces.extend(choice.finish_reason.as_deref().map(|reason| Piece::Finish(finish_reason(reason))));
        Ok(pieces)
    }

    fn call_pieces(&mut self, call: CallDelta) -> Result<Vec<Piece>, CallError> {
        let CallDelta { index, id, function } = call;
        let (mut id, function) = (id.unwrap_or_default(), function.unwrap_or_default());
        id.truncate(id.floor_char_boundary(ID_BYTES_MAX));
        let name = function.name.unwrap_or_default();
        // Some servers number every call 0, and some number none: a new id is a new call all the same.
        let known = self.calls.iter().rposition(|seen| match (index, id.is_empty()) {
            (Some(_), true) => seen.index == index,
            (Some(_), false) => seen.index == index && (seen.id == id || seen.id.is_empty()),
            (None, true) => name.is_empty(),
            (None, false) => seen.id == id,
        });
        if known.is_none() && self.calls.len() == CALLS_MAX {
            return Err(CallError::Malformed("it calls tools without an end".to_owned()));
        }
        let slot = known.unwrap_or_else(|| {
            self.calls.push(SeenCall { index, id: id.clone() });
            self.calls.len() - 1
        });
        let mut pieces = Vec::new();
        if known.is_none() || !id.is_empty() || !name.is_empty() {
            pieces.push(Piece::ToolStart { slot, id, name });
        }
        pieces.extend(function.arguments.map(|Arguments(json)| Piece::ToolArguments { slot, json }));
        Ok(pieces)
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

fn failure(error: &str) -> CallError {
    let told: Failure = serde_json::from_str(error).unwrap_or_default();
    let kind = told.kind.or(told.code).map_or_else(String::new, |Word(kind)| kind);
    CallError::from_stream(&kind, told.message.map_or_else(|| error.to_owned(), |Word(message)| message))
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Failure {
    #[serde(deserialize_with = "loose")]
    message: Option<Word>,
    #[serde(rename = "type", deserialize_with = "loose")]
    kind: Option<Word>,
    #[serde(deserialize_with = "loose")]
    code: Option<Word>,
}

fn loose<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Word>, D::Error> {
    Ok(Loose::<Word>::deserialize(deserializer)?.0)
}

/// A text, or a number as one.
struct Word(String);

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WordVisitor).map(Self)
    }
}

struct WordVisitor;

impl Visitor<'_> for WordVisitor {
    type Value = String;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "a text or a number")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<String, E> {
        Ok(number.to_string())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<String, E> {
        Ok(number.to_string())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<String, E> {
        Ok(number.to_string())
    }
}

#[derive(Deserialize)]
struct Chunk {
    #[serde(default)]
    choices: First<Choice>,
    usage: Option<Usage>,
    error: Option<JsonText>,
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
    tool_calls: Option<AtMost<CallDelta, CALLS_MAX>>,
}

/// A text, or the texts of parts.
struct Content(String);

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ContentVisitor).map(Self)
    }
}

struct ContentVisitor;

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = String;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "a text or a list of parts")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<String, A::Error> {
        let mut all = String::new();
        while let Some(Part { text }) = parts.next_element()? {
            all.push_str(&text);
        }
        Ok(all)
    }
}

/// The arguments of a call. Ollama has been seen to send an object where the protocol says text.
struct Arguments(String);

impl<'de> Deserialize<'de> for Arguments {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = JsonText::deserialize(deserializer)?;
        let json = text.as_str();
        let is_text = json.starts_with('"');
        let text =
            if is_text { serde_json::from_str(json).map_err(D::Error::custom)? } else { json.to_owned() };
        Ok(Self(text))
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
    arguments: Option<Arguments>,
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
