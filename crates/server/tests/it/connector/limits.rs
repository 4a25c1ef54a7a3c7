//! Bounds of the door: big frames, slow readers, too many at once.

use cortex_testkit::{Heard, ServerSetup, TestConnector, eventually, said_over};
use cortex_types::limits::BODY_BYTES_MAX;
use serde_json::{Value, json};

fn of_bytes(bytes: usize) -> String {
    let event = said_over("m", "c", "big", "");
    let rest = event.to_string().len();
    said_over("m", "c", "big", &"x".repeat(bytes - rest)).to_string()
}

#[tokio::test]
async fn a_frame_at_the_limit_passes_and_one_byte_more_closes_with_1009() {
    let server = ServerSetup::scripted(json!({ "otherwise": { "say": "long" } })).start().await;
    let mut connector = TestConnector::connect(&server, "").await;
    connector.send_text(&of_bytes(BODY_BYTES_MAX)).await;
    assert_eq!(connector.event().await["data"]["text"], "long");
    connector.send_text(&of_bytes(BODY_BYTES_MAX + 1)).await;
    assert_eq!(connector.hear().await, Heard::Closed(Some(1009)));
    let mut connector = TestConnector::connect(&server, "").await;
    connector.send_bytes(vec![b' '; BODY_BYTES_MAX + 1]).await;
    assert_eq!(connector.hear().await, Heard::Closed(Some(1009)));
}

#[tokio::test]
async fn what_came_before_a_frame_that_is_too_big_is_kept() {
    let server = ServerSetup::echoing().start().await;
    let mut connector = TestConnector::connect(&server, "?ack=1").await;
    connector.send(&said_over("m", "c", "1", "kept")).await;
    connector.send_text(&of_bytes(BODY_BYTES_MAX + 1)).await;
    while !matches!(connector.hear().await, Heard::Closed(_)) {}
    let mut again = TestConnector::connect(&server, "?ack=1&connectorId=m").await;
    assert_eq!(again.event().await["data"]["text"], "You said: kept");
}

#[tokio::test]
async fn a_reader_that_is_too_slow_is_closed_and_loses_nothing() {
    let long = "x".repeat(900_000);
    let server = ServerSetup::scripted(json!({ "otherwise": { "say": long } })).start().await;
    let mut slow = TestConnector::connect(&server, "").await;
    for number in 0..24 {
        slow.send(&said_over("m", &format!("c{number}"), &number.to_string(), "more")).await;
    }
    eventually("the reader to be given up", async || {
        let metrics = server.get("/metrics").await.text();
        metrics.contains("cortex_connector_slow_readers_total ").then_some(())
    })
    .await;
    let mut ids = std::collections::BTreeSet::new();
    let mut note = |event: &Value| ids.insert(event["data"]["conversationId"].as_str().unwrap().to_owned());
    loop {
        match slow.hear().await {
            Heard::Event(event) => drop(note(&event)),
            Heard::Text(text) => unreachable!("{text}"),
            Heard::Closed(_) => break,
        }
    }
    let mut back = TestConnector::connect(&server, "?connectorId=m").await;
    while ids.len() < 24 {
        let event = back.event().await;
        ids.insert(event["data"]["conversationId"].as_str().unwrap().to_owned());
    }
}

#[tokio::test]
async fn two_hundred_sockets_come_at_once_and_each_is_served_or_told_to_come_back() {
    let server = ServerSetup::echoing().start().await;
    let session = TestConnector::session(&server, "").await;
    let opening = (0..200).map(|_| TestConnector::open(server.address(), &session, ""));
    let opened = futures::future::join_all(opening).await;
    let mut served = 0;
    for socket in opened {
        match socket {
            Ok(mut socket) => {
                socket.so_far().await;
                served += 1;
            }
            Err(told) => assert!(told.contains("429"), "{told}"),
        }
    }
    assert!(served >= 32, "{served} were served");
    let mut after = TestConnector::open(server.address(), &session, "").await.unwrap();
    after.so_far().await;
}

#[tokio::test]
async fn an_ordinary_request_at_the_sockets_address_is_told_what_it_is() {
    let server = ServerSetup::echoing().start().await;
    let answer = server.get("/connector/3f2a1b4c-8d9e-4f0a-b1c2-d3e4f5a6b7c8").await;
    assert_eq!(answer.status, 400);
    assert!(answer.text().contains("speaks WebSocket"), "{}", answer.text());
}

#[tokio::test]
async fn at_most_thirty_two_sockets_without_a_session_are_held_and_not_for_long() {
    let server = ServerSetup::echoing().start().await;
    let opening = (0..64).map(|_| TestConnector::open(server.address(), "nothing", ""));
    // None of them reads or closes: each holds its place until the server lets go of it.
    let held = futures::future::join_all(opening).await;
    let (open, refused): (Vec<_>, Vec<_>) = held.into_iter().partition(Result::is_ok);
    assert!(open.len() <= 32 && !refused.is_empty(), "{} open, {} refused", open.len(), refused.len());
    let session = TestConnector::session(&server, "").await;
    eventually("a place for a good session", async || {
        TestConnector::open(server.address(), &session, "").await.ok().map(drop)
    })
    .await;
}
