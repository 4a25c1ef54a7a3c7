//! What a passed-on call cost: told once, when the call is over, however it ends.

use super::{Chunk, RelayCut};
use crate::PriceTable;
use crate::error::CallError;
use crate::failover::{Models, Provider, shortened};
use crate::room::Room;
use crate::sparing::Loose;
use crate::stream::Framer;
use bytes::Bytes;
use cortex_types::{CallOutcome, ModelCall, TokenUsage};
use serde::Deserialize;
use std::sync::Arc;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;

pub(super) struct Meter {
    /// `None` once it is told.
    call: Option<ModelCall>,
    started: Instant,
    prices: PriceTable,
    /// `None` once the stream cannot be read, or there is no room to read it.
    framer: Option<Framer>,
    room: Arc<dyn Room>,
    calls: UnboundedSender<ModelCall>,
}

impl Meter {
    pub(super) fn start(
        models: &Models,
        provider: &Provider,
        model: &str,
        calls: &UnboundedSender<ModelCall>,
        room: &Arc<dyn Room>,
    ) -> Self {
        let call = ModelCall {
            profile: provider.name.clone(),
            provider: provider.model.kind().to_owned(),
            model: model.to_owned(),
            started_at: models.clock.now(),
            latency_ms: 0,
            usage: TokenUsage::default(),
            cost_micros: 0,
            outcome: CallOutcome::Answered,
        };
        Self {
            call: Some(call),
            started: Instant::now(),
            prices: models.prices.clone(),
            framer: Some(Framer::default()),
            room: Arc::clone(room),
            calls: calls.clone(),
        }
    }

    /// It never came to a call.
    pub(super) fn forget(mut self) {
        self.call = None;
    }

    /// Looks for counts in a piece of a stream, and gives its bytes.
    pub(super) fn read(&mut self, chunk: Chunk) -> Bytes {
        match chunk.counted {
            Some(usage) => self.count(usage),
            None => self.look_in(&chunk.bytes),
        }
        chunk.bytes
    }

    fn look_in(&mut self, bytes: &[u8]) {
        let Some(framer) = &mut self.framer else { return };
        let mut events = Vec::new();
        // A stream that cannot be cut into events has no counts; the client gets it all the same.
        if framer.push(bytes, &mut events).is_err() || self.room.hold(framer.held()).is_err() {
            self.framer = None;
        }
        for event in events.iter().filter(|event| event.contains("\"usage\"")) {
            if let Some(usage) = usage_in(event.as_bytes()) {
                self.count(usage);
            }
        }
    }

    /// The whole answer at once.
    pub(super) fn read_whole(&mut self, body: &[u8]) {
        if let Some(usage) = usage_in(body) {
            self.count(usage);
        }
        self.answered();
    }

    pub(super) fn count(&mut self, usage: TokenUsage) {
        if let Some(call) = &mut self.call {
            call.usage = usage.clamped();
        }
    }

    pub(super) fn answered(&mut self) {
        self.tell(CallOutcome::Answered);
    }

    /// The provider refused the request itself, and the client reads why.
    pub(super) fn refused(&mut self, status: u16) {
        self.tell(CallOutcome::Failed { error: format!("the request was rejected ({status})") });
    }

    pub(super) fn failed<T>(mut self, error: CallError) -> Result<T, CallError> {
        self.tell(CallOutcome::Failed { error: shortened(error.to_string()) });
        Err(error)
    }

    pub(super) fn cut(&mut self, error: CallError) -> RelayCut {
        let line = shortened(error.to_string());
        self.tell(CallOutcome::Failed { error: line.clone() });
        RelayCut(line)
    }

    fn tell(&mut self, outcome: CallOutcome) {
        let Some(call) = self.call.take() else { return };
        let latency_ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let cost_micros = self.prices.cost_micros(&call.model, call.usage);
        // Nobody keeps the books when this fails, which only a server that stops does.
        drop(self.calls.send(ModelCall { latency_ms, cost_micros, outcome, ..call }));
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.tell(CallOutcome::Failed { error: "the client went away".to_owned() });
    }
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    usage: Loose<Usage>,
    #[serde(default)]
    response: Loose<Response>,
}

#[derive(Deserialize)]
struct Response {
    #[serde(default)]
    usage: Loose<Usage>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Usage {
    prompt_tokens: Loose<u64>,
    input_tokens: Loose<u64>,
    completion_tokens: Loose<u64>,
    output_tokens: Loose<u64>,
    prompt_tokens_details: Loose<Details>,
    input_tokens_details: Loose<Details>,
}

#[derive(Deserialize)]
struct Details {
    #[serde(default)]
    cached_tokens: Loose<u64>,
}

/// The counts of chat, of responses and of embeddings, wherever they stand.
fn usage_in(answer: &[u8]) -> Option<TokenUsage> {
    let Answer { usage, response } = serde_json::from_slice(answer).ok()?;
    let usage = usage.0.or_else(|| response.0?.usage.0)?;
    let cached = |details: Loose<Details>| details.0.and_then(|details| details.cached_tokens.0);
    let cached = cached(usage.prompt_tokens_details)
        .or_else(|| cached(usage.input_tokens_details))
        .unwrap_or_default();
    Some(TokenUsage {
        input: usage.prompt_tokens.0.or(usage.input_tokens.0).unwrap_or_default(),
        output: usage.completion_tokens.0.or(usage.output_tokens.0).unwrap_or_default(),
        cached,
    })
}

#[cfg(test)]
mod tests {
    use cortex_types::TokenUsage;
    use serde_json::{Value, json};

    fn usage_in(answer: &Value) -> Option<TokenUsage> {
        super::usage_in(answer.to_string().as_bytes())
    }

    #[test]
    fn counts_are_found_in_every_shape() {
        let chat = json!({ "usage": { "prompt_tokens": 3, "completion_tokens": 4,
            "prompt_tokens_details": { "cached_tokens": 2 } } });
        assert_eq!(usage_in(&chat), Some(TokenUsage { input: 3, output: 4, cached: 2 }));
        let response = json!({ "response": { "usage": { "input_tokens": 5, "output_tokens": 6 } } });
        assert_eq!(usage_in(&response), Some(TokenUsage { input: 5, output: 6, cached: 0 }));
        let embeddings = json!({ "usage": { "prompt_tokens": 7, "total_tokens": 7 } });
        assert_eq!(usage_in(&embeddings), Some(TokenUsage { input: 7, output: 0, cached: 0 }));
        assert_eq!(usage_in(&json!({ "usage": null })), None);
    }
}
