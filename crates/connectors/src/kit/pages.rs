//! What a connector remembers from start to start. Everything that grows has a bound; the oldest goes first.

use super::button::Button;
use super::place::{ChatPlace, topic_key};
use cortex_types::{Millis, OutboxId, was_shown_before};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

const SEEN_MAX: usize = 500;
const BEGUN_MAX: usize = 200;
const DELIVERED_MAX: usize = 1_000;
const PROMPTS_MAX: usize = 100;
const PLACES_MAX: usize = 2_000;
/// Numbers of questions begin anew behind it; by then the first ones are long closed.
const NUMBER_MAX: u32 = 999;
const REFUSAL_CHARS_MAX: usize = 300;
/// A question that is older can no longer be answered: the server gives it up after a quarter of an hour.
const PROMPT_LASTS_MS: i64 = 20 * 60 * 1_000;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Pages {
    /// Everything before it is durable.
    pub(crate) cursor: Option<String>,
    /// People who were let in by a pairing code.
    pub(crate) allowed: BTreeSet<String>,
    /// The last pairing code that was used, hashed: it opens nothing again.
    pub(crate) spent_code: Option<String>,
    /// The name that we poll under, in every life: only one process has these notes at a time.
    pub(crate) holder: Option<String>,
    /// How many conversations a place has had, where it is more than one.
    conversations: BTreeMap<String, u32>,
    /// Chats that have another id now.
    moved: BTreeMap<String, String>,
    /// Encrypted chats where we said that we cannot read them.
    unreadable: VecDeque<String>,
    /// How often the platform refused something, and the last time.
    pub(crate) refusals: Refusals,
    /// External ids that were dealt with.
    seen: VecDeque<String>,
    /// Messages that are sent in part, and how many parts.
    begun: BTreeMap<OutboxId, usize>,
    delivered: VecDeque<OutboxId>,
    /// Questions with buttons that are open, as far as we know.
    prompts: VecDeque<Prompt>,
    /// The number of the last question that got one.
    last_number: u32,
}

/// What the platform refused since the connector was set up.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Refusals {
    pub count: u64,
    pub last_error: Option<String>,
    pub last_at: Option<Millis>,
}

/// A delivered message with buttons.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Prompt {
    pub(crate) topic_key: String,
    pub(crate) place: ChatPlace,
    /// The platform's name of the message that has the buttons.
    pub(crate) message: Option<String>,
    /// The beginning of what was asked.
    pub(crate) words: String,
    pub(crate) buttons: Vec<Button>,
    #[serde(default)]
    pub(crate) delivered_at: Millis,
    /// By which a person names it; no other open question has it, also after this one is closed.
    #[serde(default)]
    pub(crate) number: u32,
}

impl Prompt {
    /// Whether its message was there when something was said.
    pub(crate) fn was_seen_by(&self, said_at: Millis) -> bool {
        was_shown_before(Some(self.delivered_at), said_at)
    }

    fn shares_a_button(&self, other: &Self) -> bool {
        self.buttons.iter().any(|button| other.buttons.iter().any(|others| others.data == button.data))
    }
}

impl Pages {
    pub(crate) fn has_seen(&self, external_id: &str) -> bool {
        self.seen.iter().any(|seen| seen == external_id)
    }

    pub(crate) fn see(&mut self, external_id: &str) {
        push_bounded(&mut self.seen, external_id.to_owned(), SEEN_MAX);
    }

    pub(crate) fn refuse(&mut self, error: &str, at: Millis) {
        self.refusals.count = self.refusals.count.saturating_add(1);
        self.refusals.last_error = Some(error.chars().take(REFUSAL_CHARS_MAX).collect());
        self.refusals.last_at = Some(at);
    }

    /// Notes that a chat cannot be read; false when that was noted before.
    pub(crate) fn finds_unreadable(&mut self, chat: &str) -> bool {
        let is_new = self.unreadable.iter().all(|known| known != chat);
        if is_new {
            push_bounded(&mut self.unreadable, chat.to_owned(), PLACES_MAX);
        }
        is_new
    }

