//! The part of L3's load that remembers: facts kept, found, changed and forgotten, and the gardener's chores.

use super::DRAIN_PATIENCE;
use crate::faults::http::{Http, Reply};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// What one of the events says; the rules make a fact of it.
pub(super) const LIKING: &str = "I like number eight";

/// What is remembered once everything was done, however often it was tried.
const REMEMBERED: [&str; 3] = ["The user likes number eight", "gamma keeps many bees", "owls are quiet"];

/// Walks past every point of memory. Doing it again changes nothing. Whether the server answered everything.
pub(super) fn walk(http: &mut Http, port: u16) -> bool {
    let bees = remember(http, port, "bees", "gamma keeps bees in a hive");
    let wasps = remember(http, port, "wasps", "wasps are not wanted at all");
    let (Some(bees), Some(wasps)) = (bees, wasps) else { return false };
    let steps = [
        ("/engram/recall".to_owned(), json!({"query": "bees"})),
        (format!("/api/v2/memory/{bees}"), json!({"text": "gamma keeps many bees"})),
        (format!("/api/v2/memory/{wasps}/forget"), json!({})),
        ("/engram/import".to_owned(), json!({"id": "elsewhere-1", "content": "owls are quiet"})),
        ("/api/v2/context/compact".to_owned(), json!({"topic": "a"})),
    ];
    steps.iter().all(|(path, body)| is_answered(&http.post(port, path, body)))
        && ["extractor", "evictor"].iter().all(|chore| has_run(http, port, chore))
        && is_answered(&http.get(port, "/api/v2/memory/search?query=number"))
}

/// What was done before may be refused the second time; what the server cannot do is no answer.
fn is_answered(reply: &Reply) -> bool {
    matches!(reply, Reply::Answered(answer) if answer.code < 500)
}

/// The server runs its chores by itself, too, and one that runs already is refused: that one may have begun too early.
fn has_run(http: &mut Http, port: u16, chore: &str) -> bool {
    let (started, path) = (Instant::now(), format!("/api/v2/gardener/{chore}/run"));
    loop {
        match http.post(port, &path, &json!({})) {
            Reply::Answered(answer) if answer.code == 409 && started.elapsed() < DRAIN_PATIENCE => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Reply::Answered(answer) => return answer.code == 200,
            Reply::NotSent | Reply::Unknown => return false,
        }
    }
}

/// What is wrong with what is remembered in the end.
pub(super) fn complaints(http: &mut Http, port: u16) -> Vec<String> {
    let Reply::Answered(answer) = http.get(port, "/api/v2/memory") else {
        return vec!["memory cannot be read".to_owned()];
    };
    let facts = answer.body["items"].as_array().cloned().unwrap_or_default();
    let mut texts: Vec<&str> = facts.iter().filter_map(|fact| fact["text"].as_str()).collect();
    texts.sort_unstable();
    if texts == REMEMBERED { Vec::new() } else { vec![format!("remembered is {texts:?}")] }
}

fn remember(http: &mut Http, port: u16, key: &str, content: &str) -> Option<String> {
    let body: Value = json!({"content": content, "idempotency_key": key});
    match http.post(port, "/engram/remember", &body) {
        Reply::Answered(answer) => Some(answer.text("id")),
        Reply::NotSent | Reply::Unknown => None,
    }
}
