//! Answers that were asked for again lately: a re-sent event costs a look into memory, not into the database.

use axum::extract::ws::Utf8Bytes;
use cortex_runtime::IncomingEvent;
use quick_cache::sync::Cache;
use quick_cache::{Equivalent, Weighter};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// Bytes of answers kept.
const BYTES_MAX: u64 = 4 * 1024 * 1024;
const ANSWERS_EXPECTED: usize = 4_096;

/// The frames that an event was answered with.
pub(super) struct RecordedAnswer {
    /// Of the event's content: one that came again with another body is looked at more closely.
    fingerprint: u64,
    pub(super) frames: Vec<Utf8Bytes>,
}

#[derive(PartialEq, Eq, Hash)]
struct Identity {
    source: String,
    id: String,
}

#[derive(Hash)]
struct IdentityRef<'a> {
    source: &'a str,
    id: &'a str,
}

impl Equivalent<Identity> for IdentityRef<'_> {
    fn equivalent(&self, key: &Identity) -> bool {
        self.source == key.source && self.id == key.id
    }
}

#[derive(Clone)]
struct ByBytes;

impl Weighter<Identity, Arc<RecordedAnswer>> for ByBytes {
    fn weight(&self, key: &Identity, answer: &Arc<RecordedAnswer>) -> u64 {
        let frames: usize = answer.frames.iter().map(|frame| frame.len()).sum();
        (frames + key.source.len() + key.id.len() + size_of::<RecordedAnswer>()) as u64
    }
}

/// Answers by the identity of their event, the least used go first.
pub(super) struct RecentAnswers(Cache<Identity, Arc<RecordedAnswer>, ByBytes>);

impl Default for RecentAnswers {
    fn default() -> Self {
        Self(Cache::with_weighter(ANSWERS_EXPECTED, BYTES_MAX, ByBytes))
    }
}

impl RecentAnswers {
    /// What this event was answered with, if that is known and it is the same event.
    pub(super) fn find(&self, source: &str, event: &IncomingEvent) -> Option<Arc<RecordedAnswer>> {
        let identity = IdentityRef { source, id: &event.external_message_id };
        self.0.get(&identity).filter(|answer| answer.fingerprint == fingerprint(event))
    }

    pub(super) fn keep(&self, source: &str, event: &IncomingEvent, frames: Vec<Utf8Bytes>) {
        let identity = Identity { source: source.to_owned(), id: event.external_message_id.clone() };
        let answer = RecordedAnswer { fingerprint: fingerprint(event), frames };
        self.0.insert(identity, Arc::new(answer));
    }
}

fn fingerprint(event: &IncomingEvent) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&event.topic_key, &event.user_id, &event.text, &event.metadata_json).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cortex_types::{Millis, Priority};

    fn event(text: &str) -> IncomingEvent {
        IncomingEvent {
            external_message_id: "1".to_owned(),
            idempotency_key: "k".to_owned(),
            topic_key: "t".to_owned(),
            user_id: "u".to_owned(),
            text: text.to_owned(),
            occurred_at: Millis(1),
            metadata_json: None,
            priority: Priority::Normal,
        }
    }

    #[test]
    fn only_the_very_same_event_finds_its_answer() {
        let recent = RecentAnswers::default();
        assert!(recent.find("m", &event("hello")).is_none());
        recent.keep("m", &event("hello"), vec![Utf8Bytes::from_static("frame")]);
        assert_eq!(recent.find("m", &event("hello")).unwrap().frames, [Utf8Bytes::from_static("frame")]);
        assert!(recent.find("m", &event("another body")).is_none());
        assert!(recent.find("other", &event("hello")).is_none());
    }
}
