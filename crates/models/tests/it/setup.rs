//! Puts models together for a test, and asks them.

use cortex_models::{Answered, Delta, Models, ModelsConfig, ProviderSettings, Timeouts};
use cortex_testkit::offline_models_within;
use cortex_types::{ChatMessage, ChatRequest, Clock, ManualClock, Millis};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

pub(crate) const START: Millis = Millis(1_800_000_000_000);

/// Nothing configured, and timeouts a test can wait for.
pub(crate) fn config() -> ModelsConfig {
    offline_models_within(Timeouts {
        connect: Duration::from_secs(2),
        idle: Duration::from_secs(10),
        total: Duration::from_secs(20),
    })
}

pub(crate) fn profiles(json: serde_json::Value) -> Option<ProviderSettings> {
    Some(serde_json::from_value(serde_json::json!({ "profiles": json })).unwrap())
}

/// OpenAI-compatible profiles named a, b, … at these addresses.
pub(crate) fn openai_at(urls: &[&str]) -> Option<ProviderSettings> {
    let profile = |(name, url): (char, &&str)| {
        serde_json::json!({
            "name": name, "kind": "openai", "baseUrl": url,
            "apiKey": "sk-secret-0123456789", "models": { "pro": "gpt-4o" },
        })
    };
    profiles(('a'..).zip(urls).map(profile).collect())
}

pub(crate) async fn models(config: ModelsConfig) -> Models {
    Models::assemble(config, Arc::new(ManualClock::starting_at(START))).await.unwrap()
}

pub(crate) async fn models_with_clock(config: ModelsConfig, clock: &Arc<ManualClock>) -> Models {
    let clock: Arc<dyn Clock> = Arc::clone(clock) as Arc<dyn Clock>;
    Models::assemble(config, clock).await.unwrap()
}

pub(crate) fn user(text: &str) -> ChatRequest {
    ChatRequest { messages: vec![ChatMessage::User { text: text.to_owned() }], ..ChatRequest::default() }
}

pub(crate) async fn ask(models: &Models, text: &str) -> Answered {
    ask_listening(models, &user(text)).await.0
}

/// The answer, and the preview as a listener saw it come: `|` between deltas, `<restarted>` where it starts over.
pub(crate) async fn ask_listening(models: &Models, request: &ChatRequest) -> (Answered, String) {
    let heard = Mutex::new(Vec::new());
    let listen = |delta| {
        heard.lock().unwrap().push(match delta {
            Delta::Text(text) => text,
            Delta::Restarted => "<restarted>".to_owned(),
        });
    };
    let answered = models.answer(request, &listen, &CancellationToken::new()).await;
    (answered, heard.into_inner().unwrap().join("|"))
}

pub(crate) fn text(answered: &Answered) -> &str {
    match &answered.outcome {
        Ok(reply) => &reply.text,
        Err(error) => panic!("no answer: {error}"),
    }
}
