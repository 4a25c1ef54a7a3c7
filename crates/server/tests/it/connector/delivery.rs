//! Replies over the socket: the right one, in order, again until they arrived.

use cortex_testkit::{RunningTestServer, ServerSetup, TestConnector, eventually, said_over};
use serde_json::{Value, json};

fn texts(events: &[Value]) -> Vec<&str> {
    events.iter().filter_map(|event| event["data"]["text"].as_str()).collect()
}

/// How many outbox messages have this status.
async fn in_outbox(server: &RunningTestServer, status: &str) -> usize {
    let rows = server.get(&format!("/api/v2/outbox?status={status}&limit=500")).await.json();
    rows["items"].as_array().unwrap().len()
}

async fn until_in_outbox(server: &RunningTestServer, status: &str, count: usize) {
    eventually(format!("{count} {status} messages"), async || {
        (in_outbox(server, status).await == count).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_re_sent_event_runs_the_model_once_and_gets_the_same_answer_again() {
    let server = ServerSetup::echoing().start().await;
    let event = said_over("m", "c", "same", "once");
    let mut connector = TestConnector::connect(&server, "").await;
    connector.send(&event).await;
    let first = connector.event().await;
    // From the database, from memory, and over another socket.
    for _ in 0..3 {
        connector.send(&event).await;
        assert_eq!(connector.event().await, first);
    }
    connector.close().await;
    let mut other = TestConnector::connect(&server, "").await;
    other.send(&event).await;
    assert_eq!(other.event().await, first);
    let usage = server.get("/api/v2/usage").await.json();
    assert_eq!(usage["total"]["calls"], 1, "{usage}");
    assert_eq!(server.get("/api/v2/inbox").await.json()["items"].as_array().unwrap().len(), 1);
    assert_eq!(in_outbox(&server, "delivered").await, 1);
}

#[tokio::test]
async fn a_re_sent_event_with_another_body_gets_the_first_ones_answer_and_leaves_a_line() {
    let server = ServerSetup::echoing().start().await;
    let mut connector = TestConnector::connect(&server, "").await;
    for _ in 0..2 {
        connector.send(&said_over("m", "c", "same", "first")).await;
        assert_eq!(connector.event().await["data"]["text"], "You said: first");
    }
    connector.send(&said_over("m", "c", "same", "second")).await;
    assert_eq!(connector.event().await["data"]["text"], "You said: first");
    let event = server.get("/api/v2/inbox").await.json()["items"][0]["eventId"].as_str().unwrap().to_owned();
    let trace = server.get(&format!("/api/v2/events/{event}/trace")).await.text();
    assert!(trace.contains("came again with another body"), "{trace}");
}

#[tokio::test]
async fn a_re_sent_event_whose_turn_still_runs_is_answered_once_it_ends() {
    let server = ServerSetup::scripted(json!({
        "otherwise": { "say": "done: {{user}}", "delayMs": 300 },
    }))
    .start()
    .await;
    let event = said_over("m", "c", "1", "slow");
    let mut first = TestConnector::connect(&server, "").await;
    first.send(&event).await;
    until_inbox(&server, 1).await;
    drop(first);
    let mut second = TestConnector::connect(&server, "").await;
    second.send(&event).await;
    assert_eq!(second.event().await["data"]["text"], "done: slow");
}

async fn until_inbox(server: &RunningTestServer, count: usize) {
    eventually(format!("{count} events"), async || {
        let rows = server.get("/api/v2/inbox?limit=500").await.json();
        (rows["items"].as_array()?.len() == count).then_some(())
    })
    .await;
}

#[tokio::test]
async fn without_acks_a_written_frame_counts_as_delivered() {
    let server = ServerSetup::echoing().start().await;
    let mut connector = TestConnector::connect(&server, "").await;
    connector.send(&said_over("m", "c", "1", "hello")).await;
    connector.event().await;
    until_in_outbox(&server, "delivered", 1).await;
    connector.close().await;
    let mut again = TestConnector::connect(&server, "?connectorId=m").await;
    assert_eq!(again.so_far().await, [] as [Value; 0], "it is not sent again by itself");
}

#[tokio::test]
async fn with_acks_a_message_comes_again_after_a_reconnect_until_it_is_acked() {
    let server = ServerSetup::echoing().start().await;
    let session = TestConnector::session(&server, "").await;
    let mut connector = TestConnector::open(server.address(), &session, "?ack=1").await.unwrap();
    connector.send(&said_over("m", "c", "1", "hello")).await;
    let first = connector.event().await;
    assert_eq!(in_outbox(&server, "delivered").await, 0, "nobody said that it arrived");
    connector.close().await;
    let mut again = TestConnector::open(server.address(), &session, "?ack=1").await.unwrap();
    assert_eq!(again.event().await, first, "the same frame, the same id");
    again.ack(&first).await;
    until_in_outbox(&server, "delivered", 1).await;
    again.close().await;
    let mut last = TestConnector::open(server.address(), &session, "?ack=1").await.unwrap();
    assert_eq!(last.so_far().await, [] as [Value; 0]);
}

#[tokio::test]
async fn an_ack_by_message_id_or_causation_counts_and_one_that_names_nothing_is_refused() {
    let server = ServerSetup::echoing().start().await;
    let mut connector = TestConnector::connect(&server, "?ack=1").await;
    let ack = |id: &str, more: Value| {
        let mut ack = json!({
            "specversion": "1.0", "type": "assistant.message.ack", "source": "urn:connector:m", "id": id,
        });
        ack.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        ack
    };
    connector.send(&said_over("m", "c", "1", "one")).await;
    let one = connector.event().await;
    connector.send(&ack("a1", json!({ "data": { "messageId": one["data"]["messageId"] } }))).await;
    connector.send(&said_over("m", "c", "2", "two")).await;
    let two = connector.event().await;
    connector.send(&ack("a2", json!({ "causationid": two["id"] }))).await;
    until_in_outbox(&server, "delivered", 2).await;
    connector.send(&ack("a3", json!({ "data": { "messageId": "nothing" } }))).await;
    assert_eq!(connector.event().await["data"]["code"], "invalid_event");
    connector.send(&ack("a4", json!({ "data": { "messageId": one["id"] } }))).await;
    assert_eq!(connector.so_far().await, [] as [Value; 0], "an ack twice is no error");
}

#[tokio::test]
async fn what_waits_comes_in_order_of_its_topic_after_a_reconnect() {
    let server = ServerSetup::echoing().start().await;
    let session = TestConnector::session(&server, "").await;
    let mut connector = TestConnector::open(server.address(), &session, "?ack=1").await.unwrap();
    for number in 0..20 {
        let (id, topic) = (number.to_string(), if number % 2 == 0 { "even" } else { "odd" });
        connector.send(&said_over("m", topic, &id, &id)).await;
    }
    until_inbox(&server, 20).await;
    connector.close().await;
    eventually("all turns", async || {
        let rows = server.get("/api/v2/inbox?status=done&limit=500").await.json();
        (rows["items"].as_array()?.len() == 20).then_some(())
    })
    .await;
    let mut again = TestConnector::open(server.address(), &session, "?ack=1").await.unwrap();
    let mut heard: Vec<Value> = Vec::new();
    while heard.len() < 20 {
        let event = again.event().await;
        again.ack(&event).await;
        heard.push(event);
    }
    for topic in ["even", "odd"] {
        let of_topic: Vec<Value> =
            heard.iter().filter(|event| event["data"]["conversationId"] == topic).cloned().collect();
        let first = usize::from(topic == "odd");
        let expected: Vec<String> =
            (0..10).map(|number| format!("You said: {}", number * 2 + first)).collect();
        assert_eq!(texts(&of_topic), expected, "{topic}");
    }
}

#[tokio::test]
async fn a_reply_goes_to_the_socket_that_asked_and_to_no_other() {
    let server = ServerSetup::echoing().start().await;
    let mut left = TestConnector::connect(&server, "").await;
    let mut right = TestConnector::connect(&server, "").await;
    for number in 0..10 {
        left.send(&said_over("m", "c", &format!("l{number}"), "left")).await;
        right.send(&said_over("m", "c", &format!("r{number}"), "right")).await;
    }
    for (connector, expected) in [(&mut left, "You said: left"), (&mut right, "You said: right")] {
        for _ in 0..10 {
            assert_eq!(connector.event().await["data"]["text"], expected);
        }
    }
    assert_eq!((left.so_far().await.len(), right.so_far().await.len()), (0, 0));
}

#[tokio::test]
async fn two_connectors_with_the_same_conversation_share_nothing() {
    let server = ServerSetup::scripted(json!({ "otherwise": { "say": "{{history}}" } })).start().await;
    let mut one = TestConnector::of_owner(&server, "").await;
    let mut two = TestConnector::of_owner(&server, "").await;
    one.send(&said_over("one", "same", "1", "my secret")).await;
    assert_eq!(one.event().await["data"]["connectorId"], "one");
    two.send(&said_over("two", "same", "1", "hello")).await;
    assert_eq!(two.event().await["data"]["connectorId"], "two");
    assert_eq!(one.so_far().await, [] as [Value; 0]);
    let topics = server.get("/api/v2/inbox").await.json();
    let sources: Vec<&str> =
        topics["items"].as_array().unwrap().iter().filter_map(|row| row["source"].as_str()).collect();
    assert_eq!(sources, ["urn:connector:two", "urn:connector:one"]);
}

#[tokio::test]
async fn a_proactive_message_waits_for_its_connector_and_goes_to_its_conversation() {
    let server = ServerSetup::echoing().start().await;
    let mut connector = TestConnector::of_owner(&server, "").await;
    let mut hello = said_over("m", "owner-chat", "1", "hello");
    hello["data"]["roomId"] = json!("!room:example.org");
    connector.send(&hello).await;
    connector.event().await;
    connector.close().await;
    let job = json!({
        "what": "time for tea", "cron": "0 9 * * *", "source": "urn:connector:m", "topicKey": "owner-chat",
    });
    let made = server.post("/api/v2/schedules", &job).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let id = server.get("/api/v2/schedules").await.json()["items"][0]["id"].clone();
    let ran = server.post(&format!("/api/v2/schedules/{id}/run"), &json!({})).await;
    assert!(ran.status < 300, "{}", ran.text());
    until_in_outbox(&server, "pending", 1).await;
    let mut other = TestConnector::of_owner(&server, "?connectorId=another").await;
    assert_eq!(other.so_far().await, [] as [Value; 0], "no other socket gets it");
    let mut back = TestConnector::of_owner(&server, "?connectorId=m").await;
    let tea = back.event().await;
    assert!(tea["data"]["text"].as_str().unwrap().contains("time for tea"), "{tea}");
    assert_eq!(tea["data"]["conversationId"], "owner-chat");
    assert_eq!(tea["data"]["roomId"], "!room:example.org", "where the person last spoke");
    assert_eq!(tea.get("causationid"), None, "no event of the connector led to it");
}

#[tokio::test]
async fn a_failed_turn_is_told_by_an_ordinary_message() {
    let server = ServerSetup::scripted(json!({
        "otherwise": { "error": { "kind": "rejected" } },
    }))
    .start()
    .await;
    let mut connector = TestConnector::connect(&server, "").await;
    connector.send(&said_over("m", "c", "1", "hello")).await;
    let told = connector.event().await;
    assert_eq!(told["type"], "assistant.message.outbound", "{told}");
    assert_eq!(told["causationid"], "1");
}
