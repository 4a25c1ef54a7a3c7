//! `POST /ingest`: queued once, whoever asks how often (D6), and every bad field named at once (D1).

use crate::sample::{event, saying, with, without};
use cortex_testkit::{RunningTestServer, ServerSetup};
use serde_json::{Value, json};
use std::collections::HashSet;
use tokio::task::JoinSet;

const STRINGS: [&str; 6] = ["source", "externalMessageId", "idempotencyKey", "topicKey", "userId", "text"];
const BAD_DATE: &str = "occurredAt must be a valid ISO 8601 date string";

async fn check_refused(server: &RunningTestServer, body: &Value, details: &[&str]) {
    let answer = server.post("/ingest", body).await;
    assert_eq!(answer.seen(), (400, json!({ "error": "invalid_request", "details": details })), "{body}");
}

#[tokio::test]
async fn a_new_event_is_queued_with_202() {
    let server = ServerSetup::never_answering().start().await;
    let answer = server.post("/ingest", &event("1")).await;
    let id = answer.json()["eventId"].as_str().unwrap().to_owned();
    assert_eq!(answer.seen(), (202, json!({ "eventId": id, "status": "queued" })));
    assert_eq!((id.len(), id.starts_with("evt_")), (30, true), "{id}");
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let row = server.get(&format!("/api/v2/inbox/{id}")).await.json();
    assert_eq!(row["text"], "Remind me every weekday at 9");
}

