//! Names of channels: each belongs to one source, and nobody takes another's.

use crate::sample::{saying, with};
use cortex_testkit::{Answer, RunningTestServer, ServerSetup, TestConnector, said_over};
use cortex_types::{ChannelMode, ChannelSetting};
use serde_json::{Value, json};

async fn key_for(server: &RunningTestServer, source: &str) -> String {
    let made = server.post("/api/v2/keys", &json!({ "name": source, "source": source })).await;
    assert_eq!(made.status, 200, "{}", made.text());
    made.json()["key"].as_str().unwrap().to_owned()
}

async fn ask_session(server: &RunningTestServer, key: &str, query: &str) -> Answer {
    let bearer = format!("Bearer {key}");
    let path = format!("/connector{query}");
    server.request("GET", &path).without_key().header("authorization", &bearer).send().await
}

async fn open(server: &RunningTestServer, key: &str, query: &str) -> TestConnector {
    let session = ask_session(server, key, "").await;
    assert_eq!(session.status, 200, "{}", session.text());
    TestConnector::open(server.address(), &session.text(), query).await.unwrap()
}

/// What the connector of this source says under a name that may be another's.
fn claiming(source: &str, name: &str, id: &str) -> Value {
    let mut event = said_over(name, "main", id, "hello");
    event["source"] = json!(source);
    event
}

fn telling(channel: &str) -> ServerSetup {
    ServerSetup::scripted(json!({
        "answers": [{ "when": { "equals": "tell" }, "say": format!("[[send_to:{channel}]]the code is 4711") }],
        "otherwise": { "say": "hello" },
    }))
}

#[tokio::test]
async fn a_key_takes_no_channel_of_another_source() {
    let server = telling("b").start().await;
    let (key_a, key_b) =
        (key_for(&server, "urn:connector:a").await, key_for(&server, "urn:connector:b").await);
    let mut theirs = open(&server, &key_b, "").await;
    theirs.send(&said_over("b", "main", "1", "hello")).await;
    theirs.event().await;
    let refused = ask_session(&server, &key_a, "?connectorId=b").await;
    assert_eq!(refused.status, 403, "{}", refused.text());
    assert!(refused.text().contains("the name b belongs to another connector"), "{}", refused.text());
    for query in ["", "?connectorId=b"] {
        let mut thief = open(&server, &key_a, query).await;
        thief.send(&claiming("urn:connector:a", "b", &format!("x{query}"))).await;
        let told = thief.event().await;
        assert_eq!(told["data"]["code"], "forbidden", "{query}: {told}");
        assert!(
            told["data"]["message"].as_str().unwrap().contains("the name b belongs to another"),
            "{told}"
        );
    }
    let mut thief = open(&server, &key_a, "").await;
    thief.send(&said_over("a", "main", "2", "hello")).await;
    thief.event().await;
    server.answered(&with(saying("3", "tell"), "source", json!("cli"))).await;
    assert_eq!(theirs.event().await["data"]["text"], "the code is 4711");
    assert_eq!(thief.so_far().await, [] as [Value; 0]);
}

#[tokio::test]
async fn a_source_of_the_same_name_is_no_way_to_a_channel_either() {
    let server = telling("b").start().await;
    let key_b = key_for(&server, "urn:connector:b").await;
    let mut theirs = open(&server, &key_b, "").await;
    theirs.send(&said_over("b", "main", "1", "hello")).await;
    theirs.event().await;
    let event = with(saying("2", "hello"), "source", json!("b"));
    let key = key_for(&server, "b").await;
    let bearer = format!("Bearer {key}");
    let sending = server.request("POST", "/ingest").without_key().header("authorization", &bearer);
    let refused = sending.json(&event).send().await;
    assert_eq!(refused.status, 403, "{}", refused.text());
    assert!(refused.text().contains("the name b belongs to another connector"), "{}", refused.text());
    server.answered(&with(saying("3", "tell"), "source", json!("cli"))).await;
    assert_eq!(theirs.event().await["data"]["text"], "the code is 4711");
}

