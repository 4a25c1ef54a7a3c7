//! A program without a key: it talks in a namespace of its own, whatever it calls itself.

use crate::sample::{asking, jobs, saying, with};
use cortex_testkit::{FrozenTime, Heard, ServerSetup, TestConnector, eventually, said_over};
use serde_json::{Value, json};
use std::time::Duration;

/// An event that claims to come from this source.
fn claiming(source: &str, name: &str, id: &str, text: &str) -> Value {
    let mut event = said_over(name, "main", id, text);
    event["source"] = json!(source);
    event["data"]["userId"] = json!("cli:owner");
    event
}

fn of_owner(source: &str, id: &str, text: &str) -> Value {
    let event = with(saying(id, text), "source", json!(source));
    with(with(event, "topicKey", json!("main")), "userId", json!("cli:owner"))
}

#[tokio::test]
async fn a_program_without_a_key_gets_nothing_of_a_source_that_it_claims() {
    let server = ServerSetup::echoing().start().await;
    for (number, source) in ["cli", "openai", "telegram", "hook:ci"].into_iter().enumerate() {
        let number = number.to_string();
        server.answered(&of_owner(source, &number, "my secret")).await;
        let mut stranger = TestConnector::connect(&server, "?ack=1").await;
        stranger.send(&claiming(source, source, &format!("x{number}"), "hello")).await;
        let own = stranger.event().await;
        if source == "hook:ci" {
            assert_eq!(own["data"]["code"], "invalid_event", "{own}");
            continue;
        }
        assert_eq!(own["data"]["text"], "You said: hello", "{source}: only its own answer");
        assert_eq!(own["data"]["connectorId"], source, "on the wire it is who it says");
        assert_eq!(stranger.so_far().await, [] as [Value; 0], "{source}");
        let waiting = server.poll(&json!({ "source": source })).await;
        assert_eq!(waiting[0]["text"], "You said: my secret", "{source}: it waits for its own connector");
        let row = &server.get("/api/v2/inbox").await.json()["items"][0];
        assert_eq!(row["source"], format!("local:{source}"), "{row}");
        assert_eq!(row["userId"], format!("local:{source}:cli:owner"), "{row}");
    }
}

#[tokio::test]
async fn a_program_without_a_key_answers_no_question() {
    let server = asking("stretch").start().await;
    let asked = server.accept(&of_owner("cli", "1", "stretch daily")).await;
    let question = eventually("the question", async || {
        server.poll(&json!({ "source": "cli" })).await.into_iter().next()
    })
    .await;
    let press = question["payload"]["buttons"][0]["data"].as_str().unwrap().to_owned();
    for list in ["/api/v2/outbox".to_owned(), format!("/api/v2/events/{asked}/trace")] {
        let shown = server.get(&list).await.text();
        let token = press.split(':').next().unwrap();
        assert!(shown.contains("May I add a reminder") && !shown.contains(token), "{list}: {shown}");
    }
    let mut stranger = TestConnector::connect(&server, "").await;
    stranger.send(&claiming("cli", "cli", "2", &press)).await;
    let told = stranger.event().await;
    assert!(told["data"]["text"].as_str().unwrap().contains("not yours"), "{told}");
    assert_eq!(jobs(&server).await, 0);
    let open = server.get("/api/v2/approvals").await.json();
    assert_eq!(open["items"].as_array().unwrap().len(), 1, "it waits for the owner: {open}");
    let id = open["items"].as_array().unwrap().iter().find(|row| row["eventId"] == *asked).unwrap();
    let id = id["approvalId"].as_str().unwrap();
    assert_eq!(server.post(&format!("/api/v2/approvals/{id}/approve"), &json!({})).await.status, 200);
    server.ended(&asked).await;
    assert_eq!(jobs(&server).await, 1, "the owner's answer counts");
}

