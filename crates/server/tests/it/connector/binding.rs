//! Whose session it is: a connector speaks for itself, a key for its source.

use cortex_testkit::{Heard, RunningTestServer, ServerSetup, TestConnector, said_over};
use serde_json::{Value, json};

async fn key_for(server: &RunningTestServer, source: &str) -> String {
    let made = server.post("/api/v2/keys", &json!({ "name": source, "source": source })).await;
    assert_eq!(made.status, 200, "{}", made.text());
    made.json()["key"].as_str().unwrap().to_owned()
}

async fn session_of(server: &RunningTestServer, key: &str) -> String {
    let bearer = format!("Bearer {key}");
    let asking = server.request("GET", "/connector").without_key().header("authorization", &bearer);
    let answer = asking.send().await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.text()
}

#[tokio::test]
async fn a_session_is_bound_to_the_connector_that_used_it_first() {
    let server = ServerSetup::echoing().start().await;
    let session = TestConnector::session(&server, "").await;
    let mut connector = TestConnector::open(server.address(), &session, "").await.unwrap();
    connector.send(&said_over("m", "c", "1", "hello")).await;
    connector.event().await;
    let mut elsewhere = said_over("m", "c", "2", "hello");
    elsewhere["source"] = json!("urn:connector:other");
    for foreign in [said_over("other", "c", "2", "hello"), elsewhere] {
        connector.send(&foreign).await;
        let told = connector.event().await;
        assert_eq!(told["data"]["code"], "forbidden", "{told}");
        assert!(told["data"]["message"].as_str().unwrap().contains("belongs to connector m"), "{told}");
    }
    connector.close().await;
    let mut again = TestConnector::open(server.address(), &session, "").await.unwrap();
    again.send(&said_over("other", "c", "3", "hello")).await;
    assert_eq!(again.event().await["data"]["code"], "forbidden", "also after a reconnect");
}

#[tokio::test]
async fn a_key_speaks_only_for_its_own_source() {
    let server = ServerSetup::echoing().start().await;
    let key = key_for(&server, "urn:connector:m").await;
    let session = session_of(&server, &key).await;
    let mut connector = TestConnector::open(server.address(), &session, "").await.unwrap();
    connector.send(&said_over("other", "c", "1", "hello")).await;
    let told = connector.event().await;
    assert_eq!(told["data"]["code"], "forbidden", "{told}");
    connector.send(&said_over("m", "c", "1", "hello")).await;
    assert_eq!(connector.event().await["data"]["text"], "You said: hello");
}

#[tokio::test]
async fn a_connector_with_a_key_gets_what_waits_without_saying_anything() {
    let server = ServerSetup::echoing().start().await;
    let key = key_for(&server, "urn:connector:m").await;
    let session = session_of(&server, &key).await;
    let mut connector = TestConnector::open(server.address(), &session, "?ack=1").await.unwrap();
    connector.send(&said_over("m", "c", "1", "hello")).await;
    let unacked = connector.event().await;
    connector.close().await;
    let session = session_of(&server, &key).await;
    let mut again = TestConnector::open(server.address(), &session, "?ack=1").await.unwrap();
    assert_eq!(again.event().await, unacked, "a new session of the same key");
}

