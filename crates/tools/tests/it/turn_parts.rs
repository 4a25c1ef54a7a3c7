//! A whole server around tools, seen over its wire: one message in, one turn, what came of it.

use cortex_testkit::{RunningTestServer, eventually};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU64, Ordering};

/// Says something to the server and gives the event's id.
pub(crate) async fn say(server: &RunningTestServer, text: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    server
        .accept(&json!({
            "source": "test",
            "externalMessageId": number.to_string(),
            "idempotencyKey": number.to_string(),
            "topicKey": "a",
            "userId": "ada",
            "text": text,
            "occurredAt": "2026-02-15T20:30:00Z",
        }))
        .await
}

/// Approves the one question that is asked about the event.
pub(crate) async fn approve(server: &RunningTestServer, event: &str) {
    let id = eventually("a question", async || {
        let open = server.get("/api/v2/approvals").await.json();
        let asked = open["items"].as_array()?.iter().find(|row| row["eventId"] == event)?;
        asked["approvalId"].as_str().map(str::to_owned)
    })
    .await;
    let answer = server.post(&format!("/api/v2/approvals/{id}/approve"), &json!({})).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
}

pub(crate) async fn trace(server: &RunningTestServer, event: &str) -> Value {
    server.get(&format!("/api/v2/events/{event}/trace")).await.json()
}

/// The last thing that was said about the event, once its turn has ended.
pub(crate) async fn last_reply(server: &RunningTestServer, event: &str) -> String {
    server.ended(event).await;
    let trace = trace(server, event).await;
    trace["replies"].as_array().unwrap().last().unwrap()["text"].as_str().unwrap().to_owned()
}

/// The rows of `/api/v2/tools` whose names begin like this.
pub(crate) async fn offered(server: &RunningTestServer, start: &str) -> Vec<Value> {
    let tools = server.get("/api/v2/tools").await.json();
    let rows = tools["items"].as_array().unwrap().iter();
    rows.filter(|row| row["name"].as_str().unwrap().starts_with(start)).cloned().collect()
}

/// Waits until a tool is offered, or until it is not.
pub(crate) async fn until_offered(server: &RunningTestServer, name: &str, wanted: bool) {
    let what = if wanted { "to be offered" } else { "to be withdrawn" };
    eventually(format!("{name} {what}"), async || {
        let is_there = !offered(server, name).await.is_empty();
        (is_there == wanted).then_some(())
    })
    .await;
}
