//! Who is heard: the list of people, what is meant for the assistant in a group, and how often a stranger may try.

use super::command::Command;
use super::pairing::PairingCode;
use super::platform::Said;
use serde::Deserialize;
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::Instant;

/// How often each stranger may ask who we are, and try a code, in ten minutes.
const TRIES_EACH: usize = 5;
/// How often all strangers together are greeted. Codes have no such bound: a crowd must not keep the owner out.
const GREETINGS_ALL: usize = 50;
const TRIES_WITHIN: Duration = Duration::from_secs(600);

/// What is heard in a group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GroupPolicy {
    /// What mentions the assistant, replies to it, or is a command.
    #[default]
    Mention,
    All,
    Off,
}

/// What becomes of something that was said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// A stranger, or nothing for us.
    Pass,
    /// Somebody tries a code.
    Pair(PairingCode),
    /// A stranger asks who we are; the answer helps the owner to let him in.
    GreetStranger,
    Command(Command),
    Event,
}

/// Decides by who said it, before anything else is looked at.
pub(crate) fn judge(said: &Said, is_allowed: bool, groups: GroupPolicy, command_mark: char) -> Verdict {
    let command = (!said.is_edit).then(|| Command::read(&said.text, command_mark)).flatten();
    let is_private = !said.place.is_group;
    if is_private
        && !said.is_edit
        && let Some(code) = PairingCode::read(&said.text)
    {
        return Verdict::Pair(code);
    }
    if !is_allowed {
        return match command {
            Some(Command::Start) if is_private => Verdict::GreetStranger,
            Some(_) | None => Verdict::Pass,
        };
    }
    let is_heard = is_private
        || match groups {
            GroupPolicy::All => true,
            GroupPolicy::Mention => said.is_addressed || command.is_some(),
            GroupPolicy::Off => false,
        };
    match command {
        _ if !is_heard => Verdict::Pass,
        Some(command) => Verdict::Command(command),
        None => Verdict::Event,
    }
}

/// How often strangers tried something lately.
#[derive(Debug, Default)]
pub(crate) struct Tries {
    greetings: Attempts,
    codes: Attempts,
}

impl Tries {
    /// Counts one more; false when that is too many and nothing is to be done.
    pub(crate) fn may_greet(&mut self, user: &str, now: Instant) -> bool {
        self.greetings.count(user, now, GREETINGS_ALL)
    }

    /// The same for a pairing code.
    pub(crate) fn may_try_code(&mut self, user: &str, now: Instant) -> bool {
        self.codes.count(user, now, usize::MAX)
    }
}

#[derive(Debug, Default)]
struct Attempts {
    by_user: HashMap<String, Vec<Instant>>,
}

impl Attempts {
    fn count(&mut self, user: &str, now: Instant, most: usize) -> bool {
        self.by_user.retain(|_, tries| {
            tries.retain(|at| now.saturating_duration_since(*at) < TRIES_WITHIN);
            !tries.is_empty()
        });
        let all: usize = self.by_user.values().map(Vec::len).sum();
        let of_user = self.by_user.get(user).map_or(0, Vec::len);
        let may = all < most && of_user < TRIES_EACH;
        if may {
            self.by_user.entry(user.to_owned()).or_default().push(now);
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::place::ChatPlace;
    use cortex_types::Millis;

    fn said(text: &str, is_group: bool) -> Said {
        Said {
            external_id: "1".to_owned(),
            place: ChatPlace { chat: "1".to_owned(), thread: None, is_group },
            user: "42".to_owned(),
            user_name: None,
            text: text.to_owned(),
            occurred_at: Millis(0),
            is_addressed: false,
            is_edit: false,
            quoted: None,
            files: Vec::new(),
            message: None,
        }
    }

    #[test]
    fn a_stranger_is_not_heard_but_may_ask_who_we_are() {
        let judged = |text, is_group| judge(&said(text, is_group), false, GroupPolicy::All, '/');
        assert_eq!(judged("hello", false), Verdict::Pass);
        assert_eq!(judged("/new", false), Verdict::Pass);
        assert_eq!(judged("/start", false), Verdict::GreetStranger);
        assert_eq!(judged("/start", true), Verdict::Pass);
    }

    #[test]
    fn in_a_group_only_what_is_meant_for_us_is_heard() {
        let mut message = said("hello", true);
        assert_eq!(judge(&message, true, GroupPolicy::Mention, '/'), Verdict::Pass);
        assert_eq!(judge(&message, true, GroupPolicy::All, '/'), Verdict::Event);
        message.is_addressed = true;
        assert_eq!(judge(&message, true, GroupPolicy::Mention, '/'), Verdict::Event);
        assert_eq!(judge(&message, true, GroupPolicy::Off, '/'), Verdict::Pass);
        assert_eq!(
            judge(&said("/status", true), true, GroupPolicy::Mention, '/'),
            Verdict::Command(Command::Status)
        );
    }

    #[test]
    fn codes_are_tried_five_times_in_ten_minutes_and_no_more() {
        let (mut tries, now) = (Tries::default(), Instant::now());
        let allowed = (0..8).filter(|_| tries.may_try_code("7", now)).count();
        assert_eq!(allowed, TRIES_EACH);
        assert!(tries.may_try_code("8", now));
        assert!(tries.may_try_code("7", now + TRIES_WITHIN));
    }

    #[test]
    fn a_crowd_of_strangers_is_greeted_up_to_a_bound_and_keeps_no_code_out() {
        let (mut tries, now) = (Tries::default(), Instant::now());
        let crowd = || (0..300).map(|user| user.to_string());
        assert_eq!(crowd().filter(|user| tries.may_greet(user, now)).count(), GREETINGS_ALL);
        assert_eq!(crowd().filter(|user| tries.may_try_code(user, now)).count(), 300);
    }
}
