//! What a client fetches unasked while it shows an answer: pictures, HTML and drawings. Their addresses can carry anything, so an
//! answer of a turn that read what others wrote has links instead, as in every connector of ours.
//!
//! Nothing is looked for by its name: whatever begins a picture or a tag no longer does, in code as well. Clients draw some code
//! (a diagram shows the pictures that it names), and they do not agree on where code begins.

/// The text with links instead of pictures.
pub(crate) fn without_pictures(text: &str) -> String {
    Pictures::default().push(text)
}

/// The same for a text that grows.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pictures {
    last: Option<char>,
    /// How often the last letter of a fence stands in a row; a fence has three.
    in_a_row: usize,
    /// Behind a fence and the space that may follow it.
    is_at_language: bool,
}

const FENCE_LETTERS: [char; 2] = ['`', '~'];
const FENCE_LEN: usize = 3;

impl Pictures {
    pub(crate) fn push(&mut self, piece: &str) -> String {
        let mut said = String::with_capacity(piece.len());
        for letter in piece.chars() {
            said.push_str(self.between(letter));
            said.push(letter);
            self.last = Some(letter);
        }
        said
    }

    /// What has to stand before the next letter, so that nothing begins with it that is fetched.
    fn between(&mut self, next: char) -> &'static str {
        if FENCE_LETTERS.contains(&next) {
            self.in_a_row = if self.last == Some(next) { self.in_a_row + 1 } else { 1 };
            self.is_at_language = self.in_a_row >= FENCE_LEN;
            return "";
        }
        let is_space = matches!(next, ' ' | '\t');
        let is_language = self.is_at_language && !is_space && !matches!(next, '\n' | '\r');
        self.is_at_language &= is_space;
        match self.last {
            // No client draws what is called text.
            _ if is_language => "text ",
            Some('!') if next == '[' => " ",
            Some('<') if may_begin_tag(next) => " ",
            Some(_) | None => "",
        }
    }
}

/// Takes a text in pieces and breaks the tags in it, and nothing else: for words behind which something must be shown as it is.
/// An open tag can swallow or hide what follows.
#[derive(Debug, Clone, Default)]
pub struct WithoutTags {
    last: Option<char>,
    was_tag: bool,
}

impl WithoutTags {
    pub fn push(&mut self, piece: &str) -> String {
        let mut said = String::with_capacity(piece.len());
        for letter in piece.chars() {
            if self.begins_tag(letter) {
                said.push(' ');
            }
            said.push(letter);
        }
        said
    }

    /// The same for words that went out as they are: only notes whether they had a tag.
    pub fn note(&mut self, piece: &str) {
        for letter in piece.chars() {
            self.was_tag |= self.begins_tag(letter);
        }
    }

    /// Whether a tag went out whole, and something of it may be open.
    pub fn was_tag(&self) -> bool {
        self.was_tag
    }

    fn begins_tag(&mut self, next: char) -> bool {
        self.last.replace(next) == Some('<') && may_begin_tag(next)
    }
}

/// Whether `<` and this letter may be the beginning of a tag, a comment or a declaration. Letters that some program may drop
/// on the way count too.
fn may_begin_tag(next: char) -> bool {
    match next {
        '/' | '!' | '?' => true,
        _ => !(next.is_ascii_whitespace() || next.is_ascii_digit() || next.is_ascii_punctuation()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_picture_becomes_a_link_and_everything_else_stays() {
        for (text, expected) in [
            ("![](https://evil.example/?q=peanuts)", "! [](https://evil.example/?q=peanuts)"),
            ("\\![a](x) \\\\![a][b] ![c]", "\\! [a](x) \\\\! [a][b] ! [c]"),
            ("[^1]: ![a](x)\n![[a.png]]", "[^1]: ! [a](x)\n! [[a.png]]"),
            ("!!![x](y)", "!!! [x](y)"),
            (
                "a < b! [link](https://x.example) 1<2 <= <- <3 <<",
                "a < b! [link](https://x.example) 1<2 <= <- <3 <<",
            ),
            ("oh!", "oh!"),
        ] {
            assert_eq!(without_pictures(text), expected);
        }
    }

    #[test]
    fn no_tag_stays_a_tag_whatever_it_is_called() {
        for (text, expected) in [
            ("<img src=x> <IMG/src=x> </p><Svg>", "< img src=x> < IMG/src=x> < /p>< Svg>"),
            ("<<img <im <", "<< img < im <"),
            ("<div style=\"background:url(//x)\">", "< div style=\"background:url(//x)\">"),
            ("<!-- a --><?xml ?><!DOCTYPE a>", "< !-- a -->< ?xml ?>< !DOCTYPE a>"),
            ("`<p>` \\<p> <\u{0}p> <\u{200b}p>", "`< p>` \\< p> < \u{0}p> < \u{200b}p>"),
            // To a client of HTML this is a tag with a style.
            ("<https://style=background:url(//x)>", "< https://style=background:url(//x)>"),
        ] {
            assert_eq!(without_pictures(text), expected);
        }
    }

    #[test]
    fn tags_alone_are_broken_where_pictures_may_stay() {
        let mut tags = WithoutTags::default();
        let broken = tags.push("![a](x) <") + &tags.push("!-- ```sh Vec<T> 1<2 </p>");
        assert_eq!(broken, "![a](x) < !-- ```sh Vec< T> 1<2 < /p>");
        assert!(!tags.was_tag());
        tags.note("a <");
        assert!(!tags.was_tag());
        tags.note("b>");
        assert!(tags.was_tag());
    }

    #[test]
    fn code_is_shown_and_never_drawn() {
        for (text, expected) in [
            ("```mermaid\na@{ img: \"x\" }\n```\nb", "```text mermaid\na@{ img: \"x\" }\n```\nb"),
            ("> ~~~~ \tvega\n> ~~~~", "> ~~~~ \ttext vega\n> ~~~~"),
            ("```\r\na\n``` \nb ``c`` ~~d~~", "```\r\na\n``` \nb ``c`` ~~d~~"),
        ] {
            assert_eq!(without_pictures(text), expected);
        }
    }

    proptest! {
        #[test]
        fn a_text_in_pieces_is_the_beginning_of_the_same_text(
            pieces in prop::collection::vec(
                prop::sample::select(vec!["!", "[", "<", "i", "G", "/", "é", "svg", "](", "`", "``", "~~~", " ", "\n"]),
                0..30,
            ),
        ) {
            let mut pictures = Pictures::default();
            let shown: String = pieces.iter().map(|piece| pictures.push(piece)).collect();
            let whole = without_pictures(&pieces.concat());
            prop_assert_eq!(&shown, &whole);
            prop_assert!(!whole.contains("!["), "{whole}");
            let begins_tag = |at: usize| whole[at + 1..].starts_with(|next: char| next.is_alphabetic() || "/!?".contains(next));
            prop_assert!(!whole.match_indices('<').any(|(at, _)| begins_tag(at)), "{whole}");
        }
    }
}
