//! Reads a platform's JSON, also where a text in it was cut in the middle of a letter.

use serde::de::DeserializeOwned;
use std::borrow::Cow;

/// One half of a letter makes a whole answer unreadable, and somebody else wrote that text: it must not hold up what stands
/// beside it. Such halves are read as what replaces unreadable letters everywhere.
pub(crate) fn read_platform<T: DeserializeOwned>(json: &[u8]) -> Result<T, serde_json::Error> {
    serde_json::from_slice(json).or_else(|error| match std::str::from_utf8(json).map(with_whole_letters) {
        Ok(Cow::Owned(mended)) => serde_json::from_str(&mended),
        Ok(Cow::Borrowed(_)) | Err(_) => Err(error),
    })
}

const ESCAPE_LEN: usize = r"\ud83d".len();

/// Escapes that are half of a letter without the other half beside them are replaced.
fn with_whole_letters(json: &str) -> Cow<'_, str> {
    let mut mended = String::new();
    let (mut kept, mut at) = (0, 0);
    while let Some(found) = json[at..].find('\\') {
        let start = at + found;
        at = match half_at(json, start) {
            None => start + 2,
            Some(Half::First) if half_at(json, start + ESCAPE_LEN) == Some(Half::Second) => {
                start + 2 * ESCAPE_LEN
            }
            Some(Half::First | Half::Second) => {
                mended.push_str(&json[kept..start]);
                mended.push_str(r"\ufffd");
                kept = start + ESCAPE_LEN;
                kept
            }
        };
        // Behind a backslash may stand a letter of several bytes, which is an error of its own.
        if !json.is_char_boundary(at) {
            break;
        }
    }
    if kept == 0 { Cow::Borrowed(json) } else { Cow::Owned(mended + &json[kept..]) }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Half {
    First,
    Second,
}

fn half_at(json: &str, start: usize) -> Option<Half> {
    let digits = json.get(start..start + ESCAPE_LEN)?.strip_prefix(r"\u")?;
    match u16::from_str_radix(digits, 16).ok()? {
        0xd800..=0xdbff => Some(Half::First),
        0xdc00..=0xdfff => Some(Half::Second),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::read_platform;
    use cortex_types::JsonText;

    #[test]
    fn half_a_letter_holds_up_nothing_beside_it() {
        for (odd, read) in [
            (r#""a\ud83d""#, "a\u{fffd}"),
            (r#""\udc4b\ud83d\ud83d\udc4b!""#, "\u{fffd}\u{fffd}👋!"),
            (r#""\\ud83d \"\uD83D\n""#, "\\ud83d \"\u{fffd}\n"),
        ] {
            let page: Vec<JsonText> = read_platform(format!("[1,{odd},2]").as_bytes()).unwrap();
            assert_eq!(page.len(), 3, "{odd}");
            assert_eq!(page[1].read::<String>().unwrap(), read, "{odd}");
        }
    }

    #[test]
    fn what_is_no_json_stays_none() {
        for broken in ["", "[", "\"\\ud83d", "\"\\", "\"\\é\"", "\"\\ud83", "{\"\\ud83d\":}"] {
            assert!(read_platform::<JsonText>(broken.as_bytes()).is_err(), "{broken}");
        }
        assert!(read_platform::<JsonText>(b"\"\xff\"").is_err());
    }
}