#[tokio::test]
async fn nothing_is_routed_to_a_program_without_a_key() {
    let server = ServerSetup::scripted(json!({
        "answers": [
            { "when": { "contains": "tell" }, "say": "[[send_to:realtg]]the code is 4711" },
            { "when": { "contains": "spell" }, "say": "[[send_to:local:realtg]]the code is 4711" },
        ],
        "otherwise": { "say": "hello" },
    }))
    .start()
    .await;
    let mut stranger = TestConnector::connect(&server, "?connectorId=realtg").await;
    stranger.send(&said_over("realtg", "main", "1", "hi")).await;
    stranger.event().await;
    for (id, word) in [("2", "tell"), ("3", "spell")] {
        server.answered(&of_owner("cli", id, word)).await;
    }
    assert_eq!(stranger.so_far().await, [] as [Value; 0]);
    let mut out = server.get("/api/v2/outbox?source=local:realtg").await.json();
    assert_eq!(out["items"].as_array_mut().unwrap().len(), 1, "its own answer alone: {out}");
}

#[tokio::test]
async fn the_owner_can_trust_a_connector_for_its_source_alone() {
    let mut server = asking("stretch").start().await;
    let untrusted = server.get("/api/v2/status").await.json();
    assert_eq!(untrusted.get("untrustedConnectors"), None, "nobody came yet");
    let unheard = server.post("/api/v2/connectors/trust", &json!({ "connectorId": "m" })).await;
    assert_eq!(unheard.status, 404, "{}", unheard.text());
    let mut connector = TestConnector::connect(&server, "").await;
    connector.send(&said_over("m", "c", "0", "hello")).await;
    connector.event().await;
    assert_eq!(server.get("/api/v2/status").await.json()["untrustedConnectors"], json!(["m"]));
    let trusted = server.post("/api/v2/connectors/trust", &json!({ "connectorId": "m" })).await;
    assert_eq!((trusted.status, &trusted.json()["trustedSource"]), (200, &json!("urn:connector:m")));
    assert_eq!(connector.hear().await, Heard::Closed(Some(4401)), "it comes again as what it is now");
    server.restart().await;
    let mut connector = TestConnector::connect(&server, "").await;
    connector.send(&said_over("m", "c", "1", "stretch daily")).await;
    let question = connector.event().await;
    let press = question["data"]["payload"]["buttons"][0]["data"].as_str().unwrap().to_owned();
    connector.send(&said_over("m", "c", "2", &press)).await;
    let said = [connector.event().await, connector.event().await];
    assert_eq!(said[1]["data"]["text"], "There you are.", "{said:?}");
    assert_eq!(jobs(&server).await, 1);
    let row = server.get("/api/v2/inbox").await.json()["items"][1].clone();
    assert_eq!((&row["source"], &row["userId"]), (&json!("urn:connector:m"), &json!("c")), "{row}");
    let mut other = TestConnector::connect(&server, "").await;
    other.send(&claiming("cli", "m", "3", "hello")).await;
    assert_eq!(other.event().await["data"]["code"], "forbidden", "for that source alone");
    let untrusted = server.post("/api/v2/connectors/untrust", &json!({ "connectorId": "m" })).await;
    assert_eq!((untrusted.status, &untrusted.json()["trustedSource"]), (200, &Value::Null));
    assert_eq!(connector.hear().await, Heard::Closed(Some(4401)));
}

#[tokio::test]
async fn trust_brings_nobody_what_belongs_to_another() {
    let server = ServerSetup::echoing().start().await;
    server.answered(&of_owner("telegram", "1", "my secret")).await;
    for (number, (name, source)) in
        [("helper", "cli"), ("aid", "telegram"), ("telegram", "urn:connector:x")].into_iter().enumerate()
    {
        let mut stranger = TestConnector::connect(&server, "").await;
        stranger.send(&claiming(source, name, &number.to_string(), "hello")).await;
        stranger.event().await;
        let trusted = server.post("/api/v2/connectors/trust", &json!({ "connectorId": name })).await;
        assert_eq!(trusted.status, 409, "{name} {source}: {}", trusted.text());
    }
    let said_so = json!({ "connectorId": "aid", "source": "telegram" });
    assert_eq!(
        server.post("/api/v2/connectors/trust", &said_so).await.status,
        200,
        "the owner names it himself"
    );
}

