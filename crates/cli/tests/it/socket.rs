//! A server that is killed under a connector's feet: every event has one reply, and every reply arrives, in order.

use crate::cortex::Cortex;
use cortex_testkit::{Heard, TestConnector, exchange, said_over};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::SocketAddr;

const CONVERSATIONS: usize = 100;
const EVENTS_EACH: usize = 3;

pub(crate) fn address(cortex: &Cortex) -> SocketAddr {
    let listening: Value =
        serde_json::from_slice(&std::fs::read(cortex.path("run/address")).unwrap()).unwrap();
    listening["address"].as_str().unwrap().parse().unwrap()
}

/// A session as any program on this machine gets one.
pub(crate) async fn keyless_session(cortex: &Cortex) -> String {
    let address = address(cortex);
    let request = format!("GET /connector HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    exchange(address, request.as_bytes()).await.text()
}

/// The replies of each conversation in the order in which they first came: their ids and what they answer.
type Got = BTreeMap<String, Vec<(String, String)>>;

/// Hears and acks until so many different replies are there, or the line breaks.
async fn hear(socket: &mut TestConnector, got: &mut Got, enough: usize) {
    while got.values().map(Vec::len).sum::<usize>() < enough {
        let Heard::Event(event) = socket.hear().await else { return };
        let text = |pointer: &str| event.pointer(pointer).unwrap().as_str().unwrap().to_owned();
        let of_conversation = got.entry(text("/data/conversationId")).or_default();
        if of_conversation.iter().all(|(id, _)| *id != text("/id")) {
            of_conversation.push((text("/id"), text("/causationid")));
        }
        socket.ack(&event).await;
    }
}

async fn send_everything(socket: &mut TestConnector) {
    for number in 0..EVENTS_EACH {
        for conversation in 0..CONVERSATIONS {
            let id = format!("{conversation}-{number}");
            socket.send(&said_over("m", &format!("conv-{conversation}"), &id, &id)).await;
        }
    }
}

#[test]
fn a_kill_in_the_middle_of_a_hundred_conversations_loses_doubles_and_misorders_nothing() {
    let cortex = Cortex::scripted(&json!({"otherwise": {"say": "re: {{user}}", "delayMs": 2}})).started();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut got = Got::new();
    let session = runtime.block_on(async {
        let session = keyless_session(&cortex).await;
        let mut socket = TestConnector::open(address(&cortex), &session, "?ack=1").await.unwrap();
        send_everything(&mut socket).await;
        hear(&mut socket, &mut got, 40).await;
        session
    });
    assert_eq!(cortex.run(&["stop", "--force"]).code, Some(0));
    let cortex = cortex.started();
    runtime.block_on(async {
        let mut socket = TestConnector::open(address(&cortex), &session, "?ack=1").await.unwrap();
        // As after every reconnect: nobody can know which ones arrived.
        send_everything(&mut socket).await;
        hear(&mut socket, &mut got, CONVERSATIONS * EVENTS_EACH).await;
    });
    for conversation in 0..CONVERSATIONS {
        let causes: Vec<&str> =
            got[&format!("conv-{conversation}")].iter().map(|(_, cause)| cause.as_str()).collect();
        let expected: Vec<String> =
            (0..EVENTS_EACH).map(|number| format!("{conversation}-{number}")).collect();
        assert_eq!(causes, expected, "one reply for each event, in order");
    }
}
