//! Restarts of both sides in the middle of many conversations: one recorded reply each, every reply delivered, in order.

use cortex_testkit::{Heard, RunningTestServer, ServerSetup, TestConnector, said_over};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const CONVERSATIONS: usize = 500;
const EVENTS_EACH: usize = 2;

/// A connector that sends everything again it has no answer to, as the original's does.
struct Connector {
    session: String,
    socket: TestConnector,
    /// The messages of each conversation by id, in the order in which they first came.
    got: BTreeMap<String, Vec<(String, String)>>,
    seen: BTreeSet<String>,
}

fn event(conversation: usize, number: usize) -> Value {
    let id = format!("{conversation}-{number}");
    said_over("m", &format!("conv-{conversation}"), &id, &id)
}

impl Connector {
    async fn start(server: &RunningTestServer) -> Self {
        let session = TestConnector::session(server, "?connectorId=m").await;
        let socket = TestConnector::open(server.address(), &session, "?ack=1").await.unwrap();
        Self { session, socket, got: BTreeMap::new(), seen: BTreeSet::new() }
    }

    async fn reconnect(&mut self, server: &RunningTestServer) {
        self.socket = TestConnector::open(server.address(), &self.session, "?ack=1").await.unwrap();
    }

    fn take(&mut self, event: &Value) {
        let text = |pointer: &str| event.pointer(pointer).unwrap().as_str().unwrap().to_owned();
        if self.seen.insert(text("/id")) {
            let conversation = text("/data/conversationId");
            self.got.entry(conversation).or_default().push((text("/causationid"), text("/data/text")));
        }
    }

    /// Hears and acks until `enough`, or until the line breaks.
    async fn hear_until(&mut self, enough: usize) {
        while self.seen.len() < enough {
            match self.socket.hear().await {
                Heard::Event(event) => {
                    self.take(&event);
                    self.socket.ack(&event).await;
                }
                Heard::Text(text) => unreachable!("{text}"),
                Heard::Closed(_) => return,
            }
        }
    }
}

#[tokio::test]
async fn both_sides_restart_in_the_middle_of_five_hundred_conversations() {
    let many = |flow: &mut cortex_runtime::RuntimeConfig| {
        flow.max_parallel_topics = 16;
        // Turns under way end before the stop, so that each model call is one that was answered.
        flow.drain = Duration::from_secs(60);
    };
    let mut server = ServerSetup::echoing().flow(many).start().await;
    let mut connector = Connector::start(&server).await;
    let all = CONVERSATIONS * EVENTS_EACH;
    for conversation in 0..CONVERSATIONS {
        connector.socket.send(&event(conversation, 0)).await;
    }
    connector.hear_until(100).await;
    // The connector dies with messages it never acked, and comes back.
    connector.reconnect(&server).await;
    for conversation in 0..CONVERSATIONS {
        // Sent again as after every reconnect: nobody can know which ones arrived.
        connector.socket.send(&event(conversation, 0)).await;
        connector.socket.send(&event(conversation, 1)).await;
    }
    connector.hear_until(400).await;
    server.restart().await;
    connector.reconnect(&server).await;
    for conversation in 0..CONVERSATIONS {
        for number in 0..EVENTS_EACH {
            connector.socket.send(&event(conversation, number)).await;
        }
    }
    connector.hear_until(all).await;
    assert_eq!(connector.seen.len(), all, "every reply was delivered");
    for conversation in 0..CONVERSATIONS {
        let expected: Vec<(String, String)> = (0..EVENTS_EACH)
            .map(|number| format!("{conversation}-{number}"))
            .map(|id| (id.clone(), format!("You said: {id}")))
            .collect();
        assert_eq!(connector.got[&format!("conv-{conversation}")], expected, "in order, each once");
    }
    let calls = server.get("/api/v2/usage").await.json()["total"]["calls"].clone();
    assert_eq!(calls, json!(all), "one model call for each event");
}
