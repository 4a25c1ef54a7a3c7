//! What another protocol's provider said, as a chat completion.

use super::{Chunk, Chunks};
use crate::error::CallError;
use crate::model::{Piece, PieceStream};
use crate::tool_name::ToolNames;
use bytes::Bytes;
use cortex_types::{ChatReply, ChatRequest, FinishReason, Millis, TokenUsage, ToolCall};
use futures::StreamExt;
use futures::stream;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU64, Ordering};

/// A whole answer.
pub(super) fn completion(reply: &ChatReply, model: &str, now: Millis) -> Bytes {
    let mut message = json!({ "role": "assistant", "content": reply.text, "refusal": null });
    if !reply.tool_calls.is_empty() {
        message["tool_calls"] = reply.tool_calls.iter().map(call).collect();
        if reply.text.is_empty() {
            message["content"] = Value::Null;
        }
    }
    let choice =
        json!({ "index": 0, "message": message, "finish_reason": word(reply.finish), "logprobs": null });
    let completion = json!({
        "id": new_id(now), "object": "chat.completion", "created": now.0 / 1_000, "model": model,
        "choices": [choice], "usage": counts(reply.usage),
    });
    completion.to_string().into()
}

/// The same while it grows.
pub(super) fn chunks(
    pieces: PieceStream,
    question: &ChatRequest,
    model: &str,
    now: Millis,
    with_usage: bool,
) -> Chunks {
    let writer = Writer {
        head: json!({
            "id": new_id(now), "object": "chat.completion.chunk", "created": now.0 / 1_000, "model": model,
        }),
        names: ToolNames::of(&question.tools),
        with_usage,
        usage: TokenUsage::default(),
        has_begun: false,
        has_calls: false,
        finish: None,
    };
    stream::unfold(Some((pieces, writer)), |open| async move {
        let (mut pieces, mut writer) = open?;
        loop {
            let batch = match pieces.next().await {
                Some(Ok(batch)) => batch,
                Some(Err(error)) => return Some((Err(error), None)),
                None => return Some((writer.end(String::new()), None)),
            };
            let mut text = String::new();
            for piece in batch {
                if piece == Piece::Done {
                    return Some((writer.end(text), None));
                }
                text.push_str(&writer.write(piece));
            }
            if !text.is_empty() {
                let chunk = Chunk { bytes: text.into(), counted: Some(writer.usage) };
                return Some((Ok(chunk), Some((pieces, writer))));
            }
        }
    })
    .boxed()
}

struct Writer {
    head: Value,
    names: ToolNames,
    with_usage: bool,
    usage: TokenUsage,
    has_begun: bool,
    has_calls: bool,
    finish: Option<FinishReason>,
}

impl Writer {
    fn write(&mut self, piece: Piece) -> String {
        let delta = match piece {
            Piece::Text(text) if text.is_empty() => return String::new(),
            Piece::Text(text) => json!({ "content": text }),
            Piece::ToolStart { slot, id, name } => {
                self.has_calls = true;
                let id = if id.is_empty() { format!("call_{slot}") } else { id };
                let function = json!({ "name": self.names.name_of(&name), "arguments": "" });
                json!({ "tool_calls": [{ "index": slot, "id": id, "type": "function", "function": function }] })
            }
            Piece::ToolArguments { slot, json: arguments } => {
                json!({ "tool_calls": [{ "index": slot, "function": { "arguments": arguments } }] })
            }
            Piece::Usage(usage) => {
                self.usage.input = self.usage.input.max(usage.input);
                self.usage.output = self.usage.output.max(usage.output);
                self.usage.cached = self.usage.cached.max(usage.cached);
                return String::new();
            }
            Piece::Finish(reason) => {
                self.finish = Some(reason);
                return String::new();
            }
            Piece::Done => return String::new(),
        };
        let role = if self.has_begun {
            String::new()
        } else {
            self.has_begun = true;
            self.event(json!([choice(json!({ "role": "assistant", "content": "" }), None)]), None)
        };
        role + &self.event(json!([choice(delta, None)]), None)
    }

    /// A stream that never said why it stopped was cut.
    fn end(&self, mut text: String) -> Result<Chunk, CallError> {
        let reason = self.finish.ok_or_else(|| CallError::Cut("the stream ended too early".to_owned()))?;
        let reason =
            if self.has_calls && reason == FinishReason::Stop { FinishReason::ToolCalls } else { reason };
        // The counts stand in an event of their own, for whoever asked; else nobody but us needs them.
        text.push_str(&self.event(json!([choice(json!({}), Some(word(reason)))]), None));
        if self.with_usage {
            text.push_str(&self.event(json!([]), Some(self.usage)));
        }
        text.push_str("data: [DONE]\n\n");
        Ok(Chunk { bytes: text.into(), counted: Some(self.usage) })
    }

    fn event(&self, choices: Value, usage: Option<TokenUsage>) -> String {
        let mut chunk = self.head.clone();
        chunk["choices"] = choices;
        if let Some(usage) = usage {
            chunk["usage"] = counts(usage);
        }
        format!("data: {chunk}\n\n")
    }
}

fn choice(delta: Value, finish_reason: Option<&str>) -> Value {
    json!({ "index": 0, "delta": delta, "finish_reason": finish_reason })
}

fn call(call: &ToolCall) -> Value {
    json!({ "id": call.id, "type": "function",
        "function": { "name": call.name, "arguments": call.arguments_json } })
}

fn word(reason: FinishReason) -> &'static str {
    match reason {
        FinishReason::Stop => "stop",
        FinishReason::ToolCalls => "tool_calls",
        FinishReason::Length => "length",
        FinishReason::Filtered => "content_filter",
    }
}

fn counts(usage: TokenUsage) -> Value {
    json!({
        "prompt_tokens": usage.input, "completion_tokens": usage.output, "total_tokens": usage.total(),
        "prompt_tokens_details": { "cached_tokens": usage.cached },
    })
}

/// One of a kind in this process and, by its time, most likely elsewhere.
fn new_id(now: Millis) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("chatcmpl-{}-{}", now.0, NEXT.fetch_add(1, Ordering::Relaxed))
}
