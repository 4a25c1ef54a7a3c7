//! `POST /v1/responses`: the assistant in OpenAI's newer protocol; text in, text out.

use crate::openai::{
    ASSISTANT, Answer, AnswerWire, Asked, OpenAiBody, OpenAiRefusal, answer_stream, relayed, whole_answer,
    written_then_acked,
};
use crate::state::AppState;
use axum::extract::State;
use axum::response::sse::Event as SseEvent;
use axum::response::{IntoResponse, Response};
use cortex_api::{CortexNote, OpenAiRefused, ResponsesRequest};
use cortex_models::RelayPath;
use cortex_types::{EventId, TokenUsage};
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use serde_json::{Value, json};

/// Ask the assistant (`cortex`) or a provider's model.
#[utoipa::path(post, path = "/v1/responses", tag = "openai", request_body = ResponsesRequest, responses(
    (status = 200, body = Object, description = "A response; with `stream`, the server-sent events of one"),
    (status = 400, body = OpenAiRefused), (status = 401, body = OpenAiRefused),
    (status = 403, body = OpenAiRefused, description = "The channel is off"),
    (status = 404, body = OpenAiRefused, description = "No provider has this model"),
    (status = 413, body = OpenAiRefused), (status = 422, body = OpenAiRefused), (status = 429, body = OpenAiRefused),
    (status = 502, body = OpenAiRefused), (status = 504, body = OpenAiRefused),
))]
pub(crate) async fn create(
    State(app): State<AppState>,
    headers: HeaderMap,
    body: OpenAiBody,
) -> Result<Response, OpenAiRefusal> {
    if body.model()? != ASSISTANT {
        return relayed(&app, RelayPath::Responses, &body).await;
    }
    let asked = Asked::of_responses(&app, &headers, &body).await?;
    let mut shape = Shape { id: String::new(), created_at: app.clock.now().0 / 1_000, echoed: echoed(&body) };
    if body.wants_stream()? {
        return answer_stream(&app, asked, ResponsesWire { shape, sequence: 0 }).await;
    }
    let answer = whole_answer(&app, asked).await?;
    shape.id = ulid_of(&answer.note.event_id);
    let response = shape.completed(&answer.text(), answer.usage, &answer.note);
    let body = written_then_acked(response.to_string().into(), answer.leased);
    Ok(([(CONTENT_TYPE, "application/json")], body).into_response())
}

/// What a response repeats of its request.
struct Echoed {
    previous_response_id: Value,
    user: Value,
    metadata: Value,
}

fn echoed(body: &OpenAiBody) -> Echoed {
    let field = |name: &str| body.object.get(name).cloned().unwrap_or_default();
    let metadata = field("metadata");
    Echoed {
        previous_response_id: field("previous_response_id"),
        user: field("user"),
        metadata: if metadata.is_object() { metadata } else { json!({}) },
    }
}

/// A response is named after its event, so that the next one finds the conversation again.
fn ulid_of(event: &EventId) -> String {
    event.as_str().trim_start_matches("evt_").to_owned()
}

/// The objects of one response.
struct Shape {
    id: String,
    created_at: i64,
    echoed: Echoed,
}

impl Shape {
    fn response(&self, status: &str, output: Value) -> Value {
        json!({
            "id": format!("resp_{}", self.id),
            "object": "response",
            "created_at": self.created_at,
            "status": status,
            "error": null,
            "incomplete_details": null,
            "instructions": null,
            "max_output_tokens": null,
            "metadata": self.echoed.metadata,
            "model": ASSISTANT,
            "output": output,
            "parallel_tool_calls": true,
            "previous_response_id": self.echoed.previous_response_id,
            "reasoning": { "effort": null, "summary": null },
            "store": true,
            "temperature": null,
            "text": { "format": { "type": "text" } },
            "tool_choice": "auto",
            "tools": [],
            "top_p": null,
            "truncation": "disabled",
            "usage": null,
            "user": self.echoed.user,
        })
    }

    fn completed(&self, text: &str, usage: TokenUsage, note: &CortexNote) -> Value {
        let mut response = self.response("completed", json!([self.item("completed", json!([part(text)]))]));
        response["usage"] = json!({
            "input_tokens": usage.input,
            "input_tokens_details": { "cached_tokens": usage.cached },
            "output_tokens": usage.output,
            "output_tokens_details": { "reasoning_tokens": 0 },
            "total_tokens": usage.total(),
        });
        response["cortex"] = json!(note);
        response
    }

    fn item(&self, status: &str, content: Value) -> Value {
        json!({ "id": self.item_id(), "type": "message", "status": status, "role": "assistant", "content": content })
    }

    fn item_id(&self) -> String {
        format!("msg_{}", self.id)
    }
}

fn part(text: &str) -> Value {
    json!({ "type": "output_text", "text": text, "annotations": [], "logprobs": [] })
}

/// The events of a streamed response, numbered.
struct ResponsesWire {
    shape: Shape,
    sequence: u64,
}

impl ResponsesWire {
    fn event(&mut self, name: &str, mut data: Value) -> SseEvent {
        data["type"] = json!(name);
        data["sequence_number"] = json!(self.sequence);
        self.sequence += 1;
        SseEvent::default().event(name).data(data.to_string())
    }

    /// An event about the only part of the only item.
    fn part_event(&mut self, name: &str, mut data: Value) -> SseEvent {
        data["item_id"] = json!(self.shape.item_id());
        data["output_index"] = json!(0);
        data["content_index"] = json!(0);
        self.event(name, data)
    }
}

impl AnswerWire for ResponsesWire {
    fn begin(&mut self, event: &EventId) -> Vec<SseEvent> {
        self.shape.id = ulid_of(event);
        let response = self.shape.response("in_progress", json!([]));
        let item = self.shape.item("in_progress", json!([]));
        vec![
            self.event("response.created", json!({ "response": response })),
            self.event("response.in_progress", json!({ "response": response })),
            self.event("response.output_item.added", json!({ "output_index": 0, "item": item })),
            self.part_event("response.content_part.added", json!({ "part": part("") })),
        ]
    }

    fn text(&mut self, delta: &str) -> Vec<SseEvent> {
        vec![self.part_event("response.output_text.delta", json!({ "delta": delta, "logprobs": [] }))]
    }

    fn end(&mut self, text: &str, answer: &Answer) -> Vec<SseEvent> {
        let response = self.shape.completed(text, answer.usage, &answer.note);
        let item = self.shape.item("completed", json!([part(text)]));
        vec![
            self.part_event("response.output_text.done", json!({ "text": text, "logprobs": [] })),
            self.part_event("response.content_part.done", json!({ "part": part(text) })),
            self.event("response.output_item.done", json!({ "output_index": 0, "item": item })),
            self.event("response.completed", json!({ "response": response })),
        ]
    }

    fn close(&mut self) -> Vec<SseEvent> {
        Vec::new()
    }

    fn fail(&mut self, refusal: &OpenAiRefusal) -> Vec<SseEvent> {
        let mut response = self.shape.response("failed", json!([]));
        let error = refusal.body().error;
        response["error"] = json!({ "code": "server_error", "message": error.message });
        vec![self.event("response.failed", json!({ "response": response }))]
    }
}
