//! What the model sees of a turn, in four layers: the floor, this topic, one line for each other channel, and nothing
//! of what is archived (D17). What changes least stands first, so that a provider's prompt cache hits.

use crate::envelope::{came_with, heard, holds_others};
use crate::trust::{QUOTED, SAID_BEFORE, SUMMARISED, UNREVIEWED, untrusted_channel};
use cortex_types::limits::KNOWN_FACTS_MAX;
use cortex_types::{ChatMessage, Event, Millis};

mod background;
mod foreground;
mod section;
mod tokens;
mod window;

pub(crate) use background::shortened;
pub use background::{background_words, last_words, summary_line};
pub use section::{Section, SectionName};
pub use tokens::{count_tokens, text_of_tokens};
pub use window::window_of;

/// The files people write about their assistant, as they stand in the workspace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Floor {
    pub soul: String,
    pub identity: String,
    pub user: String,
    pub memory: String,
}

impl Floor {
    /// What stands under the prompt of somebody who is not the owner: nothing about him.
    #[must_use]
    pub fn for_strangers(self) -> Self {
        Self { user: String::new(), memory: String::new(), ..self }
    }
}

/// Something remembered that every prompt has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownFact {
    /// The order facts are shown in, whichever of them are chosen: it must not change with every recall.
    pub seq: i64,
    pub text: String,
    /// Learned from what others wrote, and no person has looked at it.
    pub unreviewed: bool,
}

/// Who said a line of history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SaidBy {
    User,
    Assistant,
}

/// One line of the topic's history, oldest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryLine {
    pub speaker: SaidBy,
    pub content: String,
    /// An estimate; 0 is not counted yet.
    pub tokens: u32,
    /// Its turn had read what others wrote, or it quotes them.
    pub untrusted: bool,
}

/// What goes on on another channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackgroundLine {
    pub channel: String,
    pub summary: String,
    pub last_message_at: Millis,
}

/// How much of everything there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContextLimits {
    /// Tokens the model takes, its answer included.
    pub window: u32,
    /// User-led groups of history (D14).
    pub groups: u32,
    /// The foreground is kept small and old channels are left out, because facts are remembered.
    pub memory: bool,
}

/// Which of the texts that are given as they are hold what others wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UntrustedParts {
    pub ops: bool,
    pub summary: bool,
}

/// Everything a turn's prompt is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextInput {
    pub floor: Floor,
    /// Best first; what is too much is left out.
    pub facts: Vec<KnownFact>,
    /// The lines of work in flight elsewhere.
    pub ops: Vec<String>,
    /// Stands for what was said here before `history`.
    pub summary: Option<String>,
    pub history: Vec<HistoryLine>,
    pub background: Vec<BackgroundLine>,
    pub event: Event,
    pub now: Millis,
    pub limits: ContextLimits,
    /// What the tools' descriptions take.
    pub tool_tokens: u32,
    pub untrusted: UntrustedParts,
}

impl ContextInput {
    /// A prompt of an event and nothing else.
    pub fn bare(event: Event, limits: ContextLimits) -> Self {
        Self {
            floor: Floor::default(),
            facts: Vec::new(),
            ops: Vec::new(),
            summary: None,
            history: Vec::new(),
            background: Vec::new(),
            now: event.created_at,
            event,
            limits,
            tool_tokens: 0,
            untrusted: UntrustedParts::default(),
        }
    }
}

/// A prompt, put together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnContext {
    pub(crate) event: Event,
    sections: Vec<Section>,
    messages: Vec<ChatMessage>,
    untrusted: Option<String>,
}

