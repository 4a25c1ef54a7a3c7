//! `/api/v2/approvals` and `/api/v2/grants`: the owner sees questions, answers them once, and lends a call for a while.

use crate::sample::{saying, without_ids};
use cortex_testkit::{FrozenTime, RunningTestServer, ServerSetup, eventually};
use serde_json::{Value, json};
use std::time::Duration;

const UNKNOWN: [&str; 4] = ["apv_01J00000000000000000000000", "grt_01J00000000000000000000000", "apv_x", "1"];

/// Whatever is said, the model wants a job that is made only with an approval.
fn asking() -> ServerSetup {
    let arguments = json!({ "cron": "0 9 * * *", "what": "stretch", "timezone": "UTC" });
    let call = json!({ "name": "schedule.create", "arguments": arguments });
    ServerSetup::scripted(json!({
        "answers": [{ "when": { "afterTool": "schedule.create" }, "say": "There you are." }],
        "otherwise": { "toolCalls": [call] },
    }))
}

/// The id of the question about this event, once it is asked.
async fn asked(server: &RunningTestServer, event: &str) -> String {
    eventually("a question", async || {
        let open = server.get("/api/v2/approvals").await.json();
        let row = open["items"].as_array()?.iter().find(|row| row["eventId"] == event)?;
        row["approvalId"].as_str().map(str::to_owned)
    })
    .await
}

async fn jobs(server: &RunningTestServer) -> usize {
    server.get("/api/v2/schedules").await.json()["items"].as_array().unwrap().len()
}

fn not_found() -> (u16, Value) {
    (404, json!({ "error": "not_found" }))
}

#[tokio::test(start_paused = true)]
async fn the_owner_sees_a_question_and_approves_it_once() {
    let time = FrozenTime::hold();
    let server = asking().at(&time).start().await;
    let event = server.accept(&saying("1", "stretch")).await;
    let id = asked(&server, &event).await;
    let row = json!({
        "approvalId": id,
        "eventId": event,
        "source": "telegram",
        "topicKey": "chat-42:thread-root",
        "userId": "tg:998877",
        "toolName": "schedule.create",
        "toolArgumentsJson": r#"{"cron":"0 9 * * *","timezone":"UTC","what":"stretch"}"#,
        "question": "May I add a reminder: stretch, every day at 09:00 (UTC)? Next: Fri 15 Jan.\n\
            Asked by tg:998877, open until 2027-01-15T08:15:00.000Z.",
        "verbatim": "  cron 0 9 * * * in UTC\n  next: Fri 2027-01-15 09:00, Sat 2027-01-16 09:00, Sun 2027-01-17 09:00\n\n\
            cron: \"0 9 * * *\"\ntimezone: \"UTC\"\nwhat: \"stretch\"",
        "status": "pending",
        "resolvedBy": null,
        "resolvedAt": null,
        "expiresAt": "2027-01-15T08:15:00.000Z",
        "createdAt": "2027-01-15T08:00:00.000Z",
    });
    assert_eq!(server.get("/api/v2/approvals").await.seen(), (200, json!({ "items": [row] })));
    assert_eq!(server.get(&format!("/api/v2/approvals/{id}")).await.seen(), (200, row.clone()));
    time.advance(Duration::from_secs(60)).await;
    let approve = format!("/api/v2/approvals/{id}/approve");
    let mut approved = row;
    approved["status"] = json!("approved");
    approved["resolvedBy"] = json!("owner");
    approved["resolvedAt"] = json!("2027-01-15T08:01:00.000Z");
    assert_eq!(server.post(&approve, &json!({})).await.seen(), (200, approved.clone()));
    server.ended(&event).await;
    assert_eq!(jobs(&server).await, 1);
    let told = format!("{id} was already approved; `cortex approvals show {id}` tells when and by whom");
    let again = (409, json!({ "error": "conflict", "details": [told] }));
    assert_eq!(server.post(&approve, &json!({})).await.seen(), again);
    assert_eq!(server.post(&format!("/api/v2/approvals/{id}/deny"), &json!({})).await.seen(), again);
    assert_eq!(jobs(&server).await, 1, "it ran once");
    assert_eq!(server.get("/api/v2/approvals").await.json(), json!({ "items": [] }), "none is open");
    assert_eq!(server.get("/api/v2/approvals?all=true").await.json(), json!({ "items": [approved] }));
}

#[tokio::test(start_paused = true)]
async fn a_denied_and_an_expired_question_run_nothing() {
    let time = FrozenTime::hold();
    let server = asking().at(&time).start().await;
    let event = server.accept(&saying("1", "stretch")).await;
    let id = asked(&server, &event).await;
    let denied = server.post(&format!("/api/v2/approvals/{id}/deny"), &json!({})).await;
    assert_eq!((denied.status, &denied.json()["status"]), (200, &json!("denied")));
    server.ended(&event).await;
    let late = server.accept(&saying("2", "stretch")).await;
    let id = asked(&server, &late).await;
    time.advance(Duration::from_secs(15 * 60)).await;
    let refused = server.post(&format!("/api/v2/approvals/{id}/approve"), &json!({})).await;
    let details = json!([format!("{id} has expired and nothing was run; ask the assistant again")]);
    assert_eq!(refused.seen(), (409, json!({ "error": "conflict", "details": details })));
    server.ended(&late).await;
    assert_eq!(jobs(&server).await, 0);
}

