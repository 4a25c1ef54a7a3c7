//! Askers: which socket said something last, as far back as it matters. Words are kept as numbers: they may be long, and
//! whoever has no key chooses them.

use cortex_types::is_local;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

/// Entries of one source; of one without a key, of which there may be many.
const KEPT_MAX: usize = 16_384;
const STRANGERS_KEPT_MAX: usize = 1_024;

/// What an id or a conversation is known by here. Nobody outside can make two that are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct WordNumber(u64);

impl WordNumber {
    pub(super) fn of(word: &str) -> Self {
        static SECRET: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        Self(SECRET.hash_one(word))
    }
}

/// The newest entries of a map; older ones are forgotten.
pub(super) struct Askers {
    members: HashMap<WordNumber, u64>,
    order: VecDeque<WordNumber>,
    most: usize,
}

impl Askers {
    pub(super) fn of_source(source: &str) -> Self {
        let most = if is_local(source) { STRANGERS_KEPT_MAX } else { KEPT_MAX };
        Self { members: HashMap::new(), order: VecDeque::new(), most }
    }

    pub(super) fn put(&mut self, word: WordNumber, member: u64) {
        if self.members.insert(word, member).is_none() {
            self.order.push_back(word);
        }
        if self.order.len() > self.most
            && let Some(oldest) = self.order.pop_front()
        {
            self.members.remove(&oldest);
        }
    }

    pub(super) fn get(&self, word: &str) -> Option<u64> {
        self.members.get(&WordNumber::of(word)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_are_known_and_strangers_have_fewer() {
        for (source, most) in [("telegram", KEPT_MAX), ("local:x", STRANGERS_KEPT_MAX)] {
            let mut askers = Askers::of_source(source);
            for number in 0..=most {
                askers.put(WordNumber::of(&number.to_string()), number as u64);
            }
            askers.put(WordNumber::of("7"), 1_000_000);
            assert_eq!((askers.get("0"), askers.get("1"), askers.get("7")), (None, Some(1), Some(1_000_000)));
            assert_eq!((askers.members.len(), askers.order.len()), (most, most), "{source}");
        }
    }
}
