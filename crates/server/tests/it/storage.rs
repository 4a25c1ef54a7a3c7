//! A database that another process holds: refused with a code, nothing half kept, and well again by itself (F-I8).

use crate::sample::event;
use cortex_testkit::{ServerSetup, eventually};
use rusqlite::Connection;
use serde_json::json;

#[tokio::test]
async fn a_locked_database_is_503_until_it_is_free_and_then_events_are_accepted_without_a_restart() {
    let server = ServerSetup::echoing().start().await;
    server.answered(&event("before")).await;
    let foreign = Connection::open(server.database()).unwrap();
    foreign.execute_batch("BEGIN IMMEDIATE").unwrap();

    let answer = server.post("/ingest", &event("locked")).await;
    let refusal = json!({ "error": "storage_unavailable", "retryAfterMs": 1_000 });
    assert_eq!(answer.seen(), (503, refusal));
    assert_eq!(answer.header("retry-after"), Some("1"));
    for (path, status, word) in
        [("/health", 503, "degraded"), ("/readyz", 503, "degraded"), ("/healthz", 200, "healthy")]
    {
        let answer = server.request("GET", path).without_key().send().await;
        assert_eq!(answer.seen(), (status, json!({ "status": word })), "{path}");
    }
    let reason = server.get("/api/v2/status").await.json()["degraded"].clone();
    assert!(reason.as_str().unwrap().contains("locked"), "{reason}");
    assert_eq!(server.get("/api/v2/inbox").await.json()["items"].as_array().unwrap().len(), 1);

    foreign.execute_batch("ROLLBACK").unwrap();
    eventually("the server to be well again", || async {
        (server.get("/health").await.status == 200).then_some(())
    })
    .await;
    server.answered(&event("locked")).await;
    assert_eq!(server.get("/api/v2/status").await.json()["degraded"], json!(null));
}
