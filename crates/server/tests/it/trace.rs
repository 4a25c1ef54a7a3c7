//! `/api/v2/events/{id}/trace`: the whole way of a message, with times.

use crate::sample::{event, saying, without_ids};
use cortex_testkit::{FrozenTime, RunningTestServer, ServerSetup};
use serde_json::{Value, json};
use std::time::Duration;

async fn trace(server: &RunningTestServer, id: &str) -> Value {
    server.get(&format!("/api/v2/events/{id}/trace")).await.json()
}

/// `what: detail` for each entry, without random parts.
fn way(trace: &Value) -> Vec<String> {
    let entries = trace["entries"].as_array().unwrap().iter();
    let line = |entry: &Value| {
        let words = [entry["what"].as_str().unwrap(), entry["detail"].as_str().unwrap()];
        without_ids(words.join(": ").trim_end_matches([':', ' ']))
    };
    entries.map(line).collect()
}

#[tokio::test(start_paused = true)]
async fn the_trace_of_an_answered_message_is_its_whole_way() {
    let time = FrozenTime::hold();
    let server = ServerSetup::echoing().at(&time).start().await;
    let id = server.answered(&event("1234567890")).await;
    time.advance(Duration::from_secs(1)).await;
    let message = server.poll(&json!({ "source": "telegram" })).await.remove(0);
    time.advance(Duration::from_secs(2)).await;
    let ack = json!({ "messageId": message["messageId"], "leaseToken": message["leaseToken"] });
    assert_eq!(server.post("/outbox/ack", &ack).await.status, 200);
    let trace = without_ids(&trace(&server, &id).await.to_string());
    let mut trace: Value = serde_json::from_str(&trace).unwrap();
    // How many tokens a question costs changes with every tool that is offered.
    for entry in trace["entries"].as_array_mut().unwrap() {
        if let Some((start, _)) = entry["detail"].as_str().unwrap().split_once(" answered, ") {
            entry["detail"] = json!(format!("{start} answered, <n> tokens"));
        }
    }
    insta::with_settings!({ sort_maps => true }, { insta::assert_json_snapshot!("answered", trace) });
}

#[tokio::test(start_paused = true)]
async fn retries_and_failed_deliveries_are_lines_of_the_trace() {
    let time = FrozenTime::hold();
    let script = json!({
        "answers": [{ "times": 1, "error": { "kind": "server", "status": 503 } }],
        "otherwise": { "say": "There." },
    });
    let server =
        ServerSetup::scripted(script).at(&time).flow(|flow| flow.outbox_max_attempts = 2).start().await;
    let id = server.accept(&event("1")).await;
    cortex_testkit::eventually("a planned retry", async || {
        way(&trace(&server, &id).await).iter().any(|line| line.starts_with("retry")).then_some(())
    })
    .await;
    time.advance(Duration::from_secs(6)).await;
    server.ended(&id).await;
    time.advance(Duration::from_secs(1)).await;
    let message = server.poll(&json!({ "source": "telegram", "leaseSeconds": 10 })).await.remove(0);
    let nack = json!({
        "messageId": message["messageId"], "leaseToken": message["leaseToken"], "error": "no network",
    });
    assert_eq!(server.post("/outbox/nack", &nack).await.status, 200);
    for _ in 0..2 {
        time.advance(Duration::from_secs(60)).await;
        server.poll(&json!({ "source": "telegram", "leaseSeconds": 10 })).await;
    }
    let expected = [
        "received: telegram 1",
        "claimed: attempt 1",
        "retry: scripted: server error (503): scripted",
        "claimed: attempt 2",
        "step: scripted scripted answered, 54 tokens",
        "finished",
        "queued: out_<ulid>",
        "leased: out_<ulid>, attempt 1",
        "nacked: no network",
        "leased: out_<ulid>, attempt 2",
        "dead: not delivered in 2 attempts",
    ];
    let way = way(&trace(&server, &id).await);
    let without_tokens = |line: &str| line.split(" answered, ").next().unwrap().to_owned();
    let shown: Vec<String> = way.iter().map(|line| without_tokens(line)).collect();
    let wanted: Vec<String> = expected.iter().map(|line| without_tokens(line)).collect();
    assert_eq!(shown, wanted);
}

#[tokio::test(start_paused = true)]
async fn arguments_and_results_of_calls_are_lines_of_the_trace() {
    let time = FrozenTime::hold();
    let long = "x".repeat(5_000);
    let script = json!({
        "answers": [
            { "when": { "afterTool": "time.now" }, "say": "Noon." },
            { "toolCalls": [
                { "name": "time.now", "arguments": { "timezone": "Europe/Berlin" } },
                { "name": "no.such", "arguments": { "text": long } },
            ], "times": 1 },
        ],
        "otherwise": { "say": "Noon." },
    });
    let server = ServerSetup::scripted(script).at(&time).start().await;
    let id = server.answered(&event("1")).await;
    let way = way(&trace(&server, &id).await);
    let has = |start: &str| way.iter().any(|line| line.starts_with(start));
    assert!(has("step: time.now called with {\"timezone\":\"Europe/Berlin\"}"), "{way:#?}");
    assert!(has("step: time.now done: ") && has("step: no.such refused: "), "{way:#?}");
    let cut = way.iter().find(|line| line.starts_with("step: no.such called with {\"text\":\"xxx")).unwrap();
    assert!(cut.ends_with(" more characters") && cut.len() < 4_100, "{cut}");
}

#[tokio::test(start_paused = true)]
async fn silence_and_failure_are_said_in_the_trace() {
    let time = FrozenTime::hold();
    let script = json!({
        "answers": [{ "when": { "equals": "hush" }, "say": "NO_REPLY" }, { "error": { "kind": "rejected" } }],
    });
    let server = ServerSetup::scripted(script).at(&time).start().await;
    let silent = server.answered(&saying("1", "hush")).await;
    let last = way(&trace(&server, &silent).await).pop();
    assert_eq!(last.as_deref(), Some("finished: silence"));
    let failed = server.answered(&saying("2", "impossible")).await;
    let way = way(&trace(&server, &failed).await);
    assert!(
        way.contains(&"failed: scripted: the request was rejected (400): scripted".to_owned()),
        "{way:?}"
    );
    assert_eq!(way.last().map(String::as_str), Some("queued: out_<ulid>"), "the user is told");
}

#[tokio::test]
async fn a_stop_in_the_middle_of_a_turn_is_a_line_of_the_trace() {
    let mut server = ServerSetup::never_answering().start().await;
    let id = server.accept(&event("1")).await;
    cortex_testkit::eventually("the turn to begin", async || {
        way(&trace(&server, &id).await).contains(&"claimed: attempt 1".to_owned()).then_some(())
    })
    .await;
    server.restart().await;
    let way = way(&trace(&server, &id).await);
    assert!(way.contains(&"parked: the server stopped during this turn".to_owned()), "{way:?}");
}
