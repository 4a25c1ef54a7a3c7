//! The background: other channels of the same person, one line each.

use super::BackgroundLine;
use cortex_types::Millis;
use cortex_types::limits::{BACKGROUND_CHARS_MAX, BACKGROUND_LINES_MAX};

/// With memory on, a channel that was idle for longer is left out. Exactly a day is not longer.
const IDLE_MAX_MS: i64 = 24 * 60 * 60 * 1_000;

/// The line that other channels see of an exchange, made without a model: its last words.
pub fn last_words(heard: &str, said: &str) -> String {
    let half = (BACKGROUND_CHARS_MAX - 3) / 2;
    format!("{} → {}", shortened(heard, half), shortened(said, half))
}

/// The lines that may be shown, newest first.
pub(super) fn lines(mut lines: Vec<BackgroundLine>, now: Millis, memory: bool) -> Vec<BackgroundLine> {
    lines.retain(|line| !memory || now.0 - line.last_message_at.0 <= IDLE_MAX_MS);
    lines.sort_by(|a, b| b.last_message_at.cmp(&a.last_message_at).then_with(|| a.channel.cmp(&b.channel)));
    lines.truncate(BACKGROUND_LINES_MAX);
    lines
}

/// One line of at most `most` letters, with a mark where it was cut.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if words.chars().count() <= most {
        return words;
    }
    let mut cut: String = words.chars().take(most.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_words_are_one_bounded_line() {
        assert_eq!(last_words("what\n time?", " noon "), "what time? → noon");
        let long = last_words(&"ä".repeat(500), &"b ".repeat(500));
        assert!(long.chars().count() <= BACKGROUND_CHARS_MAX, "{}", long.chars().count());
        assert!(long.contains("…") && !long.contains('\n'));
    }
}
