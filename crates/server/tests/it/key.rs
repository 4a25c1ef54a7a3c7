//! Keys of connectors: each opens its own source and nothing else.

use crate::sample::{event, with};
use cortex_server::{CONNECTOR_ROUTES, OpenTo};
use cortex_testkit::{Answer, RunningTestServer, ServerSetup};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

async fn key_for(server: &RunningTestServer, name: &str, source: &str) -> Value {
    let made = server.post("/api/v2/keys", &json!({ "name": name, "source": source })).await;
    assert_eq!(made.status, 200, "{}", made.text());
    made.json()
}

async fn with_key(server: &RunningTestServer, key: &Value, method: &str, path: &str, body: &Value) -> Answer {
    let bearer = format!("Bearer {}", key["key"].as_str().unwrap());
    let request = server.request(method, path).without_key().header("authorization", &bearer);
    if method == "GET" { request.send().await } else { request.json(body).send().await }
}

#[tokio::test]
async fn a_key_ingests_polls_and_acks_for_its_own_source_alone() {
    let server = ServerSetup::echoing().start().await;
    let (telegram, slack) = (key_for(&server, "a", "telegram").await, key_for(&server, "b", "slack").await);
    let accepted = with_key(&server, &telegram, "POST", "/ingest", &event("1")).await;
    assert_eq!(accepted.status, 202);
    server.ended(accepted.json()["eventId"].as_str().unwrap()).await;
    let foreign = with(event("2"), "source", json!("slack"));
    let refused = with_key(&server, &telegram, "POST", "/ingest", &foreign).await;
    let told = json!({ "error": "forbidden", "details": ["this key may only use the source telegram"] });
    assert_eq!(refused.seen(), (403, told.clone()));
    let poll = json!({ "source": "telegram" });
    assert_eq!(with_key(&server, &slack, "POST", "/outbox/poll", &poll).await.status, 403);
    let polled = with_key(&server, &telegram, "POST", "/outbox/poll", &poll).await.json();
    let message = &polled["messages"][0];
    let ack = json!({ "messageId": message["messageId"], "leaseToken": message["leaseToken"] });
    for path in ["/outbox/ack", "/outbox/nack"] {
        let anothers = with_key(&server, &slack, "POST", path, &ack).await.seen();
        let nobodys =
            json!({ "messageId": "out_01J00000000000000000000000", "leaseToken": message["leaseToken"] });
        assert_eq!(anothers, (404, json!({ "error": "not_found" })), "{path}");
        assert_eq!(with_key(&server, &slack, "POST", path, &nobodys).await.seen(), anothers, "{path}");
    }
    assert_eq!(with_key(&server, &telegram, "POST", "/outbox/ack", &ack).await.status, 200);
    let live = format!("/api/v2/events/{}/live", accepted.json()["eventId"].as_str().unwrap());
    let anothers = with_key(&server, &slack, "GET", &live, &json!({})).await.seen();
    let nobodys = "/api/v2/events/evt_01J00000000000000000000000/live";
    assert_eq!(anothers, (404, json!({ "error": "not_found" })));
    assert_eq!(with_key(&server, &slack, "GET", nobodys, &json!({})).await.seen(), anothers);
    assert_eq!(with_key(&server, &telegram, "GET", &live, &json!({})).await.status, 200);
}

#[tokio::test]
async fn a_connectors_key_opens_the_listed_routes_and_no_other() {
    let server = ServerSetup::never_answering().start().await;
    let key = key_for(&server, "a", "telegram").await;
    let document = server.get("/openapi.json").await.json();
    let mut refused = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        let is_listed = CONNECTOR_ROUTES.iter().any(|route| route.path.replace('*', "{id}") == *path);
        let is_open = cortex_server::OPEN_ROUTES.iter().any(|route| {
            matches!(route.to, OpenTo::Everybody | OpenTo::SendersOfHooks)
                && path.starts_with(route.path.trim_end_matches('*'))
        });
        if is_listed || is_open {
            continue;
        }
        for method in methods.as_object().unwrap().keys() {
            let path = path.replace("{id}", "evt_01J00000000000000000000000");
            let answer = with_key(&server, &key, &method.to_uppercase(), &path, &json!({})).await;
            assert_eq!(answer.status, 403, "{method} {path}: {}", answer.text());
            refused += 1;
        }
    }
    assert!(refused > 40, "the document lists the routes: {refused}");
}