    /// The topic of what is said in a place now. A chat that moved goes on with its old topic.
    pub(crate) fn topic_of(&self, place: &ChatPlace) -> String {
        let key = self.home_of(place).key();
        topic_key(&key, self.conversations.get(&key).copied().unwrap_or(1))
    }

    /// Begins the next conversation of a place and gives its number.
    pub(crate) fn begin_conversation(&mut self, place: &ChatPlace) -> u32 {
        let key = self.home_of(place).key();
        let number = self.conversations.get(&key).copied().unwrap_or(1).saturating_add(1);
        self.conversations.insert(key, number);
        keep_bounded(&mut self.conversations, PLACES_MAX);
        number
    }

    pub(crate) fn move_chat(&mut self, from: &str, to: &str) {
        if from != to {
            self.moved.insert(from.to_owned(), to.to_owned());
            keep_bounded(&mut self.moved, PLACES_MAX);
        }
    }

    /// Where the place is now.
    pub(crate) fn address_of(&self, place: &ChatPlace) -> ChatPlace {
        let mut place = place.clone();
        // As many steps as there are moves: two that point at each other must not hold us.
        for _ in 0..self.moved.len() {
            match self.moved.get(&place.chat) {
                Some(to) => place.chat.clone_from(to),
                None => break,
            }
        }
        place
    }

    /// The place under the id by which it was known first.
    fn home_of(&self, place: &ChatPlace) -> ChatPlace {
        let mut place = place.clone();
        for _ in 0..self.moved.len() {
            match self.moved.iter().find(|(_, to)| **to == place.chat) {
                Some((from, _)) => place.chat.clone_from(from),
                None => break,
            }
        }
        place
    }

    pub(crate) fn is_delivered(&self, message: &OutboxId) -> bool {
        self.delivered.contains(message)
    }

    pub(crate) fn parts_sent(&self, message: &OutboxId) -> usize {
        self.begun.get(message).copied().unwrap_or(0)
    }

    pub(crate) fn record_parts(&mut self, message: &OutboxId, sent: usize) {
        self.begun.insert(message.clone(), sent);
        keep_bounded(&mut self.begun, BEGUN_MAX);
    }

    pub(crate) fn record_delivered(&mut self, message: &OutboxId) {
        self.begun.remove(message);
        push_bounded(&mut self.delivered, message.clone(), DELIVERED_MAX);
    }

    /// Gives the prompt its number. One that is shown again stays the question that it was.
    pub(crate) fn open_prompt(&mut self, prompt: Prompt) {
        if let Some(known) = self.prompts.iter_mut().find(|known| known.shares_a_button(&prompt)) {
            known.message = prompt.message;
            return;
        }
        self.last_number = self.last_number % NUMBER_MAX + 1;
        push_bounded(&mut self.prompts, Prompt { number: self.last_number, ..prompt }, PROMPTS_MAX);
    }

    /// The prompt that has this button.
    pub(crate) fn prompt_with(&self, data: &str) -> Option<&Prompt> {
        self.prompts.iter().find(|prompt| prompt.buttons.iter().any(|button| button.data == data))
    }

    /// The prompt that was sent as this message.
    pub(crate) fn prompt_under(&self, message: &str) -> Option<&Prompt> {
        self.prompts.iter().find(|prompt| prompt.message.as_deref() == Some(message))
    }

    /// What is asked in a place and can still be answered, the oldest first.
    pub(crate) fn prompts_in(&self, place: &ChatPlace, now: Millis) -> Vec<Prompt> {
        // By key: whether a place is a group cannot be read from a topic on every platform.
        let home = self.home_of(place).key();
        let is_here = |prompt: &&Prompt| self.home_of(&prompt.place).key() == home;
        let is_open = |prompt: &&Prompt| now.0.saturating_sub(prompt.delivered_at.0) < PROMPT_LASTS_MS;
        self.prompts.iter().filter(is_here).filter(is_open).cloned().collect()
    }

