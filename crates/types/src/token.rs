//! Tokens of approvals in texts from outside: they open a question, so no row and no list keeps them.

use std::borrow::Cow;

const START: &str = "apr_";
/// Letters of the random part.
const LETTERS: usize = 26;
const BLANK: &str = "apr_…";

/// The text with every token in it blanked.
pub fn blank_tokens(text: &str) -> Cow<'_, str> {
    let mut blanked = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(START) {
        let body = &rest[at + START.len()..];
        let letters = body.bytes().take_while(u8::is_ascii_alphanumeric).count();
        let (before, after) = (&rest[..at], &body[letters..]);
        blanked.push_str(before);
        // A shorter word is somebody's own; a longer one may hide a token behind more letters.
        blanked.push_str(if letters >= LETTERS { BLANK } else { &rest[at..at + START.len() + letters] });
        rest = after;
    }
    if blanked.is_empty() {
        return Cow::Borrowed(text);
    }
    blanked.push_str(rest);
    Cow::Owned(blanked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_token_in_a_text_is_blanked_and_nothing_else() {
        let token = format!("apr_{}", "0".repeat(26));
        let check = |text: &str, expected: &str| assert_eq!(blank_tokens(text), expected, "{text}");
        check(&format!("{token}:approve"), "apr_…:approve");
        check(
            &format!("{{\"data\":\"{token}:deny\",\"x\":[\"{token}\"]}}"),
            r#"{"data":"apr_…:deny","x":["apr_…"]}"#,
        );
        check(&format!("x{token}z and {token}"), "xapr_… and apr_…");
        for plain in ["", "hello", "apr_", "apr_x:approve", "see apr_short and apr_other"] {
            check(plain, plain);
        }
    }
}