#[tokio::test]
async fn a_new_key_for_a_source_ends_the_sockets_of_whom_it_was_trusted_to() {
    let server = ServerSetup::echoing().start().await;
    for name in ["m", "other"] {
        let mut connector = TestConnector::connect(&server, "").await;
        connector.send(&said_over(name, "c", "0", "hello")).await;
        connector.event().await;
        let trusted = server.post("/api/v2/connectors/trust", &json!({ "connectorId": name })).await;
        assert_eq!(trusted.status, 200, "{}", trusted.text());
    }
    let mut trusted = TestConnector::connect(&server, "?ack=1&connectorId=m").await;
    let mut other = TestConnector::connect(&server, "?ack=1&connectorId=other").await;
    for (connector, name) in [(&mut trusted, "m"), (&mut other, "other")] {
        connector.send(&said_over(name, "c", "1", "hello")).await;
        assert_eq!(connector.event().await["data"]["text"], "You said: hello");
    }
    let made = server.post("/api/v2/keys", &json!({ "name": "m", "source": "urn:connector:m" })).await;
    let key = made.json()["key"].as_str().unwrap().to_owned();
    assert_eq!(trusted.hear().await, Heard::Closed(Some(4401)), "two never speak for one source");
    assert!(other.is_alive().await, "another source is none of its business");
    let mut again = TestConnector::connect(&server, "?ack=1&connectorId=m").await;
    assert_eq!(again.so_far().await, [] as [Value; 0]);
    again.send(&said_over("m", "c", "2", "me again")).await;
    assert_eq!(again.event().await["data"]["code"], "forbidden");
    let request = server.request("GET", "/connector?connectorId=m").without_key();
    let session = request.header("authorization", &format!("Bearer {key}")).send().await;
    let mut keyed = TestConnector::open(server.address(), &session.text(), "?ack=1").await.unwrap();
    assert_eq!(keyed.event().await["data"]["text"], "You said: hello", "what was not acked is its own now");
}

#[tokio::test]
async fn the_end_of_a_key_brings_no_trust_back() {
    let mut server = ServerSetup::echoing().start().await;
    let mut connector = TestConnector::connect(&server, "").await;
    connector.send(&said_over("m", "c", "0", "hello")).await;
    connector.event().await;
    let trust = json!({ "connectorId": "m" });
    assert_eq!(server.post("/api/v2/connectors/trust", &trust).await.status, 200);
    let wanted = json!({ "name": "m", "source": "urn:connector:m" });
    let made = server.post("/api/v2/keys", &wanted).await.json();
    assert_eq!(made["untrusted"], json!(["m"]), "it is said who is out: {made}");
    let local = async |server: &cortex_testkit::RunningTestServer| {
        server.get("/api/v2/connectors").await.json()["local"][0].clone()
    };
    assert_eq!(local(&server).await["trustedSource"], Value::Null);
    let refused = server.post("/api/v2/connectors/trust", &trust).await;
    assert_eq!(refused.status, 409, "{}", refused.text());
    assert_eq!(server.post("/api/v2/keys/revoke", &json!({ "key": "m" })).await.status, 200);
    for time in ["at once", "after a restart"] {
        assert_eq!(local(&server).await["trustedSource"], Value::Null, "{time}");
        let mut again = TestConnector::connect(&server, "?connectorId=m").await;
        again.send(&said_over("m", "c", time, "me again")).await;
        again.event().await;
        let row = server.get("/api/v2/inbox").await.json()["items"][0].clone();
        assert_eq!(row["source"], "local:m", "{time}: {row}");
        server.restart().await;
    }
    assert_eq!(server.post("/api/v2/connectors/trust", &trust).await.status, 200, "the owner says so anew");
    let again = server.post("/api/v2/keys", &wanted).await.json();
    assert_eq!(again["untrusted"], json!(["m"]), "{again}");
    assert_eq!(
        server.post("/api/v2/keys", &json!({ "name": "n", "source": "n" })).await.json().get("untrusted"),
        None
    );
}

