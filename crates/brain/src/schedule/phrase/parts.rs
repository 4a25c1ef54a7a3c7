//! The parts that a time phrase is made of, each read from the front of some words.

use super::words::{
    ClockTime, DayPart, Grammar, Word, clock_time, day_part, half_of_day, month, number, ordinal, weekday,
};
use jiff::civil::Weekday;
use std::borrow::Cow;

/// One part of a phrase, such as "every weekday" or "at 9".
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::schedule) enum Part {
    Times(Vec<ClockTime>),
    DayPart(DayPart),
    /// Every so many minutes.
    Minutes(i64),
    /// Every so many hours.
    Hours(i64),
    /// Recurring days, as the cron fields of day, month and weekday.
    Days(CronDays),
    /// The hours within which an interval runs.
    Between(ClockTime, ClockTime),
    /// Minutes from now.
    InMinutes(i64),
    /// Days from now.
    InDays(i64),
    On(Day),
    /// Understood, but it needs an answer first.
    Unsettled(&'static str),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::schedule) struct CronDays {
    pub(super) day: String,
    pub(super) month: String,
    pub(super) weekday: String,
}

/// One day, seen from today.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::schedule) enum Day {
    /// So many days from today.
    Ahead(i64),
    /// The first such weekday, today included.
    Coming(Weekday),
    /// The first such weekday after today.
    Next(Weekday),
    OfMonth(i8),
    Date {
        day: i8,
        month: i8,
        year: Option<i16>,
    },
}

/// What was read, and how many words it took.
type Read<T> = Option<(T, usize)>;

const EVERY_SECOND: &str =
    "Every second day or week does not fit a repeating schedule. Which days should it be?";

/// Reads all parts from the front; the count says how many words belong to them.
pub(in crate::schedule) fn read_parts(words: &[Word]) -> (Vec<Part>, usize) {
    let words: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
    let (mut parts, mut used) = (Vec::new(), 0);
    while let Some((mut part, length)) = read_part(&words[used..], !parts.is_empty()) {
        parts.append(&mut part);
        used += length;
    }
    (parts, used)
}

fn read_part(words: &[&str], follows: bool) -> Read<Vec<Part>> {
    let filler = words.iter().take_while(|word| ["on", "the", "and"].contains(*word)).count();
    // "and" joins parts; a phrase does not start with it.
    if !follows && words.first() == Some(&"and") {
        return None;
    }
    let rest = &words[filler..];
    let one = |(part, used): (Part, usize)| (vec![part], used);
    let found = every(rest)
        .or_else(|| adverb(rest).map(one))
        .or_else(|| of_month(rest).map(one))
        .or_else(|| from_now(rest).map(one))
        .or_else(|| between(rest).map(one))
        .or_else(|| one_day(rest, filler > 0))
        .or_else(|| day_part_phrase(rest).map(one))
        .or_else(|| times(rest, follows).map(one));
    found.map(|(parts, used)| (parts, filler + used))
}

/// "every weekday", "each Monday and Thursday", "every 15 minutes", "every first Monday of the month".
fn every(words: &[&str]) -> Read<Vec<Part>> {
    let [first, rest @ ..] = words else { return None };
    if !["every", "each"].contains(first) {
        return None;
    }
    if let Some(part) = rest.first().and_then(|word| day_part(word)) {
        return Some((vec![Part::DayPart(part), weekly("*")], 2));
    }
    let found = match rest {
        ["half", "hour", ..] => Some((Part::Minutes(30), 2)),
        ["half", "an", "hour", ..] => Some((Part::Minutes(30), 3)),
        ["quarter", "hour", ..] => Some((Part::Minutes(15), 2)),
        ["other" | "second", unit, ..] => every_other(unit).map(|part| (part, 2)),
        [amount, unit, ..] if number(amount).is_some() => {
            number(amount).and_then(|amount| interval(amount, unit)).map(|part| (part, 2))
        }
        ["week", rest @ ..] if !matches!(rest, ["day" | "days", ..]) => {
            Some(in_period(rest, weekday_list, "On which day of the week?"))
        }
        ["month", rest @ ..] => Some(in_period(rest, month_days, "On which day of the month?")),
        ["year", rest @ ..] => Some(in_period(rest, yearly, "On which day of the year?")),
        _ => None,
    };
    let found = found
        .or_else(|| named_days(rest))
        .or_else(|| rest.first().and_then(|unit| interval(1, unit)).map(|part| (part, 1)))
        .or_else(|| of_month(rest))
        .or_else(|| month_days(rest))
        .or_else(|| yearly(rest))
        .or_else(|| weekday_list(rest));
    found.map(|(part, used)| (vec![part], used + 1))
}

