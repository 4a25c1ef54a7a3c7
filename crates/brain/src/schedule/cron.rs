//! Cron text of five fields: checked once, kept as it was written, asked day by day.

use croner::parser::{CronParser, Seconds, Year};
use croner::time::Weekday;
use jiff::civil::{Date, DateTime, date};
use std::fmt;
use std::str::FromStr;

const TEXT_CHARS_MAX: usize = 120;
/// Within these years every date meets every weekday, leap days too; a rule without a day here has none at all.
const PROOF_FROM: Date = date(2000, 1, 1);
const SEARCH_YEARS: i16 = 50;

/// A checked schedule of minute, hour, day of month, month and day of week; `L`, `W` and `#` as croner documents them
/// (`1#1` is the first Monday of a month, `L` its last day).
#[derive(Clone)]
pub struct Cron {
    text: String,
    /// Boxed because it is large, and a schedule is mostly moved about.
    days: Box<croner::Cron>,
    hours: Vec<i8>,
    minutes: Vec<i8>,
    starts_with_star: bool,
}

/// Why a text is no schedule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CronError {
    #[error(
        "a schedule has five fields (minute hour day month weekday), this has {fields}: {text:?}; for example \"0 9 * * 1-5\""
    )]
    Fields { text: String, fields: usize },
    #[error("{text:?} is no schedule: {reason}")]
    Malformed { text: String, reason: String },
    #[error("{text:?} never comes: no such day exists")]
    Never { text: String },
}

impl Cron {
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Every hour of a day is in it: the next slot comes within the hour, whatever the clock does.
    pub(super) fn is_every_hour(&self) -> bool {
        self.hours.len() == 24
    }

    /// Follows real time when the clock is set back, as cron always did for `*`.
    pub(super) fn keeps_firing(&self) -> bool {
        self.starts_with_star || self.is_every_hour()
    }

    pub(super) fn slots_a_day(&self) -> u64 {
        (self.hours.len() * self.minutes.len()) as u64
    }

    /// Local times of one matching day, in order.
    pub(super) fn times_of(&self, day: Date) -> impl DoubleEndedIterator<Item = DateTime> + '_ {
        let hours = self.hours.iter();
        hours.flat_map(move |hour| self.minutes.iter().map(move |minute| day.at(*hour, *minute, 0, 0)))
    }

    /// The matching days from `day` on, for as long as one can be expected.
    pub(super) fn days_from(&self, day: Date) -> impl Iterator<Item = Date> + '_ {
        self.matching(day, Date::tomorrow, |day| day.last_of_month())
    }

    /// The matching days from `day` back.
    pub(super) fn days_back_from(&self, day: Date) -> impl Iterator<Item = Date> + '_ {
        self.matching(day, Date::yesterday, |day| day.first_of_month())
    }

    fn matching(
        &self,
        start: Date,
        step: fn(Date) -> Result<Date, jiff::Error>,
        edge_of_month: fn(Date) -> Date,
    ) -> impl Iterator<Item = Date> + '_ {
        let mut next = Some(start);
        let mut last_hit = start;
        std::iter::from_fn(move || {
            loop {
                let day = next?;
                if (day.year() - last_hit.year()).abs() > SEARCH_YEARS {
                    return None;
                }
                let month_matches = self.month_matches(day);
                next = step(if month_matches { day } else { edge_of_month(day) }).ok();
                if month_matches && self.day_matches(day) {
                    last_hit = day;
                    return Some(day);
                }
            }
        })
    }

    fn month_matches(&self, day: Date) -> bool {
        self.days.pattern.month_match(u32::from(day.month().unsigned_abs())).unwrap_or(false)
    }

    fn day_matches(&self, day: Date) -> bool {
        let weekday =
            Weekday::from_days_from_sunday(u32::from(day.weekday().to_sunday_zero_offset().unsigned_abs()));
        self.days
            .pattern
            .day_match(
                i32::from(day.year()),
                u32::from(day.month().unsigned_abs()),
                u32::from(day.day().unsigned_abs()),
                weekday,
            )
            .unwrap_or(false)
    }
}

impl FromStr for Cron {
    type Err = CronError;

    fn from_str(text: &str) -> Result<Self, CronError> {
        let fields: Vec<&str> = text.split_whitespace().collect();
        let text = fields.join(" ");
        let shown: String = text.chars().take(TEXT_CHARS_MAX).collect();
        let malformed = |reason: String| CronError::Malformed { text: shown.clone(), reason };
        if text.len() > TEXT_CHARS_MAX {
            return Err(malformed(format!("it is longer than {TEXT_CHARS_MAX} characters")));
        }
        let [minute, hour, day, _, _] = fields[..] else {
            return Err(CronError::Fields { text: shown, fields: fields.len() });
        };
        if let Some(fault) =
            misplaced(&[("minute", minute, ""), ("hour", hour, ""), ("day", day, "LW")], &fields)
        {
            return Err(malformed(fault));
        }
        let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
        let days = parser.parse(&text).map_err(|error| malformed(plain(&error)))?;
        let small =
            |values: Vec<u16>| values.into_iter().filter_map(|value| i8::try_from(value).ok()).collect();
        let cron = Self {
            hours: small(days.pattern.hours.values()),
            minutes: small(days.pattern.minutes.values()),
            starts_with_star: minute.starts_with('*'),
            text,
            days: Box::new(days),
        };
        if cron.days_from(PROOF_FROM).next().is_none() {
            return Err(CronError::Never { text: shown });
        }
        Ok(cron)
    }
}