#[tokio::test]
async fn no_answer_about_a_question_carries_its_token() {
    let server = asking().start().await;
    let event = server.accept(&saying("1", "stretch")).await;
    let id = asked(&server, &event).await;
    let prompt = server.poll(&json!({ "source": "telegram" })).await.remove(0);
    let data = prompt["payload"]["buttons"][0]["data"].as_str().unwrap();
    let (token, _) = data.split_once(':').unwrap();
    let grant = server.post(&format!("/api/v2/approvals/{id}/grant"), &json!({ "seconds": 60 })).await;
    let answers = [
        server.get("/api/v2/approvals?all=true").await,
        server.get(&format!("/api/v2/approvals/{id}")).await,
        grant,
        server.get("/api/v2/grants").await,
        server.post(&format!("/api/v2/approvals/{id}/approve"), &json!({})).await,
    ];
    for answer in answers {
        assert!(answer.status < 300 && !answer.text().contains(token), "{}", answer.text());
    }
    // Once it is resolved the message that asked keeps none either.
    server.ended(&event).await;
    assert!(!server.get("/api/v2/outbox").await.text().contains(token));
}

#[tokio::test(start_paused = true)]
async fn a_grant_is_made_listed_used_and_revoked() {
    let time = FrozenTime::hold();
    let server = asking().at(&time).start().await;
    let event = server.accept(&saying("1", "stretch")).await;
    let id = asked(&server, &event).await;
    server.post(&format!("/api/v2/approvals/{id}/approve"), &json!({})).await;
    server.ended(&event).await;
    let made = server.post(&format!("/api/v2/approvals/{id}/grant"), &json!({ "seconds": 1_800 })).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let grant = made.json()["grantId"].as_str().unwrap().to_owned();
    assert_eq!(made.json(), json!({ "grantId": grant }));
    let row = json!({
        "grantId": grant,
        "source": "telegram",
        "topicKey": "chat-42:thread-root",
        "userId": "tg:998877",
        "toolName": "schedule.create",
        "toolArgumentsJson": r#"{"cron":"0 9 * * *","timezone":"UTC","what":"stretch"}"#,
        "createdAt": "2027-01-15T08:00:00.000Z",
        "expiresAt": "2027-01-15T08:30:00.000Z",
        "revokedAt": null,
    });
    assert_eq!(server.get("/api/v2/grants").await.seen(), (200, json!({ "items": [row] })));
    server.answered(&saying("2", "again")).await;
    assert_eq!(jobs(&server).await, 2, "the same call runs without a question");
    let revoke = format!("/api/v2/grants/{grant}/revoke");
    let revoked = server.post(&revoke, &json!({})).await;
    assert_eq!((revoked.status, revoked.text().as_str()), (204, ""));
    assert_eq!(server.post(&revoke, &json!({})).await.seen(), not_found(), "it has ended");
    let shown = server.get("/api/v2/grants").await.json();
    assert_eq!(shown["items"][0]["revokedAt"], "2027-01-15T08:00:00.000Z");
    let event = server.accept(&saying("3", "once more")).await;
    asked(&server, &event).await;
    assert_eq!(jobs(&server).await, 2, "now it asks again");
}

#[tokio::test]
async fn a_question_or_a_grant_that_is_not_there_is_404_on_every_route() {
    let server = ServerSetup::echoing().start().await;
    let body = json!({ "seconds": 60 });
    for id in UNKNOWN {
        assert_eq!(server.get(&format!("/api/v2/approvals/{id}")).await.seen(), not_found(), "{id}");
        for verb in ["approve", "deny", "grant"] {
            let path = format!("/api/v2/approvals/{id}/{verb}");
            assert_eq!(server.post(&path, &body).await.seen(), not_found(), "{path}");
        }
        let path = format!("/api/v2/grants/{id}/revoke");
        assert_eq!(server.post(&path, &json!({})).await.seen(), not_found(), "{path}");
    }
}