    pub(crate) fn close_prompt(&mut self, data: &str) {
        self.prompts.retain(|prompt| prompt.buttons.iter().all(|button| button.data != data));
    }
}

fn push_bounded<T>(row: &mut VecDeque<T>, item: T, most: usize) {
    row.push_back(item);
    while row.len() > most {
        row.pop_front();
    }
}

fn keep_bounded<K: Ord, V>(map: &mut BTreeMap<K, V>, most: usize) {
    while map.len() > most {
        map.pop_first();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(chat: &str) -> ChatPlace {
        ChatPlace { chat: chat.to_owned(), thread: None, is_group: true }
    }

    #[test]
    fn a_chat_that_moved_twice_keeps_its_topic_and_is_found_at_its_last_address() {
        let mut pages = Pages::default();
        pages.move_chat("-1", "-2");
        pages.move_chat("-2", "-3");
        assert_eq!(pages.address_of(&place("-1")), place("-3"));
        assert_eq!(pages.topic_of(&place("-3")), "-1");
        assert_eq!(pages.begin_conversation(&place("-3")), 2);
        assert_eq!(pages.topic_of(&place("-2")), "-1#2");
    }

    #[test]
    fn chats_that_point_at_each_other_do_not_hold_us() {
        let mut pages = Pages::default();
        pages.move_chat("-1", "-2");
        pages.move_chat("-2", "-1");
        pages.address_of(&place("-1"));
        pages.topic_of(&place("-1"));
    }

    #[test]
    fn a_question_that_nobody_answered_in_time_is_not_asked_any_more() {
        let mut pages = Pages::default();
        for (words, minute) in [("old", 0), ("new", 10)] {
            pages.open_prompt(Prompt {
                topic_key: "-1".to_owned(),
                place: place("-1"),
                message: None,
                words: words.to_owned(),
                buttons: Vec::new(),
                delivered_at: Millis(minute * 60_000),
                number: 0,
            });
        }
        let open = |minute: i64| {
            let prompts = pages.prompts_in(&place("-1"), Millis(minute * 60_000));
            prompts.into_iter().map(|prompt| prompt.words).collect::<Vec<_>>()
        };
        assert_eq!(open(19), ["old", "new"]);
        assert_eq!(open(20), ["new"]);
    }

    #[test]
    fn a_question_that_is_shown_again_is_one_question() {
        let button = |data: &str| Button { label: "Approve".to_owned(), data: data.to_owned() };
        let shown = |message: &str, words: &str, data: &str, at: i64| Prompt {
            topic_key: "-1".to_owned(),
            place: place("-1"),
            message: Some(message.to_owned()),
            words: words.to_owned(),
            buttons: vec![button(data)],
            delivered_at: Millis(at),
            number: 0,
        };
        let mut pages = Pages::default();
        pages.open_prompt(shown("m1", "May I?", "apr_a:approve", 1_000));
        pages.open_prompt(shown("m2", "I am still waiting", "apr_a:approve", 9_000));
        pages.open_prompt(shown("m3", "And this?", "apr_b:approve", 9_000));
        let open = pages.prompts_in(&place("-1"), Millis(9_000));
        let open: Vec<(&str, &str, u32)> = open
            .iter()
            .map(|prompt| (prompt.message.as_deref().unwrap(), prompt.words.as_str(), prompt.number))
            .collect();
        assert_eq!(open, [("m2", "May I?", 1), ("m3", "And this?", 2)]);
        assert!(pages.prompt_under("m2").is_some_and(|prompt| prompt.was_seen_by(Millis(2_000))));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut pages = Pages::default();
        for number in 0..10_000 {
            pages.see(&number.to_string());
            pages.begin_conversation(&place(&number.to_string()));
        }
        assert!(pages.has_seen("9999") && !pages.has_seen("1"));
        assert_eq!(pages.seen.len(), SEEN_MAX);
        assert_eq!(pages.conversations.len(), PLACES_MAX);
    }
}
