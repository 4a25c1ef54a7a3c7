//! From a message to the parts that a platform takes: cut, then written in its dialect.

use super::button::Asked;
use super::button::Button;
use super::platform::PlatformRules;
use super::split::{split, units};

/// One part, in the platform's dialect and as plain text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ComposedPart {
    pub(crate) formatted: String,
    /// All of it.
    pub(crate) plain: String,
    /// What is shown as it is, where the platform has a place of its own for that.
    pub(crate) verbatim: Option<Verbatim>,
}

/// A text that nobody renders, and what is said about the part of it that is cut off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verbatim {
    pub text: String,
    pub note: Option<String>,
}

/// The parts of a message. The same text always gives the same parts: a retry counts on that.
pub(crate) fn compose(text: &str, rules: &PlatformRules) -> Vec<ComposedPart> {
    let mut budget = rules.part_units_max;
    loop {
        let plain = split(text, budget);
        let rendered: Vec<_> = plain.iter().map(|part| rules.dialect.render(part)).collect();
        let fits = rendered.iter().all(|part| part.units <= rules.part_units_max);
        // Markup may make a text longer; then it is cut shorter, and sent as it was written when that cannot help.
        if !fits && budget > rules.part_units_max / 4 {
            budget = budget * 3 / 4;
            continue;
        }
        let parts = plain.into_iter().zip(rendered).map(|(plain, rendered)| {
            let shows = rendered.units <= rules.part_units_max && !rendered.text.trim().is_empty();
            ComposedPart {
                formatted: if shows { rendered.text } else { rules.dialect.escape(&plain) },
                plain,
                verbatim: None,
            }
        });
        return parts.collect();
    }
}

/// Most characters of a tool's preview where not everything fits; the arguments behind it must not be pushed out of sight.
const PREVIEW_CHARS_MAX: usize = 1_000;

/// The parts of a question. What would run stands in the last one, as it is: all of it, or as much as the platform takes
/// and a count of the rest.
pub(crate) fn compose_question(asked: &Asked, words: &str, rules: &PlatformRules) -> Vec<ComposedPart> {
    let is_long = rules.dialect.render(words).units * 2 > rules.part_units_max;
    let mut parts = if is_long { compose(words, rules) } else { Vec::new() };
    let words = if is_long { "This would run:" } else { words };
    let shorter = with_short_preview(asked);
    for whole in [Some(asked), shorter.as_ref()].into_iter().flatten() {
        if let Some(all) = verbatim_part(whole, words, whole.verbatim.chars().count(), rules) {
            parts.push(all);
            return parts;
        }
    }
    let asked = shorter.as_ref().unwrap_or(asked);
    let (mut fits, mut too_many) = (0, asked.verbatim.chars().count());
    while too_many - fits > 1 {
        let middle = usize::midpoint(fits, too_many);
        match verbatim_part(asked, words, middle, rules) {
            Some(_) => fits = middle,
            None => too_many = middle,
        }
    }
    parts.extend(verbatim_part(asked, words, fits, rules));
    parts
}

/// The question with its preview cut; `None` when that is short as it is.
fn with_short_preview(asked: &Asked) -> Option<Asked> {
    let missing = asked.preview_chars.checked_sub(PREVIEW_CHARS_MAX).filter(|missing| *missing > 0)?;
    let at = |count: usize| asked.verbatim.char_indices().nth(count).map(|(at, _)| at);
    let (start, rest) =
        (&asked.verbatim[..at(PREVIEW_CHARS_MAX)?], &asked.verbatim[at(asked.preview_chars)?..]);
    let verbatim = format!("{start}\n  {}{rest}", rest_line(missing, asked));
    Some(Asked { verbatim, ..asked.clone() })
}

fn rest_line(missing: usize, asked: &Asked) -> String {
    format!("… {missing} more characters, see cortex approvals show {}", asked.approval_id)
}

/// The part with so many characters of what would run; `None` when it is longer than the platform takes.
fn verbatim_part(asked: &Asked, words: &str, shown: usize, rules: &PlatformRules) -> Option<ComposedPart> {
    let whole = asked.verbatim.as_str();
    let text = whole.char_indices().nth(shown).map_or(whole, |(end, _)| &whole[..end]);
    let missing = whole[text.len()..].chars().count();
    let note = (missing > 0).then(|| rest_line(missing, asked));
    let plain = [Some(words), Some(text), note.as_deref()];
    let plain = plain.into_iter().flatten().collect::<Vec<_>>().join("\n\n");
    let rendered = rules.dialect.render(words);
    let (formatted, length, verbatim) = match rules.dialect.verbatim(text, whole) {
        Some(block) => {
            let said = note.as_deref().map(|note| rules.dialect.escape(note)).unwrap_or_default();
            // A line break stands between two pieces.
            let length = rendered.units + block.units + units(&said) + 4;
            let pieces = [rendered.text, block.text, said];
            let pieces = pieces.into_iter().filter(|piece| !piece.is_empty()).collect::<Vec<_>>();
            (pieces.join("\n"), length, None)
        }
        None => (rendered.text, 0, Some(Verbatim { text: text.to_owned(), note })),
    };
    let is_short = length <= rules.part_units_max && units(&plain) <= rules.part_units_max;
    is_short.then_some(ComposedPart { formatted, plain, verbatim })
}

