//! Seed 003 step by step, with the events of its own text.

use cortex_testkit::{FrozenTime, Heard, ServerSetup, TestConnector, said_over};
use serde_json::{Value, json};
use std::time::Duration;

/// The event of the seed.
fn example() -> Value {
    json!({
        "specversion": "1.0",
        "type": "assistant.message.inbound",
        "source": "urn:connector:matrix-1",
        "id": "b3c0c2f0-1234-5678-abcd-ef0123456789",
        "time": "2026-02-23T14:00:00Z",
        "datacontenttype": "application/json",
        "data": {
            "connectorId": "matrix-1",
            "conversationId": "conv-abc",
            "roomId": "!abc:example.org",
            "text": "Hey Cortex, what's on my schedule?",
        },
    })
}

/// Whether strict validators take it: the version and the variant of RFC 9562, not the shape alone.
fn is_uuid(text: &str) -> bool {
    let groups: Vec<&str> = text.split('-').collect();
    groups.iter().map(|group| group.len()).collect::<Vec<_>>() == [8, 4, 4, 4, 12]
        && groups.concat().bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        && groups[2].starts_with(['4', '7'])
        && groups[3].starts_with(['8', '9', 'a', 'b'])
}

#[tokio::test]
async fn a_connector_gets_a_session_says_something_and_is_answered() {
    let server = ServerSetup::echoing().start().await;
    for below in ["", "/api/cortex-m/v1"] {
        let answer = server.request("GET", &format!("{below}/connector")).without_key().send().await;
        assert_eq!(answer.status, 200);
        assert!(is_uuid(&answer.text()), "{}", answer.text());
        let path = format!("{below}/connector/{}", answer.text());
        let mut connector = TestConnector::open_with(server.address(), &path, &[]).await.unwrap();
        let mut inbound = example();
        inbound["id"] = json!(format!("{}{below}", inbound["id"].as_str().unwrap()));
        connector.send(&inbound).await;
        let outbound = connector.event().await;
        assert_eq!(outbound["specversion"], "1.0");
        assert_eq!(outbound["type"], "assistant.message.outbound");
        assert_eq!(outbound["source"], "urn:cortex-m");
        assert_eq!(outbound["datacontenttype"], "application/json");
        assert_eq!(outbound["causationid"], inbound["id"]);
        assert!(is_uuid(outbound["id"].as_str().unwrap()), "{outbound}");
        assert!(outbound["time"].as_str().unwrap().ends_with('Z'), "{outbound}");
        let data = outbound["data"].as_object().unwrap();
        assert_eq!(data["connectorId"], "matrix-1");
        assert_eq!(data["conversationId"], "conv-abc");
        assert_eq!(data["roomId"], "!abc:example.org");
        assert_eq!(data["text"], "You said: Hey Cortex, what's on my schedule?");
        assert!(data["messageId"].as_str().unwrap().starts_with("out_"));
        assert_eq!(data.len(), 5, "{outbound}");
        connector.send_text("{").await;
        let refused = connector.event().await;
        assert!(is_uuid(refused["id"].as_str().unwrap()), "{refused}");
        connector.close().await;
    }
}