#[tokio::test]
async fn a_key_is_shown_once_listed_without_it_and_revoked_by_id_or_name() {
    let server = ServerSetup::never_answering().start().await;
    let first = key_for(&server, "at home", "telegram").await;
    let fields: Vec<&String> = first.as_object().unwrap().keys().collect();
    assert_eq!(fields, ["id", "key", "name", "source"]);
    let taken = server.post("/api/v2/keys", &json!({ "name": "at home", "source": "x" })).await;
    assert_eq!(taken.status, 409, "{}", taken.text());
    let owners = server.post("/api/v2/keys", &json!({ "name": "owner", "source": "x" })).await;
    assert_eq!(owners.status, 409, "the owner's key is nobody else's");
    let listed = server.get("/api/v2/keys").await;
    assert!(!listed.text().contains(first["key"].as_str().unwrap()));
    assert_eq!(listed.json()["items"][0]["name"], "at home");
    let second = key_for(&server, "other", "slack").await;
    for choice in [first["id"].clone(), json!("other")] {
        let revoked = server.post("/api/v2/keys/revoke", &json!({ "key": choice })).await;
        assert_eq!(revoked.status, 200, "{}", revoked.text());
        assert_eq!(server.post("/api/v2/keys/revoke", &json!({ "key": choice })).await.status, 404);
    }
    for key in [&first, &second] {
        assert_eq!(with_key(&server, key, "POST", "/ingest", &event("1")).await.status, 401);
    }
    for bad in ["owner", "key_01J00000000000000000000000", "nobody"] {
        assert_eq!(server.post("/api/v2/keys/revoke", &json!({ "key": bad })).await.status, 404, "{bad}");
    }
    key_for(&server, "at home", "telegram").await;
    assert_eq!(server.get("/api/v2/status").await.status, 200, "the owner is still the owner");
}

/// Sends the head of a request and half of its body, revokes the key, and sends the rest; the status that comes back.
async fn finished_after_the_end_of_its_key(server: &RunningTestServer, path: &str, body: &Value) -> String {
    let key = key_for(server, path, "telegram").await;
    let (bearer, body) = (key["key"].as_str().unwrap(), body.to_string());
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {bearer}\r\ncontent-type: application/json\r\n\
         connection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let (first, rest) = body.split_at(body.len() / 2);
    let mut connection = TcpStream::connect(server.address()).await.unwrap();
    connection.write_all(format!("{head}{first}").as_bytes()).await.unwrap();
    // Another request is answered, so that the first one has been let in.
    assert_eq!(server.get("/health").await.status, 200);
    assert_eq!(server.post("/api/v2/keys/revoke", &json!({ "key": path })).await.status, 200);
    connection.write_all(rest.as_bytes()).await.unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await.unwrap();
    answer.lines().next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_body_that_is_finished_after_its_key_was_revoked_does_nothing() {
    let server = ServerSetup::never_answering().start().await;
    for (path, body) in [("/ingest", event("1")), ("/outbox/poll", json!({ "source": "telegram", "max": 1 }))]
    {
        let status = finished_after_the_end_of_its_key(&server, path, &body).await;
        assert_eq!(status, "HTTP/1.1 401 Unauthorized", "{path}");
    }
    assert_eq!(server.get("/api/v2/inbox").await.json()["items"], json!([]));
}

#[tokio::test]
async fn a_revoked_key_ends_its_waiting_polls_and_its_streams() {
    let server = ServerSetup::never_answering().start().await;
    let key = key_for(&server, "a", "telegram").await;
    let event = with_key(&server, &key, "POST", "/ingest", &event("1")).await.json();
    let live = format!("/api/v2/events/{}/live", event["eventId"].as_str().unwrap());
    let poll = json!({ "source": "telegram", "waitSeconds": 60 });
    let nothing = json!({});
    let mut waiting = Box::pin(async {
        tokio::join!(
            async { (with_key(&server, &key, "POST", "/outbox/poll", &poll).await.status, Instant::now()) },
            async { (with_key(&server, &key, "GET", &live, &nothing).await.status, Instant::now()) },
        )
    });
    let early = tokio::time::timeout(Duration::from_millis(500), &mut waiting).await;
    assert!(early.is_err(), "both wait for something to come");
    let revoke = async {
        assert_eq!(server.post("/api/v2/keys/revoke", &json!({ "key": "a" })).await.status, 200);
        Instant::now()
    };
    let (((status, poll_ended), (_, stream_ended)), revoked_at) = tokio::join!(waiting, revoke);
    assert_eq!(status, 401);
    for ended in [poll_ended, stream_ended] {
        assert!(ended.saturating_duration_since(revoked_at).as_secs() < 1, "the promise is one second");
    }
}

#[tokio::test]
async fn no_connector_gets_a_key_for_a_source_of_the_servers_own() {
    let server = ServerSetup::never_answering().start().await;
    for source in ["cli", "openai", "cron", "router", "hook:ci", "local:m"] {
        let made = server.post("/api/v2/keys", &json!({ "name": source, "source": source })).await;
        assert_eq!(made.status, 400, "{source}: {}", made.text());
    }
    let claimed = with(event("1"), "source", json!("local:m"));
    assert_eq!(server.post("/ingest", &claimed).await.status, 403, "not even the owner speaks as a stranger");
}

#[tokio::test]
async fn a_key_lasts_over_a_restart_and_so_does_its_end() {
    let mut server = ServerSetup::never_answering().start().await;
    let (stays, ends) = (key_for(&server, "a", "telegram").await, key_for(&server, "b", "telegram").await);
    server.post("/api/v2/keys/revoke", &json!({ "key": "b" })).await;
    server.restart().await;
    assert_eq!(with_key(&server, &stays, "POST", "/ingest", &event("1")).await.status, 202);
    assert_eq!(with_key(&server, &ends, "POST", "/ingest", &event("2")).await.status, 401);
}
