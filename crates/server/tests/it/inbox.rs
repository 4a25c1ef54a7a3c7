//! `/api/v2/inbox`: what people see of the accepted events, and the retry of a failed one.

use crate::sample::{event, saying, with};
use cortex_testkit::{RunningTestServer, ServerSetup};
use serde_json::{Value, json};

const UNKNOWN: [&str; 3] = ["evt_01J00000000000000000000000", "out_01J00000000000000000000000", "nothing"];

/// Fails for good whatever begins with `bad`, answers the rest.
fn picky() -> ServerSetup {
    ServerSetup::scripted(json!({
        "answers": [{ "when": { "startsWith": "bad" }, "times": 1, "error": { "kind": "rejected" } }],
        "otherwise": { "say": "You said: {{user}}" },
    }))
}

async fn texts(server: &RunningTestServer, query: &str) -> (Vec<String>, Value) {
    let page = server.get(&format!("/api/v2/inbox{query}")).await.json();
    let items = page["items"].as_array().unwrap();
    (items.iter().map(|item| item["text"].as_str().unwrap().to_owned()).collect(), page["nextCursor"].clone())
}

#[tokio::test]
async fn a_row_shows_all_that_is_known_of_the_event() {
    let server = ServerSetup::echoing().start().await;
    let id = server.accept(&with(event("1"), "metadata", json!({ "chatId": "-100123" }))).await;
    let row = server.ended(&id).await;
    let times = (row["createdAt"].clone(), row["updatedAt"].clone());
    let expected = json!({
        "eventId": id, "source": "telegram", "externalMessageId": "1", "idempotencyKey": "telegram:1",
        "topicKey": "chat-42:thread-root", "userId": "tg:998877", "text": "Remind me every weekday at 9",
        "metadata": { "chatId": "-100123" }, "priority": "normal", "status": "done", "attempts": 1, "error": null,
        "occurredAt": "2026-02-15T20:30:00.000Z", "createdAt": times.0, "updatedAt": times.1,
    });
    assert_eq!(row, expected);
}

#[tokio::test]
async fn pages_run_from_the_newest_to_the_oldest_without_gap_or_repeat() {
    let server = ServerSetup::never_answering().start().await;
    for number in 0..5 {
        server.accept(&saying(&number.to_string(), &number.to_string())).await;
    }
    let (first, cursor) = texts(&server, "?limit=2").await;
    assert_eq!(first, ["4", "3"]);
    let (second, cursor) = texts(&server, &format!("?limit=2&before={}", cursor.as_str().unwrap())).await;
    assert_eq!(second, ["2", "1"]);
    let (third, cursor) = texts(&server, &format!("?limit=2&before={}", cursor.as_str().unwrap())).await;
    assert_eq!((third, cursor), (vec!["0".to_owned()], Value::Null));
    assert_eq!(texts(&server, "").await.0, ["4", "3", "2", "1", "0"]);
}

#[tokio::test]
async fn a_listing_can_be_narrowed_to_one_status() {
    let server = picky().start().await;
    server.answered(&saying("1", "bad one")).await;
    server.answered(&saying("2", "good one")).await;
    assert_eq!(texts(&server, "?status=failed").await.0, ["bad one"]);
    assert_eq!(texts(&server, "?status=done").await.0, ["good one"]);
    assert_eq!(texts(&server, "?status=waiting").await.0, Vec::<String>::new());
}

#[tokio::test]
async fn a_bad_query_is_400_and_says_what_is_wrong() {
    let server = ServerSetup::echoing().start().await;
    for route in ["/api/v2/inbox", "/api/v2/outbox", "/api/v2/outbox/dead"] {
        for query in ["limit=0", "limit=501", "limit=-1", "limit=x", "status=lost", "before=x", "before=1.5"]
        {
            let answer = server.get(&format!("{route}?{query}")).await;
            let (status, body) = answer.seen();
            assert_eq!((status, &body["error"]), (400, &json!("invalid_request")), "{route}?{query}");
            let named = query.split('=').next().unwrap();
            let detail = body["details"][0].as_str().unwrap().to_owned();
            assert!(detail.contains(named) || detail.contains("lost"), "{route}?{query}: {detail}");
        }
    }
}

#[tokio::test]
async fn an_event_that_is_not_there_is_404_on_every_route() {
    let server = ServerSetup::echoing().start().await;
    let not_found = (404, json!({ "error": "not_found" }));
    for id in UNKNOWN {
        assert_eq!(server.get(&format!("/api/v2/inbox/{id}")).await.seen(), not_found);
        assert_eq!(server.post(&format!("/api/v2/inbox/{id}/retry"), &json!({})).await.seen(), not_found);
        assert_eq!(server.get(&format!("/api/v2/events/{id}/trace")).await.seen(), not_found);
        assert_eq!(server.get(&format!("/api/v2/events/{id}/live")).await.seen(), not_found);
    }
}

#[tokio::test]
async fn a_failed_event_can_be_tried_again_with_fresh_attempts() {
    let server = picky().start().await;
    let id = server.accept(&saying("1", "bad one")).await;
    let failed = server.ended(&id).await;
    assert_eq!(failed["status"], "failed");
    assert!(failed["error"].as_str().unwrap().contains("rejected (400)"), "{failed}");
    let answer = server.post(&format!("/api/v2/inbox/{id}/retry"), &json!({})).await;
    assert_eq!(answer.status, 202, "{}", answer.text());
    let row = server.ended(&id).await;
    assert_eq!((&row["status"], &row["attempts"], &row["error"]), (&json!("done"), &json!(1), &Value::Null));
    let texts: Vec<Value> = server
        .poll(&json!({ "source": "telegram" }))
        .await
        .iter()
        .map(|message| message["text"].clone())
        .collect();
    assert!(texts[0].as_str().unwrap().starts_with("I could not answer this message: "), "{texts:?}");
    assert_eq!(texts[1], "You said: bad one");
}

#[tokio::test]
async fn only_a_failed_event_can_be_tried_again() {
    let server = ServerSetup::echoing().start().await;
    let id = server.answered(&event("1")).await;
    let answer = server.post(&format!("/api/v2/inbox/{id}/retry"), &json!({})).await;
    let detail = format!("{id} is done; only a failed event can be retried");
    assert_eq!(answer.seen(), (409, json!({ "error": "conflict", "details": [detail] })));
}
