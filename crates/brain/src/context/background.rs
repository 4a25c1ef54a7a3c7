//! The background: other channels of the same person, one line each.

use super::BackgroundLine;
use crate::envelope::holds_documents;
use crate::trust::untrusted_channel;
use cortex_types::limits::{BACKGROUND_CHARS_MAX, BACKGROUND_LINES_MAX};
use cortex_types::{Event, Millis};

/// With memory on, a channel that was idle for longer is left out. Exactly a day is not longer.
const IDLE_MAX_MS: i64 = 24 * 60 * 60 * 1_000;

/// The line that other channels see of an exchange, made without a model: its last words.
pub fn last_words(heard: &str, said: &str) -> String {
    let half = (BACKGROUND_CHARS_MAX - 3) / 2;
    format!("{} → {}", shortened(heard, half), shortened(said, half))
}

/// Stands for words among which a program put documents: nobody can tell which of them are the person's. A quote and a
/// message that was passed on stand apart from the words already.
const DOCUMENTS: &str = "(a message with documents)";

/// The same for a turn that may have read what others wrote: no other channel hears it by this line.
pub fn background_words(event: &Event, said: &str, untrusted: bool) -> String {
    let heard = match untrusted_channel(&event.channel) {
        Some(from) => format!("({from})"),
        None if holds_documents(event.metadata_json.as_deref()) => DOCUMENTS.to_owned(),
        None => event.text.clone(),
    };
    last_words(&heard, if untrusted { "(an answer from what others wrote)" } else { said })
}

/// The line that other channels see of a conversation that was summarised: as much of the summary's end as fits, since
/// what was said last stands there.
pub fn summary_line(summary: &str) -> String {
    let mut line = String::new();
    for part in summary.lines().rev().map(|part| part.trim().trim_start_matches("- ")) {
        let longer = match line.is_empty() {
            true => shortened(part, BACKGROUND_CHARS_MAX),
            false => format!("{part}; {line}"),
        };
        if longer.chars().count() > BACKGROUND_CHARS_MAX {
            break;
        }
        line = longer;
    }
    line
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
    fn the_line_of_a_summary_is_its_end_as_far_as_it_fits() {
        assert_eq!(
            summary_line("- Ada moves to Paris\n- the key is at Bob's\n"),
            "Ada moves to Paris; the key is at Bob's"
        );
        assert_eq!(summary_line(""), "");
        let long = format!("- {}\n- the end", "a".repeat(195));
        assert_eq!(summary_line(&long), "the end");
        assert_eq!(summary_line(&"b".repeat(300)).chars().count(), BACKGROUND_CHARS_MAX);
    }

    #[test]
    fn last_words_are_one_bounded_line() {
        assert_eq!(last_words("what\n time?", " noon "), "what time? → noon");
        let long = last_words(&"ä".repeat(500), &"b ".repeat(500));
        assert!(long.chars().count() <= BACKGROUND_CHARS_MAX, "{}", long.chars().count());
        assert!(long.contains("…") && !long.contains('\n'));
    }
}
