//! Words of a phrase with their places in it, and the names and numbers that people use for time.

use jiff::civil::Weekday;

/// A word in lower case without the punctuation around it, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::schedule) struct Word {
    pub(in crate::schedule) text: String,
    pub(in crate::schedule) start: usize,
    pub(in crate::schedule) end: usize,
}

pub(in crate::schedule) fn words(text: &str) -> Vec<Word> {
    let is_gap = |letter: char| letter.is_whitespace() || letter == ',';
    let mut words = Vec::new();
    let mut rest = text;
    while let Some(offset) = rest.find(|letter| !is_gap(letter)) {
        let start = text.len() - rest.len() + offset;
        let length = text[start..].find(is_gap).unwrap_or(text.len() - start);
        let end = start + length;
        rest = &text[end..];
        let bare =
            text[start..end].trim_matches(|letter: char| ".;!?\"'()“”".contains(letter)).to_lowercase();
        if !bare.is_empty() {
            words.push(Word { text: bare, start, end });
        }
    }
    words
}

pub(super) fn number(word: &str) -> Option<i64> {
    const NAMES: &[&str] = &[
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
        "ten",
        "eleven",
        "twelve",
        "thirteen",
        "fourteen",
        "fifteen",
        "sixteen",
        "seventeen",
        "eighteen",
        "nineteen",
        "twenty",
    ];
    const TENS: &[(&str, i64)] =
        &[("thirty", 30), ("forty", 40), ("forty-five", 45), ("fifty", 50), ("sixty", 60)];
    if word.len() <= 5 && word.bytes().all(|byte| byte.is_ascii_digit()) {
        return word.parse().ok();
    }
    let small = NAMES.iter().position(|name| *name == word).and_then(|index| i64::try_from(index + 1).ok());
    small.or_else(|| TENS.iter().find(|(name, _)| *name == word).map(|(_, value)| *value))
}

/// `1st`, `first`, `15th`: 1 to 31.
pub(super) fn ordinal(word: &str) -> Option<i8> {
    const NAMES: &[&str] = &["first", "second", "third", "fourth", "fifth"];
    if let Some(index) = NAMES.iter().position(|name| *name == word) {
        return i8::try_from(index + 1).ok();
    }
    let digits = ["st", "nd", "rd", "th"].iter().find_map(|ending| word.strip_suffix(ending))?;
    number(digits).filter(|day| (1..=31).contains(day)).and_then(|day| i8::try_from(day).ok())
}

/// How a weekday was written: `Monday` may be one day or every week, `Mondays` is every week.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Grammar {
    Singular,
    Plural,
}

pub(super) fn weekday(word: &str) -> Option<(Weekday, Grammar)> {
    const NAMES: &[(&str, &[&str], Weekday)] = &[
        ("monday", &["mon"], Weekday::Monday),
        ("tuesday", &["tue", "tues"], Weekday::Tuesday),
        ("wednesday", &["wed", "weds"], Weekday::Wednesday),
        ("thursday", &["thu", "thur", "thurs"], Weekday::Thursday),
        ("friday", &["fri"], Weekday::Friday),
        ("saturday", &["sat"], Weekday::Saturday),
        ("sunday", &["sun"], Weekday::Sunday),
    ];
    NAMES.iter().find_map(|(name, short, day)| {
        if word == *name || short.contains(&word) {
            Some((*day, Grammar::Singular))
        } else {
            (word.strip_suffix('s') == Some(*name)).then_some((*day, Grammar::Plural))
        }
    })
}

pub(super) fn month(word: &str) -> Option<i8> {
    const NAMES: &[&str] = &[
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
    ];
    let is_name = |name: &&str| {
        word == *name
            || (word.len() == 3 && name.starts_with(word))
            || (word == "sept" && *name == "september")
    };
    NAMES.iter().position(is_name).and_then(|index| i8::try_from(index + 1).ok())
}

/// A part of the day, which settles what a bare "8" means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::schedule) enum DayPart {
    Morning,
    Afternoon,
    Evening,
    Night,
}

pub(super) fn day_part(word: &str) -> Option<DayPart> {
    match word {
        "morning" | "mornings" => Some(DayPart::Morning),
        "afternoon" | "afternoons" => Some(DayPart::Afternoon),
        "evening" | "evenings" => Some(DayPart::Evening),
        "night" | "nights" => Some(DayPart::Night),
        _ => None,
    }
}

/// A time of day as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::schedule) enum ClockTime {
    Sure {
        hour: i8,
        minute: i8,
    },
    /// 1 to 12 without am or pm.
    Bare {
        hour: i8,
        minute: i8,
    },
    Midnight,
}

/// Reads `9`, `9:30`, `17.05`, `9am`, `9:30pm`; `half` is what a following word says (`am`, `pm`).
pub(super) fn clock_time(word: &str, half: Option<&str>) -> Option<ClockTime> {
    match word {
        "noon" | "midday" => return Some(ClockTime::Sure { hour: 12, minute: 0 }),
        "midnight" => return Some(ClockTime::Midnight),
        _ => {}
    }
    let word = word.trim_start_matches('@');
    let (digits, ending) =
        word.split_at(word.find(|letter: char| letter.is_ascii_alphabetic()).unwrap_or(word.len()));
    let half = half_of_day(ending).or_else(|| half.and_then(half_of_day));
    if !ending.is_empty() && half_of_day(ending).is_none() && ending != "h" {
        return None;
    }
    let (hour, minute) = digits.split_once([':', '.']).unwrap_or((digits, "00"));
    if minute.len() != 2 || hour.is_empty() || hour.len() > 2 {
        return None;
    }
    let is_padded = hour.len() == 2 && hour.starts_with('0');
    let hour = number(hour).and_then(|hour| i8::try_from(hour).ok()).filter(|hour| *hour <= 23)?;
    let minute =
        number(minute).and_then(|minute| i8::try_from(minute).ok()).filter(|minute| *minute <= 59)?;
    let is_on_dial = (1..=12).contains(&hour);
    match half {
        Some(half) if is_on_dial => Some(ClockTime::Sure { hour: hour % 12 + half, minute }),
        Some(_) => None,
        None if is_on_dial && !is_padded && ending.is_empty() => Some(ClockTime::Bare { hour, minute }),
        None => Some(ClockTime::Sure { hour, minute }),
    }
}

/// The hours that `am` or `pm` adds.
pub(super) fn half_of_day(word: &str) -> Option<i8> {
    match word {
        "am" | "a.m" => Some(0),
        "pm" | "p.m" => Some(12),
        _ => None,
    }
}