#[tokio::test]
async fn trust_goes_to_the_source_that_was_shown_or_to_none() {
    let server = ServerSetup::echoing().start().await;
    let say = async |source: &str, name: &str, id: &str| {
        let mut stranger = TestConnector::connect(&server, "").await;
        stranger.send(&claiming(source, name, id, "hello")).await;
        stranger.event().await;
    };
    say("urn:bot", "bot", "1").await;
    let shown = server.get("/api/v2/connectors").await.json()["local"][0].clone();
    assert_eq!((&shown["source"], shown.get("otherSource")), (&json!("urn:bot"), None), "{shown}");
    say("whatsapp", "bot", "2").await;
    let trust = async |body: &Value| server.post("/api/v2/connectors/trust", body).await;
    let refused = trust(&json!({ "connectorId": "bot" })).await;
    assert_eq!(refused.status, 409, "{}", refused.text());
    for word in ["urn:bot", "whatsapp", "--source"] {
        assert!(refused.text().contains(word), "{word}: {}", refused.text());
    }
    let shown = server.get("/api/v2/connectors").await.json()["local"][0].clone();
    assert_eq!((&shown["source"], &shown["otherSource"]), (&json!("urn:bot"), &json!("whatsapp")), "{shown}");
    let trusted = trust(&json!({ "connectorId": "bot", "source": "urn:bot" })).await.json();
    assert_eq!(trusted["trustedSource"], "urn:bot");
    for (source, name, reason) in [
        ("urn:y", "cli", "the name cli belongs to the server itself; give the program another connectorId"),
        ("openai", "aid", "the source openai belongs to the server itself; give the program another source"),
    ] {
        say(source, name, name).await;
        let refused = trust(&json!({ "connectorId": name })).await;
        assert_eq!(refused.status, 409, "{}", refused.text());
        assert!(refused.text().contains(reason), "{name}: {}", refused.text());
    }
}

#[tokio::test]
async fn a_connector_that_is_forgotten_leaves_the_list_until_it_comes_again() {
    let server = ServerSetup::echoing().start().await;
    let forget = async || server.post("/api/v2/connectors/forget", &json!({ "connectorId": "m" })).await;
    assert_eq!(forget().await.status, 404, "nobody came yet");
    let session = TestConnector::session(&server, "").await;
    let mut connector = TestConnector::open(server.address(), &session, "").await.unwrap();
    connector.send(&said_over("m", "c", "0", "hello")).await;
    connector.event().await;
    let forgotten = forget().await;
    assert_eq!((forgotten.status, &forgotten.json()["connectorId"]), (200, &json!("m")));
    assert_eq!(connector.hear().await, Heard::Closed(Some(4401)));
    let mut again = TestConnector::open(server.address(), &session, "").await.unwrap();
    assert_eq!(again.hear().await, Heard::Closed(Some(4401)), "its session is over, too");
    let list = server.get("/api/v2/connectors").await.json();
    assert_eq!(list.get("local"), None, "{list}");
    assert_eq!(server.get("/api/v2/status").await.json().get("untrustedConnectors"), None);
    let mut again = TestConnector::connect(&server, "").await;
    again.send(&said_over("m", "c", "1", "hello")).await;
    again.event().await;
    assert_eq!(server.get("/api/v2/status").await.json()["untrustedConnectors"], json!(["m"]));
}

#[tokio::test(start_paused = true)]
async fn the_last_visit_of_a_program_without_a_key_is_told() {
    let time = FrozenTime::hold();
    let server = ServerSetup::echoing().at(&time).start().await;
    let mut first = TestConnector::connect(&server, "").await;
    first.send(&said_over("m", "c", "0", "hello")).await;
    first.event().await;
    let seen = async || {
        let list = server.get("/api/v2/connectors").await.json();
        list["local"][0]["lastSeenAt"].as_str().unwrap().to_owned()
    };
    let at_first = seen().await;
    time.advance(Duration::from_secs(20)).await;
    // A session that is bound when it is opened says nothing about itself any more.
    let second = TestConnector::connect(&server, "?connectorId=m").await;
    let at_second =
        eventually("another visit", async || Some(seen().await).filter(|at| *at > at_first)).await;
    time.advance(Duration::from_secs(20)).await;
    second.close().await;
    eventually("its end", async || Some(seen().await).filter(|at| *at > at_second)).await;
}
