//! Far sides that break: nothing of a broken answer is returned, and it is known for what it was.

use crate::far_side::{Act, FarSide, OPENAI_STOP, error, events, openai, openai_text, response};
use crate::setup::{ask_listening, config, models, openai_at, profiles, text, user};
use cortex_models::{Answered, ModelError, ModelsConfig, Timeouts};
use cortex_types::{CallOutcome, TokenUsage};
use serde_json::json;
use std::time::Duration;

fn send(text: &str) -> Vec<Act> {
    vec![Act::Send(text.as_bytes().to_vec())]
}

fn impatient(idle_ms: u64, total_ms: u64) -> Timeouts {
    Timeouts {
        connect: Duration::from_secs(2),
        idle: Duration::from_millis(idle_ms),
        total: Duration::from_millis(total_ms),
    }
}

async fn answer_of(kind: &str, answer: Vec<Act>, timeouts: Timeouts) -> (Answered, String) {
    let far_side = FarSide::answering(vec![answer]).await;
    let profile = json!({
        "name": "a", "kind": kind, "baseUrl": far_side.url, "apiKey": "sk-secret-0123456789",
        "models": { "pro": "m" },
    });
    let models = models(ModelsConfig { providers: profiles(json!([profile])), timeouts, ..config() }).await;
    ask_listening(&models, &user("hi")).await
}

/// The only provider gave `answer`: a transient failure whose message holds `expected`.
async fn check_transient(kind: &str, answer: Vec<Act>, expected: &str) {
    let (answered, heard) = answer_of(kind, answer, config().timeouts).await;
    let Err(ModelError::Transient { retry_after: None, message }) = &answered.outcome else {
        panic!("{kind}: {:?}", answered.outcome)
    };
    assert!(message.starts_with("a: ") && message.contains(expected), "{message}");
    assert!(heard.is_empty() || heard.ends_with("<restarted>"), "the preview is taken back: {heard}");
    let [call] = answered.calls.as_slice() else { panic!("{:?}", answered.calls) };
    let CallOutcome::Failed { error } = &call.outcome else { panic!("{call:?}") };
    assert_eq!(message, &format!("a: {error}"));
}

#[tokio::test]
async fn a_stream_without_its_end_is_cut_on_every_wire() {
    let anthropic = events(&[
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"half"}}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"}}"#,
    ]);
    let google = events(&[r#"{"candidates":[{"content":{"parts":[{"text":"half"}]}}]}"#]);
    check_transient("openai", send(&events(&[&openai_text("half")])), "cut off").await;
    check_transient("anthropic", send(&anthropic), "cut off").await;
    check_transient("google", send(&google), "cut off").await;
}

#[tokio::test]
async fn a_broken_connection_is_a_cut_wherever_it_breaks() {
    let begin = events(&[&openai_text("half")]);
    let reset = [send(&begin), vec![Act::Reset]].concat();
    check_transient("openai", reset, "").await;
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n40\r\ndata: {\"choi";
    check_transient("openai", send(chunked), "the connection broke").await;
    check_transient("openai", vec![Act::Reset], "could not reach the provider").await;
    check_transient("openai", send(""), "could not reach the provider").await;
    check_transient("openai", send("SSH-2.0-OpenSSH\r\n"), "could not reach the provider").await;
}

#[tokio::test]
async fn a_server_that_does_not_speak_tls_cannot_be_reached_by_https() {
    let far_side = FarSide::saying(openai("never")).await;
    let url = far_side.url.replace("http:", "https:");
    let models = models(ModelsConfig { providers: openai_at(&[&url]), ..config() }).await;
    let (answered, _) = ask_listening(&models, &user("hi")).await;
    let Err(ModelError::Transient { retry_after: None, message }) = answered.outcome else {
        panic!("{answered:?}")
    };
    assert!(message.starts_with("a: could not reach the provider"), "{message}");
}

#[tokio::test]
async fn a_tool_call_that_is_cut_is_never_returned() {
    let start = r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"x__y","arguments":"{\"a\""}}]}}]}"#;
    check_transient("openai", send(&events(&[start])), "cut off").await;
    check_transient("openai", send(&events(&[start, "[DONE]"])), "a tool call has no end").await;
    let half_event = events(&[start]).trim_end().trim_end_matches("\"}}]}}]}").to_owned();
    check_transient("openai", send(&half_event), "not JSON").await;
}

#[tokio::test]
async fn half_a_character_at_the_end_is_a_cut() {
    let mut bytes = events(&[&openai_text("half")]).into_bytes();
    bytes.extend_from_slice(b"data: {\"choices\":[{\"delta\":{\"content\":\"\xe2\x82");
    check_transient("openai", vec![Act::Send(bytes)], "UTF-8").await;
}

#[tokio::test]
async fn garbage_is_malformed_on_every_wire() {
    for kind in ["openai", "anthropic", "google"] {
        check_transient(kind, send(&events(&["{not json"])), "malformed").await;
        check_transient(kind, send(&response("200 OK", "application/json", "", "{not json")), "malformed")
            .await;
        check_transient(kind, send(&response("200 OK", "text/html", "", "<html>busy</html>")), "cut off")
            .await;
    }
}

