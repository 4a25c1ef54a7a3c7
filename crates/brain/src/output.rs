//! What an answer means: words for the user, or silence.

pub(crate) use cortex_types::SILENCE_MARK;

/// An answer, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    Say(String),
    /// The model chose to say nothing; recorded, never sent.
    Silence,
}

const SILENT_WORDS: [&str; 2] = ["NO_REPLY", "HEARTBEAT_OK"];

/// Exactly `NO_REPLY` or `HEARTBEAT_OK` after trimming is silence; everything else is said (D19).
pub fn parse_output(text: &str) -> Output {
    let trimmed = text.trim();
    if SILENT_WORDS.contains(&trimmed) { Output::Silence } else { Output::Say(trimmed.to_owned()) }
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

    #[test]
    fn only_the_bare_words_are_silence() {
        assert_eq!(parse_output(" NO_REPLY\n"), Output::Silence);
        assert_eq!(parse_output("HEARTBEAT_OK"), Output::Silence);
        assert_eq!(parse_output("NO_REPLY."), Output::Say("NO_REPLY.".to_owned()));
        assert_eq!(parse_output("no_reply"), Output::Say("no_reply".to_owned()));
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