#[tokio::test]
async fn a_key_takes_no_name_of_a_source_that_spoke_and_none_of_the_server() {
    let server = ServerSetup::echoing().start().await;
    server.answered(&with(saying("1", "hello"), "source", json!("realtg"))).await;
    let key = key_for(&server, "urn:connector:a").await;
    for (name, why) in [
        ("realtg", "belongs to another connector"),
        ("cli", "belongs to the server"),
        ("openai", "belongs to the server"),
        ("system", "belongs to the server"),
    ] {
        let mut thief = open(&server, &key, &format!("?connectorId={name}")).await;
        thief.send(&claiming("urn:connector:a", name, name)).await;
        let told = thief.event().await;
        assert_eq!(told["data"]["code"], "forbidden", "{name}: {told}");
        assert!(told["data"]["message"].as_str().unwrap().contains(why), "{name}: {told}");
        assert_eq!(ask_session(&server, &key, &format!("?connectorId={name}")).await.status, 403, "{name}");
    }
    let mut own = open(&server, &key, "").await;
    own.send(&said_over("a", "main", "2", "hello")).await;
    assert_eq!(own.event().await["data"]["text"], "You said: hello");
}

#[tokio::test]
async fn a_listed_channel_goes_to_the_source_that_is_named_after_it() {
    let listed = ServerSetup::echoing().flow(|flow| {
        let live = ChannelSetting { mode: ChannelMode::Live, topic: None };
        flow.channels.channels.insert("work".to_owned(), live);
    });
    let server = listed.start().await;
    let key = key_for(&server, "urn:connector:a").await;
    let mut thief = open(&server, &key, "").await;
    thief.send(&claiming("urn:connector:a", "work", "1")).await;
    let told = thief.event().await;
    assert_eq!(told["data"]["code"], "forbidden", "{told}");
    assert!(told["data"]["message"].as_str().unwrap().contains("urn:connector:work"), "{told}");
    let key = key_for(&server, "urn:connector:work").await;
    let mut own = open(&server, &key, "").await;
    own.send(&said_over("work", "main", "2", "hello")).await;
    assert_eq!(own.event().await["data"]["text"], "You said: hello");
}

#[tokio::test]
async fn a_key_takes_no_name_of_a_source_that_has_a_key_and_has_not_spoken() {
    let server = telling("slack").start().await;
    let (slack, thiefs) = (key_for(&server, "slack").await, key_for(&server, "urn:connector:a").await);
    let refused = ask_session(&server, &thiefs, "?connectorId=slack").await;
    assert_eq!(refused.status, 403, "{}", refused.text());
    let mut thief = open(&server, &thiefs, "").await;
    thief.send(&claiming("urn:connector:a", "slack", "1")).await;
    let told = thief.event().await;
    assert_eq!(told["data"]["code"], "forbidden", "{told}");
    let why = "the name slack belongs to another connector (slack); choose another connectorId";
    assert_eq!(told["data"]["message"], why);
    let bearer = format!("Bearer {slack}");
    let sending = server.request("POST", "/ingest").without_key().header("authorization", &bearer);
    let first = sending.json(&with(saying("2", "hello"), "source", json!("slack"))).send().await;
    assert_eq!(first.status, 202, "{}", first.text());
    server.ended(first.json()["eventId"].as_str().unwrap()).await;
    let claim = with(saying("3", "tell"), "source", json!("cli"));
    server.answered(&claim).await;
    assert_eq!(thief.so_far().await, [] as [Value; 0]);
}

#[tokio::test]
async fn a_refused_name_says_who_has_it_and_how_it_is_freed() {
    let server = ServerSetup::echoing().start().await;
    let early = key_for(&server, "urn:connector:a").await;
    let mut first = open(&server, &early, "").await;
    first.send(&claiming("urn:connector:a", "slack", "1")).await;
    first.event().await;
    let slack = key_for(&server, "slack").await;
    let bearer = format!("Bearer {slack}");
    let say = async |id: &str| {
        let sending = server.request("POST", "/ingest").without_key().header("authorization", &bearer);
        sending.json(&with(saying(id, "hello"), "source", json!("slack"))).send().await
    };
    let refused = say("2").await;
    assert_eq!(refused.status, 403, "{}", refused.text());
    let words = "the name slack belongs to another connector (urn:connector:a); choose another connectorId, or free \
                 the name with `cortex connector unbind urn:connector:a`";
    assert!(refused.text().contains(words), "{}", refused.text());
    let unbound = server.post("/api/v2/connectors/unbind", &json!({ "source": "urn:connector:a" })).await;
    assert_eq!(unbound.status, 200, "{}", unbound.text());
    assert_eq!(say("3").await.status, 202);
}
