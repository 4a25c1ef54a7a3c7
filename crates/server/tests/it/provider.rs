//! Real wires behind the whole server: a third party's fake as Synapse, as Anthropic and as Gemini.

use crate::sample::{saying, with};
use cortex_api::LiveEvent;
use cortex_models::{FoundKey, FoundKeys, ModelsConfig, SynapseSetting};
use cortex_testkit::{
    Aimock, FrozenTime, RunningTestServer, ServerSetup, TestModels, eventually, offline_models,
};
use futures::StreamExt;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

const GREETING: &str = "Hello from the far side: grüße, 你好, 🌍!";

fn start() -> Option<Aimock> {
    let limited = json!({
        "error": { "message": "slow down", "type": "rate_limit_error" }, "status": 429, "retryAfter": 40,
    });
    let whole = json!({ "content": "Whole again." });
    // `sequenceIndex` makes the first question break and the next one go well.
    let once = |name: &str, broken: Value| {
        let mut first = json!({ "match": { "userMessage": name, "sequenceIndex": 0 } });
        first.as_object_mut().unwrap().extend(broken.as_object().unwrap().clone());
        [first, json!({ "match": { "userMessage": name }, "response": whole })]
    };
    let half = json!({ "content": "This is cut before its end, again and again." });
    // Slow enough to be watched.
    let greeting = json!({
        "match": { "userMessage": "hello" }, "response": { "content": GREETING }, "chunkSize": 8, "latency": 40,
    });
    let mut fixtures = vec![greeting];
    fixtures.extend(once("limited", json!({ "response": limited })));
    fixtures.extend(once("cut", json!({ "response": half, "truncateAfterChunks": 3 })));
    fixtures.extend(once("garbled", json!({ "response": half, "chaos": { "malformedRate": 1 } })));
    fixtures.extend(once("dropped", json!({ "response": half, "chaos": { "dropRate": 1 } })));
    fixtures.extend(once("gone", json!({ "response": half, "chaos": { "disconnectRate": 1 } })));
    Aimock::start(&Value::Array(fixtures)).unwrap()
}

/// Each wire, found the way a person would set it up.
#[derive(Debug, Clone, Copy)]
enum Wire {
    Synapse,
    Anthropic,
    Gemini,
}

const WIRES: [Wire; 3] = [Wire::Synapse, Wire::Anthropic, Wire::Gemini];

fn models(wire: Wire, url: &str) -> ModelsConfig {
    let found = Some(FoundKey { api_key: "test-key".into(), base_url: Some(url.to_owned()) });
    let offline = offline_models();
    match wire {
        Wire::Synapse => ModelsConfig { synapse_url: SynapseSetting::Explicit(url.to_owned()), ..offline },
        Wire::Anthropic => {
            ModelsConfig { found: FoundKeys { anthropic: found, ..FoundKeys::default() }, ..offline }
        }
        Wire::Gemini => {
            ModelsConfig { found: FoundKeys { gemini: found, ..FoundKeys::default() }, ..offline }
        }
    }
}

fn setup(wire: Wire, fake: &Aimock) -> ServerSetup {
    let url = fake.url().to_owned();
    ServerSetup::new(TestModels::Other(Arc::new(move || models(wire, &url))))
}