fn every_other(unit: &str) -> Option<Part> {
    match unit {
        "minute" => Some(Part::Minutes(2)),
        "hour" => Some(Part::Hours(2)),
        "day" | "week" | "month" | "weekday" => Some(Part::Unsettled(EVERY_SECOND)),
        _ => weekday(unit).map(|_| Part::Unsettled(EVERY_SECOND)),
    }
}

fn interval(amount: i64, unit: &str) -> Option<Part> {
    match unit {
        "second" | "seconds" | "sec" | "secs" => {
            Some(Part::Unsettled("The shortest interval is one minute. Is every minute fine?"))
        }
        "minute" | "minutes" | "min" | "mins" => Some(Part::Minutes(amount)),
        "hour" | "hours" | "hrs" => Some(Part::Hours(amount)),
        "day" | "days" if amount == 1 => Some(weekly("*")),
        "day" | "days" | "weeks" | "months" => Some(Part::Unsettled(EVERY_SECOND)),
        _ => None,
    }
}

/// "weekdays", "working day", "weekend".
fn named_days(words: &[&str]) -> Read<Part> {
    match words {
        ["weekday" | "weekdays" | "workday" | "workdays", ..] => Some((weekly("1-5"), 1)),
        ["working" | "work" | "business" | "week", "day" | "days", ..] => Some((weekly("1-5"), 2)),
        ["weekend" | "weekends", ..] => Some((weekly("0,6"), 1)),
        _ => None,
    }
}

/// "daily", "hourly", "weekly on Friday", "Mondays and Thursdays".
fn adverb(words: &[&str]) -> Read<Part> {
    let (first, rest) = words.split_first()?;
    match *first {
        "daily" | "everyday" => Some((weekly("*"), 1)),
        "hourly" => Some((Part::Hours(1), 1)),
        "weekly" => Some(in_period(rest, weekday_list, "On which day of the week?")),
        "monthly" => Some(in_period(rest, month_days, "On which day of the month?")),
        "yearly" | "annually" => Some(in_period(rest, yearly, "On which day of the year?")),
        "weekdays" | "workdays" | "weekends" => named_days(words),
        word => match weekday(word) {
            Some((_, Grammar::Plural)) => weekday_list(words),
            Some((_, Grammar::Singular)) | None => None,
        },
    }
}

/// The days after the name of their period, or the question which they are.
fn in_period(words: &[&str], read: fn(&[&str]) -> Read<Part>, question: &'static str) -> (Part, usize) {
    let filler = words.iter().take_while(|word| ["on", "the", "every"].contains(*word)).count();
    match read(&words[filler..]) {
        Some((part, used)) => (part, 1 + filler + used),
        None => (Part::Unsettled(question), 1),
    }
}

fn weekday_list(words: &[&str]) -> Read<Part> {
    let (days, used) = list(words, |word| weekday(word).map(|(day, _)| day.to_sunday_zero_offset()))?;
    Some((weekly(&days), used))
}

/// Days of a month by number or by weekday, where the month is already known to repeat.
fn month_days(words: &[&str]) -> Read<Part> {
    let (part, used) = nth_weekday(words).or_else(|| {
        let (days, used) = list(words, ordinal)?;
        Some((monthly(&days), used))
    })?;
    Some((part, used + month_ending(&words[used..]).unwrap_or(0)))
}

/// "first Monday of the month", "1st and 15th of every month", "last day of the month".
fn of_month(words: &[&str]) -> Read<Part> {
    let (part, used) = nth_weekday(words).or_else(|| {
        let (days, used) = list(words, ordinal)?;
        Some((monthly(&days), used))
    })?;
    Some((part, used + month_ending(&words[used..])?))
}

fn month_ending(words: &[&str]) -> Option<usize> {
    match words {
        ["of" | "in", "the" | "each" | "every" | "a", "month", ..] => Some(3),
        ["each" | "every", "month", ..] => Some(2),
        ["monthly", ..] => Some(1),
        _ => None,
    }
}

fn nth_weekday(words: &[&str]) -> Read<Part> {
    let [nth, unit, ..] = words else { return None };
    let nth = if *nth == "last" { None } else { Some(ordinal(nth).filter(|nth| *nth <= 5)?) };
    let part = match (*unit, nth) {
        ("day", None) => monthly("L"),
        ("day", Some(1)) => monthly("1"),
        ("weekday" | "workday", None) => monthly("LW"),
        ("weekday" | "workday", Some(1)) => monthly("1W"),
        (unit, nth) => {
            let day = weekday(unit)?.0.to_sunday_zero_offset();
            weekly(&nth.map_or_else(|| format!("{day}L"), |nth| format!("{day}#{nth}")))
        }
    };
    Some((part, 2))
}

