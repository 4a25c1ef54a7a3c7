//! The foreground: this topic's history, newest groups first, as much as there is room for.

use super::{ContextLimits, HistoryLine, SaidBy, Section, SectionName, count_tokens};

/// With memory on, the foreground is kept this small: what is older is remembered, not repeated.
const SOFT_MESSAGES: usize = 20;
const SOFT_TOKENS: u32 = 4_000;

/// The newest whole groups that fit. A group is a user's line and all that answered it: a line never loses its answer,
/// nor a tool call its result. The newest group alone may exceed the soft cap, but not the window.
pub(super) fn newest<'a>(history: &'a [HistoryLine], limits: &ContextLimits, left: u32) -> &'a [HistoryLine] {
    let mut start = history.len();
    let mut spent = 0_u32;
    for (taken, group) in groups_from_newest(history).enumerate() {
        let messages = history.len() - group.start;
        let with_it = spent.saturating_add(history[group.clone()].iter().map(tokens_of).sum());
        let is_soft = limits.memory && taken > 0;
        let too_soft = is_soft && (messages > SOFT_MESSAGES || with_it > SOFT_TOKENS);
        if taken >= limits.groups as usize || with_it > left || too_soft {
            break;
        }
        (start, spent) = (group.start, with_it);
    }
    &history[start..]
}

pub(super) fn section(shown: &[HistoryLine]) -> Section {
    let line = |line: &HistoryLine| {
        let who = match line.speaker {
            SaidBy::User => "user",
            SaidBy::Assistant => "assistant",
        };
        format!("{who}: {}\n", line.content)
    };
    let tokens = shown.iter().map(tokens_of).sum();
    Section { name: SectionName::Foreground, tokens, text: shown.iter().map(line).collect() }
}

fn tokens_of(line: &HistoryLine) -> u32 {
    if line.tokens == 0 { count_tokens(&line.content) } else { line.tokens }
}

/// The groups, the newest first. What stands before the first line of a user is a group too.
fn groups_from_newest(history: &[HistoryLine]) -> impl Iterator<Item = std::ops::Range<usize>> {
    let mut end = history.len();
    std::iter::from_fn(move || {
        let before = history[..end].iter().rposition(|line| line.speaker == SaidBy::User);
        let start = before.unwrap_or(0);
        let group = start..end;
        end = start;
        (!group.is_empty()).then_some(group)
    })
}
