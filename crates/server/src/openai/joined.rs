//! Messages joined into one answer, so that nothing that is said before a question changes how the question is shown.
//!
//! A client renders the whole of an answer as Markdown. Words that leave a block of code open would swallow the beginning of the
//! block in which a question shows its arguments, and these would be rendered instead of shown.

/// Between two messages of one answer.
pub(crate) const BETWEEN: &str = "\n\n";

/// A message as this wire can say it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) text: String,
    /// It asks a person, and shows what would run.
    pub(crate) is_question: bool,
}

/// All of them as one text.
pub(crate) fn joined<'a>(messages: impl IntoIterator<Item = &'a Said>) -> String {
    let (mut text, mut fences) = (String::new(), Fences::default());
    for said in messages {
        if !text.is_empty() {
            text.push_str(BETWEEN);
        }
        text.push_str(&fences.before(said));
        text.push_str(&said.text);
        fences.note(said);
    }
    text
}

/// The fewest signs of a fence.
const SHORTEST: usize = 3;
const SIGNS: [char; 2] = ['`', '~'];

/// The fences in what was said so far. Clients do not agree on where a block of code begins and ends, so only the longest of
/// each sign is known, and not whether one is open.
#[derive(Debug, Default)]
pub(crate) struct Fences {
    longest: [usize; SIGNS.len()],
    last: Option<char>,
    in_a_row: usize,
}

impl Fences {
    /// Those that are left of these messages.
    pub(crate) fn of(messages: &[Said]) -> Self {
        messages.iter().fold(Self::default(), |mut fences, said| {
            drop(fences.before(said));
            fences.note(said);
            fences
        })
    }

    /// Words that may come in pieces.
    pub(crate) fn note_words(&mut self, words: &str) {
        for letter in words.chars() {
            self.in_a_row = if self.last == Some(letter) { self.in_a_row + 1 } else { 1 };
            self.last = Some(letter);
            if let Some(sign) = SIGNS.iter().position(|sign| *sign == letter) {
                self.longest[sign] = self.longest[sign].max(self.in_a_row);
            }
        }
    }

    /// A message as a whole. A question opens and closes its block itself, and begins where none is open.
    pub(crate) fn note(&mut self, said: &Said) {
        if !said.is_question {
            self.note_words(&said.text);
        }
    }

    /// What stands before this message: before a question, the end of whatever block of code may be open.
    pub(crate) fn before(&mut self, said: &Said) -> String {
        if said.is_question { std::mem::take(self).closing() } else { String::new() }
    }

    /// Of two fences that are longer than every one before, the first has a word behind it and so ends nothing: it begins a
    /// block, or stands in the one that is open. The second ends either.
    fn closing(self) -> String {
        let fences = self.longest.into_iter().zip(SIGNS).filter(|(longest, _)| *longest >= SHORTEST);
        let fences = fences.map(|(longest, sign)| sign.to_string().repeat(longest + 1));
        fences.map(|fence| format!("{fence}text\n{fence}{BETWEEN}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

    const SHOWN: &str = "what: \"a #[ok](<b>) * ` <!-- c\"";

    fn words(text: &str) -> Said {
        Said { text: text.to_owned(), is_question: false }
    }

    fn question() -> Said {
        Said { text: format!("May I?\n\n```\n{SHOWN}\n```\n\nTo answer, …"), is_question: true }
    }

    /// The blocks of code that a client shows.
    fn code_in(markdown: &str) -> Vec<String> {
        let mut blocks = Vec::new();
        let mut is_code = false;
        for event in Parser::new_ext(markdown, Options::ENABLE_GFM | Options::ENABLE_TABLES) {
            if let Event::Start(Tag::CodeBlock(_)) = event {
                is_code = true;
                blocks.push(String::new());
            } else if let Event::End(TagEnd::CodeBlock) = event {
                is_code = false;
            } else if let Event::Text(text) = event
                && is_code
            {
                blocks.last_mut().unwrap().push_str(&text);
            }
        }
        blocks
    }

    #[track_caller]
    fn check(before: &[&str]) {
        let messages: Vec<Said> = before.iter().map(|text| words(text)).chain([question()]).collect();
        let text = joined(&messages);
        assert!(code_in(&text).contains(&format!("{SHOWN}\n")), "{text}");
        assert!(text.ends_with(&question().text), "{text}");
    }

    #[test]
    fn what_would_run_is_shown_whatever_was_left_open_before() {
        check(&["One moment:\n```"]);
        check(&["~~~~"]);
        check(&["- ```\n```"]);
        check(&["> ```\n> a", "1. ~~~\n   a"]);
        check(&["``````sh\n```"]);
        check(&["```\na\n```", "b"]);
        check(&["    ```"]);
    }

    #[test]
    fn words_without_a_block_of_code_get_nothing_put_between() {
        assert_eq!(
            joined(&[words("a"), words("b ``c``"), question()]),
            format!("a\n\nb ``c``\n\n{}", question().text)
        );
        assert_eq!(joined(&[question(), question()]), format!("{0}\n\n{0}", question().text));
        assert_eq!(joined(&[words("```"), words("a")]), "```\n\na", "they are no question");
    }

    proptest! {
        #[test]
        fn no_words_change_how_a_question_is_shown(
            pieces in prop::collection::vec(
                prop::sample::select(vec![
                    "`", "``", "```", "````", "~~~", "~~~~~", "\n", "\n\n", "- ", "> ", "1. ", "   ", "    ", "a", "sh", "# ", "|", "---",
                ]),
                0..40,
            ),
            cut in 0..40_usize,
        ) {
            let (first, second) = pieces.split_at(cut.min(pieces.len()));
            let messages = [words(&first.concat()), words(&second.concat()), question(), question()];
            let text = joined(&messages);
            let shown = code_in(&text).into_iter().filter(|block| *block == format!("{SHOWN}\n")).count();
            prop_assert_eq!(shown, 2, "{}", text);
        }
    }
}
