//! Ten messages wait behind a slow turn while the server ends (OpenClaw's #135880): all are answered, none twice.

use crate::cortex::Cortex;
use serde_json::{Value, json};

const QUEUED: usize = 10;

#[test]
fn ten_messages_behind_a_slow_turn_are_answered_after_a_stop() {
    let cortex = with_ten_queued();
    let stopped = cortex.run(&["stop"]);
    assert_eq!(stopped.code, Some(0), "{}", stopped.stderr);
    assert_eq!(rows(&cortex.started(), "done").len(), 1 + QUEUED);
}

#[test]
fn ten_messages_behind_a_slow_turn_are_answered_after_a_kill() {
    let cortex = with_ten_queued();
    assert_eq!(cortex.run(&["stop", "--force"]).code, Some(0));
    assert_eq!(rows(&cortex.started(), "done").len(), 1 + QUEUED);
}

/// A server four seconds into a turn, with ten more events of the same topic behind it.
fn with_ten_queued() -> Cortex {
    let slow = json!({"when": {"equals": "slow"}, "say": "re: slow", "delayMs": 4_000});
    let cortex =
        Cortex::scripted(&json!({"answers": [slow], "otherwise": {"say": "re: {{user}}"}})).started();
    let queue = |text: &str| cortex.json(&["send", text, "--wait", "0", "--json"]);
    queue("slow");
    assert!(soon(|| cortex.json(&["status", "--json"])["server"]["inbox"]["processing"] == 1));
    for number in 1..=QUEUED {
        queue(&format!("queued {number}"));
    }
    let inbox = &cortex.json(&["status", "--json"])["server"]["inbox"];
    assert_eq!(
        (&inbox["processing"], &inbox["pending"]),
        (&json!(1), &json!(QUEUED)),
        "the turn is too fast"
    );
    cortex
}

/// Waits until every event has ended, proves one reply each in the order they came, and returns the events.
fn rows(cortex: &Cortex, ended: &str) -> Vec<Value> {
    let left = || {
        let inbox = cortex.json(&["status", "--json"])["server"]["inbox"].clone();
        inbox["pending"].as_u64().unwrap() + inbox["processing"].as_u64().unwrap()
    };
    assert!(soon(|| left() == 0), "{} events are left", left());
    let list = |what: &str| cortex.json(&[what, "list", "--limit", "100", "--json"])["items"].clone();
    let mut replies: Vec<Value> = list("outbox").as_array().unwrap().clone();
    replies.reverse();
    let texts: Vec<&str> = replies.iter().map(|reply| reply["text"].as_str().unwrap()).collect();
    let queued = (1..=QUEUED).map(|number| format!("re: queued {number}"));
    let wanted: Vec<String> = ["re: slow".to_owned()].into_iter().chain(queued).collect();
    assert_eq!(texts, wanted);
    let events: Vec<Value> = list("inbox").as_array().unwrap().clone();
    assert!(events.iter().all(|event| event["status"] == ended), "{events:#?}");
    events
}

/// Asks again and again, each time by a new process, so that it cannot spin for long.
fn soon(holds: impl Fn() -> bool) -> bool {
    (0..3_000).any(|_| holds())
}
