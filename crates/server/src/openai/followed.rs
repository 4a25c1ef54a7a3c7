//! Which events somebody waits for at this door: what they lead to is for him and for nobody else.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use tokio::sync::watch;

/// An event by what its sender calls it, which is known before it is taken in.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct EventName {
    source: String,
    external_message_id: String,
}

/// How many requests follow each event. Clones are the same list.
#[derive(Clone, Default)]
pub(crate) struct Followed(Arc<watch::Sender<HashMap<EventName, usize>>>);

impl Followed {
    /// From now on, until the last claim to it is gone, this event is somebody's.
    pub(crate) fn claim(&self, source: &str, external_message_id: &str) -> Claim {
        let name =
            EventName { source: source.to_owned(), external_message_id: external_message_id.to_owned() };
        self.0.send_modify(|events| *events.entry(name.clone()).or_default() += 1);
        Claim { followed: self.clone(), name }
    }

    pub(crate) fn has(&self, source: &str, external_message_id: &str) -> bool {
        let name =
            EventName { source: source.to_owned(), external_message_id: external_message_id.to_owned() };
        self.0.borrow().contains_key(&name)
    }
}

/// Somebody waits for what this event leads to, as long as this is there.
pub(crate) struct Claim {
    followed: Followed,
    name: EventName,
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.followed.0.send_modify(|events| {
            if let Entry::Occupied(mut count) = events.entry(self.name.clone()) {
                *count.get_mut() -= 1;
                if *count.get() == 0 {
                    count.remove();
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_followed_until_its_last_claim_is_gone() {
        let followed = Followed::default();
        let first = followed.claim("openai", "1");
        let second = followed.clone().claim("openai", "1");
        assert!(followed.has("openai", "1"));
        assert!(!followed.has("telegram", "1") && !followed.has("openai", "2"));
        drop(first);
        assert!(followed.has("openai", "1"));
        drop(second);
        assert!(!followed.has("openai", "1"));
        assert!(followed.0.borrow().is_empty(), "nothing is kept of it");
    }
}