#[tokio::test]
async fn a_revoked_key_closes_its_sockets_and_opens_nothing_more() {
    let server = ServerSetup::echoing().start().await;
    let (key, other) = (key_for(&server, "urn:connector:m").await, key_for(&server, "urn:connector:o").await);
    let (session, session_o) = (session_of(&server, &key).await, session_of(&server, &other).await);
    let mut connector = TestConnector::open(server.address(), &session, "").await.unwrap();
    let mut idle = TestConnector::open(server.address(), &session, "").await.unwrap();
    let mut stays = TestConnector::open(server.address(), &session_o, "").await.unwrap();
    connector.send(&said_over("m", "c", "1", "hello")).await;
    connector.event().await;
    idle.so_far().await;
    let started = std::time::Instant::now();
    assert_eq!(server.post("/api/v2/keys/revoke", &json!({ "key": "urn:connector:m" })).await.status, 200);
    assert_eq!(connector.hear().await, Heard::Closed(Some(4401)));
    assert_eq!(idle.hear().await, Heard::Closed(Some(4401)));
    assert!(started.elapsed().as_secs() < 1, "the promise is one second: {:?}", started.elapsed());
    let mut reopened = TestConnector::open(server.address(), &session, "").await.unwrap();
    assert_eq!(reopened.hear().await, Heard::Closed(Some(4401)));
    assert_eq!(stays.so_far().await, [] as [Value; 0], "another's key stays open");
}

#[tokio::test]
async fn without_allow_local_a_session_needs_a_key() {
    let server = ServerSetup::echoing().connectors_need_a_key().start().await;
    for path in ["/connector", "/api/cortex-m/v1/connector"] {
        assert_eq!(server.request("GET", path).without_key().send().await.status, 401);
        assert_eq!(server.get(path).await.status, 200, "the owner's key opens it");
    }
}

#[tokio::test]
async fn a_program_elsewhere_a_web_page_and_a_wrong_key_need_one_too() {
    let server = ServerSetup::echoing().on_every_address().start().await;
    assert_eq!(server.request("GET", "/connector").without_key().send().await.status, 401);
    let server = ServerSetup::echoing().start().await;
    let page = format!("http://127.0.0.1:{}", server.address().port());
    let asking = server.request("GET", "/connector").without_key().header("origin", &page);
    assert_eq!(asking.send().await.status, 401, "a page is no program, not even our own");
    let asking = server.request("GET", "/connector").without_key().header("authorization", "Bearer wrong");
    assert_eq!(asking.send().await.status, 401);
}

#[tokio::test]
async fn a_socket_from_a_foreign_page_or_under_a_foreign_name_is_refused() {
    let server = ServerSetup::echoing().start().await;
    let session = TestConnector::session(&server, "").await;
    let path = format!("/connector/{session}");
    for (header, value, expected) in
        [("origin", "https://evil.example", "403"), ("host", "evil.example", "421")]
    {
        let refused = TestConnector::open_with(server.address(), &path, &[(header, value)]).await;
        let told = refused.err().unwrap();
        assert!(told.contains(expected), "{header}: {told}");
    }
    let wrong = [("authorization", "Bearer wrong")];
    let refused = TestConnector::open_with(server.address(), &path, &wrong).await;
    assert!(refused.err().unwrap().contains("401"));
    let key = key_for(&server, "urn:connector:m").await;
    let mut other =
        TestConnector::open_with(server.address(), &path, &[("authorization", &format!("Bearer {key}"))])
            .await
            .unwrap();
    assert_eq!(other.hear().await, Heard::Closed(Some(4401)), "a session is its own key's");
}

#[tokio::test]
async fn the_database_holds_no_session_id_and_no_key() {
    let server = ServerSetup::echoing().start().await;
    let key = key_for(&server, "urn:connector:m").await;
    let session = session_of(&server, &key).await;
    let mut connector = TestConnector::open(server.address(), &session, "").await.unwrap();
    connector.so_far().await;
    let home = server.home();
    for file in ["cortex.db", "cortex.db-wal"] {
        let bytes = std::fs::read(home.join(file)).unwrap();
        for secret in [&key, &session] {
            let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!found, "{file} holds {secret}");
        }
    }
}

