//! A damaged page of the database: every door says so, nothing is accepted, and it stays so (F-X1).

use crate::sample::{event, saying};
use cortex_api::LiveEvent;
use cortex_testkit::{
    RunningTestServer, ServerSetup, TestConnector, damage_event, damage_first_page, eventually, said_over,
};
use cortex_types::InboxStatus;
use futures::StreamExt;
use serde_json::{Value, json};

const WORDS: &str = "the database is damaged, so nothing new is accepted: run `cortex doctor` to see what is damaged, \
                     then restore a backup (docs/backup.md)";

/// Damages a table that a listing reads, after the log was folded in, and has that listing meet it.
async fn damaged(server: &RunningTestServer) -> u64 {
    let log = server.database().with_extension("db-wal");
    eventually("the log to be folded in", || {
        let bytes = std::fs::metadata(&log).map_or(0, |log| log.len());
        async move { (bytes == 0).then_some(()) }
    })
    .await;
    let page = damage_first_page(&server.database(), "ops");
    // A commit has every reader look at the file again.
    server.answered(&event("after")).await;
    eventually("a reader to meet the damage", || async {
        (server.get("/api/v2/ops").await.status == 503).then_some(())
    })
    .await;
    page
}

async fn word_of(server: &RunningTestServer, path: &str) -> (u16, Value) {
    server.request("GET", path).without_key().send().await.seen()
}

#[tokio::test]
async fn a_damaged_page_closes_every_door_that_accepts_and_stays() {
    let hooks = json!({ "ci": { "key": "hush-hush-hush-hush-hush-hush-hush", "text": "{{/text}}" } });
    let server = ServerSetup::echoing().hooks(hooks).start().await;
    let kept = server.answered(&event("before")).await;
    let mut socket = TestConnector::connect(&server, "").await;
    let page = damaged(&server).await;

    let refusal = json!({ "error": "storage_damaged", "details": [WORDS] });
    let ingested = server.post("/ingest", &event("refused")).await;
    assert_eq!(ingested.seen(), (503, refusal.clone()));
    assert_eq!(server.post("/outbox/poll", &json!({ "source": "telegram" })).await.seen(), (503, refusal));
    let asked = json!({ "model": "cortex", "messages": [{ "role": "user", "content": "hello" }] });
    let chat = server.post("/v1/chat/completions", &asked).await;
    assert_eq!((chat.status, &chat.json()["error"]["code"]), (503, &json!("storage_damaged")));
    socket.send(&said_over("matrix", "room", "m1", "hello")).await;
    let heard = socket.event().await;
    assert_eq!(heard["data"]["code"], "storage_damaged", "{heard}");
    let hooked = server
        .request("POST", "/hooks/ci")
        .without_key()
        .header("authorization", "Bearer hush-hush-hush-hush-hush-hush-hush")
        .json(&json!({ "text": "built" }))
        .send()
        .await;
    assert_eq!((hooked.status, &hooked.json()["error"]), (503, &json!("storage_damaged")));

    for path in ["/health", "/readyz"] {
        assert_eq!(word_of(&server, path).await, (503, json!({ "status": "damaged" })), "{path}");
    }
    assert_eq!(word_of(&server, "/healthz").await, (200, json!({ "status": "healthy" })));
    let trace = server.get(&format!("/api/v2/events/{kept}/trace")).await;
    assert_eq!(
        (trace.status, &trace.json()["event"]["status"]),
        (200, &json!("done")),
        "what can be read is read"
    );
    eventually("the place to be named", || async {
        let status = server.get("/api/v2/status").await.json();
        let place = format!("ops, page {page}");
        status["degraded"].as_str().is_some_and(|reason| reason.contains(&place)).then_some(())
    })
    .await;
    let metrics = server.get("/metrics").await.text();
    assert!(metrics.lines().any(|line| line == "cortex_store_damaged 1"), "{metrics}");
    assert_eq!(server.post("/ingest", &event("still refused")).await.status, 503);
    assert_eq!(word_of(&server, "/readyz").await.0, 503);
}

#[tokio::test]
async fn an_accepted_event_is_not_failed_by_damage() {
    let server = ServerSetup::never_answering().start().await;
    let id = server.accept(&event("waiting")).await;
    eventually("its turn to begin", || async {
        let trace = server.get(&format!("/api/v2/events/{id}/trace")).await.json();
        (trace["event"]["status"] == "processing").then_some(())
    })
    .await;
    let log = server.database().with_extension("db-wal");
    eventually("the log to be folded in", || {
        let bytes = std::fs::metadata(&log).map_or(0, |log| log.len());
        async move { (bytes == 0).then_some(()) }
    })
    .await;
    damage_first_page(&server.database(), "ops");
    server.post("/ingest", &event("second")).await;
    eventually("the damage to be met", || async {
        server.get("/api/v2/ops").await;
        (word_of(&server, "/health").await.0 == 503).then_some(())
    })
    .await;
    let trace = server.get(&format!("/api/v2/events/{id}/trace")).await.json();
    assert_eq!((&trace["event"]["status"], &trace["replies"]), (&json!("processing"), &json!([])));
}

#[tokio::test]
async fn whoever_waits_for_an_event_that_is_damaged_hears_its_end() {
    let script = json!({
        "answers": [{ "when": { "contains": "hold" }, "deltas": ["a", "b"], "delayMs": 3_000 }],
        "otherwise": { "say": "You said: {{user}}" },
    });
    let server = ServerSetup::scripted(script).flow(|flow| flow.max_parallel_topics = 1).start().await;
    server.accept(&saying("1", "hold")).await;
    let id = server.accept(&saying("2", "words that a disk forgets")).await;
    let mut live = server.client().live(&id.parse().unwrap()).await.unwrap();
    assert_eq!(damage_event(&server.database(), "words that a disk forgets"), 1);
    let heard = tokio::time::timeout(std::time::Duration::from_secs(60), live.next()).await;
    match heard.expect("its end is told").unwrap().unwrap() {
        LiveEvent::Done(done) => assert_eq!(done.status, InboxStatus::Failed),
        other @ (LiveEvent::Delta(_) | LiveEvent::Restart) => panic!("{other:?}"),
    }
}