fn yearly(words: &[&str]) -> Read<Part> {
    let (day, used) = day_and_month(words)?;
    let Day::Date { day, month, .. } = day else { return None };
    Some((Part::Days(CronDays { day: day.to_string(), month: month.to_string(), weekday: "*".into() }), used))
}

/// "1st and 15th", "Monday, Wednesday and Friday": the values as a cron list in order.
fn list(words: &[&str], value: impl Fn(&str) -> Option<i8>) -> Read<String> {
    let mut values = vec![value(words.first()?)?];
    let mut used = 1;
    loop {
        let filler =
            words[used..].iter().take_while(|word| ["and", "the", "on", "&"].contains(*word)).count();
        let Some(next) = words.get(used + filler).and_then(|word| value(word)) else {
            break;
        };
        values.push(next);
        used += filler + 1;
    }
    values.sort_unstable();
    values.dedup();
    Some((values.iter().map(i8::to_string).collect::<Vec<_>>().join(","), used))
}

fn weekly(weekday: &str) -> Part {
    Part::Days(CronDays { day: "*".into(), month: "*".into(), weekday: weekday.into() })
}

fn monthly(day: &str) -> Part {
    Part::Days(CronDays { day: day.into(), month: "*".into(), weekday: "*".into() })
}

/// "in 20 minutes", "in an hour and a half", "in 2 days".
fn from_now(words: &[&str]) -> Read<Part> {
    let ["in", rest @ ..] = words else { return None };
    let (first, mut used) = duration(rest)?;
    if let (Part::InMinutes(minutes), ["and", more @ ..]) = (&first, &rest[used..]) {
        let half = matches!(more, ["a", "half", ..]).then_some((Part::InMinutes(30), 2));
        if let Some((Part::InMinutes(extra), length)) = half.or_else(|| duration(more)) {
            used += 1 + length;
            return Some((Part::InMinutes(minutes + extra), used + 1));
        }
    }
    Some((first, used + 1))
}

fn duration(words: &[&str]) -> Read<Part> {
    match words {
        ["half", "an", "hour", ..] => return Some((Part::InMinutes(30), 3)),
        ["half", "hour", ..] => return Some((Part::InMinutes(30), 2)),
        _ => {}
    }
    let [amount, unit, ..] = words else { return None };
    let amount = if ["a", "an"].contains(amount) { 1 } else { number(amount)? };
    let part = match unit.trim_end_matches('s') {
        "minute" | "min" => Part::InMinutes(amount),
        "hour" | "hr" | "h" => Part::InMinutes(amount * 60),
        "day" => Part::InDays(amount),
        "week" => Part::InDays(amount * 7),
        _ => return None,
    };
    Some((part, 2))
}

/// "between 9 and 17", "from 9am to 5pm".
fn between(words: &[&str]) -> Read<Part> {
    let [open, rest @ ..] = words else { return None };
    let joint = match *open {
        "between" => "and",
        "from" => "to",
        _ => return None,
    };
    let (start, start_words) = one_time(rest)?;
    let rest = &rest[start_words..];
    let (end, end_words) = one_time(rest.strip_prefix(&[joint])?)?;
    Some((Part::Between(start, end), 1 + start_words + 1 + end_words))
}

/// "tomorrow", "next Friday", "24 December", "2026-12-24"; a bare "the 15th" needs its "on" or "the".
fn one_day(words: &[&str], has_filler: bool) -> Read<Vec<Part>> {
    let on = |day| vec![Part::On(day)];
    match words {
        ["today", ..] => return Some((on(Day::Ahead(0)), 1)),
        ["tonight", ..] => return Some((vec![Part::On(Day::Ahead(0)), Part::DayPart(DayPart::Night)], 1)),
        ["tomorrow", ..] => return Some((on(Day::Ahead(1)), 1)),
        ["day", "after", "tomorrow", ..] => return Some((on(Day::Ahead(2)), 3)),
        ["this", part, ..] if day_part(part).is_some() => {
            let part = day_part(part).map(Part::DayPart);
            return Some((part.into_iter().chain(on(Day::Ahead(0))).collect(), 2));
        }
        ["next", "week" | "month" | "year", ..] => {
            return Some((vec![Part::Unsettled("On which day, and at what time?")], 2));
        }
        ["next", day, ..] => return weekday(day).map(|(day, _)| (on(Day::Next(day)), 2)),
        ["this" | "coming", day, ..] => return weekday(day).map(|(day, _)| (on(Day::Coming(day)), 2)),
        _ => {}
    }
    let first = words.first()?;
    if let Some((day, _)) = weekday(first) {
        return Some((on(Day::Coming(day)), 1));
    }
    if let Some((day, used)) = day_and_month(words) {
        return Some((on(day), used));
    }
    ordinal(first).filter(|_| has_filler).map(|day| (on(Day::OfMonth(day)), 1))
}

