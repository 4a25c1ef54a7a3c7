//! Takes keys and addresses out of what a provider said, before anybody can log it.

use cortex_types::{SECRET_MASK, without_secrets};

const SAID_CHARS_MAX: usize = 300;

/// One short line of `text`, without `secret`, anything that looks like one, or an address.
pub(crate) fn one_line(text: &str, secret: &str) -> String {
    let clean = if secret.is_empty() { text.to_owned() } else { text.replace(secret, SECRET_MASK) };
    let clean = without_secrets(&clean);
    let words: Vec<&str> = clean.split_whitespace().map(without_address).collect();
    let line = words.join(" ").replace(char::is_control, " ");
    if line.chars().count() <= SAID_CHARS_MAX {
        return line;
    }
    line.chars().take(SAID_CHARS_MAX).chain(['…']).collect()
}

/// An address may carry a key anywhere in its path.
fn without_address(word: &str) -> &str {
    if word.contains("://") { SECRET_MASK } else { word }
}

#[cfg(test)]
mod tests {
    use super::one_line;

    #[track_caller]
    fn check(text: &str, secret: &str, expected: &str) {
        assert_eq!(one_line(text, secret), expected);
    }

    #[test]
    fn what_a_provider_said_loses_keys_and_addresses_but_keeps_its_sense() {
        check("Incorrect API key provided: sk-proj-abc***xyz.", "", "Incorrect API key provided: ***");
        check("the key hunter2hunter2 is bad", "hunter2hunter2", "the key *** is bad");
        check("see https://user:pass@host/path?key=1 now", "", "see *** now");
        check("{\"key\":\"AIzaSyA1234567\"}", "", "{\"key\":\"***\"}");
        check("a risk-free task", "", "a risk-free task");
        check("two\nlines\tand\u{7} a bell", "", "two lines and  a bell");
    }

    #[test]
    fn a_long_text_is_cut() {
        assert_eq!(one_line(&"ä".repeat(1000), "").chars().count(), 301);
    }
}
