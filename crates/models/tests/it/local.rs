//! The two models that need no network: offline and scripted.

use crate::setup::{ask, ask_listening, config, models, text, user};
use cortex_models::{Answered, ModelError, Models, ModelsConfig, Timeouts};
use cortex_types::{CallOutcome, ChatMessage, FinishReason};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

async fn scripted(script: serde_json::Value) -> Models {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("script.json");
    std::fs::write(&path, script.to_string()).unwrap();
    let timeouts = Timeouts { idle: Duration::from_millis(100), ..Timeouts::default() };
    models(ModelsConfig { scripted: Some(path), timeouts, ..config() }).await
}

fn failure(answered: &Answered) -> &ModelError {
    answered.outcome.as_ref().expect_err("an error was scripted")
}

#[tokio::test]
async fn without_any_configuration_the_offline_model_answers_and_streams() {
    let models = models(config()).await;
    let (answered, heard) = ask_listening(&models, &user("hello")).await;
    assert!(text(&answered).starts_with("Hello! I am the offline model"));
    assert_eq!(heard.replace('|', ""), text(&answered));
    assert!(heard.matches('|').count() > 5, "in small pieces: {heard}");
    let call = answered.answering_call().unwrap();
    assert_eq!((call.profile.as_str(), call.provider.as_str(), call.cost_micros), ("offline", "offline", 0));
    assert_eq!(ask(&models, "hello").await.outcome, answered.outcome, "the same question, the same answer");
}

#[tokio::test]
async fn a_script_answers_by_text_by_call_number_and_after_a_tool() {
    let models = scripted(json!({
        "model": "script-1",
        "answers": [
            { "when": { "equals": "ping" }, "say": "pong" },
            { "when": { "startsWith": "/" , "contains": "now" }, "toolCalls": [{ "name": "clock.now", "arguments": { "zone": "UTC" } }], "times": 1 },
            { "when": { "afterTool": "clock.now" }, "say": "noon" },
            { "when": { "call": 4 }, "say": "the fourth" },
        ],
        "otherwise": { "say": "You said: {{user}}" },
    }))
    .await;
    assert_eq!(text(&ask(&models, "ping").await), "pong");
    let called = ask(&models, "/now").await.outcome.unwrap();
    assert_eq!(called.finish, FinishReason::ToolCalls);
    assert_eq!(called.tool_calls[0].name, "clock.now");
    assert_eq!(called.tool_calls[0].arguments_json, r#"{"zone":"UTC"}"#);

    let mut request = user("/now");
    request
        .messages
        .push(ChatMessage::Assistant { text: String::new(), tool_calls: called.tool_calls.clone() });
    request.messages.push(ChatMessage::Tool {
        call_id: called.tool_calls[0].id.clone(),
        name: "clock.now".to_owned(),
        text: "12:00".to_owned(),
        is_error: false,
    });
    assert_eq!(text(&ask_listening(&models, &request).await.0), "noon");
    assert_eq!(text(&ask(&models, "/now").await), "the fourth", "the tool call was used up");
    let answered = ask(&models, "/now").await;
    assert_eq!(text(&answered), "You said: /now");
    assert_eq!(answered.calls[0].model, "script-1");
}

#[tokio::test]
async fn scripted_errors_are_what_real_ones_are() {
    let error = |kind: serde_json::Value| json!({ "answers": [{ "error": kind }] });
    let transient = |seconds: Option<u64>| Some(seconds.map(Duration::from_secs));
    for (kind, expected) in [
        (json!({ "kind": "rateLimited", "retryAfterSeconds": 2 }), transient(Some(2))),
        (json!({ "kind": "rateLimited" }), transient(None)),
        (json!({ "kind": "server" }), transient(None)),
        (json!({ "kind": "server", "status": 503 }), transient(None)),
        (json!({ "kind": "network" }), transient(None)),
        (json!({ "kind": "hang" }), transient(None)),
        (json!({ "kind": "unauthorized" }), None),
        (json!({ "kind": "rejected" }), None),
    ] {
        let answered = ask(&scripted(error(kind.clone())).await, "hi").await;
        match (failure(&answered), expected) {
            (ModelError::Transient { retry_after, .. }, Some(expected)) => {
                assert_eq!(*retry_after, expected, "{kind}")
            }
            (ModelError::Permanent { .. }, None) => {}
            (other, _) => panic!("{kind}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_scripted_stream_can_break_after_its_deltas_and_be_well_the_next_time() {
    for (then, reason) in [("cut", "cut off"), ("malformed", "malformed"), ("hang", "silent for 100 ms")] {
        let models = scripted(json!({ "answers": [
            { "deltas": ["Once ", "upon "], "then": then, "times": 1 },
            { "deltas": ["Once ", "upon "], "say": "a time", "delayMs": 1 },
        ] }))
        .await;
        let (broken, heard) = ask_listening(&models, &user("a story")).await;
        assert!(failure(&broken).to_string().contains(reason), "{broken:?}");
        assert!(matches!(broken.calls[0].outcome, CallOutcome::Failed { .. }));
        assert_eq!(heard, "Once |upon |<restarted>");
        let (whole, heard) = ask_listening(&models, &user("a story")).await;
        assert_eq!(text(&whole), "Once upon a time");
        assert_eq!(heard, "Once |upon |a time");
    }
}

#[tokio::test]
async fn a_script_can_call_tools_badly() {
    let models = scripted(json!({ "answers": [{ "toolCalls": [
        { "id": "same", "name": "x.y", "argumentsText": "{not json" },
        { "id": "same", "name": "ghost.tool" },
    ] }] }))
    .await;
    let reply = ask(&models, "hi").await.outcome.unwrap();
    let calls: Vec<_> =
        reply.tool_calls.iter().map(|call| (call.id.as_str(), call.arguments_json.as_str())).collect();
    assert_eq!(calls, [("same", "{not json"), ("same_2", "{}")]);
}

#[tokio::test]
async fn a_question_without_a_scripted_answer_is_a_permanent_error_that_shows_it() {
    let models = scripted(json!({ "answers": [{ "when": { "equals": "ping" }, "say": "pong" }] })).await;
    let answered = ask(&models, "pang").await;
    let message = failure(&answered).to_string();
    assert_eq!(message, "scripted: the request was rejected (400): no scripted answer fits \"pang\"");
}

#[tokio::test]
async fn a_script_that_cannot_be_read_names_the_file_and_the_fault() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("script.json");
    for (content, expected) in [
        (None, "No such file"),
        (Some(r#"{"answers":[{"sya":"hi"}]}"#), "unknown field `sya`"),
        (Some(r#"{"answers":[{"error":{"kind":"tired"}}]}"#), "unknown variant `tired`"),
    ] {
        if let Some(content) = content {
            std::fs::write(&path, content).unwrap();
        }
        let config = ModelsConfig { scripted: Some(path.clone()), ..config() };
        let refused = Models::assemble(config, Arc::new(cortex_types::ManualClock::default())).await;
        let error = refused.err().unwrap().to_string();
        assert!(error.contains("script.json") && error.contains(expected), "{error}");
    }
}