async fn delivered(server: &RunningTestServer) -> Vec<String> {
    let messages = server.poll(&json!({ "source": "telegram" })).await;
    messages.iter().map(|message| message["text"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_reply_streams_through_the_server_on_each_wire() {
    let Some(fake) = start() else { return };
    for wire in WIRES {
        let server = setup(wire, &fake).start().await;
        let id = server.accept(&saying("1", "hello")).await;
        let mut live = server.client().live(&id.parse().unwrap()).await.unwrap();
        let mut preview = String::new();
        let done = loop {
            match live.next().await.unwrap().unwrap() {
                LiveEvent::Delta(delta) => preview.push_str(&delta.text),
                LiveEvent::Restart => panic!("{wire:?} started over"),
                LiveEvent::Done(done) => break done,
            }
        };
        assert_eq!(done.text.as_deref(), Some(GREETING), "{wire:?}");
        assert_eq!(preview, GREETING, "{wire:?}");
        assert_eq!(delivered(&server).await, [GREETING], "{wire:?}");
        let usage = server.get("/api/v2/usage?by=provider").await.json();
        assert_eq!((&usage["total"]["calls"], &usage["total"]["failed"]), (&json!(1), &json!(0)), "{wire:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_broken_answer_is_asked_for_again_and_never_half_kept_on_each_wire() {
    for wire in WIRES {
        let Some(fake) = start() else { return };
        let time = FrozenTime::hold();
        let server = setup(wire, &fake).at(&time).start().await;
        for fault in ["cut", "garbled", "dropped", "gone"] {
            let id = server.accept(&with(saying(fault, fault), "topicKey", json!(fault))).await;
            let waiting = backs_off(&server, &id).await;
            assert_eq!(waiting["attempts"], 1, "{wire:?} {fault}: {waiting}");
            assert_eq!(delivered(&server).await, Vec::<String>::new(), "{wire:?} {fault}");
            time.advance(Duration::from_secs(6)).await;
            let row = server.ended(&id).await;
            assert_eq!(
                (&row["status"], &row["attempts"]),
                (&json!("done"), &json!(2)),
                "{wire:?} {fault}: {row}"
            );
            assert_eq!(delivered(&server).await, ["Whole again."], "{wire:?} {fault}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_rate_limit_is_waited_out_as_long_as_it_asks_on_each_wire() {
    for wire in WIRES {
        let Some(fake) = start() else { return };
        let time = FrozenTime::hold();
        let server = setup(wire, &fake).at(&time).start().await;
        let id = server.accept(&saying("1", "limited")).await;
        let waiting = backs_off(&server, &id).await;
        assert!(waiting["error"].as_str().unwrap().contains("rate limited (429)"), "{wire:?}: {waiting}");
        // Far beyond the backoff of a first attempt, and still too early.
        time.advance(Duration::from_millis(39_999)).await;
        let other = server.accept(&with(saying("2", "hello"), "topicKey", json!("other"))).await;
        server.ended(&other).await;
        let row = server.get(&format!("/api/v2/inbox/{id}")).await.json();
        assert_eq!((&row["status"], &row["attempts"]), (&json!("pending"), &json!(1)), "{wire:?}: {row}");
        time.advance(Duration::from_millis(1)).await;
        assert_eq!(server.ended(&id).await["attempts"], 2, "{wire:?}");
        assert_eq!(delivered(&server).await, [GREETING, "Whole again."], "{wire:?}");
    }
}

#[tokio::test]
async fn after_a_429_of_one_wire_the_next_one_answers_at_once() {
    let Some(fake) = start() else { return };
    let Some(limited) = Aimock::start(&json!([{
        "match": {},
        "response": { "error": { "message": "slow down", "type": "rate_limit_error" }, "status": 429, "retryAfter": 40 },
    }]))
    .unwrap() else {
        return;
    };
    let (limited_url, url) = (limited.url().to_owned(), fake.url().to_owned());
    let both = move || ModelsConfig {
        synapse_url: SynapseSetting::Explicit(limited_url.clone()),
        ..models(Wire::Gemini, &url)
    };
    let server = ServerSetup::new(TestModels::Other(Arc::new(both))).start().await;
    for number in ["1", "2"] {
        let id = server.accept(&saying(number, "hello")).await;
        assert_eq!(server.ended(&id).await["attempts"], 1);
    }
    assert_eq!(delivered(&server).await, [GREETING, GREETING]);
    let usage = server.get("/api/v2/usage?by=provider").await.json();
    let failed = usage["total"]["failed"].as_u64();
    assert_eq!(failed, Some(1), "the limited one is left alone as long as it asked: {usage}");
}

async fn backs_off(server: &RunningTestServer, id: &str) -> Value {
    eventually(format!("{id} to back off"), async || {
        let row = server.get(&format!("/api/v2/inbox/{id}")).await.json();
        (row["status"] == "pending" && !row["error"].is_null()).then_some(row)
    })
    .await
}
