//! `POST /outbox/ack`: delivered once, and only by who holds the lease (D4).

use crate::sample::event;
use cortex_testkit::{FrozenTime, RunningTestServer, ServerSetup};
use serde_json::{Value, json};
use std::time::Duration;

const LEASE: Duration = Duration::from_secs(10);
const UNKNOWN: &str = "out_01J00000000000000000000000";

async fn leased(time: &FrozenTime) -> (RunningTestServer, Value) {
    let server = ServerSetup::echoing().at(time).start().await;
    server.answered(&event("1")).await;
    let lease = lease_again(&server).await;
    (server, lease)
}

/// The body of an ack for the one message.
async fn lease_again(server: &RunningTestServer) -> Value {
    let message = server.poll(&json!({ "source": "telegram", "leaseSeconds": 10 })).await.remove(0);
    json!({ "messageId": message["messageId"], "leaseToken": message["leaseToken"] })
}

fn conflict() -> (u16, Value) {
    (409, json!({ "error": "lease_conflict" }))
}

#[tokio::test(start_paused = true)]
async fn an_ack_delivers_and_the_same_ack_again_is_already_delivered() {
    let time = FrozenTime::hold();
    let (server, lease) = leased(&time).await;
    let answer = server.post("/outbox/ack", &lease).await;
    assert_eq!(answer.seen(), (200, json!({ "ok": true, "status": "delivered" })));
    let already = (200, json!({ "ok": true, "status": "already_delivered" }));
    assert_eq!(server.post("/outbox/ack", &lease).await.seen(), already);
    time.advance(LEASE * 2).await;
    assert_eq!(server.post("/outbox/ack", &lease).await.seen(), already, "also after the lease's end");
    assert_eq!(server.poll(&json!({ "source": "telegram" })).await, Vec::<Value>::new());
}

#[tokio::test(start_paused = true)]
async fn a_lease_ends_at_its_very_millisecond() {
    let time = FrozenTime::hold();
    let (server, lease) = leased(&time).await;
    time.advance(LEASE).await;
    assert_eq!(server.post("/outbox/ack", &lease).await.seen(), conflict());
    let lease = lease_again(&server).await;
    time.advance(LEASE - Duration::from_millis(1)).await;
    assert_eq!(server.post("/outbox/ack", &lease).await.json()["status"], "delivered");
}

#[tokio::test(start_paused = true)]
async fn another_token_or_an_older_one_is_a_conflict_and_changes_nothing() {
    let time = FrozenTime::hold();
    let (server, old) = leased(&time).await;
    for token in ["lease_01J00000000000000000000000", "lease_", "x"] {
        let foreign = json!({ "messageId": old["messageId"], "leaseToken": token });
        assert_eq!(server.post("/outbox/ack", &foreign).await.seen(), conflict(), "{token}");
    }
    time.advance(LEASE).await;
    let new = lease_again(&server).await;
    assert_eq!(server.post("/outbox/ack", &old).await.seen(), conflict());
    assert_eq!(server.post("/outbox/ack", &new).await.json()["status"], "delivered");
    assert_eq!(
        server.post("/outbox/ack", &old).await.seen(),
        conflict(),
        "another's delivery is not its own"
    );
}

#[tokio::test]
async fn an_unknown_message_is_404() {
    let server = ServerSetup::echoing().start().await;
    for id in [UNKNOWN, "out_", "evt_01J00000000000000000000000", "' OR 1=1"] {
        let body = json!({ "messageId": id, "leaseToken": "lease_01J00000000000000000000000" });
        assert_eq!(
            server.post("/outbox/ack", &body).await.seen(),
            (404, json!({ "error": "not_found" })),
            "{id}"
        );
    }
}

#[tokio::test]
async fn an_ack_without_its_fields_names_both() {
    let server = ServerSetup::echoing().start().await;
    let check = async |body: Value, details: Value| {
        let answer = server.post("/outbox/ack", &body).await;
        assert_eq!(answer.seen(), (400, json!({ "error": "invalid_request", "details": details })));
    };
    check(json!({}), json!(["messageId is required", "leaseToken is required"])).await;
    let empty = "must be a non-empty string";
    check(
        json!({ "messageId": 1, "leaseToken": "" }),
        json!([format!("messageId {empty}"), format!("leaseToken {empty}")]),
    )
    .await;
    check(json!([]), json!(["Request body must be a JSON object"])).await;
}

#[tokio::test(start_paused = true)]
async fn two_acks_at_once_deliver_once() {
    let time = FrozenTime::hold();
    let (server, lease) = leased(&time).await;
    let (left, right) = tokio::join!(server.post("/outbox/ack", &lease), server.post("/outbox/ack", &lease));
    let mut words = [left.json()["status"].to_string(), right.json()["status"].to_string()];
    words.sort();
    assert_eq!(words, ["\"already_delivered\"", "\"delivered\""]);
}
