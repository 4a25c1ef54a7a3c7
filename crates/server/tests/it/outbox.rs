//! `/api/v2/outbox`: what people see of messages on their way out, and what they can do about them.

use crate::sample::{event, saying, with};
use cortex_testkit::{RunningTestServer, ServerSetup};
use serde_json::{Value, json};

const UNKNOWN: [&str; 3] = ["out_01J00000000000000000000000", "evt_01J00000000000000000000000", "nothing"];

async fn replied(server: &RunningTestServer, text: &str) -> String {
    server.answered(&saying(text, text)).await;
    let newest = server.get("/api/v2/outbox?limit=1").await.json()["items"][0].clone();
    newest["messageId"].as_str().unwrap().to_owned()
}

async fn bury(server: &RunningTestServer) {
    let message = server.poll(&json!({ "source": "telegram", "max": 1 })).await.remove(0);
    let nack = json!({
        "messageId": message["messageId"], "leaseToken": message["leaseToken"], "permanent": true, "error": "blocked",
    });
    assert_eq!(server.post("/outbox/nack", &nack).await.status, 200);
}

#[tokio::test]
async fn a_row_shows_all_but_the_lease_token() {
    let server = ServerSetup::echoing().start().await;
    let event_id = server.answered(&event("1")).await;
    server.poll(&json!({ "source": "telegram" })).await;
    let row = server.get("/api/v2/outbox").await.json()["items"][0].clone();
    let moment = |name: &str| row[name].as_str().filter(|text| text.ends_with('Z')).unwrap();
    let expected = json!({
        "messageId": row["messageId"], "eventId": event_id, "source": "telegram", "topicKey": "chat-42:thread-root",
        "text": "You said: Remind me every weekday at 9", "payload": null, "status": "leased", "attempts": 1,
        "nextAttemptAt": moment("nextAttemptAt"), "leaseExpiresAt": moment("leaseExpiresAt"), "lastError": null,
        "createdAt": moment("createdAt"), "updatedAt": moment("updatedAt"),
    });
    assert_eq!(row, expected);
    let shown = server.get(&format!("/api/v2/outbox/{}", row["messageId"].as_str().unwrap())).await;
    assert_eq!(shown.seen(), (200, row));
}

#[tokio::test]
async fn a_listing_can_be_narrowed_and_paged() {
    let server = ServerSetup::echoing().start().await;
    for text in ["a", "b", "c"] {
        replied(&server, text).await;
    }
    server.answered(&with(saying("1", "d"), "source", json!("slack"))).await;
    bury(&server).await;
    let texts = async |query: &str| -> Vec<Value> {
        let page = server.get(&format!("/api/v2/outbox{query}")).await.json();
        page["items"].as_array().unwrap().iter().map(|item| item["text"].clone()).collect()
    };
    assert_eq!(texts("").await, ["You said: d", "You said: c", "You said: b", "You said: a"]);
    assert_eq!(texts("?status=pending").await, ["You said: d", "You said: c", "You said: b"]);
    assert_eq!(texts("?source=slack").await, ["You said: d"]);
    assert_eq!(texts("?source=telegram&status=pending").await, ["You said: c", "You said: b"]);
    assert_eq!(texts("/dead").await, ["You said: a"]);
    assert_eq!(texts("/dead?source=slack").await, Vec::<Value>::new());
    let page = server.get("/api/v2/outbox?limit=3").await.json();
    let next = page["nextCursor"].as_str().unwrap();
    assert_eq!(texts(&format!("?limit=3&before={next}")).await, ["You said: a"]);
}

#[tokio::test]
async fn a_dead_message_can_be_tried_again_with_fresh_attempts() {
    let server = ServerSetup::echoing().start().await;
    let id = replied(&server, "a").await;
    bury(&server).await;
    let answer = server.post(&format!("/api/v2/outbox/{id}/retry"), &json!({})).await;
    let (status, row) = answer.seen();
    assert_eq!((status, &row["status"], &row["attempts"]), (200, &json!("pending"), &json!(0)));
    let message = server.poll(&json!({ "source": "telegram" })).await.remove(0);
    let ack = json!({ "messageId": message["messageId"], "leaseToken": message["leaseToken"] });
    assert_eq!(server.post("/outbox/ack", &ack).await.json()["status"], "delivered");
    let again = server.post(&format!("/api/v2/outbox/{id}/retry"), &json!({})).await;
    let detail = format!("{id} is delivered; only a dead or discarded message can be retried");
    assert_eq!(again.seen(), (409, json!({ "error": "conflict", "details": [detail] })));
}

#[tokio::test]
async fn a_discarded_message_is_never_handed_out() {
    let server = ServerSetup::echoing().start().await;
    let id = replied(&server, "a").await;
    let answer = server.post(&format!("/api/v2/outbox/{id}/discard"), &json!({})).await;
    assert_eq!((answer.status, &answer.json()["status"]), (200, &json!("discarded")));
    assert_eq!(server.poll(&json!({ "source": "telegram" })).await, Vec::<Value>::new());
    let again = server.post(&format!("/api/v2/outbox/{id}/discard"), &json!({})).await;
    let detail = format!("{id} is discarded; its way has ended already");
    assert_eq!(again.seen(), (409, json!({ "error": "conflict", "details": [detail] })));
}

#[tokio::test]
async fn discarding_takes_the_lease_from_its_holder() {
    let server = ServerSetup::echoing().start().await;
    let id = replied(&server, "a").await;
    let message = server.poll(&json!({ "source": "telegram" })).await.remove(0);
    assert_eq!(server.post(&format!("/api/v2/outbox/{id}/discard"), &json!({})).await.status, 200);
    let ack = json!({ "messageId": message["messageId"], "leaseToken": message["leaseToken"] });
    assert_eq!(server.post("/outbox/ack", &ack).await.seen(), (409, json!({ "error": "lease_conflict" })));
}

#[tokio::test]
async fn a_message_that_is_not_there_is_404_on_every_route() {
    let server = ServerSetup::echoing().start().await;
    let not_found = (404, json!({ "error": "not_found" }));
    for id in UNKNOWN {
        assert_eq!(server.get(&format!("/api/v2/outbox/{id}")).await.seen(), not_found);
        for verb in ["retry", "discard"] {
            let answer = server.post(&format!("/api/v2/outbox/{id}/{verb}"), &json!({})).await;
            assert_eq!(answer.seen(), not_found, "{verb} {id}");
        }
    }
}