impl TurnContext {
    /// The floor and the event are there at any budget. The topic's summary, the lines of other channels and the topic's
    /// history get what is left, in this order: the summary whole or not at all, of the others the oldest is dropped first.
    pub fn assemble(input: ContextInput) -> Self {
        let ContextInput { floor, facts, ops, summary, history, background, event, .. } = input;
        let ContextInput { now, limits, tool_tokens, untrusted, .. } = input;
        let mut sections = section::of_floor(&floor);
        let facts = chosen(facts);
        let knows_unreviewed = facts.iter().any(|fact| fact.unreviewed);
        sections.extend(section::of_facts(&facts));
        sections.extend(section::of_ops(&ops));
        let message = section::of_message(&event);
        let came_with = came_with(&event);
        let text = heard(came_with.as_deref(), event.text.clone());
        let said = count_tokens(&text);
        let fixed = sections.iter().chain([&message]).map(|section| section.tokens).sum::<u32>();
        let mut left = limits.window.saturating_sub(window::kept_for_answer(limits.window));
        left = left.saturating_sub(fixed + said + tool_tokens);
        let summary =
            summary.and_then(|text| section::of_summary(&text)).filter(|found| found.tokens <= left);
        left -= summary.as_ref().map_or(0, |found| found.tokens);
        let background = background::lines(background, now, limits.memory);
        let background = section::of_background(&background, left);
        left -= background.as_ref().map_or(0, |found| found.tokens);
        let shown = foreground::newest(&history, &limits, left);
        let others_wrote = |is_there: bool, what: &str| is_there.then(|| what.to_owned());
        let untrusted = untrusted_channel(&event.channel)
            .or(others_wrote(holds_others(false, came_with.as_deref()), QUOTED))
            .or(others_wrote(shown.iter().any(|line| line.untrusted), SAID_BEFORE))
            .or(others_wrote(untrusted.summary && summary.is_some(), SUMMARISED))
            .or(others_wrote(untrusted.ops, "the result of an op"))
            .or(others_wrote(knows_unreviewed, UNREVIEWED));
        sections.extend(summary);
        sections.extend(background);
        sections.push(message);
        let mut messages = merged(shown);
        messages.push(ChatMessage::User { text: text.clone() });
        sections.push(foreground::section(shown));
        sections.push(Section { name: SectionName::Event, tokens: said, text });
        Self { event, sections, messages, untrusted }
    }

    /// What in it others wrote, if anything.
    pub fn untrusted(&self) -> Option<&str> {
        self.untrusted.as_deref()
    }

    /// What the prompt has, part by part, in the order in which the model sees it.
    pub fn sections(&self) -> &[Section] {
        &self.sections
    }

    /// The conversation up to and with the event.
    pub fn messages(&self) -> &[ChatMessage] {
        &self.messages
    }

    /// The system text, and how many bytes of it stay the same from turn to turn. Channel, sender and time stand at
    /// its end, so that the last user message stays verbatim.
    pub fn system(&self) -> (String, usize) {
        let mut text = String::new();
        let mut stable = 0;
        for section in self.sections.iter().filter(|section| section.name.is_system()) {
            text.push_str(&section.text);
            if section.name.is_stable() {
                stable = text.len();
            }
        }
        (text, stable)
    }
}

/// Neighbours of one role are joined, as providers ask.
fn merged(history: &[HistoryLine]) -> Vec<ChatMessage> {
    let mut messages: Vec<ChatMessage> = Vec::with_capacity(history.len() + 1);
    for line in history {
        match (line.speaker, messages.last_mut()) {
            (SaidBy::User, Some(ChatMessage::User { text }))
            | (SaidBy::Assistant, Some(ChatMessage::Assistant { text, .. })) => {
                text.push_str("\n\n");
                text.push_str(&line.content);
            }
            (SaidBy::User, _) => messages.push(ChatMessage::User { text: line.content.clone() }),
            (SaidBy::Assistant, _) => {
                messages.push(ChatMessage::Assistant { text: line.content.clone(), tool_calls: Vec::new() })
            }
        }
    }
    messages
}

/// The best facts, in their stable order. Pinned ones come first and there are never more of them than fit.
fn chosen(mut facts: Vec<KnownFact>) -> Vec<KnownFact> {
    facts.truncate(KNOWN_FACTS_MAX);
    facts.sort_by_key(|fact| fact.seq);
    facts
}

/// Fields come from outside: a line break in them must not look like another line of ours.
fn one_line(field: &str) -> String {
    field.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

#[cfg(test)]
mod tests;
