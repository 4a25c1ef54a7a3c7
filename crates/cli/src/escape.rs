//! Makes text from elsewhere safe for a terminal: it may not move the cursor, set titles, or hide its own direction.

use cortex_brain::{deceives, hides};
use std::borrow::Cow;
use std::fmt::Write;

/// Text as a terminal may show it: line breaks and tabs stay, everything else that acts is spelled out.
pub(crate) fn for_terminal(text: &str) -> Cow<'_, str> {
    escape(text, |letter, out| write!(out, "\\u{{{:x}}}", u32::from(letter)))
}

/// JSON text as a terminal may show it; it still reads as the same JSON.
pub(crate) fn json_for_terminal(json: &str) -> Cow<'_, str> {
    escape(json, |letter, out| {
        let mut units = [0_u16; 2];
        letter.encode_utf16(&mut units).iter().try_for_each(|unit| write!(out, "\\u{unit:04x}"))
    })
}

/// Text for one line of a log: breaks and tabs are spelled out, too.
pub(crate) fn for_log(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|letter| acts(letter) || matches!(letter, '\n' | '\t')) {
        return Cow::Borrowed(text);
    }
    let safe = for_terminal(text);
    Cow::Owned(safe.replace('\n', "\\n").replace('\t', "\\t"))
}

/// The value behind a label: its further lines are indented, so that none of them looks like a label of ours.
pub(crate) fn value(text: &str) -> String {
    text.trim_end().split('\n').collect::<Vec<_>>().join("\n          ")
}

/// The first line of a text, cut, for a cell of a table.
pub(crate) fn one_line(text: &str, letters_max: usize) -> String {
    let flat: String = flat(text);
    if flat.chars().count() <= letters_max {
        return flat;
    }
    flat.chars().take(letters_max.saturating_sub(1)).chain(['…']).collect()
}

/// A text on one line, as long as it is.
pub(crate) fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A text as one word of a command that a person may paste into a shell. `None` when the line that shows it would show
/// something else: then there is no command to paste.
pub(crate) fn shell_word(text: &str) -> Option<String> {
    let is_shown_as_it_is =
        !text.is_empty() && text == flat(text) && !text.chars().any(|letter| hides(letter) || letter == '`');
    let is_plain =
        |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-' | '.' | ':' | '/' | '@');
    match is_shown_as_it_is {
        true if text.chars().all(is_plain) => Some(text.to_owned()),
        true => Some(format!("'{}'", text.replace('\'', "'\\''"))),
        false => None,
    }
}

fn escape(text: &str, spell: impl Fn(char, &mut String) -> std::fmt::Result) -> Cow<'_, str> {
    if !text.chars().any(acts) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        if acts(letter) {
            // Writing to a string cannot fail.
            spell(letter, &mut safe).unwrap_or_default();
        } else {
            safe.push(letter);
        }
    }
    Cow::Owned(safe)
}

/// Everything that deceives, but line breaks and tabs.
fn acts(letter: char) -> bool {
    !matches!(letter, '\n' | '\t') && deceives(letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_that_act_on_a_terminal_are_spelled_out() {
        let cases = [
            ("plain é 漢 👋\n\tok", "plain é 漢 👋\n\tok"),
            ("\u{1b}[2J", "\\u{1b}[2J"),
            ("\u{1b}]52;c;aGk=\u{7}", "\\u{1b}]52;c;aGk=\\u{7}"),
            ("\u{9b}31m", "\\u{9b}31m"),
            ("a\rb\u{8}", "a\\u{d}b\\u{8}"),
            ("\u{202e}txt.exe", "\\u{202e}txt.exe"),
            ("a\u{ad}b\u{180e}\u{3164}\u{fff9}", "a\\u{ad}b\\u{180e}\\u{3164}\\u{fff9}"),
            ("👨\u{200d}👩 ❤\u{fe0f} a\u{a0}b", "👨\u{200d}👩 ❤\u{fe0f} a\u{a0}b"),
            ("\u{2066}x\u{2069}", "\\u{2066}x\\u{2069}"),
        ];
        for (text, expected) in cases {
            assert_eq!(for_terminal(text), expected);
        }
    }

    #[test]
    fn escaped_json_reads_as_the_same_value() {
        let value = serde_json::json!({"text": "\u{1b}[2J \u{9b} \u{202e} \u{e0041}"});
        let text = serde_json::to_string(&value).unwrap();
        let safe = json_for_terminal(&text);
        assert!(!safe.chars().any(acts), "{safe:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&safe).unwrap(), value);
    }

    #[test]
    fn a_line_of_a_log_stays_one() {
        assert_eq!(for_log("plain é"), "plain é");
        assert_eq!(
            for_log("a\n2026-01-01 ERROR forged\u{1b}[0m\t\u{202e}"),
            "a\\n2026-01-01 ERROR forged\\u{1b}[0m\\t\\u{202e}"
        );
    }

    #[test]
    fn no_line_of_a_value_looks_like_a_label() {
        assert_eq!(value("one\ntier      pinned\n"), "one\n          tier      pinned");
    }

    #[test]
    fn a_word_for_a_shell_is_one_word_or_none() {
        assert_eq!(shell_word("my-bot").as_deref(), Some("my-bot"));
        assert_eq!(shell_word("x; curl a|sh").as_deref(), Some("'x; curl a|sh'"));
        assert_eq!(shell_word("it's $HOME").as_deref(), Some("'it'\\''s $HOME'"));
        for unshown in ["", "a  b", " a", "a\nb", "a\u{202e}b", "a\u{a0}b", "`a`"] {
            assert_eq!(shell_word(unshown), None, "{unshown:?}");
        }
    }

    #[test]
    fn a_cell_is_one_line_and_cut() {
        assert_eq!(one_line("a\n b\t c", 10), "a b c");
        assert_eq!(one_line("abcdef", 4), "abc…");
    }
}