#[tokio::test]
async fn nobody_without_a_key_speaks_for_a_source_that_has_one() {
    let server = ServerSetup::echoing().start().await;
    let key = key_for(&server, "urn:connector:m").await;
    let session = session_of(&server, &key).await;
    let mut own = TestConnector::open(server.address(), &session, "?ack=1").await.unwrap();
    own.send(&said_over("m", "c", "1", "hello")).await;
    let unacked = own.event().await;
    own.close().await;
    // It waits for its connector; a program on this machine that knows its name gets nothing of it.
    let mut knows_the_name = TestConnector::connect(&server, "?connectorId=m").await;
    assert_eq!(knows_the_name.so_far().await, [] as [Value; 0]);
    knows_the_name.send(&said_over("m", "c", "2", "I am m")).await;
    assert_eq!(knows_the_name.event().await["data"]["code"], "forbidden");
    let session = session_of(&server, &key).await;
    let mut own = TestConnector::open(server.address(), &session, "?ack=1").await.unwrap();
    assert_eq!(own.event().await, unacked);
}

#[tokio::test]
async fn a_source_is_one_connector_and_a_connector_one_source() {
    let server = ServerSetup::echoing().start().await;
    let mut first = TestConnector::of_owner(&server, "").await;
    first.send(&said_over("m", "c", "1", "hello")).await;
    first.event().await;
    let mut same_source = said_over("another", "c", "2", "hello");
    same_source["source"] = json!("urn:connector:m");
    let mut same_name = said_over("m", "c", "3", "hello");
    same_name["source"] = json!("urn:connector:another");
    for taken in [same_source, same_name] {
        let mut other = TestConnector::of_owner(&server, "").await;
        other.send(&taken).await;
        let told = other.event().await;
        assert_eq!(told["data"]["code"], "forbidden", "{told}");
    }
    let mut machine = TestConnector::of_owner(&server, "").await;
    machine.send(&said_over("cron", "c", "4", "hello")).await;
    assert_eq!(machine.event().await["data"]["code"], "invalid_event");
}

#[tokio::test]
async fn two_sockets_of_one_session_cannot_bind_it_to_two() {
    let server = ServerSetup::echoing().start().await;
    let session = TestConnector::session(&server, "").await;
    let mut one = TestConnector::open(server.address(), &session, "").await.unwrap();
    let mut two = TestConnector::open(server.address(), &session, "").await.unwrap();
    one.so_far().await;
    two.so_far().await;
    one.send(&said_over("one", "c", "1", "hello")).await;
    assert_eq!(one.event().await["data"]["text"], "You said: hello");
    two.send(&said_over("two", "c", "2", "hello")).await;
    assert_eq!(two.event().await["data"]["code"], "forbidden");
}

#[tokio::test]
async fn the_owners_keys_keep_their_names_and_their_reach() {
    let mut server = ServerSetup::echoing().start().await;
    assert_eq!(server.post("/api/v2/keys", &json!({ "name": "owner", "source": "x" })).await.status, 409);
    server.restart().await;
    assert_eq!(server.get("/api/v2/status").await.status, 200);
}

#[tokio::test]
async fn a_renamed_connector_can_be_unbound() {
    let server = ServerSetup::echoing().start().await;
    let key = key_for(&server, "urn:connector:m").await;
    let say = async |name: &str, id: &str| {
        let session = session_of(&server, &key).await;
        let mut connector = TestConnector::open(server.address(), &session, "").await.unwrap();
        let mut said = said_over(name, "c", id, "hello");
        said["source"] = json!("urn:connector:m");
        connector.send(&said).await;
        connector.event().await
    };
    assert_eq!(say("m", "1").await["data"]["text"], "You said: hello");
    assert_eq!(say("renamed", "2").await["data"]["code"], "forbidden");
    let unbind =
        async |source: &str| server.post("/api/v2/connectors/unbind", &json!({ "source": source })).await;
    assert_eq!(unbind("urn:connector:other").await.status, 404);
    let unbound = unbind("urn:connector:m").await;
    let nothing_waits = json!({ "source": "urn:connector:m", "channel": "m", "waiting": 0, "suppressed": 0 });
    assert_eq!(unbound.json(), nothing_waits);
    assert_eq!(say("renamed", "3").await["data"]["text"], "You said: hello");
}
