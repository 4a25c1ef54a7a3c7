//! Bodies no connector should send: refused with a code, never with a panic, and nothing is kept.

use crate::sample::{event, saying, with};
use cortex_testkit::{RunningTestServer, ServerSetup};
use serde_json::{Value, json};

const BODY_BYTES_MAX: usize = 1024 * 1024;
const NOT_JSON: &str = "Request body must be valid JSON";

async fn check_body(server: &RunningTestServer, body: impl Into<Vec<u8>>, detail: &str) {
    let answer = server.request("POST", "/ingest").body(body).send().await;
    assert_eq!(answer.seen(), (400, json!({ "error": "invalid_request", "details": [detail] })));
}

/// An event whose JSON text has exactly this many bytes.
fn event_of(bytes: usize) -> String {
    let bare = saying("large", "").to_string().len();
    saying("large", &"x".repeat(bytes - bare)).to_string()
}

#[tokio::test]
async fn a_body_that_is_no_json_object_is_told_so() {
    let server = ServerSetup::never_answering().start().await;
    let bodies: [&[u8]; 9] = [
        b"",
        b" ",
        b"{",
        b"{\"source\":}",
        b"not json",
        b"{\"text\":\"\xff\xfe\"}",
        b"{\"text\":\"\\ud800\"}",
        b"{\"text\":\"\\udc00\\ud800\"}",
        b"{\"text\":\"a\0b\"}",
    ];
    for body in bodies {
        check_body(&server, body, NOT_JSON).await;
    }
    for body in ["[]", "null", "true", "1", "\"text\"", "[{\"source\":\"x\"}]"] {
        check_body(&server, body, "Request body must be a JSON object").await;
    }
    assert_eq!(server.get("/api/v2/inbox").await.json(), json!({ "items": [] }));
}

#[tokio::test]
async fn a_million_brackets_are_refused_and_the_server_lives() {
    let server = ServerSetup::never_answering().start().await;
    let too_deep = "Request body must not be nested deeper than 64 levels";
    check_body(&server, "[".repeat(1_000_000), too_deep).await;
    check_body(&server, "{\"a\":".repeat(200_000), too_deep).await;
    let nested = |levels: usize| {
        let metadata = format!("{{\"a\":{}1{}}}", "[".repeat(levels - 2), "]".repeat(levels - 2));
        event("deep").to_string().replace('}', &format!(",\"metadata\":{metadata}}}"))
    };
    check_body(&server, nested(65), too_deep).await;
    let answer = server.request("POST", "/ingest").body(nested(64)).send().await;
    assert_eq!(answer.status, 202, "{}", answer.text());
}

#[tokio::test]
async fn a_nul_is_refused_by_field_and_other_odd_characters_survive() {
    let server = ServerSetup::echoing().start().await;
    for field in ["source", "externalMessageId", "topicKey", "userId", "text"] {
        let answer = server.post("/ingest", &with(event("1"), field, json!("a\0b"))).await;
        let detail = format!("{field} must not contain NUL characters");
        assert_eq!(answer.seen(), (400, json!({ "error": "invalid_request", "details": [detail] })));
    }
    let odd = "grüße 你好 🌍 \u{1F468}\u{200D}\u{1F469} \u{202E}right to left\u{7} \u{FFFF}";
    server.answered(&saying("odd", odd)).await;
    let messages = server.poll(&json!({ "source": "telegram" })).await;
    assert_eq!(messages[0]["text"], format!("You said: {odd}"));
}

#[tokio::test]
async fn a_body_of_exactly_the_limit_is_taken_and_one_byte_more_is_413() {
    let server = ServerSetup::never_answering().start().await;
    let refusal =
        json!({ "error": "payload_too_large", "details": ["Request body must be at most 1048576 bytes"] });
    for bytes in [BODY_BYTES_MAX + 1, 10_000_000] {
        let answer = server.request("POST", "/ingest").body(event_of(bytes)).send().await;
        assert_eq!(answer.seen(), (413, refusal.clone()), "{bytes} bytes");
        let answer = server.request("POST", "/ingest").body(event_of(bytes)).send_chunked(65_536).await;
        assert_eq!(answer.seen(), (413, refusal.clone()), "{bytes} bytes in chunks");
    }
    let answer = server.request("POST", "/ingest").body(event_of(BODY_BYTES_MAX)).send_chunked(65_536).await;
    assert_eq!(answer.status, 202, "{}", answer.text());
    let answer = server.request("POST", "/ingest").body(event_of(BODY_BYTES_MAX)).send().await;
    assert_eq!(answer.status, 200, "{}", answer.text());
}

#[tokio::test]
async fn moments_of_another_age_are_refused_by_name() {
    let server = ServerSetup::never_answering().start().await;
    for moment in ["9999-12-31", "9998-01-01T00:00:00Z", "-000044-03-15T00:00:00Z", "1969-12-31T23:59:59Z"] {
        let answer = server.post("/ingest", &with(event("1"), "occurredAt", json!(moment))).await;
        let detail = "occurredAt must be between the years 1970 and 2999";
        let refusal = json!({ "error": "invalid_request", "details": [detail] });
        assert_eq!(answer.seen(), (400, refusal), "{moment}");
    }
    let answer = server.post("/ingest", &with(event("1"), "occurredAt", json!("9999-12-31T23:59:59Z"))).await;
    assert_eq!(answer.status, 400, "{}", answer.text());
}

#[tokio::test]
async fn an_identifier_longer_than_512_characters_is_refused() {
    let server = ServerSetup::never_answering().start().await;
    for field in ["source", "externalMessageId", "idempotencyKey", "topicKey", "userId"] {
        let answer = server.post("/ingest", &with(event("1"), field, json!("ü".repeat(513)))).await;
        let detail = format!("{field} must be at most 512 characters");
        assert_eq!(answer.seen(), (400, json!({ "error": "invalid_request", "details": [detail] })));
    }
    server.accept(&with(event("1"), "topicKey", json!("ü".repeat(512)))).await;
}

#[tokio::test]
async fn quotes_and_comments_of_sql_are_only_text() {
    let server = ServerSetup::echoing().start().await;
    for (number, text) in
        ["'; drop table turns; --", "\" OR 1=1", "%_\\", "?1 :a @b $c"].into_iter().enumerate()
    {
        let odd = with(saying(&format!("{number}{text}"), text), "topicKey", json!(text));
        let id = server.answered(&odd).await;
        let row = server.get(&format!("/api/v2/inbox/{id}")).await.json();
        assert_eq!(
            (&row["text"], &row["topicKey"], &row["status"]),
            (&json!(text), &json!(text), &json!("done"))
        );
    }
    assert_eq!(server.poll(&json!({ "source": "' OR 1=1 --" })).await, Vec::<Value>::new());
}
