//! How fast a platform lets us speak: so many messages in so much time, per chat, per group and overall.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;
use tokio::time::Instant;

/// So many in so much time.
#[derive(Debug, Clone, Copy)]
pub struct Rate {
    pub count: usize,
    pub per: Duration,
}

/// A platform's limits; a group is held to the chat's limit as well.
#[derive(Debug, Clone, Copy)]
pub struct PaceRules {
    pub chat: Rate,
    pub group: Rate,
    pub overall: Rate,
}

/// When the last messages went out.
#[derive(Debug)]
pub(crate) struct Pacer {
    rules: PaceRules,
    chats: HashMap<String, VecDeque<Instant>>,
    overall: VecDeque<Instant>,
}

impl Pacer {
    pub(crate) fn new(rules: PaceRules) -> Self {
        Self { rules, chats: HashMap::new(), overall: VecDeque::new() }
    }

    /// Takes the next free moment for a message into this chat.
    pub(crate) fn reserve(&mut self, chat: &str, is_group: bool, now: Instant) -> Instant {
        self.forget_before(now);
        let of_chat = self.chats.entry(chat.to_owned()).or_default();
        let mut at = free(of_chat, self.rules.chat, now);
        if is_group {
            at = at.max(free(of_chat, self.rules.group, now));
        }
        // A moment that is taken for later does not hold up a chat that may speak now.
        loop {
            let taken_by_then = self.overall.partition_point(|taken| *taken <= at);
            let Some(first) = taken_by_then.checked_sub(self.rules.overall.count) else { break };
            let free = self.overall.get(first).map_or(at, |oldest| *oldest + self.rules.overall.per);
            if free <= at {
                break;
            }
            at = free;
        }
        of_chat.push_back(at);
        let place = self.overall.partition_point(|taken| *taken <= at);
        self.overall.insert(place, at);
        at
    }

    /// What lies further back than any limit looks.
    fn forget_before(&mut self, now: Instant) {
        let longest = self.rules.chat.per.max(self.rules.group.per).max(self.rules.overall.per);
        let is_old = |at: &Instant| now.saturating_duration_since(*at) > longest;
        self.chats.retain(|_, sent| {
            while sent.front().is_some_and(is_old) {
                sent.pop_front();
            }
            !sent.is_empty()
        });
        while self.overall.front().is_some_and(is_old) {
            self.overall.pop_front();
        }
    }
}

/// The first moment from `now` on at which fewer than `rate.count` lie within `rate.per` before it.
fn free(sent: &VecDeque<Instant>, rate: Rate, now: Instant) -> Instant {
    match sent.len().checked_sub(rate.count) {
        Some(first) => sent.get(first).map_or(now, |oldest| now.max(*oldest + rate.per)),
        None => now,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> PaceRules {
        let second = Duration::from_secs(1);
        PaceRules {
            chat: Rate { count: 1, per: second },
            group: Rate { count: 20, per: 60 * second },
            overall: Rate { count: 30, per: second },
        }
    }

    #[track_caller]
    fn waits(pacer: &mut Pacer, chat: &str, is_group: bool, now: Instant) -> Duration {
        pacer.reserve(chat, is_group, now).saturating_duration_since(now)
    }

    #[test]
    fn a_chat_hears_one_message_a_second() {
        let (mut pacer, now) = (Pacer::new(rules()), Instant::now());
        let seen: Vec<u64> = (0..4).map(|_| waits(&mut pacer, "42", false, now).as_secs()).collect();
        assert_eq!(seen, [0, 1, 2, 3]);
        assert_eq!(waits(&mut pacer, "43", false, now), Duration::ZERO);
        assert_eq!(waits(&mut pacer, "42", false, now + Duration::from_secs(10)), Duration::ZERO);
    }

    #[test]
    fn a_group_hears_twenty_messages_a_minute() {
        let (mut pacer, now) = (Pacer::new(rules()), Instant::now());
        let seen: Vec<u64> = (0..22).map(|_| waits(&mut pacer, "-1", true, now).as_secs()).collect();
        assert_eq!(seen[..20], (0..20).collect::<Vec<u64>>());
        assert_eq!(seen[20..], [60, 61]);
    }

    #[test]
    fn all_chats_together_hear_thirty_messages_a_second() {
        let (mut pacer, now) = (Pacer::new(rules()), Instant::now());
        let seen: Vec<u64> =
            (0..61).map(|chat| waits(&mut pacer, &chat.to_string(), false, now).as_secs()).collect();
        assert_eq!(seen.iter().filter(|wait| **wait == 0).count(), 30);
        assert_eq!(seen.iter().filter(|wait| **wait == 1).count(), 30);
        assert_eq!(seen[60], 2);
    }

    #[test]
    fn what_waits_for_its_chat_does_not_hold_up_the_others() {
        let (mut pacer, now) = (Pacer::new(rules()), Instant::now());
        for _ in 0..40 {
            pacer.reserve("42", false, now);
        }
        assert_eq!(waits(&mut pacer, "43", false, now), Duration::ZERO);
    }
}
