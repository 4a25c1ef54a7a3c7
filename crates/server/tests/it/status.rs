//! `/api/v2/status`: the running server, for its owner; and what is asked where nothing is.

use crate::sample::event;
use cortex_testkit::ServerSetup;
use serde_json::json;

#[tokio::test]
async fn the_status_shows_process_models_and_queues() {
    let server = ServerSetup::echoing().start().await;
    server.answered(&event("1")).await;
    let status = server.get("/api/v2/status").await.json();
    let expected = json!({
        "pid": std::process::id(), "version": env!("CARGO_PKG_VERSION"), "uptimeMs": status["uptimeMs"],
        "address": server.address().to_string(),
        "models": [{ "name": "scripted", "kind": "scripted", "model": "scripted" }],
        "inbox": { "pending": 0, "processing": 0, "waiting": 0, "done": 1, "failed": 0 },
        "outbox": { "pending": 1, "leased": 0, "delivered": 0, "dead": 0, "suppressed": 0, "discarded": 0 },
        "storage": {
            "queuedEvents": 0, "queuedEventsMax": null,
            "databaseBytes": status["storage"]["databaseBytes"], "databaseBytesMax": null,
            "strangersBytes": 0, "strangersBytesMax": null,
        },
        "watchdog": { "stranded": 0, "requeued": 0, "failed": 0 },
        "degraded": null,
    });
    assert_eq!(status, expected);
    assert!(status["uptimeMs"].is_u64(), "{status}");
    assert!(status["storage"]["databaseBytes"].as_u64() > Some(4_096), "{status}");
}

#[tokio::test]
async fn a_path_that_is_not_there_is_404_and_a_wrong_method_405() {
    let server = ServerSetup::echoing().start().await;
    for path in ["/", "/ingest/", "/api", "/api/v2", "/api/v2/inbox/a/b", "/outbox", "/%00", "//ingest"] {
        assert_eq!(server.get(path).await.seen(), (404, json!({ "error": "not_found" })), "{path}");
    }
    for (method, path) in [
        ("GET", "/ingest"),
        ("PUT", "/ingest"),
        ("DELETE", "/outbox/poll"),
        ("POST", "/api/v2/inbox"),
        ("GET", "/api/v2/outbox/out_01J00000000000000000000000/retry"),
        ("POST", "/health"),
    ] {
        let answer = server.request(method, path).send().await;
        assert_eq!(answer.seen(), (405, json!({ "error": "method_not_allowed" })), "{method} {path}");
    }
}

#[tokio::test]
async fn an_id_that_is_no_text_is_a_coded_refusal() {
    let server = ServerSetup::echoing().start().await;
    for path in ["/api/v2/inbox/%ff", "/api/v2/outbox/%ff%fe", "/api/v2/events/%80/trace"] {
        let (status, body) = server.get(path).await.seen();
        assert_eq!((status, &body["error"]), (404, &json!("not_found")), "{path}");
    }
}
