//! What an answer means: words for one or more channels, or silence.

mod directive;
mod picture;

pub(crate) use directive::{SafeText, Stripper};
pub use picture::WithoutTags;
pub(crate) use picture::{Pictures, without_pictures};

/// An answer, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Words without their directives, and where they go.
    Say { text: String, to: Targets },
    /// The model chose to say nothing; recorded, never sent.
    Silence,
}

/// Where an answer goes (D19).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Targets {
    /// To the topic the event came from.
    pub current: bool,
    /// To these channels too, in the order they were named, each once.
    pub channels: Vec<String>,
}

impl Output {
    /// The same for an answer from a turn that read what others wrote: nothing in it is fetched before a person asks for it.
    pub(crate) fn without_pictures(self) -> Self {
        match self {
            Self::Say { text, to } => Self::Say { text: without_pictures(&text), to },
            Self::Silence => Self::Silence,
        }
    }
}

impl Targets {
    /// An answer without directives.
    pub fn current() -> Self {
        Self { current: true, channels: Vec::new() }
    }
}

const SILENT_WORDS: [&str; 2] = ["NO_REPLY", "HEARTBEAT_OK"];

/// Takes the directives out and reads the rest: exactly `NO_REPLY` or `HEARTBEAT_OK` after trimming is silence, and so
/// is an answer of directives alone; everything else is said (D19).
pub fn parse_output(text: &str) -> Output {
    let mut stripper = Stripper::default();
    stripper.push(text);
    let (said, targets) = stripper.finish();
    let trimmed = said.trim();
    if trimmed.is_empty() || SILENT_WORDS.contains(&trimmed) {
        return Output::Silence;
    }
    let current = targets.current || targets.channels.is_empty();
    Output::Say { text: trimmed.to_owned(), to: Targets { current, ..targets } }
}

/// What became of an answer's words, once its targets were looked up.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Routed {
    /// Said in the topic of the event.
    pub here: bool,
    /// The other channels they went to.
    pub sent: Vec<String>,
    pub unsent: Vec<Unsent>,
}

/// A channel that the words do not reach, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsent {
    pub channel: String,
    pub reason: &'static str,
}

/// What the user is told of channels that could not be reached, in one message; the words are in it unless he has them.
pub fn unsent_notice(text: &str, routed: &Routed) -> Option<String> {
    let lines = unsent_lines(&routed.unsent)?;
    Some(if routed.here { lines } else { format!("{lines}\n\n{text}") })
}

/// What history keeps as the assistant's words in the topic of the event: what was said there, and what went elsewhere.
pub fn history_line(text: &str, routed: &Routed) -> String {
    let words = match (routed.here, routed.sent.as_slice()) {
        (true, _) => text.to_owned(),
        (false, []) => return unsent_notice(text, routed).unwrap_or_else(|| text.to_owned()),
        (false, sent) => format!("[sent to {}] {text}", sent.join(", ")),
    };
    match unsent_lines(&routed.unsent) {
        Some(lines) => format!("{words}\n\n{lines}"),
        None => words,
    }
}

fn unsent_lines(unsent: &[Unsent]) -> Option<String> {
    let line = |unsent: &Unsent| format!("I could not send this to {}: {}", unsent.channel, unsent.reason);
    (!unsent.is_empty()).then(|| unsent.iter().map(line).collect::<Vec<_>>().join("\n"))
}

/// Whether more text could still turn this into silence.
pub(crate) fn may_become_silence(text: &str) -> bool {
    let start = text.trim_start();
    let word = start.trim_end();
    SILENT_WORDS.iter().any(|silent| *silent == word || (silent.starts_with(start) && !start.is_empty()))
        || start.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn say(text: &str, current: bool, channels: &[&str]) -> Output {
        let channels = channels.iter().map(|&name| name.to_owned()).collect();
        Output::Say { text: text.to_owned(), to: Targets { current, channels } }
    }

    #[test]
    fn only_the_bare_words_are_silence() {
        assert_eq!(parse_output(" NO_REPLY\n"), Output::Silence);
        assert_eq!(parse_output("HEARTBEAT_OK"), Output::Silence);
        assert_eq!(parse_output("NO_REPLY."), say("NO_REPLY.", true, &[]));
        assert_eq!(parse_output("no_reply"), say("no_reply", true, &[]));
    }

    #[test]
    fn directives_beside_silence_leave_silence() {
        assert_eq!(parse_output("[[reply_to_current]] NO_REPLY"), Output::Silence);
        assert_eq!(parse_output("[[send_to:telegram]]"), Output::Silence);
    }

    #[test]
    fn an_answer_without_directives_goes_to_where_the_event_came_from() {
        assert_eq!(parse_output(" hello "), say("hello", true, &[]));
        assert_eq!(parse_output("[[reply_to_current]]\nhello"), say("hello", true, &[]));
    }

    #[test]
    fn a_named_channel_gets_the_answer_instead_and_two_get_it_both() {
        assert_eq!(parse_output("[[send_to:whatsapp]] hello"), say("hello", false, &["whatsapp"]));
        let both = "[[send_to:whatsapp]]\nhello [[send_to:my-team_2.x:y]] all";
        assert_eq!(parse_output(both), say("hello all", false, &["whatsapp", "my-team_2.x:y"]));
        assert_eq!(parse_output("hi[[send_to:a]][[send_to:b]][[send_to:a]]"), say("hi", false, &["a", "b"]));
    }

    #[test]
    fn the_source_gets_it_too_when_it_is_asked_for() {
        assert_eq!(parse_output("[[send_to:a-b]][[reply_to_current]]hi"), say("hi", true, &["a-b"]));
    }

    fn routed(here: bool, sent: &[&str], unsent: &[&str]) -> Routed {
        let unsent = unsent.iter().map(|name| Unsent { channel: (*name).to_owned(), reason: "no way." });
        Routed { here, sent: sent.iter().map(|&name| name.to_owned()).collect(), unsent: unsent.collect() }
    }

    #[test]
    fn history_says_where_words_went_that_were_not_said_here() {
        assert_eq!(history_line("hi", &routed(false, &["a", "b"], &[])), "[sent to a, b] hi");
        assert_eq!(history_line("hi", &routed(true, &["a"], &[])), "hi");
    }

    #[test]
    fn history_never_says_that_words_went_where_they_did_not() {
        for (routed, line, notice) in [
            (routed(true, &[], &["x"]), "hi\n\n- x", "- x"),
            (routed(false, &[], &["x", "y"]), "- x\n- y\n\nhi", "- x\n- y\n\nhi"),
            (routed(false, &["a"], &["x"]), "[sent to a] hi\n\n- x", "- x\n\nhi"),
        ] {
            let whole = |short: &str| {
                let line = |line: &str| match line.strip_prefix("- ") {
                    Some(name) => format!("I could not send this to {name}: no way."),
                    None => line.to_owned(),
                };
                short.split('\n').map(line).collect::<Vec<_>>().join("\n")
            };
            assert_eq!(history_line("hi", &routed), whole(line));
            assert_eq!(unsent_notice("hi", &routed), Some(whole(notice)));
        }
        assert_eq!(unsent_notice("hi", &routed(false, &["a"], &[])), None);
    }

    #[test]
    fn a_beginning_of_the_words_may_become_silence() {
        for open in ["", "  ", "N", "NO_", "\nNO_REPLY", "NO_REPLY ", "HEART"] {
            assert!(may_become_silence(open), "{open:?}");
        }
        for said in ["Not", "NO_REPLY!", "Hello", "NO_REPLY or"] {
            assert!(!may_become_silence(said), "{said:?}");
        }
    }
}
