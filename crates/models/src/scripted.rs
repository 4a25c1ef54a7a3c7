//! The scripted model: answers, errors, delays and broken streams from a JSON file, for tests.
//!
//! ```json
//! { "model": "script-1",
//!   "answers": [
//!     { "when": { "contains": "weather" }, "toolCalls": [{ "name": "weather.now", "arguments": { "city": "Bonn" } }] },
//!     { "when": { "afterTool": "weather.now" }, "say": "It rains." },
//!     { "when": { "equals": "hello" }, "error": { "kind": "rateLimited", "retryAfterSeconds": 2 }, "times": 1 },
//!     { "when": { "startsWith": "long" }, "deltas": ["Once ", "upon "], "delayMs": 20, "then": "cut" } ],
//!   "otherwise": { "say": "You said: {{user}}" } }
//! ```
//!
//! For every call the first answer that fits and is not used up is given; then `otherwise`; then a permanent
//! error that shows what was asked. All fields are described in `docs/scripted-model.md`.

use crate::ModelsError;
use crate::error::CallError;
use crate::history::last_user_text;
use crate::model::{Model, Piece, PieceStream};
use async_trait::async_trait;
use cortex_types::{ChatMessage, ChatRequest, FinishReason};
use futures::{StreamExt, stream};
use script::{Answer, Ending, Script, ScriptedError, When};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

mod script;

pub(crate) struct Scripted {
    script: Script,
    /// How often each answer was given.
    given: Vec<AtomicU32>,
    calls: AtomicU32,
}

impl Scripted {
    pub(crate) fn load(path: &Path) -> Result<Self, ModelsError> {
        let problem = |problem: String| ModelsError::Script { path: path.to_owned(), problem };
        let text = std::fs::read_to_string(path).map_err(|error| problem(error.to_string()))?;
        let script: Script = serde_json::from_str(&text).map_err(|error| problem(error.to_string()))?;
        let given = script.answers.iter().map(|_| AtomicU32::new(0)).collect();
        Ok(Self { script, given, calls: AtomicU32::new(0) })
    }

    fn choose(&self, request: &ChatRequest) -> Option<&Answer> {
        let call = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        let fitting = self
            .script
            .answers
            .iter()
            .zip(&self.given)
            .find(|(answer, given)| fits(&answer.when, call, request) && claim(given, answer.times));
        fitting.map(|(answer, _)| answer).or(self.script.otherwise.as_ref())
    }
}

#[async_trait]
impl Model for Scripted {
    fn kind(&self) -> &'static str {
        "scripted"
    }

    fn name(&self) -> String {
        self.script.model.clone()
    }

    async fn open(&self, request: &ChatRequest) -> Result<PieceStream, CallError> {
        let Some(answer) = self.choose(request) else {
            let said = format!("no scripted answer fits {:?}", last_user_text(request));
            return Err(CallError::Rejected { status: 400, said });
        };
        let delay = Duration::from_millis(answer.delay_ms);
        if let Some(error) = &answer.error {
            pause(delay).await;
            return match error_of(error) {
                Some(error) => Err(error),
                None => std::future::pending().await,
            };
        }
        let batches = stream::iter(batches(answer, last_user_text(request)));
        let paced = batches.then(move |batch| async move {
            pause(delay).await;
            batch
        });
        Ok(match answer.then {
            Ending::Finish | Ending::Cut | Ending::Malformed => paced.boxed(),
            Ending::Hang => paced.chain(stream::pending()).boxed(),
        })
    }
}

/// Even a sleep of no time waits for the next tick of the timer, a millisecond later.
async fn pause(delay: Duration) {
    if !delay.is_zero() {
        tokio::time::sleep(delay).await;
    }
}

/// Takes one of the times an answer may be given, unless there is none left.
fn claim(given: &AtomicU32, times: Option<u32>) -> bool {
    given
        .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |given| match times {
            Some(times) if given >= times => None,
            Some(_) | None => Some(given.saturating_add(1)),
        })
        .is_ok()
}

fn fits(when: &When, call: u32, request: &ChatRequest) -> bool {
    let text = last_user_text(request);
    let last_tool = match request.messages.last() {
        Some(ChatMessage::Tool { name, .. }) => Some(name.as_str()),
        Some(ChatMessage::User { .. } | ChatMessage::Assistant { .. }) | None => None,
    };
    when.equals.as_ref().is_none_or(|wanted| text == wanted)
        && when.contains.as_ref().is_none_or(|wanted| text.contains(wanted.as_str()))
        && when.starts_with.as_ref().is_none_or(|wanted| text.starts_with(wanted.as_str()))
        && when.call.is_none_or(|wanted| call == wanted)
        && when.after_tool.as_ref().is_none_or(|wanted| last_tool == Some(wanted.as_str()))
}

fn batches(answer: &Answer, user_text: &str) -> Vec<Result<Vec<Piece>, CallError>> {
    let texts = answer.deltas.iter().chain(&answer.say);
    let mut batches: Vec<Result<Vec<Piece>, CallError>> =
        texts.map(|text| Ok(vec![Piece::Text(text.replace("{{user}}", user_text))])).collect();
    for (slot, call) in answer.tool_calls.iter().enumerate() {
        let json = match (&call.arguments_text, &call.arguments) {
            (Some(text), _) => text.clone(),
            (None, Some(arguments)) => serde_json::Value::Object(arguments.clone()).to_string(),
            (None, None) => String::new(),
        };
        let start = Piece::ToolStart { slot, id: call.id.clone(), name: call.name.clone() };
        batches.push(Ok(vec![start, Piece::ToolArguments { slot, json }]));
    }
    match answer.then {
        Ending::Finish => batches.push(Ok(vec![Piece::Finish(FinishReason::Stop), Piece::Done])),
        Ending::Malformed => batches.push(Err(CallError::Malformed("scripted".to_owned()))),
        Ending::Cut | Ending::Hang => {}
    }
    batches
}

/// `None` stands for a provider that never says anything.
fn error_of(error: &ScriptedError) -> Option<CallError> {
    let said = "scripted".to_owned();
    match error {
        ScriptedError::RateLimited { retry_after_seconds } => {
            Some(CallError::RateLimited { retry_after: retry_after_seconds.map(Duration::from_secs), said })
        }
        ScriptedError::Server { status } => {
            Some(CallError::Server { status: *status, retry_after: None, said })
        }
        ScriptedError::Unauthorized => Some(CallError::Unauthorized { status: 401, said }),
        ScriptedError::Rejected => Some(CallError::Rejected { status: 400, said }),
        ScriptedError::Network => Some(CallError::Network(said)),
        ScriptedError::Hang => None,
    }
}