#[tokio::test]
async fn an_event_goes_into_the_inbox_as_the_seed_maps_it() {
    let server = ServerSetup::echoing().start().await;
    let mut connector = TestConnector::of_owner(&server, "").await;
    let mut inbound = example();
    inbound["traceparent"] = json!("00-abc-def-01");
    inbound["data"]["userId"] = json!("@ada:example.org");
    connector.send(&inbound).await;
    connector.event().await;
    let mut anonymous = example();
    anonymous["id"] = json!("2");
    connector.send(&anonymous).await;
    connector.event().await;
    let rows = server.get("/api/v2/inbox").await.json();
    let row = &rows["items"][1];
    assert_eq!(row["source"], "urn:connector:matrix-1");
    assert_eq!(row["externalMessageId"], "b3c0c2f0-1234-5678-abcd-ef0123456789");
    assert_eq!(row["topicKey"], "conv-abc");
    assert_eq!(row["userId"], "@ada:example.org");
    assert_eq!(row["occurredAt"], "2026-02-23T14:00:00.000Z");
    let metadata = json!({ "roomId": "!abc:example.org", "traceparent": "00-abc-def-01" });
    assert_eq!(row["metadata"], metadata, "{row}");
    assert_eq!(rows["items"][0]["userId"], "conv-abc", "without a userId the conversation is who speaks");
    let channels = server.get("/api/v2/channels").await.json();
    let names: Vec<&str> =
        channels["items"].as_array().unwrap().iter().filter_map(|row| row["name"].as_str()).collect();
    assert_eq!(names, ["matrix-1"], "the channel is the connectorId");
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_unknown_or_over_is_closed_at_once() {
    let time = FrozenTime::hold();
    let server = ServerSetup::echoing().at(&time).start().await;
    for unknown in ["3f2a1b4c-8d9e-4f0a-b1c2-d3e4f5a6b7c8", "x"] {
        let mut connector = TestConnector::open(server.address(), unknown, "").await.unwrap();
        assert_eq!(connector.hear().await, Heard::Closed(Some(4401)), "{unknown}");
    }
    let session = TestConnector::session(&server, "").await;
    time.advance(Duration::from_secs(24 * 3_600 - 1)).await;
    let mut connector = TestConnector::open(server.address(), &session, "").await.unwrap();
    assert_eq!(connector.so_far().await, [] as [Value; 0], "a use counts as one");
    drop(connector);
    time.advance(Duration::from_secs(24 * 3_600)).await;
    let mut connector = TestConnector::open(server.address(), &session, "").await.unwrap();
    assert_eq!(connector.hear().await, Heard::Closed(Some(4401)), "24 hours idle");
}

#[tokio::test]
async fn a_ping_in_any_case_is_answered_with_pong() {
    let server = ServerSetup::echoing().start().await;
    let mut connector = TestConnector::connect(&server, "").await;
    for ping in ["ping", "PING", "Ping", " ping\n"] {
        connector.send_text(ping).await;
        assert_eq!(connector.hear().await, Heard::Text("pong".to_owned()), "{ping:?}");
    }
}

#[tokio::test]
async fn a_session_survives_a_restart_of_the_server() {
    let mut server = ServerSetup::echoing().start().await;
    let session = TestConnector::session(&server, "").await;
    server.restart().await;
    let mut connector = TestConnector::open(server.address(), &session, "").await.unwrap();
    connector.send(&said_over("m", "c", "1", "still there?")).await;
    assert_eq!(connector.event().await["data"]["text"], "You said: still there?");
}

#[tokio::test]
async fn a_session_that_the_owner_opened_ends_with_the_key_that_opened_it() {
    let mut server = ServerSetup::echoing().start().await;
    let (owners, keyless) =
        (server.get("/connector").await.text(), TestConnector::session(&server, "").await);
    server.restart().await;
    let mut connector = TestConnector::open(server.address(), &owners, "").await.unwrap();
    connector.send(&said_over("m", "c", "1", "with my key")).await;
    assert_eq!(connector.event().await["data"]["text"], "You said: with my key");
    server.restart_with_owner_key("another-key-of-the-owner-0123456789").await;
    for _ in 0..2 {
        let mut thief = TestConnector::open(server.address(), &owners, "").await.unwrap();
        assert_eq!(thief.hear().await, Heard::Closed(Some(4401)), "whoever has the session has no key");
    }
    server.restart_with_owner_key(cortex_testkit::OWNER_KEY).await;
    let mut thief = TestConnector::open(server.address(), &owners, "").await.unwrap();
    assert_eq!(thief.hear().await, Heard::Closed(Some(4401)), "it was closed for good");
    let mut other = TestConnector::open(server.address(), &keyless, "").await.unwrap();
    assert!(other.is_alive().await, "it was opened without that key");
}
