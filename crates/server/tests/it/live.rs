//! `/api/v2/events/{id}/live`: the answer while it grows, as a preview that never shows too much.

use crate::sample::{event, saying};
use cortex_api::{LiveEvent, LiveStream};
use cortex_testkit::{FrozenTime, RunningTestServer, ServerSetup, pause};
use cortex_types::{ChannelMode, ChannelSetting};
use futures::StreamExt;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

const TICK: Duration = Duration::from_millis(20);

/// Streams these pieces a tick apart.
fn slowly(deltas: &[&str]) -> Value {
    json!({ "otherwise": { "deltas": deltas, "delayMs": 20 } })
}

async fn watch(server: &RunningTestServer, id: &str) -> LiveStream {
    server.client().live(&id.parse().unwrap()).await.unwrap()
}

fn shown(event: LiveEvent) -> String {
    match event {
        LiveEvent::Delta(delta) => delta.text,
        LiveEvent::Restart => "<restart>".to_owned(),
        LiveEvent::Done(done) => format!("<{}: {}>", done.status, done.text.unwrap_or_default()),
    }
}

/// What a watcher sees until the stream ends, while time goes on.
async fn watched(time: &FrozenTime, mut live: LiveStream) -> Vec<String> {
    let mut seen = Vec::new();
    loop {
        tokio::select! {
            biased;
            next = live.next() => match next {
                Some(event) => seen.push(shown(event.unwrap())),
                None => return seen,
            },
            () = pause(Duration::from_millis(2)) => time.advance(TICK).await,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn deltas_come_as_they_are_said_and_done_ends_the_stream() {
    let time = FrozenTime::hold();
    let server = ServerSetup::scripted(slowly(&["Hel", "lo ", "you"])).at(&time).start().await;
    let id = server.accept(&event("1")).await;
    let live = watch(&server, &id).await;
    assert_eq!(watched(&time, live).await, ["Hel", "lo", " you", "<done: Hello you>"]);
}

#[tokio::test(start_paused = true)]
async fn what_may_become_silence_is_never_shown() {
    let time = FrozenTime::hold();
    let server = ServerSetup::scripted(slowly(&["NO", "_REP", "LY"])).at(&time).start().await;
    let id = server.accept(&event("1")).await;
    let live = watch(&server, &id).await;
    assert_eq!(watched(&time, live).await, ["<done: >"]);
    assert_eq!(server.poll(&json!({ "source": "telegram" })).await.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_may_become_a_directive_is_held_back() {
    let time = FrozenTime::hold();
    let server = ServerSetup::scripted(slowly(&["Hi [", "[reply_to_current]]", " there"]));
    let server = server.at(&time).start().await;
    let id = server.accept(&event("1")).await;
    let live = watch(&server, &id).await;
    let seen = watched(&time, live).await;
    let (done, deltas) = seen.split_last().unwrap();
    assert_eq!((deltas, done.as_str()), (&["Hi".to_owned(), " there".to_owned()][..], "<done: Hi there>"));
}

#[tokio::test(start_paused = true)]
async fn a_cut_stream_takes_its_preview_back_and_the_whole_answer_follows() {
    let time = FrozenTime::hold();
    let script = json!({
        "answers": [{ "times": 1, "deltas": ["Half an ans"], "delayMs": 20, "then": "cut" }],
        "otherwise": { "deltas": ["A whole ", "answer."], "delayMs": 20 },
    });
    let server = ServerSetup::scripted(script).at(&time).start().await;
    let id = server.accept(&event("1")).await;
    let live = watch(&server, &id).await;
    let mut seen = watched(&time, live).await;
    seen.dedup();
    assert_eq!(seen, ["Half an ans", "<restart>", "A whole", " answer.", "<done: A whole answer.>"]);
    let messages = server.poll(&json!({ "source": "telegram" })).await;
    assert_eq!((messages.len(), &messages[0]["text"]), (1, &json!("A whole answer.")));
}

#[tokio::test(start_paused = true)]
async fn who_comes_late_gets_the_beginning_at_once() {
    let time = FrozenTime::hold();
    let server = ServerSetup::scripted(slowly(&["One ", "two ", "three"])).at(&time).start().await;
    let id = server.accept(&event("1")).await;
    let mut early = watch(&server, &id).await;
    for wanted in ["One", " two"] {
        let next = tokio::select! {
            biased;
            next = early.next() => next,
            () = async { loop { pause(Duration::from_millis(2)).await; time.advance(TICK).await } } => None,
        };
        assert_eq!(shown(next.unwrap().unwrap()), wanted);
    }
    let late = watch(&server, &id).await;
    assert_eq!(watched(&time, late).await, ["One two", " three", "<done: One two three>"]);
}

#[tokio::test(start_paused = true)]
async fn who_comes_after_the_end_gets_the_end() {
    let time = FrozenTime::hold();
    let server = ServerSetup::echoing().at(&time).start().await;
    let id = server.answered(&saying("1", "hello")).await;
    let live = watch(&server, &id).await;
    assert_eq!(watched(&time, live).await, ["<done: You said: hello>"]);
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_the_end_too_and_has_its_notice() {
    let time = FrozenTime::hold();
    let script = json!({ "otherwise": { "error": { "kind": "rejected" } } });
    let server = ServerSetup::scripted(script).at(&time).start().await;
    let id = server.accept(&event("1")).await;
    let live = watch(&server, &id).await;
    let notice = "I could not answer this message: scripted: the request was rejected (400): scripted";
    assert_eq!(watched(&time, live).await, [format!("<failed: {notice}>")]);
}

#[tokio::test]
async fn the_stream_is_server_sent_events_with_names() {
    let server = ServerSetup::echoing().start().await;
    let id = server.answered(&saying("1", "hello")).await;
    let answer = server.get(&format!("/api/v2/events/{id}/live")).await;
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("text/event-stream")));
    assert_eq!(answer.text(), "event: done\ndata: {\"status\":\"done\",\"text\":\"You said: hello\"}\n\n");
}

#[tokio::test]
async fn a_watcher_does_not_keep_the_server_from_stopping() {
    let mut server = ServerSetup::never_answering().start().await;
    let id = server.accept(&event("1")).await;
    let mut live = watch(&server, &id).await;
    server.stop().await;
    let rest = tokio::time::timeout(Duration::from_secs(10), async {
        while let Some(Ok(event)) = live.next().await {
            assert_eq!(event, LiveEvent::Restart, "only that the turn was parked");
        }
    });
    assert!(rest.await.is_ok(), "the stream ends with the server");
}

fn listed(channels: &[(&str, ChannelMode)]) -> BTreeMap<String, ChannelSetting> {
    let setting = |mode| ChannelSetting { mode, topic: Some("1".to_owned()) };
    channels.iter().map(|(name, mode)| ((*name).to_owned(), setting(*mode))).collect()
}

#[tokio::test(start_paused = true)]
async fn nothing_is_previewed_of_what_a_shadow_channel_would_have_said() {
    let time = FrozenTime::hold();
    let server = ServerSetup::scripted(slowly(&["Hel", "lo ", "you"])).at(&time);
    let server = server.flow(|flow| flow.channels.channels = listed(&[("telegram", ChannelMode::Shadow)]));
    let server = server.start().await;
    let id = server.accept(&event("1")).await;
    let live = watch(&server, &id).await;
    assert_eq!(watched(&time, live).await, ["<done: >"]);
}

#[tokio::test(start_paused = true)]
async fn words_for_another_channel_are_not_shown_here() {
    let time = FrozenTime::hold();
    let script = json!({
        "answers": [{ "when": { "equals": "both" }, "deltas": ["Soon [[send_to:phone]]", "[[reply_to_current]] home"] }],
        "otherwise": { "deltas": ["[[send_to:phone]] din", "ner"] },
    });
    let server = ServerSetup::scripted(script).at(&time);
    let server = server.flow(|flow| flow.channels.channels = listed(&[("phone", ChannelMode::Live)]));
    let server = server.start().await;
    for (number, text, done) in [("1", "tell them", "<done: >"), ("2", "both", "<done: Soon home>")] {
        let id = server.answered(&saying(number, text)).await;
        let live = watch(&server, &id).await;
        assert_eq!(watched(&time, live).await, [done]);
    }
}

#[tokio::test(start_paused = true)]
async fn words_before_a_tool_call_are_taken_back() {
    let time = FrozenTime::hold();
    let call = json!([{ "name": "session.history", "arguments": {} }]);
    let server = ServerSetup::scripted(json!({
        "answers": [{ "when": { "afterTool": "session.history" }, "say": "All is well.", "delayMs": 20 }],
        "otherwise": { "deltas": ["Let me see."], "toolCalls": call, "delayMs": 20 },
    }))
    .at(&time)
    .start()
    .await;
    let id = server.accept(&saying("1", "look")).await;
    let live = watch(&server, &id).await;
    let seen = ["Let me see.", "<restart>", "All is well.", "<done: All is well.>"];
    assert_eq!(watched(&time, live).await, seen);
}
