//! What a socket may hold and how often it may speak, whatever it mixes into its frames.

use cortex_server::CallerLimits;
use cortex_testkit::{
    FrozenTime, Heard, RunningTestServer, ServerSetup, TestConnector, eventually, said_over,
};
use serde_json::{Value, json};
use std::time::Duration;

const MIB: usize = 1024 * 1024;
/// What all programs of this machine without a key may hold together.
const SHARE_MIB: usize = 16;

/// How many of these sockets the server keeps after each sent half a message of 1 MiB, behind what comes first.
async fn kept(server: &RunningTestServer, first: Option<&Value>, sockets: usize) -> usize {
    let half = "x".repeat(MIB);
    let mut open = Vec::new();
    for _ in 0..sockets {
        let mut socket = TestConnector::connect(server, "").await;
        if let Some(event) = first {
            socket.send(event).await;
        }
        if socket.send_half(&half).await && socket.is_alive().await {
            open.push(socket);
        }
    }
    open.len()
}

#[tokio::test]
async fn a_ping_gives_back_nothing_of_half_a_message() {
    let server = ServerSetup::echoing().start().await;
    let kept = kept(&server, None, 2 * SHARE_MIB).await;
    assert!((1..=SHARE_MIB).contains(&kept), "{kept} MiB of half messages are held");
    eventually("room for another", async || {
        let mut socket = TestConnector::connect(&server, "").await;
        socket.send_half(&"x".repeat(MIB)).await;
        socket.is_alive().await.then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_whole_message_in_front_hides_no_half_one() {
    let server = ServerSetup::echoing().start().await;
    let kept = kept(&server, Some(&json!({ "whole": true })), 2 * SHARE_MIB).await;
    assert!((1..=SHARE_MIB).contains(&kept), "{kept} MiB of half messages are held");
}

#[tokio::test]
async fn a_message_in_pieces_with_pings_in_between_is_taken() {
    let server = ServerSetup::echoing().start().await;
    let mut connector = TestConnector::connect(&server, "").await;
    for number in 0..20 {
        let event = said_over("m", "c", &number.to_string(), &"x".repeat(MIB / 2)).to_string();
        let (first, rest) = event.split_at(event.len() / 2);
        assert!(connector.send_half(first).await);
        assert!(connector.is_alive().await);
        connector.send_rest(rest).await;
        assert_eq!(connector.event().await["causationid"], number.to_string());
    }
}

#[tokio::test(start_paused = true)]
async fn half_a_message_ends_its_socket_in_time_whatever_pings_come() {
    let time = FrozenTime::hold();
    let server = ServerSetup::echoing().at(&time).start().await;
    let mut slow = TestConnector::connect(&server, "").await;
    let mut idle = TestConnector::connect(&server, "").await;
    assert!(slow.send_half("{").await);
    for _ in 0..2 {
        assert!(slow.is_alive().await && idle.is_alive().await);
        time.advance(Duration::from_secs(31)).await;
    }
    assert_eq!(slow.hear().await, Heard::Closed(Some(1013)));
    assert!(idle.is_alive().await, "a socket that only pings stays");
}

#[tokio::test]
async fn a_socket_that_speaks_too_often_is_told_when_to_go_on() {
    let limits = CallerLimits { key_per_minute: 5, ..CallerLimits::default() };
    let server = ServerSetup::echoing().caller_limits(limits).start().await;
    let made = server.post("/api/v2/keys", &json!({ "name": "m", "source": "urn:connector:m" })).await;
    let key = format!("Bearer {}", made.json()["key"].as_str().unwrap());
    let session =
        server.request("GET", "/connector").without_key().header("authorization", &key).send().await;
    let mut connector = TestConnector::open(server.address(), &session.text(), "").await.unwrap();
    for number in 0..8 {
        connector.send(&said_over("m", "c", &number.to_string(), "hello")).await;
    }
    let mut heard = Vec::new();
    while heard.len() < 8 {
        heard.push(connector.event().await);
    }
    let (answers, errors): (Vec<Value>, Vec<Value>) =
        heard.into_iter().partition(|event| event["type"] == "assistant.message.outbound");
    assert!((4..=6).contains(&answers.len()), "the session was one of five: {answers:?}");
    for error in &errors {
        assert_eq!(
            (&error["type"], &error["data"]["code"]),
            (&json!("assistant.message.error"), &json!("too_many_requests"))
        );
        assert_eq!(error["data"]["retryable"], true, "{error}");
        let wait = error["data"]["retryAfterSeconds"].as_u64().unwrap();
        assert!((1..=12).contains(&wait), "{error}");
        assert!(error["causationid"].is_string(), "it names the event that was not kept: {error}");
    }
    let kept = server.get("/api/v2/inbox").await.json()["items"].as_array().unwrap().len();
    assert_eq!(kept, answers.len());
    assert!(connector.is_alive().await);
    let mut owner = TestConnector::of_owner(&server, "").await;
    for number in 0..8 {
        owner.send(&said_over("other", "c", &number.to_string(), "hello")).await;
        assert_eq!(owner.event().await["type"], "assistant.message.outbound", "others have their own rate");
    }
}

/// The number of open sockets that the metrics tell.
async fn told(server: &RunningTestServer) -> Option<f64> {
    let metrics = server.get("/metrics").await.text();
    let line = metrics.lines().find_map(|line| line.strip_prefix("cortex_connector_sockets "));
    line.and_then(|number| number.parse().ok())
}

#[tokio::test]
async fn the_gauge_of_open_sockets_falls_when_they_leave() {
    let server = ServerSetup::echoing().start().await;
    let before = told(&server).await.unwrap_or_default();
    let mut open = Vec::new();
    for _ in 0..3 {
        open.push(TestConnector::connect(&server, "").await);
    }
    eventually("three open sockets", async || (told(&server).await? - before >= 3.0).then_some(())).await;
    for socket in open {
        socket.close().await;
    }
    eventually("no open socket", async || (told(&server).await? <= before).then_some(())).await;
}

#[tokio::test]
async fn every_frame_spends_from_the_rate_whatever_it_is() {
    let limits = CallerLimits { key_per_minute: 6, ..CallerLimits::default() };
    let server = ServerSetup::echoing().caller_limits(limits).start().await;
    let unknown = json!({ "specversion": "1.0", "type": "x", "source": "urn:connector:m", "id": "1" });
    let ack = json!({ "specversion": "1.0", "type": "assistant.message.ack", "source": "urn:connector:m", "id": "2",
        "data": { "messageId": "out_01J00000000000000000000000" } });
    for (number, frame) in
        ["ping".to_owned(), "{".to_owned(), unknown.to_string(), ack.to_string()].into_iter().enumerate()
    {
        let source = format!("urn:connector:{number}");
        let made = server.post("/api/v2/keys", &json!({ "name": source, "source": source })).await;
        let key = format!("Bearer {}", made.json()["key"].as_str().unwrap());
        let asking = server.request("GET", "/connector").without_key().header("authorization", &key);
        let session = asking.send().await.text();
        let mut connector = TestConnector::open(server.address(), &session, "").await.unwrap();
        for _ in 0..8 {
            connector.send_text(&frame).await;
        }
        connector.send(&said_over(&number.to_string(), "c", "1", "hello")).await;
        let answer = loop {
            match connector.hear().await {
                Heard::Event(event) if event["causationid"] == "1" => break event,
                Heard::Closed(code) => unreachable!("closed with {code:?}"),
                Heard::Event(_) | Heard::Text(_) => {}
            }
        };
        assert_eq!(answer["data"]["code"], "too_many_requests", "{frame}");
    }
}

#[tokio::test]
async fn a_socket_that_sends_nothing_readable_is_closed() {
    let server = ServerSetup::echoing().start().await;
    let mut connector = TestConnector::connect(&server, "").await;
    for _ in 0..99 {
        connector.send_text("{").await;
    }
    for _ in 0..99 {
        assert_eq!(connector.event().await["data"]["code"], "invalid_json");
    }
    connector.send_text("ping").await;
    assert_eq!(connector.hear().await, Heard::Text("pong".to_owned()), "a good frame begins anew");
    for _ in 0..100 {
        connector.send_text("{").await;
    }
    let closed = loop {
        if let Heard::Closed(code) = connector.hear().await {
            break code;
        }
    };
    assert_eq!(closed, Some(1008));
}