#[tokio::test]
async fn an_empty_answer_is_an_error_worth_a_retry() {
    let null = r#"{"choices":[{"message":{"content":null},"finish_reason":"stop"}]}"#;
    check_transient("openai", send(&response("200 OK", "application/json", "", null)), "empty").await;
    check_transient("openai", send(&events(&[OPENAI_STOP, "[DONE]"])), "empty").await;
    check_transient("anthropic", send(&events(&[r#"{"type":"message_stop"}"#])), "empty").await;
    check_transient("google", send(&events(&[r#"{"candidates":[{"finishReason":"STOP"}]}"#])), "empty").await;
}

#[tokio::test]
async fn an_error_inside_a_stream_is_what_it_says() {
    let overloaded = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    check_transient("anthropic", send(&events(&[overloaded])), "server error (500): Overloaded").await;
    let limited = r#"{"error":{"message":"slow down","code":429}}"#;
    check_transient("openai", send(&events(&[&openai_text("a"), limited])), "rate limited (429): slow down")
        .await;
    let bad = r#"{"error":{"code":400,"status":"INVALID_ARGUMENT","message":"too long"}}"#;
    let (answered, _) = answer_of("google", send(&events(&[bad])), config().timeouts).await;
    assert!(matches!(answered.outcome, Err(ModelError::Permanent { .. })), "{answered:?}");
}

#[tokio::test]
async fn a_refusal_is_permanent() {
    let safety = r#"{"candidates":[{"finishReason":"SAFETY"}]}"#;
    let blocked = r#"{"promptFeedback":{"blockReason":"SAFETY"}}"#;
    for event in [safety, blocked] {
        let (answered, _) = answer_of("google", send(&events(&[event])), config().timeouts).await;
        let Err(ModelError::Permanent { message }) = answered.outcome else { panic!("{answered:?}") };
        assert!(message.contains("filter"), "{message}");
    }
}

#[tokio::test]
async fn a_provider_that_hangs_is_left_after_the_idle_time() {
    let begin = send(&events(&[&openai_text("half")]));
    for answer in [vec![Act::Hang], [begin, vec![Act::Hang]].concat()] {
        let (answered, _) = answer_of("openai", answer, impatient(150, 60_000)).await;
        let Err(ModelError::Transient { message, .. }) = answered.outcome else { panic!("{answered:?}") };
        assert_eq!(message, "a: silent for 150 ms");
    }
}

#[tokio::test]
async fn a_provider_that_drips_is_left_after_the_total_time() {
    let drip =
        Act::Drip(events(&[&openai_text(&"slow ".repeat(1_000))]).into_bytes(), Duration::from_millis(5));
    let (answered, _) = answer_of("openai", vec![drip], impatient(2_000, 300)).await;
    let Err(ModelError::Transient { message, .. }) = answered.outcome else { panic!("{answered:?}") };
    assert_eq!(message, "a: not done after 300 ms");
}

#[tokio::test]
async fn signs_of_life_count_against_the_idle_time() {
    let keep_alive = Act::Drip(b":\n".repeat(40), Duration::from_millis(10));
    let head = send(&response("200 OK", "text/event-stream", "", ""));
    let rest = openai("late").split_once("\r\n\r\n").unwrap().1.to_owned();
    let answer = [head, vec![keep_alive], send(&rest)].concat();
    let (answered, _) = answer_of("openai", answer, impatient(400, 60_000)).await;
    assert_eq!(text(&answered), "late");
}

#[tokio::test]
async fn a_whole_answer_survives_a_connection_that_breaks_or_hangs_after_it() {
    let whole = send(&events(&[&openai_text("whole"), OPENAI_STOP]));
    for after in [Act::Reset, Act::Hang, Act::Send(b"data: {garb\n\n".to_vec())] {
        let answer = [whole.clone(), vec![after.clone()]].concat();
        let (answered, _) = answer_of("openai", answer, impatient(300, 60_000)).await;
        // A reset may overtake the bytes before it; then it is a cut like any other.
        if !matches!(after, Act::Reset) || answered.outcome.is_ok() {
            assert_eq!(text(&answered), "whole", "{after:?}");
        }
    }
}

#[tokio::test]
async fn what_a_failed_call_had_counted_is_recorded() {
    let started = r#"{"type":"message_start","message":{"usage":{"input_tokens":40,"output_tokens":1}}}"#;
    let (answered, _) = answer_of("anthropic", send(&events(&[started])), config().timeouts).await;
    assert!(answered.outcome.is_err());
    assert_eq!(answered.calls[0].usage, TokenUsage { input: 40, output: 1, cached: 0 });
}

#[tokio::test]
async fn neither_the_key_nor_the_address_is_in_an_error() {
    let said = "Incorrect API key provided: sk-secret-0123456789. See https://host/?key=sk-secret-0123456789";
    for status in ["400 Bad Request", "401 Unauthorized", "500 Internal Server Error"] {
        let (answered, _) = answer_of("openai", send(&error(status, "", said)), config().timeouts).await;
        let shown = format!("{answered:?} {}", answered.outcome.as_ref().unwrap_err());
        assert!(shown.contains("Incorrect API key provided: ***"), "{shown}");
        assert!(!shown.contains("secret") && !shown.contains("://"), "{shown}");
    }
    let in_stream = r#"{"error":{"message":"Incorrect API key provided: sk-secret-0123456789"}}"#;
    let (answered, _) = answer_of("openai", send(&events(&[in_stream])), config().timeouts).await;
    let shown = format!("{answered:?}");
    assert!(shown.contains("Incorrect API key provided: ***") && !shown.contains("secret"), "{shown}");
    // Nothing listens on port 1, and the address carries a password.
    let models =
        models(ModelsConfig { providers: openai_at(&["http://me:hunter2@127.0.0.1:1"]), ..config() }).await;
    let (answered, _) = ask_listening(&models, &user("hi")).await;
    let shown = format!("{answered:?}");
    assert!(shown.contains("could not reach the provider"), "{shown}");
    assert!(!shown.contains("hunter2") && !shown.contains("127.0.0.1"), "{shown}");
}
