//! Rooms: how much each socket of a source may still hold while a batch of messages is handed out.

use std::collections::HashMap;

pub(super) struct Rooms {
    left: HashMap<u64, usize>,
    /// The socket that got the last message of a conversation in this batch.
    given: HashMap<String, Given>,
}

struct Given {
    member: u64,
    /// Whether it was meant for another socket; what follows in the conversation then goes the same way.
    is_diverted: bool,
}

impl Rooms {
    pub(super) fn new(members: impl Iterator<Item = u64>, window: usize) -> Self {
        Self { left: members.map(|member| (member, window)).collect(), given: HashMap::new() }
    }

    /// This socket holds one more.
    pub(super) fn count(&mut self, member: u64) {
        if let Some(left) = self.left.get_mut(&member) {
            *left = left.saturating_sub(1);
        }
    }

    /// What all sockets together may take.
    pub(super) fn free(&self) -> usize {
        self.left.values().sum()
    }

    /// Whether this socket may take a message of this conversation. A conversation is not torn apart in the middle of a
    /// batch: its order would be lost between two sockets.
    pub(super) fn has(&self, member: u64, conversation: &str) -> bool {
        let is_given = self.given.get(conversation).is_some_and(|given| given.member == member);
        is_given || self.left.get(&member).is_some_and(|left| *left > 0)
    }

    /// The socket that has this conversation for another one.
    pub(super) fn diverted(&self, conversation: &str) -> Option<u64> {
        self.given.get(conversation).filter(|given| given.is_diverted).map(|given| given.member)
    }

    pub(super) fn take(&mut self, member: u64, conversation: String, is_diverted: bool) {
        self.count(member);
        self.given.insert(conversation, Given { member, is_diverted });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_socket_leaves_the_others_their_room_and_keeps_its_conversation() {
        let mut rooms = Rooms::new([1, 2].into_iter(), 2);
        rooms.count(1);
        assert_eq!(rooms.free(), 3);
        rooms.take(1, "a".to_owned(), false);
        assert!(rooms.has(1, "a"), "what was begun goes on");
        assert!(!rooms.has(1, "b") && rooms.has(2, "b"));
        rooms.take(1, "a".to_owned(), false);
        assert_eq!((rooms.free(), rooms.diverted("a")), (2, None));
        rooms.take(2, "b".to_owned(), true);
        assert_eq!((rooms.free(), rooms.diverted("b")), (1, Some(2)));
        assert!(!rooms.has(3, "c"), "one that left has no room");
    }
}
