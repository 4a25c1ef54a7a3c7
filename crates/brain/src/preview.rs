//! The live preview: shows an answer while it grows, but nothing that may still be silence or a directive, and
//! nothing that is for other channels alone.

use crate::output::{Pictures, SafeText, Stripper, may_become_silence};

/// Collects deltas and says how much of them may be shown.
#[derive(Debug, Clone, Default)]
pub struct Preview {
    answer: Stripper,
    /// How far the text is shown.
    shown: usize,
    /// In a turn that read what others wrote.
    pictures: Option<Pictures>,
}

impl Preview {
    /// The preview of an answer that shows links instead of pictures.
    pub fn without_pictures() -> Self {
        Self { pictures: Some(Pictures::default()), ..Self::default() }
    }

    /// Takes the next delta and returns what may be shown now; empty while it must be held back.
    pub fn push(&mut self, delta: &str) -> String {
        let news = self.said(delta);
        match &mut self.pictures {
            Some(pictures) => pictures.push(&news),
            None => news,
        }
    }

    fn said(&mut self, delta: &str) -> String {
        self.answer.push(delta);
        let SafeText { lines, open, is_for_elsewhere } = self.answer.safe();
        // It may still be for here too: then all of it follows.
        if is_for_elsewhere {
            return String::new();
        }
        let unseen = match lines.get(self.shown..) {
            Some(rest) => format!("{rest}{open}"),
            None => open.get(self.shown - lines.len()..).unwrap_or_default().to_owned(),
        };
        if self.shown == 0 && may_become_silence(&unseen) {
            return String::new();
        }
        // The delivered text is trimmed: space at the end is shown only once more follows.
        let leading = if self.shown == 0 { unseen.len() - unseen.trim_start().len() } else { 0 };
        let news = unseen[leading..].trim_end().to_owned();
        self.shown += leading + news.len();
        news
    }

    /// The model started over: what was shown is void.
    pub fn restart(&mut self) {
        let pictures = self.pictures.as_ref().map(|_| Pictures::default());
        *self = Self { pictures, ..Self::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Output, parse_output};
    use proptest::prelude::*;

    fn shown(deltas: &[&str]) -> Vec<String> {
        let mut preview = Preview::default();
        deltas.iter().map(|delta| preview.push(delta)).collect()
    }

    #[test]
    fn plain_text_flows_and_silence_never_shows() {
        assert_eq!(shown(&["Hel", "lo ", "you"]), ["Hel", "lo", " you"]);
        assert_eq!(shown(&["NO", "_REP", "LY"]), ["", "", ""]);
        assert_eq!(shown(&["NO", "_REPLY", " yet"]), ["", "", "NO_REPLY yet"]);
        assert_eq!(shown(&["[[reply_to_current]] NO", "_REPLY"]), ["", ""]);
    }

    #[test]
    fn a_directive_is_held_back_until_it_is_known_and_never_shown() {
        assert_eq!(shown(&["Hi [", "[reply_to_current]]", " there"]), ["Hi", "", " there"]);
        assert_eq!(shown(&["Hi [[reply", "_to_current", "]", "] there"]), ["Hi", "", "", " there"]);
        assert_eq!(shown(&["a [", "b]"]), ["a", " [b]"]);
        assert_eq!(shown(&["a [[", "link]] b"]), ["a", " [[link]] b"]);
    }

    #[test]
    fn what_is_for_other_channels_alone_is_not_shown_here() {
        assert_eq!(shown(&["[[send_to:x]] din", "ner\n", "now"]), ["", "", ""]);
        assert_eq!(shown(&["Hi [", "[send_to:x]]", " there"]), ["Hi", "", ""]);
        assert_eq!(shown(&["[[send_to:x]] din", "ner [[reply_to_current]]", " now"]), ["", "dinner", " now"]);
    }

    #[test]
    fn code_is_shown_with_the_directives_in_it() {
        assert_eq!(shown(&["```\n[[send_", "to:x]]\n"]), ["```\n[[send_", "to:x]]"]);
        // Only the end of the line tells that this is no fence.
        assert_eq!(shown(&["```a [[reply_to_current]]", " b``` c\n", "d"]), ["```a", " b``` c", "\nd"]);
    }

    proptest! {
        #[test]
        fn what_was_shown_is_the_beginning_of_what_is_said(
            pieces in prop::collection::vec(
                prop::sample::select(vec![
                    "[", "[[", "]]", "]", "send_to:", "reply_to_current", "x-1", " ", "\n", "```", "~~~", "`", "NO_REPLY", "é",
                    "[[send_to:a]]", "- ", "> ", "1. ", "[[reply_to_current]]", "!", "<im", "g", "<", "/",
                ]),
                0..30,
            ),
            marked in any::<bool>(),
        ) {
            let mut preview = if marked { Preview::without_pictures() } else { Preview::default() };
            let shown: String = pieces.iter().map(|piece| preview.push(piece)).collect();
            let output = parse_output(&pieces.concat());
            match if marked { output.without_pictures() } else { output } {
                Output::Say { text, .. } => prop_assert!(text.starts_with(&shown), "{shown:?} of {text:?}"),
                Output::Silence => prop_assert_eq!(shown, ""),
            }
        }
    }
}
