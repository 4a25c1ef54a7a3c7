//! "Remind me every weekday at 9 to stretch": finds the time and the thing in a request.

use super::phrase::{Part, When, Word, combine, read_parts, words};
use cortex_types::Millis;
use jiff::tz::TimeZone;

/// A request to be reminded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reminder {
    pub when: When,
    /// What to be reminded of, as it was written; empty when it was not said.
    pub what: String,
}

const WORDS_MAX: usize = 300;
const POLITE: &[&str] =
    &["please", "can", "could", "would", "will", "you", "hey", "hi", "hello", "and", "then"];
const NO_WHEN: &str = "When should I remind you?";
const NO_WHAT: &str = "What should I remind you of?";

/// Reads a request such as "remind me … to …", in any order; `None` when the text asks for no reminder.
pub fn parse_reminder(text: &str, now: Millis, zone: &TimeZone) -> Option<Reminder> {
    let words = words(text);
    if words.len() > WORDS_MAX {
        return None;
    }
    let (asks_at, asks_words) = request(&words)?;
    let (before, after) = (&words[..asks_at], &words[asks_at + asks_words..]);
    let polite = before.iter().take_while(|word| POLITE.contains(&word.text.as_str())).count();
    let (mut parts, used) = read_parts(&before[polite..]);
    if polite + used != before.len() {
        // Something else is said before, so this is a tale about a reminder, not a request for one.
        return None;
    }
    let mut thing = after;
    if parts.is_empty() {
        let skipped = usize::from(after.first().is_some_and(|word| word.text == "for"));
        let (found, used) = read_parts(&after[skipped..]);
        if used > 0 {
            (parts, thing) = (found, &after[skipped + used..]);
        }
    }
    let mut when = combine_or_ask(&parts, now, zone);
    if !matches!(when, When::Recurring(_) | When::Once(_))
        && let Some((more, rest)) = ending(thing)
    {
        let together = combine_or_ask(&[parts, more].concat(), now, zone);
        if together != When::NotUnderstood {
            (when, thing) = (together, rest);
        }
    }
    let what = thing_text(text, thing);
    if what.is_empty() && matches!(when, When::Recurring(_) | When::Once(_)) {
        when = When::Ambiguous(NO_WHAT.to_owned());
    }
    Some(Reminder { when, what })
}

fn combine_or_ask(parts: &[Part], now: Millis, zone: &TimeZone) -> When {
    if parts.is_empty() { When::Ambiguous(NO_WHEN.to_owned()) } else { combine(parts, now, zone) }
}

/// Where the request stands and how many words it is.
fn request(words: &[Word]) -> Option<(usize, usize)> {
    const FORMS: &[&[&str]] = &[
        &["remind", "me"],
        &["remind", "us"],
        &["set", "a", "reminder"],
        &["set", "me", "a", "reminder"],
        &["create", "a", "reminder"],
        &["add", "a", "reminder"],
    ];
    (0..words.len()).find_map(|start| {
        let is_here = |form: &&&[&str]| {
            let texts = words[start..].iter().map(|word| word.text.as_str());
            form.len() <= words.len() - start && texts.zip(form.iter()).all(|(word, form)| word == *form)
        };
        FORMS.iter().find(is_here).map(|form| (start, form.len()))
    })
}

/// The longest time phrase that ends the words, and the words before it.
fn ending(words: &[Word]) -> Option<(Vec<Part>, &[Word])> {
    (0..words.len()).find_map(|start| {
        let (parts, used) = read_parts(&words[start..]);
        (used > 0 && start + used == words.len()).then(|| (parts, &words[..start]))
    })
}

fn thing_text(text: &str, words: &[Word]) -> String {
    let joint = usize::from(
        words.first().is_some_and(|word| ["to", "about", "that", "of"].contains(&word.text.as_str())),
    );
    let (Some(first), Some(last)) = (words.get(joint), words.last()) else {
        return String::new();
    };
    text[first.start..last.end].trim_matches([' ', ',', '.', ':', ';']).to_owned()
}
