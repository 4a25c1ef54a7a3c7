//! The load of L3 on memory: facts told with a key, recalled, edited, searched, gone cold and forgotten.

use crate::faults::http::{Http, Reply};
use serde_json::{Value, json};

/// Told once, whatever happens in between; no two say the same.
const KEPT: [&str; 3] = [
    "Ada plays the violin in an orchestra",
    "The boiler was serviced in March",
    "Bob is allergic to walnuts",
];
const FORGOTTEN: &str = "The alarm code of the cabin is 4711";
const EDITED: &str = "Ada plays the cello in an orchestra";

#[derive(Default)]
pub(super) struct MemoryWork {
    http: Http,
}

impl MemoryWork {
    /// Tells everything once more: a known key changes nothing. `false` when the outcome is unknown.
    pub(super) fn tell(&mut self, port: u16) -> bool {
        for (number, text) in KEPT.iter().enumerate() {
            if self.remember(port, text, &format!("kept {number}")).is_none() {
                return false;
            }
        }
        let first = self.remember(port, KEPT[0], "kept 0");
        let last = self.remember(port, FORGOTTEN, "forgotten");
        let (Some(first), Some(last)) = (first, last) else { return false };
        self.is_done(port, "/engram/recall", &json!({ "query": "Who is allergic to walnuts?" }))
            && self.is_done(port, &format!("/api/v2/memory/{first}"), &json!({ "text": EDITED }))
            && self.is_done(port, "/engram/forget", &json!({ "id": last }))
    }

    /// Indexes what was said so far, and lets go cold what nobody asked for.
    pub(super) fn tend(&mut self, port: u16) {
        self.http.get(port, "/api/v2/memory/search?query=scheduled");
        self.http.post(port, "/api/v2/gardener/evictor/run", &json!({}));
    }

    /// What is lost, doubled or still there at the end.
    pub(super) fn check(&mut self, port: u16) -> Vec<String> {
        let Reply::Answered(answer) = self.http.get(port, "/api/v2/memory?limit=500") else {
            return vec!["the facts cannot be listed".to_owned()];
        };
        let texts: Vec<&str> =
            answer.body["items"].as_array().map_or(&[][..], Vec::as_slice).iter().filter_map(text).collect();
        let count = |text: &str| texts.iter().filter(|found| **found == text).count();
        let wrong = |text: &str, wanted: usize| {
            (count(text) != wanted)
                .then(|| format!("{text:?} is remembered {} times, not {wanted}", count(text)))
        };
        let kept = [EDITED, KEPT[1], KEPT[2]].into_iter().filter_map(|text| wrong(text, 1));
        kept.chain([KEPT[0], FORGOTTEN].into_iter().filter_map(|text| wrong(text, 0))).collect()
    }

    fn remember(&mut self, port: u16, text: &str, key: &str) -> Option<String> {
        let body = json!({ "content": text, "idempotency_key": key });
        match self.http.post(port, "/engram/remember", &body) {
            Reply::Answered(answer) if answer.code == 200 => Some(answer.text("id")),
            Reply::Answered(_) | Reply::NotSent | Reply::Unknown => None,
        }
    }

    fn is_done(&mut self, port: u16, path: &str, body: &Value) -> bool {
        match self.http.post(port, path, body) {
            Reply::Answered(answer) => answer.code == 200,
            Reply::NotSent | Reply::Unknown => false,
        }
    }
}

fn text(fact: &Value) -> Option<&str> {
    fact["text"].as_str()
}
