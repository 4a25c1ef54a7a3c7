//! docs/connector-protocol.md says what the server does: its frames are sent, its answers have the documented fields.

use cortex_connectors::Promise;
use cortex_testkit::{ServerSetup, TestConnector};
use serde_json::Value;
use std::collections::BTreeSet;

const DOCUMENT: &str = include_str!("../../../../docs/connector-protocol.md");

/// The JSON blocks of the document: inbound, ack, outbound, error.
fn frames() -> [Value; 4] {
    let blocks = DOCUMENT.split("```json\n").skip(1).map(|after| after.split("```").next().unwrap());
    let frames: Vec<Value> = blocks.map(|block| serde_json::from_str(block).unwrap()).collect();
    frames.try_into().unwrap()
}

/// The names of all fields, those of the data included.
fn fields(event: &Value) -> BTreeSet<String> {
    let of_data = event["data"].as_object().unwrap().keys().map(|name| format!("data.{name}"));
    event.as_object().unwrap().keys().cloned().chain(of_data).collect()
}

#[tokio::test]
async fn the_frames_of_the_document_are_taken_and_answered_as_it_says() {
    let [inbound, mut ack, outbound, error] = frames();
    let server = ServerSetup::echoing().start().await;
    let mut connector = TestConnector::connect(&server, "?ack=1").await;
    connector.send(&inbound).await;
    let answer = connector.event().await;
    assert_eq!(fields(&answer), fields(&outbound));
    for same in [
        "/specversion",
        "/type",
        "/source",
        "/causationid",
        "/data/connectorId",
        "/data/conversationId",
        "/data/roomId",
    ] {
        assert_eq!(answer.pointer(same), outbound.pointer(same), "{same}");
    }
    ack["data"]["messageId"] = answer["id"].clone();
    connector.send(&ack).await;
    let mut wrong = inbound.clone();
    wrong["data"].as_object_mut().unwrap().remove("text");
    connector.send(&wrong).await;
    let refused = connector.event().await;
    assert_eq!(fields(&refused), fields(&error), "an ack is not answered, a wrong frame is");
    assert_eq!(refused["data"], error["data"]);
    let delivered = server.get("/api/v2/outbox").await.json();
    assert_eq!(delivered["items"][0]["messageId"], answer["data"]["messageId"]);
    let named = cortex_api::named_message(outbound["id"].as_str().unwrap()).unwrap();
    assert_eq!(named.as_str(), outbound["data"]["messageId"], "both are the same message");
}

#[test]
fn the_document_explains_every_line_of_the_check() {
    for promise in Promise::ALL {
        let extra = if promise.is_extra() { "extra: " } else { "" };
        let row = format!("| `{}` | {extra}", promise.as_str());
        assert!(DOCUMENT.contains(&row), "{row}");
    }
}
