//! Which characters hide something, and how they are spelled so that a person sees them. The one home of that question.

use unicode_general_category::{GeneralCategory, get_general_category};

/// As many plain spaces stay as they are. More of them push what follows out of sight where lines are not wrapped.
const SPACES_MAX: usize = 8;

/// The text with every hidden character spelled out as `\u{…}`, and a long run of spaces as `\u{20×400}`; line breaks and
/// tabs stay.
pub fn visible(text: &str) -> String {
    spelled(text, |letter| hides(letter) && !matches!(letter, '\n' | '\t'))
}

/// The same for a text that must stay on its line: breaks and tabs are spelled out, too.
pub fn visible_line(text: &str) -> String {
    spelled(text, hides)
}

/// Whether a character shows nothing of itself, or changes how others are shown: controls, format and direction marks,
/// line and paragraph separators, joiners, fillers, variation selectors, tags, blanks that are no plain space, and code
/// points that mean nothing to everybody.
pub fn hides(letter: char) -> bool {
    match letter {
        ' '..='~' => false,
        // Marks, letters and symbols to Unicode, and nothing to the eye.
        '\u{34f}'
        | '\u{115f}'
        | '\u{1160}'
        | '\u{17b4}'
        | '\u{17b5}'
        | '\u{180b}'..='\u{180f}'
        | '\u{2800}' => true,
        '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{ffa0}' | '\u{e0100}'..='\u{e01ef}' => true,
        letter => hides_by_category(letter),
    }
}

/// Whether a character must not reach a terminal or a log as it is: all that hide something, but for those that ordinary
/// writing needs. Blanks stay blanks, and joiners and the two common variation selectors make emoji and letters.
pub fn deceives(letter: char) -> bool {
    let is_ordinary = matches!(letter, '\u{200c}' | '\u{200d}' | '\u{fe0e}' | '\u{fe0f}')
        || get_general_category(letter) == GeneralCategory::SpaceSeparator;
    hides(letter) && !is_ordinary
}

fn hides_by_category(letter: char) -> bool {
    matches!(
        get_general_category(letter),
        GeneralCategory::Control
            | GeneralCategory::Format
            | GeneralCategory::LineSeparator
            | GeneralCategory::ParagraphSeparator
            | GeneralCategory::SpaceSeparator
            | GeneralCategory::PrivateUse
            | GeneralCategory::Surrogate
            | GeneralCategory::Unassigned
    )
}

fn spelled(text: &str, is_spelled: impl Fn(char) -> bool) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let spaces = rest.len() - rest.trim_start_matches(' ').len();
        if spaces > SPACES_MAX {
            shown.push_str(&format!("\\u{{20×{spaces}}}"));
        } else if is_spelled(letter) {
            shown.extend(letter.escape_unicode());
        } else {
            shown.push_str(&rest[..spaces.max(letter.len_utf8())]);
        }
        rest = &rest[spaces.max(letter.len_utf8())..];
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_hides_is_spelled_out_and_everything_else_stays() {
        assert_eq!(visible("a\u{202e}b\n\tc\u{7}"), "a\\u{202e}b\n\tc\\u{7}");
        assert_eq!(visible_line("a\nb\tc"), "a\\u{a}b\\u{9}c");
        assert_eq!(visible("é 漢 👋 e\u{301} שלום"), "é 漢 👋 e\u{301} שלום");
        for hidden in "\u{ad}\u{61c}\u{200b}\u{200d}\u{2028}\u{2060}\u{2065}\u{3000}\u{feff}\u{fff9}\u{1d173}\u{e0001}\u{e0fff}\u{a0}\u{2800}\u{e000}".chars() {
            assert!(hides(hidden), "{hidden:?}");
        }
    }

    #[test]
    fn a_long_run_of_spaces_is_counted() {
        let spaces = |count: usize| " ".repeat(count);
        assert_eq!(visible_line(&format!("ls #{}; sh", spaces(400))), "ls #\\u{20×400}; sh");
        assert_eq!(visible(&format!("{}5{}", spaces(9), spaces(10))), "\\u{20×9}5\\u{20×10}");
        let short = format!("{}a{}b\n{}", spaces(8), spaces(1), spaces(8));
        assert_eq!(visible(&short), short);
    }

    #[test]
    fn ordinary_writing_deceives_nobody() {
        let deceiving = |text: &str| text.chars().filter(|letter| deceives(*letter)).collect::<String>();
        assert_eq!(deceiving("é 漢\u{3000}字 👨\u{200d}👩\u{200d}👧 ❤\u{fe0f} a\u{a0}b می\u{200c}خواهم"), "");
        let hidden = "\u{7}\u{1b}\u{9b}\u{ad}\u{61c}\u{180e}\u{200b}\u{202e}\u{2028}\u{2066}\u{3164}\u{feff}\u{fff9}\u{e0041}";
        assert_eq!(deceiving(hidden), hidden);
    }

    proptest! {
        #[test]
        fn nothing_hidden_is_left_and_nothing_visible_is_lost(text in any::<String>()) {
            let shown = visible_line(&text);
            prop_assert!(!shown.chars().any(hides));
            let kept: String = text.chars().filter(|letter| !hides(*letter) && *letter != ' ').collect();
            let mut rest = shown.chars();
            prop_assert!(kept.chars().all(|letter| rest.any(|other| other == letter)));
        }
    }
}
