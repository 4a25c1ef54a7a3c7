//! The three wires against a third party's idea of them.

use crate::setup::{ask_listening, config, models, text, user};
use cortex_models::{FoundKey, FoundKeys, ModelError, Models, ModelsConfig, SynapseSetting};
use cortex_testkit::Aimock;
use cortex_types::{ChatMessage, ToolSpec};
use serde_json::json;
use std::time::Duration;

const GREETING: &str = "Hello from the far side: grüße, 你好, 🌍!";

fn start() -> Option<Aimock> {
    let fixtures = json!([
        { "match": { "userMessage": "hello" }, "response": { "content": GREETING } },
        {
            "match": { "userMessage": "weather", "hasToolResult": false },
            "response": { "toolCalls": [{ "name": "weather__now", "arguments": { "city": "Bonn" } }] },
        },
        { "match": { "userMessage": "weather", "hasToolResult": true }, "response": { "content": "It rains." } },
        {
            "match": { "userMessage": "limited" },
            "response": { "error": { "message": "slow down", "type": "rate_limit_error" }, "status": 429, "retryAfter": 7 },
        },
        {
            "match": { "userMessage": "cut" },
            "response": { "content": "This is cut before its end, again and again." },
            "truncateAfterChunks": 3,
        },
        { "match": { "userMessage": "gone" }, "response": { "content": "never" }, "chaos": { "disconnectRate": 1 } },
        { "match": { "userMessage": "garbled" }, "response": { "content": "never" }, "chaos": { "malformedRate": 1 } },
        { "match": { "userMessage": "dropped" }, "response": { "content": "never" }, "chaos": { "dropRate": 1 } },
    ]);
    Aimock::start(&fixtures).unwrap()
}

fn found(fake: &Aimock) -> Option<FoundKey> {
    Some(FoundKey { api_key: "test-key".into(), base_url: Some(fake.url().to_owned()) })
}

/// The same fake as Synapse, as Anthropic and as Gemini, each found the way a person would set it up.
async fn each_wire(fake: &Aimock) -> Vec<(&'static str, Models)> {
    let synapse = ModelsConfig { synapse_url: SynapseSetting::Explicit(fake.url().to_owned()), ..config() };
    let anthropic =
        ModelsConfig { found: FoundKeys { anthropic: found(fake), ..FoundKeys::default() }, ..config() };
    let gemini =
        ModelsConfig { found: FoundKeys { gemini: found(fake), ..FoundKeys::default() }, ..config() };
    vec![
        ("openai", models(synapse).await),
        ("anthropic", models(anthropic).await),
        ("google", models(gemini).await),
    ]
}

#[tokio::test]
async fn a_third_partys_fake_streams_a_reply_on_each_wire() {
    let Some(fake) = start() else { return };
    for (wire, models) in each_wire(&fake).await {
        let (answered, heard) = ask_listening(&models, &user("hello")).await;
        assert_eq!(text(&answered), GREETING, "{wire}");
        assert_eq!(heard.replace('|', ""), GREETING, "{wire}");
        assert!(heard.contains('|'), "{wire} streamed in pieces: {heard}");
        assert_eq!(answered.calls[0].provider, wire);
    }
}

#[tokio::test]
async fn a_third_partys_fake_calls_a_tool_and_takes_its_result_on_each_wire() {
    let Some(fake) = start() else { return };
    for (wire, models) in each_wire(&fake).await {
        let mut request = user("how is the weather");
        request.tools.push(ToolSpec {
            name: "weather.now".to_owned(),
            description: "The weather in a city".to_owned(),
            input_schema_json: r#"{"type":"object","properties":{"city":{"type":"string"}}}"#.to_owned(),
        });
        let reply = ask_listening(&models, &request).await.0.outcome.unwrap();
        let [call] = reply.tool_calls.as_slice() else { panic!("{wire}: {reply:?}") };
        assert_eq!((call.name.as_str(), call.arguments_json.as_str()), ("weather.now", r#"{"city":"Bonn"}"#));

        let (call_id, name) = (call.id.clone(), call.name.clone());
        request.messages.push(ChatMessage::Assistant { text: reply.text, tool_calls: reply.tool_calls });
        request.messages.push(ChatMessage::Tool { call_id, name, text: "rain".to_owned(), is_error: false });
        assert_eq!(text(&ask_listening(&models, &request).await.0), "It rains.", "{wire}");
    }
}

#[tokio::test]
async fn a_third_partys_faults_are_transient_on_each_wire() {
    let Some(fake) = start() else { return };
    for (wire, models) in each_wire(&fake).await {
        for (question, wait) in
            [("limited", Some(7)), ("cut", None), ("gone", None), ("garbled", None), ("dropped", None)]
        {
            let (answered, heard) = ask_listening(&models, &user(question)).await;
            let expected_wait = wait.map(Duration::from_secs);
            match &answered.outcome {
                Err(ModelError::Transient { retry_after, .. }) => {
                    assert_eq!(*retry_after, expected_wait, "{wire}")
                }
                other => panic!("{wire} {question}: {other:?}"),
            }
            assert!(heard.is_empty() || heard.ends_with("<restarted>"), "{wire} {question}: {heard}");
        }
    }
}

#[tokio::test]
async fn after_a_429_of_one_wire_the_next_one_answers() {
    let Some(limited) = Aimock::start(&json!([{
        "match": {},
        "response": { "error": { "message": "slow down", "type": "rate_limit_error" }, "status": 429, "retryAfter": 7 },
    }]))
    .unwrap() else {
        return;
    };
    let Some(fake) = start() else { return };
    let config = ModelsConfig {
        synapse_url: SynapseSetting::Explicit(limited.url().to_owned()),
        found: FoundKeys { anthropic: found(&limited), gemini: found(&fake), ..FoundKeys::default() },
        ..config()
    };
    let models = models(config).await;
    let asked = |answered: &cortex_models::Answered| -> Vec<String> {
        answered.calls.iter().map(|call| call.profile.clone()).collect()
    };
    let (answered, _) = ask_listening(&models, &user("hello")).await;
    assert_eq!(text(&answered), GREETING);
    assert_eq!(asked(&answered), ["synapse", "anthropic", "gemini"]);
    let (answered, _) = ask_listening(&models, &user("hello")).await;
    assert_eq!(asked(&answered), ["gemini"], "the others asked for time");
}
