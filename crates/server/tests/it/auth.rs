//! The key: only the right one, whole, once and in its header opens a door.

use crate::sample::event;
use cortex_testkit::{OWNER_KEY, Request, ServerSetup};
use rusqlite::Connection;
use serde_json::json;

fn unauthorized() -> (u16, serde_json::Value) {
    (401, json!({ "error": "unauthorized" }))
}

#[tokio::test]
async fn a_wrong_key_in_any_shape_is_401() {
    let bearer = |key: &str| format!("Bearer {key}");
    let wrong: [Vec<String>; 10] = [
        vec![],
        vec![bearer("wrong")],
        vec![bearer(&format!("{OWNER_KEY}x"))],
        vec![bearer(&OWNER_KEY[1..])],
        vec![bearer(&OWNER_KEY.to_uppercase())],
        vec![bearer("")],
        vec![String::new()],
        vec![OWNER_KEY.to_owned()],
        vec![format!("Basic {OWNER_KEY}")],
        vec![bearer(OWNER_KEY), bearer(OWNER_KEY)],
    ];
    // Nine wrong ones a minute are free for all; each server has a budget of its own.
    let server = ServerSetup::never_answering().start().await;
    for headers in &wrong {
        let bare = server.request("POST", "/ingest").without_key().json(&event("1"));
        let request = headers.iter().fold(bare, |request, value| request.header("authorization", value));
        assert_eq!(request.send().await.seen(), unauthorized(), "{headers:?}");
    }
    assert_eq!(server.get("/api/v2/inbox").await.json(), json!({ "items": [] }));
}

#[tokio::test]
async fn a_key_in_the_address_never_opens() {
    let server = ServerSetup::never_answering().start().await;
    for name in ["key", "api_key", "apiKey", "token", "access_token", "authorization"] {
        let path = format!("/api/v2/inbox?{name}={OWNER_KEY}");
        assert_eq!(server.request("GET", &path).without_key().send().await.seen(), unauthorized(), "{name}");
    }
}

#[tokio::test]
async fn the_scheme_is_read_in_any_case() {
    let server = ServerSetup::never_answering().start().await;
    for scheme in ["Bearer", "bearer", "BEARER"] {
        let request = server.request("GET", "/api/v2/status").without_key();
        let answer = request.header("authorization", &format!("{scheme} {OWNER_KEY}")).send().await;
        assert_eq!(answer.status, 200, "{scheme}");
    }
}

#[tokio::test]
async fn the_eleventh_wrong_key_is_429_while_a_right_one_and_a_missing_one_are_answered_as_ever() {
    let server = ServerSetup::never_answering().start().await;
    let guess = || -> Request {
        server.request("GET", "/api/v2/status").without_key().header("authorization", "Bearer guess")
    };
    for number in 1..=10 {
        assert_eq!(guess().send().await.seen(), unauthorized(), "guess {number}");
    }
    let answer = guess().send().await;
    let body = answer.json();
    assert_eq!((answer.status, &body["error"]), (429, &json!("too_many_requests")));
    let wait = body["retryAfterMs"].as_u64().unwrap();
    assert!((1..=60_000).contains(&wait), "{wait}");
    let header: u64 = answer.header("retry-after").unwrap().parse().unwrap();
    assert_eq!(header, wait.div_ceil(1_000));
    assert_eq!(server.get("/api/v2/status").await.status, 200);
    assert_eq!(server.request("GET", "/api/v2/status").without_key().send().await.seen(), unauthorized());
    assert_eq!(server.request("GET", "/health").without_key().send().await.status, 200);
}

#[tokio::test]
async fn a_dump_of_the_database_holds_no_usable_key() {
    let mut server = ServerSetup::echoing().start().await;
    server.answered(&event("1")).await;
    server.stop().await;
    let connection = Connection::open(server.database()).unwrap();
    let kept: (String, String, Vec<u8>) = connection
        .query_row("SELECT name, prefix, sha256 FROM keys", [], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
        .unwrap();
    assert_eq!((kept.0.as_str(), kept.1.as_str(), kept.2.len()), ("owner", &OWNER_KEY[..8], 32));
    let bytes = std::fs::read(server.database()).unwrap();
    assert!(!bytes.windows(OWNER_KEY.len()).any(|window| window == OWNER_KEY.as_bytes()));
}