#[tokio::test]
async fn the_same_event_again_is_200_with_the_first_id_also_after_a_restart() {
    let mut server = ServerSetup::echoing().start().await;
    let id = server.accept(&event("1")).await;
    let duplicate = (200, json!({ "eventId": id, "status": "duplicate_ignored" }));
    assert_eq!(server.post("/ingest", &event("1")).await.seen(), duplicate);
    server.ended(&id).await;
    assert_eq!(server.post("/ingest", &event("1")).await.seen(), duplicate);
    server.restart().await;
    assert_eq!(server.post("/ingest", &event("1")).await.seen(), duplicate);
    assert_eq!(server.get("/api/v2/inbox").await.json()["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn only_source_and_external_id_make_a_duplicate() {
    let server = ServerSetup::never_answering().start().await;
    server.accept(&event("1")).await;
    server.accept(&with(event("1"), "source", json!("slack"))).await;
    let same_key = with(event("2"), "idempotencyKey", json!("telegram:1"));
    server.accept(&same_key).await;
    assert_eq!(server.get("/api/v2/inbox").await.json()["items"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn two_connectors_never_share_a_topic() {
    let script = json!({
        "answers": [{ "when": { "equals": "stuck" }, "error": { "kind": "hang" } }],
        "otherwise": { "say": "You said: {{user}}" },
    });
    let server = ServerSetup::scripted(script).start().await;
    server.accept(&saying("1", "stuck")).await;
    let behind = server.accept(&saying("2", "behind")).await;
    server.answered(&with(saying("3", "free"), "source", json!("slack"))).await;
    let row = server.get(&format!("/api/v2/inbox/{behind}")).await.json();
    assert_eq!((&row["topicKey"], &row["status"]), (&json!("chat-42:thread-root"), &json!("pending")));
}

#[tokio::test]
async fn fifty_identical_posts_at_once_give_one_202_and_one_answer() {
    let server = ServerSetup::echoing().start().await;
    let mut posts = JoinSet::new();
    for _ in 0..50 {
        posts.spawn(server.request("POST", "/ingest").json(&event("1")).send());
    }
    let answers = posts.join_all().await;
    let queued = answers.iter().filter(|answer| answer.status == 202).count();
    let ignored = answers.iter().filter(|answer| answer.status == 200).count();
    assert_eq!((queued, ignored), (1, 49));
    let ids: HashSet<String> = answers.iter().map(|answer| answer.json()["eventId"].to_string()).collect();
    assert_eq!(ids.len(), 1, "{ids:?}");
    let id = answers[0].json()["eventId"].as_str().unwrap().to_owned();
    assert_eq!(server.ended(&id).await["attempts"], 1);
    assert_eq!(server.poll(&json!({ "source": "telegram" })).await.len(), 1);
}

#[tokio::test]
async fn another_body_under_the_same_id_changes_nothing_and_leaves_a_line_in_the_trace() {
    let server = ServerSetup::never_answering().start().await;
    let id = server.accept(&saying("1", "first")).await;
    let duplicate = (200, json!({ "eventId": id, "status": "duplicate_ignored" }));
    assert_eq!(server.post("/ingest", &saying("1", "second")).await.seen(), duplicate);
    let trace = server.get(&format!("/api/v2/events/{id}/trace")).await.json();
    assert_eq!(trace["event"]["text"], "first");
    let line = trace["entries"].as_array().unwrap().iter().find(|entry| entry["what"] == "duplicate");
    assert_eq!(line.unwrap()["detail"], "telegram 1 came again with another body");
}

#[tokio::test]
async fn an_identical_duplicate_leaves_no_line() {
    let server = ServerSetup::never_answering().start().await;
    let id = server.accept(&event("1")).await;
    assert_eq!(server.post("/ingest", &event("1")).await.status, 200);
    let trace = server.get(&format!("/api/v2/events/{id}/trace")).await.json();
    assert!(trace["entries"].as_array().unwrap().iter().all(|entry| entry["what"] != "duplicate"), "{trace}");
}

#[tokio::test]
async fn each_required_text_is_missed_by_name() {
    let server = ServerSetup::never_answering().start().await;
    for field in STRINGS {
        let required = format!("{field} is required");
        let empty = format!("{field} must be a non-empty string");
        check_refused(&server, &without(event("1"), field), &[&required]).await;
        check_refused(&server, &with(event("1"), field, Value::Null), &[&required]).await;
        for bad in [json!(""), json!(" \t\n"), json!(5), json!(["a"]), json!({}), json!(true)] {
            check_refused(&server, &with(event("1"), field, bad), &[&empty]).await;
        }
    }
}

#[tokio::test]
async fn a_bad_moment_is_refused_in_the_documented_words() {
    let server = ServerSetup::never_answering().start().await;
    check_refused(&server, &without(event("1"), "occurredAt"), &["occurredAt is required"]).await;
    for bad in [json!("yesterday"), json!(""), json!(1_771_187_400), json!("2026-02-30T00:00:00Z"), json!({})]
    {
        check_refused(&server, &with(event("1"), "occurredAt", bad), &[BAD_DATE]).await;
    }
}

#[tokio::test]
async fn metadata_must_be_an_object_and_its_priority_a_known_word() {
    let server = ServerSetup::never_answering().start().await;
    for bad in [json!([]), json!("x"), json!(1), json!(false)] {
        check_refused(&server, &with(event("1"), "metadata", bad), &["metadata must be an object"]).await;
    }
    let words = "metadata.priority must be urgent, normal or background";
    for bad in [json!("high"), json!("URGENT"), json!(1), json!(["urgent"])] {
        check_refused(&server, &with(event("1"), "metadata", json!({ "priority": bad })), &[words]).await;
    }
    for (number, word) in ["urgent", "normal", "background"].into_iter().enumerate() {
        let metadata = json!({ "priority": word, "chatId": "-100123" });
        let id = server.accept(&with(event(&format!("good {number}")), "metadata", metadata.clone())).await;
        let row = server.get(&format!("/api/v2/inbox/{id}")).await.json();
        assert_eq!((&row["priority"], &row["metadata"]), (&json!(word), &metadata));
    }
    let id = server.accept(&with(event("none"), "metadata", Value::Null)).await;
    let row = server.get(&format!("/api/v2/inbox/{id}")).await.json();
    assert_eq!((&row["priority"], &row["metadata"]), (&json!("normal"), &Value::Null));
}

#[tokio::test]
async fn every_bad_field_is_listed_at_once() {
    let server = ServerSetup::never_answering().start().await;
    let all: Vec<String> =
        STRINGS.iter().chain(&["occurredAt"]).map(|field| format!("{field} is required")).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    check_refused(&server, &json!({}), &all).await;
    let bad = json!({
        "source": "", "externalMessageId": "1", "idempotencyKey": 7, "topicKey": "t", "text": "hello",
        "occurredAt": "never", "metadata": [],
    });
    let details = [
        "source must be a non-empty string",
        "idempotencyKey must be a non-empty string",
        "userId is required",
        BAD_DATE,
        "metadata must be an object",
    ];
    check_refused(&server, &bad, &details).await;
}

#[tokio::test]
async fn a_refused_event_leaves_nothing_behind() {
    let server = ServerSetup::never_answering().start().await;
    check_refused(&server, &without(event("1"), "text"), &["text is required"]).await;
    assert_eq!(server.get("/api/v2/inbox").await.json(), json!({ "items": [] }));
    server.accept(&event("1")).await;
}

#[tokio::test]
async fn arrival_decides_the_order_and_not_the_connectors_clock() {
    let server = ServerSetup::echoing().flow(|flow| flow.max_parallel_topics = 1).start().await;
    let moments = ["2026-02-15T20:30:00Z", "1999-01-01T00:00:00Z", "2030-01-01T00:00:00Z"];
    let mut last = String::new();
    for (number, moment) in moments.into_iter().enumerate() {
        let number = number.to_string();
        last = server.accept(&with(saying(&number, &number), "occurredAt", json!(moment))).await;
    }
    server.ended(&last).await;
    let said: Vec<Value> = server.poll(&json!({ "source": "telegram" })).await;
    let texts: Vec<&str> = said.iter().map(|message| message["text"].as_str().unwrap()).collect();
    assert_eq!(texts, ["You said: 0", "You said: 1", "You said: 2"]);
}

#[tokio::test]
async fn an_event_keeps_what_its_sender_is_and_what_came_with_it() {
    let of_ada = |flow: &mut cortex_runtime::RuntimeConfig| {
        flow.channels.identities.insert("ada".to_owned(), vec!["tg:998877".to_owned()]);
    };
    let server = ServerSetup::echoing().flow(of_ada).start().await;
    let attachments = json!([{ "name": "cat.jpg", "type": "image/jpeg" }]);
    let told = json!({ "relationship": "colleague", "attachments": attachments, "chatId": "-100123" });
    for body in [
        event("1"),
        with(event("2"), "userId", json!("eve")),
        with(event("3"), "metadata", told.clone()),
        with(event("4"), "metadata", json!({ "relationship": 7, "attachments": "none" })),
    ] {
        server.answered(&body).await;
    }
    let look = rusqlite::Connection::open(server.database()).unwrap();
    let mut envelopes = look.prepare("SELECT envelope FROM cortex_bus ORDER BY id").unwrap();
    let seen: Vec<(Value, Value)> = envelopes
        .query_map([], |row| row.get::<_, String>(0))
        .unwrap()
        .map(|envelope| serde_json::from_str::<Value>(&envelope.unwrap()).unwrap())
        .map(|envelope| (envelope["relationship"].clone(), envelope["attachments"].clone()))
        .collect();
    let expected =
        [("known", json!([])), ("unknown", json!([])), ("colleague", attachments), ("known", json!("none"))];
    assert_eq!(seen, expected.map(|(relationship, attachments)| (json!(relationship), attachments)));
    let last = server.poll(&json!({ "source": "telegram" })).await;
    assert_eq!(
        last[2]["text"],
        "You said: [attachments: cat.jpg (image/jpeg)]\nRemind me every weekday at 9"
    );
    let audit: u32 = look.query_row("SELECT count(*) FROM audit", [], |row| row.get(0)).unwrap();
    assert_eq!(server.post("/ingest", &with(event("3"), "metadata", told)).await.status, 200);
    assert_eq!(
        look.query_row("SELECT count(*) FROM audit", [], |row| row.get(0)),
        Ok(audit),
        "it is the same body"
    );
}
