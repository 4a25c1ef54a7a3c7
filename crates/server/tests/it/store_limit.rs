//! Limits on what waits and on what the database holds: each door says which, and how a person gets out.

use crate::sample::{event, with};
use cortex_store::StoreLimits;
use cortex_testkit::{ForeignClients, OWNER_KEY, ServerSetup, TestConnector, said_over};
use serde_json::json;
use std::path::Path;

const MIB: u64 = 1024 * 1024;

#[tokio::test]
async fn a_full_queue_is_503_at_every_door_but_for_the_owner_and_what_makes_room() {
    let limits = StoreLimits { queued_events_max: 2, ..StoreLimits::none() };
    let server = ServerSetup::never_answering().store_limits(limits).start().await;
    let mut socket = TestConnector::connect(&server, "").await;
    let first = server.accept(&event("1")).await;
    server.accept(&with(event("2"), "source", json!("slack"))).await;

    let words = "2 events wait to be answered, and maxQueuedEvents allows no more: wait until some are answered, or \
                 raise maxQueuedEvents and restart";
    let refused = server.post("/ingest", &event("3")).await;
    let body = json!({ "error": "queue_full", "details": [words], "retryAfterMs": 5_000 });
    assert_eq!(refused.seen(), (503, body));
    assert_eq!(refused.header("retry-after"), Some("5"));
    socket.send(&said_over("matrix", "room", "m1", "hello")).await;
    let heard = socket.event().await;
    assert_eq!((&heard["data"]["code"], &heard["data"]["message"]), (&json!("queue_full"), &json!(words)));
    let again = (&heard["data"]["retryable"], &heard["data"]["retryAfterSeconds"]);
    assert_eq!(again, (&json!(true), &json!(5)), "as /ingest says it");
    let again = server.post("/ingest", &event("1")).await;
    assert_eq!(again.seen(), (200, json!({ "eventId": first, "status": "duplicate_ignored" })));
    let own = with(event("own"), "source", json!("cli"));
    assert_eq!(server.post("/ingest", &own).await.status, 202, "the owner's own message has a reserve");
    assert_eq!(server.post("/outbox/poll", &json!({ "source": "telegram" })).await.status, 200);
    assert_eq!(server.get("/api/v2/approvals").await.status, 200);

    for (path, code) in [("/health", 503), ("/readyz", 200)] {
        let word = server.request("GET", path).without_key().send().await;
        assert_eq!(word.seen(), (code, json!({ "status": "full" })), "{path}");
    }
    let status = server.get("/api/v2/status").await.json();
    assert_eq!(status["degraded"], json!(words));
    assert_eq!(status["storage"]["queuedEventsMax"], json!(2));
    let metrics = server.get("/metrics").await.text();
    for line in ["cortex_store_full 1", "cortex_queued_events 3", "cortex_queued_events_max 2"] {
        assert!(metrics.lines().any(|found| found == line), "no {line:?} in\n{metrics}");
    }
}

#[tokio::test]
async fn a_full_database_is_503_with_a_code_of_its_own() {
    let limits = StoreLimits { database_bytes_max: 1, ..StoreLimits::none() };
    let server = ServerSetup::echoing().store_limits(limits).start().await;
    let refused = server.post("/ingest", &event("1")).await;
    assert_eq!((refused.status, &refused.json()["error"]), (503, &json!("storage_full")));
    assert_eq!(refused.header("retry-after"), Some("60"));
    let detail = refused.json()["details"][0].as_str().unwrap().to_owned();
    assert!(detail.contains("raise maxDatabaseMiB"), "{detail}");
    let mut socket = TestConnector::connect(&server, "").await;
    socket.send(&said_over("matrix", "room", "m1", "hello")).await;
    let heard = socket.event().await["data"].clone();
    let again = (&heard["code"], &heard["retryable"], &heard["retryAfterSeconds"]);
    assert_eq!(again, (&json!("storage_full"), &json!(true), &json!(60)), "as /ingest says it");
    server.answered(&with(event("own"), "source", json!("cli"))).await;
    let asked = json!({ "model": "cortex", "messages": [{ "role": "user", "content": "hello" }] });
    let chat = server.post("/v1/chat/completions", &asked).await;
    assert_eq!(chat.status, 200, "the owner's programs have a reserve, too: {}", chat.text());
    let roomy = StoreLimits { database_bytes_max: 64 * MIB, ..StoreLimits::none() };
    ServerSetup::echoing().store_limits(roomy).start().await.answered(&event("1")).await;
}

#[tokio::test]
async fn the_examples_lose_no_line_to_a_full_queue() {
    for (language, name) in [(ForeignClients::Python, "connector.py"), (ForeignClients::Node, "connector.ts")]
    {
        let limits = StoreLimits { queued_events_max: 2, ..StoreLimits::none() };
        let server = ServerSetup::echoing().store_limits(limits).start().await;
        let file = server.home().join("messages.jsonl");
        let line = |number| format!("{{\"id\": \"{number}\", \"text\": \"line {number}\"}}\n");
        std::fs::write(&file, (0..3).map(line).collect::<String>()).unwrap();
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name);
        let Some(mut command) = language.command(&example).unwrap() else { continue };
        let url = format!("http://{}", server.address());
        let output = command.env("CORTEX_URL", url).env("CORTEX_KEY", OWNER_KEY).arg(&file).output();
        let output = output.await.unwrap();
        let refused = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && refused.contains("maxQueuedEvents"), "{name}: {output:?}");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut said: Vec<&str> = said.lines().collect();
        said.sort_unstable();
        let all: Vec<String> = (0..3).map(|number| format!("main: You said: line {number}")).collect();
        assert_eq!(said, all, "{name}");
    }
}
