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

/// Who follows an event.
#[derive(Default)]
struct Followers {
    claims: usize,
    /// One of them has no reader any more, and waits for the end to give the words up.
    is_stopped: bool,
}

/// The followers of each event. Clones are the same list.
#[derive(Clone, Default)]
pub(crate) struct Followed(Arc<watch::Sender<HashMap<EventName, Followers>>>);

impl Followed {
    /// From now on, until the last claim to it is gone, this event is somebody's.
    pub(crate) fn claim(&self, source: &str, external_message_id: &str) -> Claim {
        let name =
            EventName { source: source.to_owned(), external_message_id: external_message_id.to_owned() };
        self.0.send_modify(|events| events.entry(name.clone()).or_default().claims += 1);
        Claim { followed: self.clone(), name, is_of_a_stopped: false }
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
    is_of_a_stopped: bool,
}

impl Claim {
    /// Whether its holder, whose reader is gone, is the one who waits for the end: a reader may come again and leave again
    /// as often as he likes, and the event has one such follower.
    pub(crate) fn stop(&mut self) -> bool {
        self.followed.0.send_modify(|events| {
            let followers = events.entry(self.name.clone()).or_default();
            self.is_of_a_stopped |= !std::mem::replace(&mut followers.is_stopped, true);
        });
        self.is_of_a_stopped
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.followed.0.send_modify(|events| {
            if let Entry::Occupied(mut followers) = events.entry(self.name.clone()) {
                let Followers { claims, is_stopped } = followers.get_mut();
                *claims -= 1;
                *is_stopped &= !self.is_of_a_stopped;
                if *claims == 0 {
                    followers.remove();
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

    #[test]
    fn of_those_whose_readers_left_one_waits_for_the_end() {
        let followed = Followed::default();
        let mut first = followed.claim("openai", "1");
        let mut second = followed.claim("openai", "1");
        let mut other = followed.claim("openai", "2");
        assert!(first.stop() && first.stop());
        assert!(!second.stop());
        assert!(other.stop());
        drop(first);
        assert!(second.stop(), "the one before is gone");
        drop(second);
        drop(other);
        assert!(followed.0.borrow().is_empty(), "nothing is kept of it");
    }
}
