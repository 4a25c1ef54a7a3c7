//! OpenAI chat completions: also Synapse, Ollama and every compatible server.

use crate::endpoint::Endpoint;
use crate::error::CallError;
use crate::model::{Model, PieceStream, RelayWire};
use crate::relay::first_listed;
use crate::room;
use crate::sampling::{SamplingNames, sampling_fields};
use crate::tool_name;
use async_trait::async_trait;
use cortex_types::{ChatMessage, ChatRequest, ToolCall, ToolSpec};
use serde_json::{Value, json};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::alternate::schema_object;
use decode::Chunks;

mod decode;

pub(crate) const BASE_URL: &str = "https://api.openai.com/v1";
const SAMPLING_NAMES: SamplingNames = SamplingNames { top_p: "top_p", stop: "stop" };
/// What a server is asked for when it lists nothing.
pub(crate) const UNNAMED_MODEL: &str = "default";

pub(crate) struct OpenAi {
    endpoint: Endpoint,
    model: ModelName,
    /// The first of `SHAPES` that this server has not refused.
    shape: AtomicU8,
}

/// Which model is asked for.
#[derive(Debug)]
pub(crate) enum ModelName {
    Named(String),
    /// The first one the server lists, asked when it is first needed: the server may start after us.
    FirstListed(OnceLock<String>),
}

/// What is asked of a server; those that refuse the first are asked for less.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    StreamWithUsage,
    Stream,
    Plain,
}

const SHAPES: [Shape; 3] = [Shape::StreamWithUsage, Shape::Stream, Shape::Plain];

impl OpenAi {
    pub(crate) fn new(endpoint: Endpoint, model: Option<String>) -> Self {
        let model = model.map_or_else(|| ModelName::FirstListed(OnceLock::new()), ModelName::Named);
        Self { endpoint, model, shape: AtomicU8::new(0) }
    }

    async fn model(&self) -> String {
        let first = match &self.model {
            ModelName::Named(name) => return name.clone(),
            ModelName::FirstListed(first) => first,
        };
        if let Some(name) = first.get() {
            return name.clone();
        }
        let listing = self.endpoint.get_bytes(self.endpoint.url(&["models"]), |_| Ok(())).await;
        let name = listing.ok().and_then(|listing| first_listed(&listing));
        match name {
            Some(name) => first.get_or_init(|| name).clone(),
            // Not kept: the next call asks again.
            None => UNNAMED_MODEL.to_owned(),
        }
    }

    fn body(&self, model: &str, request: &ChatRequest, shape: Shape) -> Value {
        let mut messages = Vec::with_capacity(request.messages.len() + 1);
        if !request.system.is_empty() {
            messages.push(json!({ "role": "system", "content": request.system }));
        }
        messages.extend(request.messages.iter().map(message));
        let mut body = json!({ "model": model, "messages": messages, "stream": shape != Shape::Plain });
        if shape == Shape::StreamWithUsage {
            body["stream_options"] = json!({ "include_usage": true });
        }
        if !request.tools.is_empty() {
            body["tools"] = request.tools.iter().map(tool).collect();
        }
        if let Some(tokens) = request.max_output_tokens {
            // OpenAI's newer models refuse the old name, and other servers do not know the new one.
            let is_vendor = self.endpoint.host() == Some("api.openai.com");
            body[if is_vendor { "max_completion_tokens" } else { "max_tokens" }] = json!(tokens);
        }
        for (name, value) in sampling_fields(&request.sampling, &SAMPLING_NAMES) {
            body[name] = value;
        }
        body
    }
}

#[async_trait]
impl Model for OpenAi {
    fn kind(&self) -> &'static str {
        "openai"
    }

    fn name(&self) -> String {
        match &self.model {
            ModelName::Named(name) => name.clone(),
            ModelName::FirstListed(first) => first.get().map_or(UNNAMED_MODEL, String::as_str).to_owned(),
        }
    }

    fn relay(&self) -> Option<RelayWire<'_>> {
        Some(RelayWire::Openai(&self.endpoint))
    }

    async fn open(&self, request: &ChatRequest) -> Result<PieceStream, CallError> {
        let model = self.model().await;
        let url = self.endpoint.url(&["chat", "completions"]);
        let mut step = self.shape.load(Ordering::Relaxed);
        loop {
            let shape = SHAPES.get(usize::from(step)).copied().unwrap_or(Shape::Plain);
            match self.endpoint.post(url.clone(), &self.body(&model, request, shape)).await {
                Err(CallError::Rejected { said, .. }) if refuses(shape, &said) => step += 1,
                Err(error) => return Err(error),
                Ok(response) => {
                    self.shape.store(step, Ordering::Relaxed);
                    return Ok(self.endpoint.pieces(response, Chunks::default(), room::of_the_assistant()));
                }
            }
        }
    }
}

/// Whether a server rejected the way it was asked, rather than the question.
fn refuses(shape: Shape, said: &str) -> bool {
    match shape {
        Shape::StreamWithUsage => said.contains("stream"),
        Shape::Stream => said.contains("stream") && !said.contains("stream_options"),
        Shape::Plain => false,
    }
}

fn message(message: &ChatMessage) -> Value {
    match message {
        ChatMessage::User { text } => json!({ "role": "user", "content": text }),
        ChatMessage::Assistant { text, tool_calls } if tool_calls.is_empty() => {
            json!({ "role": "assistant", "content": text })
        }
        ChatMessage::Assistant { text, tool_calls } => {
            let content = if text.is_empty() { Value::Null } else { json!(text) };
            let calls: Vec<Value> = tool_calls.iter().map(call).collect();
            json!({ "role": "assistant", "content": content, "tool_calls": calls })
        }
        ChatMessage::Tool { call_id, text, is_error, .. } => {
            // This wire has no place for "it failed" but the text.
            let content = if *is_error { format!("Error: {text}") } else { text.clone() };
            json!({ "role": "tool", "tool_call_id": call_id, "content": content })
        }
    }
}

fn call(call: &ToolCall) -> Value {
    json!({
        "id": call.id,
        "type": "function",
        "function": { "name": tool_name::to_wire(&call.name), "arguments": call.arguments_json },
    })
}

fn tool(tool: &ToolSpec) -> Value {
    json!({
        "type": "function",
        "function": {
            "name": tool_name::to_wire(&tool.name),
            "description": tool.description,
            "parameters": schema_object(&tool.input_schema_json),
        },
    })
}
