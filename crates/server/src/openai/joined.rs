//! Messages joined into one answer, so that nothing that is said before a question changes how the question is shown.
//!
//! A client renders the whole of an answer as Markdown. Words that leave a block of code open would swallow the beginning of the
//! block in which a question shows its arguments, and these would be rendered instead of shown. So would an open tag of HTML.

use cortex_runtime::WithoutTags;

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
    joined_and_left(messages).0
}

/// The same, with what the text leaves open.
pub(crate) fn joined_and_left<'a>(messages: impl IntoIterator<Item = &'a Said>) -> (String, Open) {
    let messages: Vec<&Said> = messages.into_iter().collect();
    let (mut text, mut open) = (String::new(), Open::default());
    for (position, said) in messages.iter().enumerate() {
        if !text.is_empty() {
            text.push_str(BETWEEN);
        }
        let is_before_question = messages[position + 1..].iter().any(|later| later.is_question);
        text.push_str(&open.shown(said, is_before_question));
    }
    (text, open)
}

/// The signs of fences and the fewest of each: of code, and of formulas, which some clients draw.
const SIGNS: [(char, usize); 3] = [('`', 3), ('~', 3), ('$', 2)];

/// What ends every block of HTML that runs over blank lines, whichever is open: one line has the ends of all. It does not
/// begin with a tag, so that it begins none itself.
const HTML_ENDS: &str = "--> ?> ]]> </pre></script></style></textarea>";

/// What may be open behind all that was said so far. Clients do not agree on where a block of code begins and ends, so of the
/// fences only the longest of each sign is known, and not whether one is open.
#[derive(Debug, Default)]
pub(crate) struct Open {
    longest: [usize; SIGNS.len()],
    last: Option<char>,
    in_a_row: usize,
    tags: WithoutTags,
}

impl Open {
    /// Words that go out as they are, and may come in pieces.
    pub(crate) fn note_words(&mut self, words: &str) {
        self.tags.note(words);
        self.note_fences(words);
    }

    /// Words as they are shown. Those before a question have no tags: an open one would swallow or hide the question.
    pub(crate) fn words(&mut self, words: &str, is_before_question: bool) -> String {
        if !is_before_question {
            self.note_words(words);
            return words.to_owned();
        }
        self.note_fences(words);
        self.tags.push(words)
    }

    /// A message as it is shown. A question begins where nothing is open, and opens and closes its block itself.
    pub(crate) fn shown(&mut self, said: &Said, is_before_question: bool) -> String {
        if said.is_question {
            format!("{}{}", std::mem::take(self).closing(), said.text)
        } else {
            self.words(&said.text, is_before_question)
        }
    }

    fn note_fences(&mut self, words: &str) {
        for letter in words.chars() {
            self.in_a_row = if self.last == Some(letter) { self.in_a_row + 1 } else { 1 };
            self.last = Some(letter);
            if let Some(sign) = SIGNS.iter().position(|(sign, _)| *sign == letter) {
                self.longest[sign] = self.longest[sign].max(self.in_a_row);
            }
        }
    }

    /// The end of whatever may be open. Of two fences that are longer than every one before, the first has a word behind it and so ends nothing: it begins a
    /// block, or stands in the one that is open. The second ends either.
    fn closing(self) -> String {
        let html = if self.tags.was_tag() { format!("{HTML_ENDS}{BETWEEN}") } else { String::new() };
        let fences = self.longest.into_iter().zip(SIGNS).filter(|(longest, (_, least))| longest >= least);
        let fences = fences.map(|(longest, (sign, _))| sign.to_string().repeat(longest + 1));
        let fences = fences.map(|fence| format!("{fence}text\n{fence}{BETWEEN}"));
        std::iter::once(html).chain(fences).collect()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;
    use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

    pub(crate) const SHOWN: &str = "what: \"a #[ok](<b>) * ` <!-- c\"";

    fn words(text: &str) -> Said {
        Said { text: text.to_owned(), is_question: false }
    }

    pub(crate) fn question() -> Said {
        Said { text: format!("May I?\n\n```\n{SHOWN}\n```\n\nTo answer, …"), is_question: true }
    }

    /// The blocks of code that a client shows.
    pub(crate) fn code_in(markdown: &str) -> Vec<String> {
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
    fn what_would_run_is_shown_whatever_html_stands_before() {
        for open in
            ["<!--", "<pre>", "<script>", "<style>", "<textarea>", "<?", "<!X", "<![CDATA[", "<div hidden>"]
        {
            check(&[open]);
            check(&["a", &format!("> b\n\n{open} c\n\nd")]);
            check(&[&format!("- {open}\n\n```"), "e"]);
        }
        let after = joined(&[question(), words("Vec<String>")]);
        assert!(after.ends_with("\n\nVec<String>"), "nothing is asked behind it: {after}");
    }

    #[test]
    fn a_formula_that_was_left_open_ends_before_a_question() {
        assert_eq!(
            joined(&[words("$$\na"), words("costs $5"), question()]),
            format!("$$\na\n\ncosts $5\n\n$$$text\n$$$\n\n{}", question().text)
        );
        assert_eq!(joined(&[words("$5 and $6"), question()]), format!("$5 and $6\n\n{}", question().text));
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

    /// What Markdown and HTML are made of.
    pub(crate) fn pieces() -> impl Strategy<Value = Vec<&'static str>> {
        let pieces = prop::sample::select(vec![
            "`",
            "``",
            "```",
            "````",
            "~~~",
            "~~~~~",
            "$$",
            "$",
            "\n",
            "\n\n",
            "- ",
            "> ",
            "1. ",
            "   ",
            "    ",
            "a",
            "sh",
            "# ",
            "|",
            "---",
            "<",
            "<!--",
            "<pre>",
            "-->",
            "</pre>",
            "<?",
            "<!X",
            "<![CDATA[",
            "<b",
            "<Style>",
        ]);
        prop::collection::vec(pieces, 0..40)
    }

    proptest! {
        #[test]
        fn no_words_change_how_a_question_is_shown(
            pieces in pieces(),
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
