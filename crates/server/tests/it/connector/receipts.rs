//! Receipts for clients that ask for them: accepted when an event is on disk, settled when its turn has ended.

use super::asking;
use cortex_testkit::{ServerSetup, TestConnector, eventually, said_over};
use serde_json::{Value, json};

async fn next_of(connector: &mut TestConnector, kind: &str) -> Value {
    let event = connector.event().await;
    assert_eq!(event["type"], format!("assistant.message.{kind}"), "{event}");
    event
}

/// The receipts and messages of one event until it is settled and has all its replies.
async fn told(connector: &mut TestConnector) -> (Value, Value, Vec<Value>) {
    let accepted = next_of(connector, "accepted").await;
    let (mut settled, mut messages) = (Value::Null, Vec::new());
    while settled.is_null() || settled["data"]["replies"] != messages.len() {
        let event = connector.event().await;
        match event["type"].as_str().unwrap() {
            "assistant.message.settled" => settled = event,
            "assistant.message.outbound" => messages.push(event),
            other => unreachable!("{other}: {event}"),
        }
    }
    (accepted, settled, messages)
}

#[tokio::test]
async fn a_client_that_asks_is_told_what_became_of_its_event() {
    let server = ServerSetup::scripted(json!({
        "answers": [
            { "when": { "contains": "quiet" }, "say": "NO_REPLY" },
            { "when": { "contains": "break" }, "error": { "kind": "rejected" } },
        ],
        "otherwise": { "say": "You said: {{user}}" },
    }))
    .start()
    .await;
    let mut connector = TestConnector::of_owner(&server, "?receipts=1").await;
    for (id, text, outcome, replies) in
        [("1", "hello", "done", 1), ("2", "be quiet", "done", 0), ("3", "break", "failed", 1)]
    {
        connector.send(&said_over("m", "c", id, text)).await;
        let (accepted, settled, messages) = told(&mut connector).await;
        assert_eq!(messages.len(), replies, "{text}");
        let event = accepted["data"]["eventId"].as_str().unwrap();
        let row = server.get(&format!("/api/v2/inbox/{event}")).await.json();
        assert_eq!((&row["externalMessageId"], &row["status"]), (&json!(id), &json!(outcome)), "{row}");
        for receipt in [&accepted, &settled] {
            assert_eq!((&receipt["source"], &receipt["causationid"]), (&json!("urn:cortex-m"), &json!(id)));
            let data = &receipt["data"];
            let about = (&data["connectorId"], &data["conversationId"], &data["eventId"]);
            assert_eq!(about, (&json!("m"), &json!("c"), &json!(event)), "{receipt}");
        }
        assert_eq!(accepted["data"]["duplicate"], false);
        assert_eq!(settled["data"]["outcome"], outcome, "{settled}");
    }
    connector.send(&said_over("m", "c", "1", "hello")).await;
    let (accepted, settled, messages) = told(&mut connector).await;
    assert_eq!((&accepted["data"]["duplicate"], &settled["data"]["outcome"]), (&json!(true), &json!("done")));
    assert_eq!(messages.len(), 1, "what is on record is sent again");
}

#[tokio::test]
async fn an_event_that_waits_for_a_person_is_settled_once_he_answered() {
    let server = asking().start().await;
    let mut connector = TestConnector::of_owner(&server, "?receipts=1").await;
    connector.send(&said_over("m", "c", "1", "stretch daily")).await;
    next_of(&mut connector, "accepted").await;
    let question = next_of(&mut connector, "outbound").await;
    let asked = eventually("the open question", async || {
        let open = server.get("/api/v2/approvals").await.json();
        open["items"].get(0).cloned()
    })
    .await;
    assert_eq!(connector.so_far().await, [] as [Value; 0], "its turn has not ended: {question}");
    let id = asked["approvalId"].as_str().unwrap();
    assert_eq!(server.post(&format!("/api/v2/approvals/{id}/approve"), &json!({})).await.status, 200);
    loop {
        let event = connector.event().await;
        if event["type"] == "assistant.message.settled" {
            assert_eq!((&event["causationid"], &event["data"]["outcome"]), (&json!("1"), &json!("done")));
            break;
        }
    }
}

#[tokio::test]
async fn an_event_that_is_sent_again_and_again_is_settled_once() {
    let slow = json!({ "otherwise": { "say": "Done.", "delayMs": 1_500 } });
    let server = ServerSetup::scripted(slow).start().await;
    let mut connector = TestConnector::of_owner(&server, "?receipts=1").await;
    for is_again in [false, true, true] {
        connector.send(&said_over("m", "c", "1", "hello")).await;
        assert_eq!(next_of(&mut connector, "accepted").await["data"]["duplicate"], is_again);
    }
    let mut kinds = vec![connector.event().await["type"].clone(), connector.event().await["type"].clone()];
    kinds.sort_by_key(Value::to_string);
    assert_eq!(kinds, ["assistant.message.outbound", "assistant.message.settled"]);
    assert_eq!(connector.so_far().await, [] as [Value; 0]);
}

#[tokio::test]
async fn nobody_gets_receipts_unasked() {
    let server = ServerSetup::echoing().start().await;
    let mut connector = TestConnector::of_owner(&server, "").await;
    connector.send(&said_over("m", "c", "1", "hello")).await;
    next_of(&mut connector, "outbound").await;
    connector.send(&said_over("m", "c", "2", "hello")).await;
    next_of(&mut connector, "outbound").await;
    assert_eq!(connector.so_far().await, [] as [Value; 0]);
}

#[tokio::test]
async fn the_subprotocol_of_cloud_events_is_taken_when_it_is_offered() {
    let server = ServerSetup::echoing().start().await;
    for (offered, chosen) in [
        (Some("cloudevents.json"), Some("cloudevents.json")),
        (Some("chat, cloudevents.json"), Some("cloudevents.json")),
        (None, None),
    ] {
        let session = TestConnector::session(&server, "").await;
        let headers = offered.map(|offered| ("sec-websocket-protocol", offered));
        let path = format!("/connector/{session}");
        let mut connector =
            TestConnector::open_with(server.address(), &path, headers.as_slice()).await.unwrap();
        assert_eq!(connector.subprotocol(), chosen, "{offered:?}");
        connector.send(&said_over("m", "c", &format!("{offered:?}"), "hello")).await;
        assert_eq!(connector.event().await["data"]["text"], "You said: hello");
    }
}