#[tokio::test]
async fn what_is_wrong_with_a_query_or_a_grant_is_said_line_by_line() {
    let server = asking().start().await;
    let refused = |line: &str| (400, json!({ "error": "invalid_request", "details": [line] }));
    for query in ["limit=0", "limit=501"] {
        let answer = server.get(&format!("/api/v2/approvals?{query}")).await;
        assert_eq!(answer.seen(), refused("limit must be between 1 and 500"), "{query}");
    }
    for (query, named) in [("limit=x", "limit"), ("limit=-1", "limit"), ("all=perhaps", "all")] {
        let (status, body) = server.get(&format!("/api/v2/approvals?{query}")).await.seen();
        let detail = body["details"][0].as_str().unwrap();
        assert!(status == 400 && detail.contains(named), "{query}: {detail}");
    }
    let event = server.accept(&saying("1", "stretch")).await;
    let path = format!("/api/v2/approvals/{}/grant", asked(&server, &event).await);
    assert_eq!(server.post(&path, &json!({})).await.seen(), refused("seconds is required"));
    for seconds in [json!(0), json!(86_401), json!("60"), json!(1.5), json!(-1)] {
        let answer = server.post(&path, &json!({ "seconds": seconds })).await;
        assert_eq!(answer.seen(), refused("seconds must be between 1 and 86400"), "{seconds}");
    }
    let broken = server.request("POST", &path).body("{").send().await;
    assert_eq!(broken.seen(), refused("Request body must be valid JSON"));
    assert_eq!(server.get("/api/v2/grants").await.json(), json!({ "items": [] }));
}

#[tokio::test(start_paused = true)]
async fn the_trace_shows_how_a_call_was_planned_asked_approved_and_run() {
    let time = FrozenTime::hold();
    let server = asking().at(&time).start().await;
    let event = server.accept(&saying("1", "stretch")).await;
    let id = asked(&server, &event).await;
    server.post(&format!("/api/v2/approvals/{id}/approve"), &json!({})).await;
    server.ended(&event).await;
    let trace = server.get(&format!("/api/v2/events/{event}/trace")).await.json();
    let steps = trace["entries"].as_array().unwrap().iter().filter(|entry| entry["what"] == "step");
    let steps: Vec<String> = steps.map(|step| without_ids(step["detail"].as_str().unwrap())).collect();
    let plain: Vec<&str> = steps.iter().map(|step| step.rsplit(" tokens").next().unwrap()).collect();
    let call = steps[2].rsplit(' ').next().unwrap();
    let expected = [
        ", 1 tool calls".to_owned(),
        r#"schedule.create called with {"cron":"0 9 * * *","timezone":"UTC","what":"stretch"}"#.to_owned(),
        format!("apv_<ulid> asked about {call}"),
        "apv_<ulid> approved".to_owned(),
        "schedule.create started".to_owned(),
        "schedule.create done: created schedule 1; 0 9 * * * UTC, next Fri 2027-01-15 09:00".to_owned(),
        String::new(),
    ];
    assert_eq!(plain, expected);
    let replies: Vec<&str> =
        trace["replies"].as_array().unwrap().iter().map(|reply| reply["text"].as_str().unwrap()).collect();
    assert!(replies[0].starts_with("May I add a reminder"), "{replies:?}");
    assert_eq!(replies[1..], ["Approved: schedule.create runs now.", "There you are."]);
}

/// The ids of a listing, page by page.
async fn pages(server: &RunningTestServer, path: &str, id: &str) -> Vec<Vec<String>> {
    let (mut pages, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = server.get(&format!("{path}{cursor}")).await;
        assert_eq!(page.status, 200, "{}", page.text());
        let page = page.json();
        let rows = page["items"].as_array().unwrap();
        pages.push(rows.iter().map(|row| row[id].as_str().unwrap().to_owned()).collect());
        let Some(next) = page["nextCursor"].as_str() else { return pages };
        assert!(pages.len() < 20, "it goes round in circles: {pages:?}");
        cursor = format!("&before={next}");
    }
}

#[tokio::test]
async fn questions_and_grants_come_page_by_page_newest_first() {
    let server = asking().start().await;
    let mut known = Vec::new();
    for number in 0..8 {
        let event = server.accept(&saying(&number.to_string(), "stretch")).await;
        known.insert(0, asked(&server, &event).await);
    }
    let expected: Vec<Vec<String>> = known.chunks(3).map(<[String]>::to_vec).collect();
    assert_eq!(expected.len(), 3);
    for filter in ["", "&all=true"] {
        let found = pages(&server, &format!("/api/v2/approvals?limit=3{filter}"), "approvalId").await;
        assert_eq!(found, expected, "{filter}");
    }
    let whole = server.get("/api/v2/approvals").await.json();
    assert_eq!(whole.get("nextCursor"), None, "the last page has no cursor");

    let mut grants = Vec::new();
    for id in &known {
        let made = server.post(&format!("/api/v2/approvals/{id}/grant"), &json!({ "seconds": 60 })).await;
        grants.insert(0, made.json()["grantId"].as_str().unwrap().to_owned());
    }
    let expected: Vec<Vec<String>> = grants.chunks(3).map(<[String]>::to_vec).collect();
    assert_eq!(pages(&server, "/api/v2/grants?limit=3", "grantId").await, expected);
    for path in ["approvals", "grants"] {
        for query in ["limit=0", "limit=501", "limit=x", "before=x", "before=1.5"] {
            let refused = server.get(&format!("/api/v2/{path}?{query}")).await;
            assert_eq!(refused.status, 400, "{path}?{query}: {}", refused.text());
        }
    }
}
