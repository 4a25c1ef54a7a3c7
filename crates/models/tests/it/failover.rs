//! Which provider is asked next, and when none is.

use crate::far_side::{Act, FarSide, error, events, one_connection_saying, openai, openai_text};
use crate::setup::{START, ask, ask_listening, config, models, models_with_clock, openai_at, text, user};
use cortex_models::{Answered, ModelError, Models, ModelsConfig};
use cortex_types::{CallOutcome, ManualClock};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

async fn two(first: String, second: String) -> (FarSide, FarSide, Models) {
    let (first, second) = (FarSide::saying(first).await, FarSide::saying(second).await);
    let models = models(ModelsConfig { providers: openai_at(&[&first.url, &second.url]), ..config() }).await;
    (first, second, models)
}

fn limited(extra: &str) -> String {
    error("429 Too Many Requests", extra, "slow down")
}

fn asked(answered: &Answered) -> Vec<&str> {
    answered.calls.iter().map(|call| call.profile.as_str()).collect()
}

#[tokio::test]
async fn the_next_provider_is_asked_when_the_first_cannot_answer() {
    let half = events(&[&openai_text("half")]);
    for failing in [
        limited("retry-after: 7\r\n"),
        limited(""),
        error("500 Internal Server Error", "", "oops"),
        error("503 Service Unavailable", "", "busy"),
        error("529 Overloaded", "", "busy"),
        error("408 Request Timeout", "", "slow"),
        error("401 Unauthorized", "", "who?"),
        error("403 Forbidden", "", "no"),
        half,
        events(&["{garbage"]),
        String::new(),
    ] {
        let (_first, _second, models) = two(failing.clone(), openai("second")).await;
        let answered = ask(&models, "hi").await;
        assert_eq!(text(&answered), "second", "{failing}");
        assert_eq!(asked(&answered), ["a", "b"]);
        assert!(matches!(answered.calls[0].outcome, CallOutcome::Failed { .. }));
        assert_eq!(answered.calls[1].outcome, CallOutcome::Answered);
        assert_eq!(answered.answering_call(), answered.calls.last());
    }
}

#[tokio::test]
async fn another_4xx_is_the_fault_of_the_question_and_ends_it() {
    for status in
        ["400 Bad Request", "404 Not Found", "413 Payload Too Large", "422 Unprocessable", "302 Found"]
    {
        let (_first, second, models) = two(error(status, "location: /x\r\n", "bad"), openai("second")).await;
        let answered = ask(&models, "hi").await;
        let Err(ModelError::Permanent { message }) = &answered.outcome else {
            panic!("{status}: {answered:?}")
        };
        assert_eq!(message, &format!("a: the request was rejected ({}): bad", &status[..3]));
        assert_eq!(second.calls(), 0, "{status}");
    }
}

#[tokio::test]
async fn a_bad_google_key_is_an_auth_error_although_it_is_a_400() {
    let body = r#"{"error":{"code":400,"message":"API key not valid.","status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}"#;
    let bad =
        FarSide::saying(crate::far_side::response("400 Bad Request", "application/json", "", body)).await;
    let good = FarSide::saying(openai("second")).await;
    let profiles = crate::setup::profiles(serde_json::json!([
        { "name": "g", "kind": "google", "baseUrl": bad.url, "apiKey": "k" },
        { "name": "b", "kind": "openai", "baseUrl": good.url, "models": { "pro": "m" } },
    ]));
    let answered = ask(&models(ModelsConfig { providers: profiles, ..config() }).await, "hi").await;
    assert_eq!(text(&answered), "second");
}

#[tokio::test]
async fn a_preview_starts_over_with_the_next_provider() {
    let (_first, _second, models) = two(events(&[&openai_text("wrong")]), openai("right")).await;
    let (answered, heard) = ask_listening(&models, &user("hi")).await;
    assert_eq!(text(&answered), "right");
    assert_eq!(heard, "wrong|<restarted>|right");
}