/// The parser takes a weekday's name in any field and forgives an empty item; a person who wrote that meant another time.
fn misplaced(nameless: &[(&str, &str, &str)], fields: &[&str]) -> Option<String> {
    let stray = nameless.iter().find_map(|(name, field, allowed)| {
        let letter = field
            .chars()
            .find(|letter| letter.is_alphabetic() && !allowed.contains(letter.to_ascii_uppercase()))?;
        Some(format!("{letter:?} does not belong in the {name} field"))
    });
    let empty = || fields.iter().find(|field| field.split(',').any(str::is_empty));
    stray.or_else(|| empty().map(|field| format!("the list {field:?} has an empty item")))
}

fn plain(error: &croner::errors::CronError) -> String {
    let text = error.to_string();
    let reason = text.rsplit_once("error: ").map_or(text.as_str(), |(_, reason)| reason);
    reason.trim_end_matches('.').to_lowercase()
}

impl PartialEq for Cron {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Cron {}

impl fmt::Debug for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cron({:?})", self.text)
    }
}

impl fmt::Display for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn error_of(text: &str) -> String {
        text.parse::<Cron>().unwrap_err().to_string()
    }

    #[test]
    fn a_text_comes_back_as_written_and_parses_again() {
        for text in [
            "0 9 * * 1-5",
            "*/15 * * * *",
            "0 8 * * 1#1",
            "0 8 L * *",
            "0 8 LW * *",
            "0 0 29 2 *",
            "0 9 * * MON,thu",
        ] {
            let cron: Cron = text.parse().unwrap();
            assert_eq!(cron.as_str(), text);
            assert_eq!(cron.to_string().parse::<Cron>(), Ok(cron));
        }
        assert_eq!("  0   9 * * *\n".parse::<Cron>().unwrap().as_str(), "0 9 * * *");
    }

    #[test]
    fn a_bad_text_gets_one_line_that_says_why() {
        let table = [
            (
                "",
                "a schedule has five fields (minute hour day month weekday), this has 0: \"\"; for example \"0 9 * * 1-5\"",
            ),
            (
                "0 0 9 * * *",
                "a schedule has five fields (minute hour day month weekday), this has 6: \"0 0 9 * * *\"; for example \"0 9 * * 1-5\"",
            ),
            ("60 9 * * *", "\"60 9 * * *\" is no schedule: number out of bounds"),
            ("0 25 * * *", "\"0 25 * * *\" is no schedule: number out of bounds"),
            ("0 17-9 * * *", "\"0 17-9 * * *\" is no schedule: range out of bounds"),
            ("MON 9 * * *", "\"MON 9 * * *\" is no schedule: 'M' does not belong in the minute field"),
            ("0,,30 9 * * *", "\"0,,30 9 * * *\" is no schedule: the list \"0,,30\" has an empty item"),
            ("0 0 31 2 *", "\"0 0 31 2 *\" never comes: no such day exists"),
            ("0 0 30 2,2 *", "\"0 0 30 2,2 *\" never comes: no such day exists"),
        ];
        for (text, expected) in table {
            assert_eq!(error_of(text), expected);
        }
        assert!(error_of(&"1,".repeat(500)).len() < 400, "a long text is not repeated whole");
    }

    #[test]
    fn a_leap_day_is_a_day() {
        let cron: Cron = "0 0 29 2 *".parse().unwrap();
        let days: Vec<Date> = cron.days_from(date(2026, 1, 1)).take(2).collect();
        assert_eq!(days, [date(2028, 2, 29), date(2032, 2, 29)]);
        assert_eq!(cron.days_back_from(date(2026, 1, 1)).next(), Some(date(2024, 2, 29)));
        assert!("0 0 29 2 +MON".parse::<Cron>().is_ok(), "a leap day on a Monday comes every 28 years");
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[-0-9*/,LW#?+@A-Za-z ]{0,40}") {
            if let Ok(cron) = text.parse::<Cron>() {
                prop_assert!(cron.slots_a_day() > 0);
            }
        }

        #[test]
        fn no_foreign_letter_makes_it_panic(text in "\\PC{0,20} \\PC{0,3} \\PC{0,3} \\PC{0,3} \\PC{0,3}") {
            prop_assert!(text.parse::<Cron>().map_or(true, |cron| cron.slots_a_day() > 0));
        }
    }
}
