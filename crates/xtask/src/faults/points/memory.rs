//! The part of L3's load that remembers: facts kept, found, changed and forgotten, and the gardener's chores.

use crate::faults::http::{Http, Reply};
use serde_json::{Value, json};

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
        ("/api/v2/gardener/extractor/run".to_owned(), json!({})),
        ("/api/v2/gardener/evictor/run".to_owned(), json!({})),
    ];
    let answered = |reply: Reply| matches!(reply, Reply::Answered(_));
    steps.iter().all(|(path, body)| answered(http.post(port, path, body)))
        && answered(http.get(port, "/api/v2/memory/search?query=number"))
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