/// The buttons that the platform can show, and a line about those that it cannot.
pub(crate) fn fitting_buttons(buttons: Vec<Button>, rules: &PlatformRules) -> (Vec<Button>, Option<String>) {
    let (fitting, too_long): (Vec<_>, Vec<_>) =
        buttons.into_iter().partition(|button| button.data.len() <= rules.button_data_bytes_max);
    let labels: Vec<&str> = too_long.iter().map(|button| button.label.as_str()).collect();
    let line =
        (!labels.is_empty()).then(|| format!("(cannot be shown as a button here: {})", labels.join(", ")));
    (fitting, line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::dialect::Dialect;
    use crate::kit::pace::{PaceRules, Rate};
    use proptest::prelude::*;
    use std::time::Duration;

    fn rules(part_units_max: usize) -> PlatformRules {
        let rate = Rate { count: 1, per: Duration::from_secs(1) };
        PlatformRules {
            part_units_max,
            dialect: Dialect::TelegramHtml,
            button_data_bytes_max: 64,
            file_bytes_max: 1,
            command_mark: '/',
            pace: PaceRules { chat: rate, group: rate, overall: rate },
            typing_lasts: Duration::from_secs(5),
        }
    }

    #[test]
    fn a_button_with_too_long_data_is_told_instead_of_shown() {
        let button = |label: &str, bytes: usize| Button { label: label.to_owned(), data: "x".repeat(bytes) };
        let (fitting, line) = fitting_buttons(vec![button("Yes", 64), button("No", 65)], &rules(4096));
        assert_eq!(fitting, [button("Yes", 64)]);
        assert_eq!(line.as_deref(), Some("(cannot be shown as a button here: No)"));
    }

    #[test]
    fn a_text_that_is_markup_alone_is_sent_as_it_was_written() {
        let parts = compose("<!-- -->\n\n[](x)", &rules(4096));
        assert!(parts.iter().all(|part| !part.formatted.trim().is_empty()), "{parts:?}");
        assert_eq!(compose("[](x)", &rules(4096))[0].formatted, "[](x)");
    }

    #[test]
    fn a_preview_is_cut_before_the_arguments_and_only_where_not_everything_fits() {
        let preview = "p".repeat(1_312);
        let asked = Asked {
            approval_id: "apv_1".to_owned(),
            question: "May I?".to_owned(),
            verbatim: format!("{preview}\n\nwhat: \"{}\"", "w".repeat(300)),
            preview_chars: 1_312,
        };
        let parts = compose_question(&asked, &asked.question, &rules(4_096));
        assert_eq!(parts[0].plain, format!("May I?\n\n{}", asked.verbatim));
        let parts = compose_question(&asked, &asked.question, &rules(1_500));
        let cut =
            format!("{}\n  … 312 more characters, see cortex approvals show apv_1\n\n", "p".repeat(1_000));
        assert_eq!(parts[0].plain, format!("May I?\n\n{cut}what: \"{}\"", "w".repeat(300)));
        let parts = compose_question(&asked, &asked.question, &rules(1_300));
        let start = format!("May I?\n\n{cut}what: \"w");
        assert!(parts[0].plain.starts_with(&start), "{}", parts[0].plain);
        assert!(
            parts[0].plain.ends_with(" more characters, see cortex approvals show apv_1"),
            "{}",
            parts[0].plain
        );
    }

    proptest! {
        #[test]
        fn no_part_is_longer_than_the_platform_takes(
            text in prop::collection::vec("(- |1\\. |> |# |\\*\\*)?[a-z<&😀 ]{1,60}(\\*\\*)?\n{1,2}", 1..60),
        ) {
            let rules = rules(400);
            for part in compose(&text.concat(), &rules) {
                prop_assert!(Dialect::TelegramHtml.render(&part.plain).units <= 400);
                prop_assert!(!part.formatted.is_empty());
            }
        }
    }
}
