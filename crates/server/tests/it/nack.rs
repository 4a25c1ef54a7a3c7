//! `POST /outbox/nack`: a failed delivery comes back later, or never (D3).

use crate::sample::event;
use cortex_testkit::{FrozenTime, RunningTestServer, ServerSetup};
use serde_json::{Value, json};
use std::time::Duration;

const QUARTER_HOUR: Duration = Duration::from_secs(15 * 60);

async fn start(time: &FrozenTime) -> RunningTestServer {
    let server = ServerSetup::echoing().at(time).start().await;
    server.answered(&event("1")).await;
    server
}

/// Leases the one message; gives the body of a nack for it.
async fn lease(server: &RunningTestServer) -> Value {
    let message = server.poll(&json!({ "source": "telegram", "leaseSeconds": 10 })).await.remove(0);
    json!({ "messageId": message["messageId"], "leaseToken": message["leaseToken"] })
}

async fn row(server: &RunningTestServer, lease: &Value) -> Value {
    server.get(&format!("/api/v2/outbox/{}", lease["messageId"].as_str().unwrap())).await.json()
}

fn pending() -> (u16, Value) {
    (200, json!({ "ok": true, "status": "pending" }))
}

/// Milliseconds until the message is due again.
fn wait_of(row: &Value, time: &FrozenTime) -> i64 {
    let due: cortex_api::WireTime = serde_json::from_value(row["nextAttemptAt"].clone()).unwrap();
    due.0.0 - time.now().0
}

#[tokio::test(start_paused = true)]
async fn a_nack_makes_the_message_pending_with_its_error_and_no_lease() {
    let time = FrozenTime::hold();
    let server = start(&time).await;
    let mut nack = lease(&server).await;
    nack["error"] = json!("chat not found");
    assert_eq!(server.post("/outbox/nack", &nack).await.seen(), pending());
    let row = row(&server, &nack).await;
    assert_eq!((&row["status"], &row["lastError"]), (&json!("pending"), &json!("chat not found")));
    assert_eq!((&row["leaseExpiresAt"], &row["attempts"]), (&Value::Null, &json!(1)));
    assert_eq!(server.post("/outbox/ack", &nack).await.status, 409, "the lease is gone");
}

#[tokio::test(start_paused = true)]
async fn each_nack_doubles_the_wait_up_to_a_quarter_of_an_hour() {
    let time = FrozenTime::hold();
    let server = start(&time).await;
    for attempt in 1..=10u32 {
        let nack = lease(&server).await;
        assert_eq!(server.post("/outbox/nack", &nack).await.seen(), pending(), "attempt {attempt}");
        let wait = wait_of(&row(&server, &nack).await, &time);
        let middle = (5_000 << (attempt - 1)).min(900_000);
        assert!((middle * 8 / 10..=middle * 12 / 10).contains(&wait), "attempt {attempt} waits {wait} ms");
        time.advance(Duration::from_millis(u64::try_from(wait).unwrap() - 1)).await;
        assert_eq!(server.poll(&json!({ "source": "telegram" })).await.len(), 0, "not a millisecond early");
        time.advance(Duration::from_millis(1)).await;
    }
    assert_eq!(server.poll(&json!({ "source": "telegram" })).await.len(), 0, "ten claims were all");
    let dead = server.get("/api/v2/outbox/dead").await.json()["items"][0].clone();
    assert_eq!((&dead["status"], &dead["attempts"]), (&json!("dead"), &json!(11)));
}

#[tokio::test(start_paused = true)]
async fn a_longer_wish_of_the_far_side_wins_over_the_backoff() {
    let time = FrozenTime::hold();
    let server = start(&time).await;
    for (wish, at_least, at_most) in [(3_600, 3_600_000, 3_600_000), (0, 8_000, 12_000)] {
        let mut nack = lease(&server).await;
        nack["retryAfterSeconds"] = json!(wish);
        assert_eq!(server.post("/outbox/nack", &nack).await.seen(), pending());
        let wait = wait_of(&row(&server, &nack).await, &time);
        assert!((at_least..=at_most).contains(&wait), "{wish} s gave {wait} ms");
        time.advance(QUARTER_HOUR * 5).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_permanent_nack_is_dead_at_once() {
    let time = FrozenTime::hold();
    let server = start(&time).await;
    let mut nack = lease(&server).await;
    nack["permanent"] = json!(true);
    nack["error"] = json!("the bot was blocked");
    let answer = server.post("/outbox/nack", &nack).await;
    assert_eq!(answer.seen(), (200, json!({ "ok": true, "status": "dead" })));
    let row = row(&server, &nack).await;
    assert_eq!((&row["status"], &row["lastError"]), (&json!("dead"), &json!("the bot was blocked")));
    time.advance(QUARTER_HOUR).await;
    assert_eq!(server.poll(&json!({ "source": "telegram" })).await.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_nack_needs_the_lease_like_an_ack_does() {
    let time = FrozenTime::hold();
    let server = start(&time).await;
    let conflict = (409, json!({ "error": "lease_conflict" }));
    let good = lease(&server).await;
    let foreign = json!({ "messageId": good["messageId"], "leaseToken": "lease_01J00000000000000000000000" });
    assert_eq!(server.post("/outbox/nack", &foreign).await.seen(), conflict);
    time.advance(Duration::from_secs(10)).await;
    assert_eq!(server.post("/outbox/nack", &good).await.seen(), conflict, "the lease has ended");
    let good = lease(&server).await;
    assert_eq!(server.post("/outbox/nack", &good).await.seen(), pending());
    assert_eq!(server.post("/outbox/nack", &good).await.seen(), conflict, "it was given back");
    let unknown = json!({ "messageId": "out_01J00000000000000000000000", "leaseToken": "lease_01J00000000000000000000000" });
    assert_eq!(server.post("/outbox/nack", &unknown).await.seen(), (404, json!({ "error": "not_found" })));
}

#[tokio::test(start_paused = true)]
async fn bad_fields_of_a_nack_are_listed_and_change_nothing() {
    let time = FrozenTime::hold();
    let server = start(&time).await;
    let good = lease(&server).await;
    let mut bad = json!({ "retryAfterSeconds": -1, "permanent": "yes" });
    let details = json!([
        "messageId is required",
        "leaseToken is required",
        "retryAfterSeconds must be between 0 and 86400",
        "permanent must be true or false",
    ]);
    let refusal = (400, json!({ "error": "invalid_request", "details": details }));
    assert_eq!(server.post("/outbox/nack", &bad).await.seen(), refusal);
    bad["messageId"] = good["messageId"].clone();
    bad["leaseToken"] = good["leaseToken"].clone();
    assert_eq!(server.post("/outbox/nack", &bad).await.status, 400);
    assert_eq!(row(&server, &good).await["status"], "leased");
}

#[tokio::test(start_paused = true)]
async fn an_error_text_of_any_kind_is_kept_short() {
    let time = FrozenTime::hold();
    let server = start(&time).await;
    let mut nack = lease(&server).await;
    nack["error"] = json!("ü\0".repeat(100_000));
    assert_eq!(server.post("/outbox/nack", &nack).await.seen(), pending());
    let kept = row(&server, &nack).await["lastError"].as_str().unwrap().to_owned();
    assert_eq!((kept.chars().count(), kept.contains('\0')), (1_000, false));
    time.advance(QUARTER_HOUR).await;
    let mut nack = lease(&server).await;
    nack["error"] = json!({ "code": 403 });
    assert_eq!(server.post("/outbox/nack", &nack).await.seen(), pending());
    assert_eq!(row(&server, &nack).await["lastError"], "{\"code\":403}");
}