#[tokio::test]
async fn a_provider_that_asked_for_time_stands_behind_the_others_until_then() {
    let clock = Arc::new(ManualClock::starting_at(START));
    let first = FarSide::answering(vec![
        vec![Act::Send(limited("retry-after: 20\r\n").into_bytes())],
        vec![Act::Send(openai("first").into_bytes())],
    ])
    .await;
    let second = FarSide::saying(openai("second")).await;
    let config = ModelsConfig { providers: openai_at(&[&first.url, &second.url]), ..config() };
    let models = models_with_clock(config, &clock).await;

    assert_eq!(asked(&ask(&models, "hi").await), ["a", "b"]);
    clock.advance_ms(19_999);
    assert_eq!(asked(&ask(&models, "hi").await), ["b"]);
    clock.advance_ms(1);
    assert_eq!(asked(&ask(&models, "hi").await), ["a"]);
}

#[tokio::test]
async fn cooling_down_never_delays_a_call_when_no_other_provider_is_left() {
    let clock = Arc::new(ManualClock::starting_at(START));
    let far_side = FarSide::answering(vec![
        vec![Act::Send(limited("retry-after: 600\r\n").into_bytes())],
        vec![Act::Send(openai("again").into_bytes())],
    ])
    .await;
    let models =
        models_with_clock(ModelsConfig { providers: openai_at(&[&far_side.url]), ..config() }, &clock).await;
    assert!(ask(&models, "hi").await.outcome.is_err());
    assert_eq!(text(&ask(&models, "hi").await), "again");
}

#[tokio::test]
async fn when_all_failed_the_error_says_when_the_first_of_them_may_be_back() {
    let at = (START.after(Duration::from_secs(90))).0;
    let date =
        jiff::Timestamp::from_millisecond(at).unwrap().strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
    let busy = error("503 Service Unavailable", &format!("retry-after: {date}\r\n"), "busy");
    let refused = || error("401 Unauthorized", "", "who?");
    for (first, second, expected) in [
        (limited("retry-after: 120\r\n"), busy.clone(), Some(Some(90))),
        (limited("retry-after: 30\r\n"), refused(), Some(Some(30))),
        (limited("retry-after: 30\r\n"), limited(""), Some(None)),
        (limited("retry-after: 30\r\n"), error("400 Bad Request", "", "bad"), Some(Some(30))),
        (refused(), refused(), None),
    ] {
        let (_first, _second, models) = two(first, second).await;
        let answered = ask(&models, "hi").await;
        match answered.outcome.unwrap_err() {
            ModelError::Transient { retry_after, message } => {
                assert_eq!(Some(retry_after.map(|wait| wait.as_secs())), expected, "{message}");
                assert!(message.contains("a: ") && message.contains("; b: "), "{message}");
            }
            ModelError::Permanent { message } => assert_eq!(expected, None, "{message}"),
            ModelError::Cancelled => panic!("nobody cancelled"),
        }
    }
}

#[tokio::test]
async fn the_offline_model_never_stands_in_for_a_configured_one() {
    let far_side = FarSide::saying(error("500 Internal Server Error", "", "oops")).await;
    let models = models(ModelsConfig { providers: openai_at(&[&far_side.url]), ..config() }).await;
    let answered = ask(&models, "hello").await;
    assert!(matches!(answered.outcome, Err(ModelError::Transient { .. })), "{answered:?}");
    assert_eq!(answered.calls.len(), 1);
}

#[tokio::test]
async fn a_cancelled_call_ends_at_once_and_asks_nobody_else() {
    let far_side =
        FarSide::answering(vec![vec![Act::Send(events(&[&openai_text("half")]).into_bytes()), Act::Hang]])
            .await;
    let models =
        models(ModelsConfig { providers: openai_at(&[&far_side.url, &far_side.url]), ..config() }).await;
    let cancel = CancellationToken::new();
    let cancel_at_first_word = |_| cancel.cancel();
    let answered = models.answer(&user("hi"), &cancel_at_first_word, &cancel).await;
    assert_eq!(answered.outcome, Err(ModelError::Cancelled));
    assert_eq!(asked(&answered), ["a"]);
    assert_eq!(far_side.calls(), 1);
}

#[tokio::test]
async fn the_next_call_uses_the_connection_of_the_last_one() {
    let body = openai("again").split_once("\r\n\r\n").unwrap().1.to_owned();
    let chunked = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
        body.len()
    );
    let (url, _serving) = one_connection_saying(chunked).await;
    let models = models(ModelsConfig { providers: openai_at(&[&url]), ..config() }).await;
    for _ in 0..3 {
        assert_eq!(text(&ask(&models, "hi").await), "again");
    }
}
