//! Asks the models and previews the answer on the live bus while it grows.

use crate::runtime::Parts;
use cortex_brain::{Input, ModelFailure, Preview};
use cortex_bus::LiveNews;
use cortex_models::{Delta, DeltaSink, ModelError, Models};
use cortex_types::{CallOutcome, ChatRequest, Event, ModelCall};
use metrics::{counter, histogram};
use std::sync::Mutex;
use tokio_util::sync::CancellationToken;

/// What came of asking: something for the brain, or the order to stop.
pub(crate) enum Asked {
    Learned(Input),
    Cancelled,
}

pub(crate) async fn call_model(
    parts: &Parts,
    models: &Models,
    event: &Event,
    request: &ChatRequest,
    shown: Preview,
    cancel: &CancellationToken,
) -> (Asked, Vec<ModelCall>) {
    let preview = LivePreview { parts, event, shown: Mutex::new(shown) };
    let answered = models.answer(request, &preview, cancel).await;
    for call in &answered.calls {
        count(call);
    }
    let by = answered.answering_call().map(|call| (call.profile.clone(), call.model.clone()));
    let asked = match answered.outcome {
        Ok(reply) => {
            // Words before a call are no part of the answer, which another call of the model will give.
            if !reply.tool_calls.is_empty() && !reply.text.trim().is_empty() {
                preview.push(Delta::Restarted);
            }
            let (profile, model) = by.unwrap_or_default();
            Asked::Learned(Input::ModelAnswered { reply, profile, model })
        }
        Err(ModelError::Transient { retry_after, message }) => {
            Asked::Learned(Input::ModelFailed(ModelFailure::Transient { reason: message, retry_after }))
        }
        Err(ModelError::Permanent { message }) => {
            Asked::Learned(Input::ModelFailed(ModelFailure::Permanent { reason: message }))
        }
        Err(ModelError::Cancelled) => Asked::Cancelled,
    };
    (asked, answered.calls)
}

fn count(call: &ModelCall) {
    let outcome = match call.outcome {
        CallOutcome::Answered => "answered",
        CallOutcome::Failed { .. } => "failed",
    };
    counter!("cortex_model_calls_total", "provider" => call.provider.clone(), "outcome" => outcome)
        .increment(1);
    histogram!("cortex_model_call_seconds", "provider" => call.provider.clone())
        .record(call.latency_ms as f64 / 1_000.0);
}

/// Publishes what may be shown; silent and costless while nobody watches, and silent where nothing may leave (D18).
struct LivePreview<'a> {
    parts: &'a Parts,
    event: &'a Event,
    shown: Mutex<Preview>,
}

impl DeltaSink for LivePreview<'_> {
    fn push(&self, delta: Delta) {
        if !self.parts.channels.borrow().may_say(&self.event.channel, &self.event.topic.source) {
            return;
        }
        // A poisoned preview only means that some preview was lost.
        let Ok(mut shown) = self.shown.lock() else { return };
        let live = match delta {
            Delta::Text(text) => {
                let text = shown.push(&text);
                if text.is_empty() {
                    return;
                }
                LiveNews::Delta { event: self.event.id.clone(), text }
            }
            Delta::Restarted => {
                shown.restart();
                LiveNews::Restarted { event: self.event.id.clone() }
            }
        };
        self.parts.bus.publish(live);
    }
}
