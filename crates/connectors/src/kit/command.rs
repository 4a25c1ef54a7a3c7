//! The commands that the connector itself understands; anything else that begins with a slash is said to the assistant.

/// A command of a person who is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Command {
    Start,
    Help,
    Status,
    /// Denies the open questions of the chat; a turn that runs goes on.
    Stop,
    New,
    /// Presses Approve of the open question with this number, or of the only one.
    Approve(Option<u32>),
}

impl Command {
    /// The command that a text is; `mark` is what commands begin with.
    pub(crate) fn read(text: &str, mark: char) -> Option<Self> {
        let mut words = text.trim().strip_prefix(mark)?.split_whitespace();
        let word = words.next()?.to_ascii_lowercase();
        let rest = words.next();
        match (word.as_str(), rest) {
            ("start", _) => Some(Self::Start),
            ("help", None) => Some(Self::Help),
            ("status", None) => Some(Self::Status),
            ("stop", None) => Some(Self::Stop),
            ("new", None) => Some(Self::New),
            ("approve", None) => Some(Self::Approve(None)),
            ("approve", Some(number)) => number.parse().ok().map(|number| Self::Approve(Some(number))),
            _ => None,
        }
    }
}

pub(crate) const HELP: &str = "\
/status – whether the server is there
/new – begin a new conversation in this chat
/approve – approve the open question of this chat (`/approve 2` for question 2)
/stop – deny the open questions of this chat
/help – this list

Everything else is said to the assistant.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read_and_other_words_are_not() {
        let read = |text| Command::read(text, '/');
        assert_eq!(read("/status"), Some(Command::Status));
        assert_eq!(read(" /NEW "), Some(Command::New));
        assert_eq!(read("/approve"), Some(Command::Approve(None)));
        assert_eq!(read("/approve 2"), Some(Command::Approve(Some(2))));
        assert_eq!(read("/start abc"), Some(Command::Start));
        for other in ["status", "/", "/etc/hosts", "/stop the music", "/approve everything", "//new"] {
            assert_eq!(read(other), None, "{other}");
        }
        assert_eq!(Command::read("!help", '!'), Some(Command::Help));
    }
}
