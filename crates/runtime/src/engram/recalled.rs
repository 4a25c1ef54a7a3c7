//! What an Engram service recalled lately: a question about forgetting one of these memories shows its words.

use super::EngramHit;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Most memories whose words are kept, and most bytes of them.
const MEMORIES_MAX: usize = 2_048;
const BYTES_MAX: usize = 4 * 1024 * 1024;

/// The newest last; what was recalled longest ago goes first.
#[derive(Default)]
pub(super) struct Recalled(Mutex<VecDeque<Memory>>);

struct Memory {
    scope: String,
    id: String,
    words: String,
}

impl Recalled {
    pub(super) fn note(&self, scope: &str, hits: &[EngramHit]) {
        let mut memories = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        memories.retain(|known| known.scope != scope || hits.iter().all(|hit| hit.id != known.id));
        memories.extend(hits.iter().map(|hit| Memory {
            scope: scope.to_owned(),
            id: hit.id.clone(),
            words: hit.content.clone(),
        }));
        let mut bytes: usize = memories.iter().map(|memory| memory.words.len()).sum();
        while memories.len() > MEMORIES_MAX || bytes > BYTES_MAX {
            let Some(oldest) = memories.pop_front() else { return };
            bytes = bytes.saturating_sub(oldest.words.len());
        }
    }

    pub(super) fn words_of(&self, id: &str, scope: &str) -> Option<String> {
        let memories = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = memories.iter().find(|memory| memory.id == id && memory.scope == scope);
        found.map(|memory| memory.words.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hit(id: &str, content: &str) -> EngramHit {
        EngramHit { id: id.to_owned(), content: content.to_owned(), category: None }
    }

    #[test]
    fn words_are_known_where_they_were_recalled_and_the_oldest_go_first() {
        let recalled = Recalled::default();
        recalled.note("cli:main", &[hit("a", "old"), hit("b", "other")]);
        recalled.note("cli:main", &[hit("a", "new")]);
        assert_eq!(recalled.words_of("a", "cli:main").as_deref(), Some("new"));
        assert_eq!(recalled.words_of("a", "slack:main"), None, "another conversation was not shown it");
        for number in 0..MEMORIES_MAX - 1 {
            recalled.note("cli:main", &[hit(&number.to_string(), "x")]);
        }
        assert_eq!(recalled.words_of("b", "cli:main"), None);
        assert_eq!(recalled.words_of("a", "cli:main").as_deref(), Some("new"));
        recalled.note("cli:main", &[hit("long", &"x".repeat(BYTES_MAX))]);
        assert_eq!(recalled.words_of("a", "cli:main"), None);
        assert!(recalled.words_of("long", "cli:main").is_some());
    }
}
