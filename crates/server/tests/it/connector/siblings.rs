//! Several sockets of one connector: what one of them does not take, another one gets.

use cortex_testkit::{FrozenTime, RunningTestServer, ServerSetup, TestConnector, eventually, said_over};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;

/// More than a socket may hold unacked.
const MANY: usize = 150;
const WINDOW: usize = 128;

fn conversation(number: usize) -> String {
    format!("c{number}")
}

async fn delivered(server: &RunningTestServer) -> usize {
    let rows = server.get("/api/v2/outbox?status=delivered&limit=500").await.json();
    rows["items"].as_array().unwrap().len()
}

#[tokio::test]
async fn an_unacked_message_goes_to_a_live_sibling_when_its_socket_leaves() {
    let server = ServerSetup::echoing().start().await;
    let mut asking = TestConnector::of_owner(&server, "?ack=1").await;
    let mut sibling = TestConnector::of_owner(&server, "?ack=1").await;
    sibling.send(&said_over("m", "elsewhere", "0", "hello")).await;
    let own = sibling.event().await;
    sibling.ack(&own).await;
    asking.send(&said_over("m", "c", "1", "one")).await;
    let one = asking.event().await;
    asking.send(&said_over("m", "c", "2", "two")).await;
    server.ended(&event_of(&server, "2").await).await;
    drop(asking);
    assert_eq!(sibling.event().await, one, "the same message, with the same id");
    sibling.ack(&one).await;
    let two = sibling.event().await;
    assert_eq!(two["data"]["text"], "You said: two", "and what stood behind it, in order");
    sibling.ack(&two).await;
    eventually("all delivered", async || (delivered(&server).await == 3).then_some(())).await;
}

/// The server's id of the event that the connector calls so.
async fn event_of(server: &RunningTestServer, id: &str) -> String {
    eventually("the event", async || {
        let rows = server.get("/api/v2/inbox?limit=500").await.json();
        let row = rows["items"].as_array()?.iter().find(|row| row["externalMessageId"] == id)?.clone();
        Some(row["eventId"].as_str()?.to_owned())
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn a_message_that_its_socket_never_acks_goes_to_a_sibling_after_the_lease() {
    let time = FrozenTime::hold();
    let server = ServerSetup::echoing().at(&time).start().await;
    let mut sibling = TestConnector::of_owner(&server, "?ack=1").await;
    sibling.send(&said_over("m", "elsewhere", "0", "hello")).await;
    let own = sibling.event().await;
    sibling.ack(&own).await;
    let mut silent = TestConnector::of_owner(&server, "?ack=1").await;
    silent.send(&said_over("m", "c", "1", "one")).await;
    let one = silent.event().await;
    assert_eq!(sibling.so_far().await, [] as [Value; 0]);
    assert_eq!(silent.so_far().await, [] as [Value; 0]);
    time.advance(Duration::from_secs(61)).await;
    assert_eq!(sibling.event().await, one);
    assert_eq!(silent.so_far().await, [] as [Value; 0], "never to two");
    sibling.ack(&one).await;
    eventually("both delivered", async || (delivered(&server).await == 2).then_some(())).await;
}

#[tokio::test]
async fn a_socket_that_never_acks_holds_up_no_sibling() {
    let server = ServerSetup::echoing().start().await;
    let mut silent = TestConnector::of_owner(&server, "?ack=1").await;
    let mut sibling = TestConnector::of_owner(&server, "?ack=1").await;
    sibling.send(&said_over("m", "elsewhere", "s", "hello")).await;
    let own = sibling.event().await;
    sibling.ack(&own).await;
    for number in 0..MANY {
        silent.send(&said_over("m", &conversation(number), &number.to_string(), "hello")).await;
    }
    let mut left: BTreeSet<String> = (0..MANY).map(conversation).collect();
    for _ in 0..WINDOW {
        let event = silent.event().await;
        left.remove(event["data"]["conversationId"].as_str().unwrap());
    }
    assert_eq!(left.len(), MANY - WINDOW);
    // The rest comes over the other one, which acks.
    while !left.is_empty() {
        let event = sibling.event().await;
        assert!(left.remove(event["data"]["conversationId"].as_str().unwrap()), "{event}");
        sibling.ack(&event).await;
    }
    sibling.send(&said_over("m", "elsewhere", "t", "and now?")).await;
    assert_eq!(sibling.event().await["data"]["text"], "You said: and now?");
}

#[tokio::test]
async fn a_message_that_is_given_back_comes_again_later_and_a_dead_one_never() {
    let server = ServerSetup::echoing().start().await;
    let mut connector = TestConnector::of_owner(&server, "?ack=1").await;
    let nack = |message: &Value, more: Value| {
        let mut data = json!({ "connectorId": "m", "messageId": message["id"], "error": "the room is full" });
        data.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({
            "specversion": "1.0", "type": "assistant.message.nack", "source": "urn:connector:m", "id": "n1",
            "data": data,
        })
    };
    connector.send(&said_over("m", "c", "1", "one")).await;
    let one = connector.event().await;
    connector.send(&nack(&one, json!({}))).await;
    let row = eventually("the message in the queue", async || {
        let rows = server.get("/api/v2/outbox?status=pending").await.json();
        rows["items"].get(0).cloned()
    })
    .await;
    assert_eq!((&row["lastError"], &row["attempts"]), (&json!("the room is full"), &json!(1)), "{row}");
    assert_eq!(connector.event().await, one, "after its backoff, the same message");
    connector.send(&nack(&one, json!({ "permanent": true }))).await;
    eventually("a dead letter", async || {
        let rows = server.get("/api/v2/outbox?status=dead").await.json();
        (rows["items"].as_array()?.len() == 1).then_some(())
    })
    .await;
    connector.send(&nack(&one, json!({}))).await;
    assert_eq!(connector.so_far().await, [] as [Value; 0], "a nack twice is no error");
    for bad in
        [json!({ "messageId": "x" }), json!({ "retryAfterSeconds": -1 }), json!({ "permanent": "yes" })]
    {
        connector.send(&nack(&one, bad)).await;
        assert_eq!(connector.event().await["data"]["code"], "invalid_event");
    }
}
