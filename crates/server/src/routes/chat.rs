//! `POST /v1/chat/completions`: the assistant as a model that OpenAI's clients can talk to, and the providers' own.

use crate::openai::{
    ASSISTANT, Answer, AnswerWire, Asked, OpenAiBody, OpenAiRefusal, answer_stream, relayed, whole_answer,
    written_then_acked,
};
use crate::state::AppState;
use axum::extract::State;
use axum::response::sse::Event as SseEvent;
use axum::response::{IntoResponse, Response};
use cortex_api::{
    ChatChoice, ChatChoiceMessage, ChatChunkChoice, ChatChunkDelta, ChatCompletion, ChatCompletionChunk,
    ChatCompletionRequest, ChatUsage, CortexNote, OpenAiRefused,
};
use cortex_models::RelayPath;
use cortex_types::{EventId, TokenUsage};
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use serde::Serialize;

/// Ask the assistant (`cortex`) or a provider's model.
#[utoipa::path(post, path = "/v1/chat/completions", tag = "openai", request_body = ChatCompletionRequest, responses(
    (status = 200, body = ChatCompletion, description = "Or, with `stream`, server-sent events of `ChatCompletionChunk`"),
    (status = 400, body = OpenAiRefused), (status = 401, body = OpenAiRefused),
    (status = 403, body = OpenAiRefused, description = "The channel is off"),
    (status = 404, body = OpenAiRefused, description = "No provider has this model"),
    (status = 413, body = OpenAiRefused), (status = 422, body = OpenAiRefused), (status = 429, body = OpenAiRefused),
    (status = 502, body = OpenAiRefused), (status = 504, body = OpenAiRefused),
))]
pub(crate) async fn completions(
    State(app): State<AppState>,
    headers: HeaderMap,
    body: OpenAiBody,
) -> Result<Response, OpenAiRefusal> {
    if body.model()? != ASSISTANT {
        return relayed(&app, RelayPath::Chat, &body).await;
    }
    let asked = Asked::of_chat(&headers, &body)?;
    let created = app.clock.now().0 / 1_000;
    if body.wants_stream()? {
        let with_usage = body.object.get("stream_options").is_some_and(|all| all["include_usage"] == true);
        let wire = ChatWire { id: String::new(), created, with_usage };
        return answer_stream(&app, asked, wire).await;
    }
    let answer = whole_answer(&app, asked).await?;
    let completion = ChatCompletion {
        id: completion_id(&answer.note.event_id),
        object: "chat.completion".to_owned(),
        created,
        model: ASSISTANT.to_owned(),
        choices: vec![ChatChoice {
            index: 0,
            message: ChatChoiceMessage {
                role: "assistant".to_owned(),
                content: answer.text(),
                refusal: None,
            },
            finish_reason: "stop".to_owned(),
            logprobs: None,
        }],
        usage: usage(answer.usage),
        cortex: answer.note,
    };
    let bytes = serde_json::to_vec(&completion).unwrap_or_default();
    let body = written_then_acked(bytes.into(), answer.leased);
    Ok(([(CONTENT_TYPE, "application/json")], body).into_response())
}

/// A completion is named after its event.
fn completion_id(event: &EventId) -> String {
    format!("chatcmpl-{}", event.as_str().trim_start_matches("evt_"))
}

fn usage(tokens: TokenUsage) -> ChatUsage {
    ChatUsage { prompt_tokens: tokens.input, completion_tokens: tokens.output, total_tokens: tokens.total() }
}

/// Chunks of a chat completion.
struct ChatWire {
    id: String,
    created: i64,
    with_usage: bool,
}

impl ChatWire {
    fn chunk(&self, choices: Vec<ChatChunkChoice>) -> ChatCompletionChunk {
        ChatCompletionChunk {
            id: self.id.clone(),
            object: "chat.completion.chunk".to_owned(),
            created: self.created,
            model: ASSISTANT.to_owned(),
            choices,
            usage: None,
            cortex: None,
        }
    }

    fn said(&self, role: Option<&str>, content: Option<&str>) -> SseEvent {
        let (role, content) = (role.map(str::to_owned), content.map(str::to_owned));
        let choice =
            ChatChunkChoice { index: 0, delta: ChatChunkDelta { role, content }, finish_reason: None };
        event(&self.chunk(vec![choice]))
    }

    fn last(&self, note: &CortexNote) -> SseEvent {
        let choice = ChatChunkChoice {
            index: 0,
            delta: ChatChunkDelta::default(),
            finish_reason: Some("stop".to_owned()),
        };
        event(&ChatCompletionChunk { cortex: Some(note.clone()), ..self.chunk(vec![choice]) })
    }
}

impl AnswerWire for ChatWire {
    fn begin(&mut self, event: &EventId) -> Vec<SseEvent> {
        self.id = completion_id(event);
        vec![self.said(Some("assistant"), Some(""))]
    }

    fn text(&mut self, delta: &str) -> Vec<SseEvent> {
        vec![self.said(None, Some(delta))]
    }

    fn end(&mut self, _text: &str, answer: &Answer) -> Vec<SseEvent> {
        let mut events = vec![self.last(&answer.note)];
        if self.with_usage {
            let counts = ChatCompletionChunk { usage: Some(usage(answer.usage)), ..self.chunk(Vec::new()) };
            events.push(event(&counts));
        }
        events
    }

    fn close(&mut self) -> Vec<SseEvent> {
        vec![SseEvent::default().data("[DONE]")]
    }

    fn fail(&mut self, refusal: &OpenAiRefusal) -> Vec<SseEvent> {
        vec![event(&refusal.body())]
    }
}

fn event(data: &impl Serialize) -> SseEvent {
    SseEvent::default().data(serde_json::to_string(data).unwrap_or_default())
}