fn day_and_month(words: &[&str]) -> Read<Day> {
    let (first, rest) = words.split_first()?;
    if let Ok(date) = first.parse::<jiff::civil::Date>()
        && first.len() == 10
    {
        return Some((Day::Date { day: date.day(), month: date.month(), year: Some(date.year()) }, 1));
    }
    let rest = rest.strip_prefix(&["of"]).unwrap_or(rest);
    let second = rest.first()?;
    let (day, month) = match (day_number(first), month(second)) {
        (Some(day), Some(month)) => (day, month),
        _ => (day_number(second)?, month(first)?),
    };
    let used = words.len() - rest.len() + 1;
    let year = rest.get(1).filter(|word| word.len() == 4).and_then(|word| word.parse::<i16>().ok());
    let year = year.filter(|year| (1970..=9999).contains(year));
    Some((Day::Date { day, month, year }, used + usize::from(year.is_some())))
}

fn day_number(word: &str) -> Option<i8> {
    let plain = number(word).filter(|day| (1..=31).contains(day)).and_then(|day| i8::try_from(day).ok());
    plain.or_else(|| ordinal(word))
}

/// "in the morning", "at night", "morning" after a day.
fn day_part_phrase(words: &[&str]) -> Read<Part> {
    let (word, used) = match words {
        ["in", "the", part, ..] => (part, 3),
        ["at", part @ ("night" | "nights"), ..] => (part, 2),
        [part, ..] => (part, 1),
        [] => return None,
    };
    day_part(word).map(|part| (Part::DayPart(part), used))
}

/// "at 9", "at 8am and 8pm", "17:30"; a bare number needs "at" or a day before it.
fn times(words: &[&str], follows: bool) -> Read<Part> {
    let opened = words.first().is_some_and(|word| ["at", "by", "@"].contains(word));
    let start = usize::from(opened);
    let (first, used) = one_time(&words[start..])?;
    let is_bare_number = used == 1 && number(words[start]).is_some();
    if is_bare_number && !opened && !follows {
        return None;
    }
    let (mut found, mut end) = (vec![first], start + used);
    while let Some(rest) = words[end..].strip_prefix(&["and"]) {
        let rest_at = usize::from(rest.first() == Some(&"at"));
        let Some((time, used)) = one_time(&rest[rest_at..]) else { break };
        found.push(time);
        end += 1 + rest_at + used;
    }
    Some((Part::Times(found), end))
}

fn one_time(words: &[&str]) -> Read<ClockTime> {
    let past = |word: &str, minutes: i8| match clock_time(&spelled(word), None)? {
        ClockTime::Bare { hour, .. } if minutes < 0 && hour == 1 => {
            Some(ClockTime::Bare { hour: 12, minute: 60 + minutes })
        }
        ClockTime::Bare { hour, .. } if minutes < 0 => {
            Some(ClockTime::Bare { hour: hour - 1, minute: 60 + minutes })
        }
        ClockTime::Bare { hour, .. } => Some(ClockTime::Bare { hour, minute: minutes }),
        ClockTime::Sure { .. } | ClockTime::Midnight => None,
    };
    match words {
        ["half", "past", word, ..] => past(word, 30).map(|time| (time, 3)),
        ["quarter", "past", word, ..] => past(word, 15).map(|time| (time, 3)),
        ["quarter", "to", word, ..] => past(word, -15).map(|time| (time, 3)),
        [word, rest @ ..] => {
            let half = rest.first().copied().filter(|next| half_of_day(next).is_some());
            let time = clock_time(&spelled(word), half)?;
            let clock = rest.first().is_some_and(|next| ["o'clock", "oclock"].contains(next));
            Some((time, 1 + usize::from(half.is_some() || clock)))
        }
        [] => None,
    }
}

/// "nine" as digits; everything else as it is.
fn spelled(word: &str) -> Cow<'_, str> {
    let is_name = word.starts_with(|letter: char| letter.is_ascii_alphabetic());
    match number(word).filter(|_| is_name) {
        Some(value) => Cow::Owned(value.to_string()),
        None => Cow::Borrowed(word),
    }
}
