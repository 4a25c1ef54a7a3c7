//! English for times: the common forms, read the same way every time; what can be read two ways is asked back.
//!
//! How doubts are settled: a bare hour from 7 to 12 is meant as on the 24-hour clock ("at 9" is 09:00); a bare hour
//! from 1 to 6 is asked back, unless a part of the day says which, or only one reading still comes today. "Friday" is
//! the first one with that time still ahead, "next Friday" the first one after today. A time that has passed today is
//! asked back.

mod parts;
#[cfg(test)]
mod tests;
mod words;

pub(super) use parts::{Part, read_parts};
pub(super) use words::{Word, words};

use super::Cron;
use super::slots::{first_moment, local};
use cortex_types::Millis;
use jiff::ToSpan;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use parts::{CronDays, Day};
use words::{ClockTime, DayPart};

/// What a phrase means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum When {
    Recurring(Cron),
    Once(Millis),
    /// The question to ask back.
    Ambiguous(String),
    NotUnderstood,
}

const NO_TIME: &str = "At what time?";
const WORDS_MAX: usize = 60;

/// Reads a phrase that is a time and nothing else.
pub fn parse_when(text: &str, now: Millis, zone: &TimeZone) -> When {
    let words = words(text);
    let (parts, used) = if words.len() <= WORDS_MAX { read_parts(&words) } else { (Vec::new(), 0) };
    if used == words.len() { combine(&parts, now, zone) } else { When::NotUnderstood }
}

/// The parts of a phrase by kind; a kind that is given twice makes no sense.
#[derive(Default)]
struct Phrase<'a> {
    times: Option<&'a [ClockTime]>,
    day_part: Option<DayPart>,
    every: Option<Interval>,
    days: Option<&'a CronDays>,
    between: Option<(ClockTime, ClockTime)>,
    in_minutes: Option<i64>,
    in_days: Option<i64>,
    on: Option<Day>,
}

#[derive(Clone, Copy)]
enum Interval {
    Minutes(i64),
    Hours(i64),
}

pub(super) fn combine(parts: &[Part], now: Millis, zone: &TimeZone) -> When {
    let mut phrase = Phrase::default();
    for part in parts {
        let is_first = match part {
            Part::Times(times) => phrase.times.replace(times).is_none(),
            Part::DayPart(part) => phrase.day_part.replace(*part).is_none(),
            Part::Minutes(amount) => phrase.every.replace(Interval::Minutes(*amount)).is_none(),
            Part::Hours(amount) => phrase.every.replace(Interval::Hours(*amount)).is_none(),
            Part::Days(days) => phrase.days.replace(days).is_none(),
            Part::Between(from, to) => phrase.between.replace((*from, *to)).is_none(),
            Part::InMinutes(minutes) => phrase.in_minutes.replace(*minutes).is_none(),
            Part::InDays(days) => phrase.in_days.replace(*days).is_none(),
            Part::On(day) => phrase.on.replace(*day).is_none(),
            Part::Unsettled(question) => return When::Ambiguous((*question).to_owned()),
        };
        if !is_first {
            return When::NotUnderstood;
        }
    }
    let Some(here) = local(zone, now) else {
        return When::NotUnderstood;
    };
    let meaning = match phrase {
        Phrase {
            every: Some(every),
            times: None,
            on: None,
            in_minutes: None,
            in_days: None,
            day_part: None,
            ..
        } => interval(every, phrase.days, phrase.between),
        Phrase {
            days: Some(days),
            every: None,
            between: None,
            on: None,
            in_minutes: None,
            in_days: None,
            ..
        } => on_days(days, phrase.times, phrase.day_part),
        Phrase { every: None, days: None, between: None, .. } => once(&phrase, now, here, zone),
        _ => Ok(When::NotUnderstood),
    };
    meaning.unwrap_or_else(When::Ambiguous)
}

/// Either what is meant, or the question.
type Asked<T> = Result<T, String>;

fn recurring(text: &str) -> When {
    text.parse().map_or(When::NotUnderstood, When::Recurring)
}

fn interval(
    every: Interval,
    days: Option<&CronDays>,
    between: Option<(ClockTime, ClockTime)>,
) -> Asked<When> {
    let fields = days.map_or_else(|| "* * *".to_owned(), day_fields);
    let window = between.map(|(from, to)| hours_between(from, to)).transpose()?;
    match every {
        Interval::Minutes(60) => interval(Interval::Hours(1), days, between),
        Interval::Minutes(amount) => {
            fits(amount, 60, "minute", "an hour")?;
            // The window ends when its last hour begins: "between 9 and 17" has its last minutes before 17:00.
            let hours = window.map_or_else(|| "*".to_owned(), |(from, to)| format!("{from}-{}", to - 1));
            Ok(recurring(&format!("{} {hours} {fields}", stepped("*", amount))))
        }
        Interval::Hours(amount) => {
            fits(amount, 24, "hour", "a day")?;
            let hours = window.map_or_else(|| "*".to_owned(), |(from, to)| format!("{from}-{to}"));
            Ok(recurring(&format!("0 {} {fields}", stepped(&hours, amount))))
        }
    }
}

fn stepped(range: &str, step: i64) -> String {
    if step == 1 { range.to_owned() } else { format!("{range}/{step}") }
}

/// Cron counts within the hour or the day, so a step that does not divide it would stumble at its end.
fn fits(amount: i64, whole: i64, unit: &str, name: &str) -> Asked<()> {
    if amount > 0 && amount < whole && whole % amount == 0 {
        return Ok(());
    }
    let below = (1..amount.clamp(1, whole)).rev().find(|step| whole % step == 0).unwrap_or(1);
    let above = (amount.max(1) + 1..=whole).find(|step| whole % step == 0 && *step < whole);
    let offer = match above {
        Some(above) => format!("every {below} or every {above} {unit}s"),
        None => format!("every {below} {unit}s, or a time of day"),
    };
    Err(format!("Every {amount} {unit}s does not divide {name} evenly. Should it be {offer}?"))
}

/// The first and the last hour of a window; "9 to 5" ends in the afternoon.
fn hours_between(from: ClockTime, to: ClockTime) -> Asked<(i8, i8)> {
    let hour = |time| match time {
        ClockTime::Sure { hour, minute: 0 } | ClockTime::Bare { hour, minute: 0 } => Some(hour),
        ClockTime::Sure { .. } | ClockTime::Bare { .. } | ClockTime::Midnight => None,
    };
    match (hour(from), hour(to)) {
        (Some(start), Some(end)) if start < end => Ok((start, end)),
        (Some(start), Some(end)) if matches!(to, ClockTime::Bare { .. }) && start < end + 12 && end < 12 => {
            Ok((start, end + 12))
        }
        _ => Err("From which full hour to which later full hour?".to_owned()),
    }
}

fn day_fields(days: &CronDays) -> String {
    format!("{} {} {}", days.day, days.month, days.weekday)
}

fn on_days(days: &CronDays, times: Option<&[ClockTime]>, day_part: Option<DayPart>) -> Asked<When> {
    let is_in_all_months = |day: &str| !["29", "30", "31"].contains(&day);
    if days.month == "*" && !days.day.split(',').all(is_in_all_months) {
        return Err(format!(
            "Not every month has a day {}. Should it be the last day of the month instead?",
            days.day
        ));
    }
    let times = times.ok_or(NO_TIME)?;
    let mut clock = Vec::new();
    for time in times {
        clock.push(match time {
            ClockTime::Midnight => (0, 0),
            ClockTime::Sure { .. } | ClockTime::Bare { .. } => settle(*time, day_part)?,
        });
    }
    clock.sort_unstable();
    clock.dedup();
    let minute = clock.first().map_or(0, |(_, minute)| *minute);
    if clock.iter().any(|(_, other)| *other != minute) {
        return Err(
            "Those times differ in their minutes and need one schedule each. Which one first?".to_owned()
        );
    }
    let hours: Vec<String> = clock.iter().map(|(hour, _)| hour.to_string()).collect();
    Ok(recurring(&format!("{minute} {} {}", hours.join(","), day_fields(days))))
}

/// Hour and minute of a time, or the question which half of the day it is in.
fn settle(time: ClockTime, day_part: Option<DayPart>) -> Asked<(i8, i8)> {
    let (hour, minute) = match time {
        ClockTime::Sure { hour, minute } => return Ok((hour, minute)),
        ClockTime::Midnight => return Ok((0, 0)),
        ClockTime::Bare { hour, minute } => (hour, minute),
    };
    let settled = match (day_part, hour) {
        (Some(DayPart::Morning), 1..=11) | (Some(DayPart::Night), 1..=5) => Some(hour),
        (Some(DayPart::Afternoon | DayPart::Evening), 1..=11) | (Some(DayPart::Night), 6..=11) => {
            Some(hour + 12)
        }
        (Some(DayPart::Afternoon), 12) | (None, 7..=12) => Some(hour),
        _ => None,
    };
    settled.map(|hour| (hour, minute)).ok_or_else(|| either(hour % 12, hour % 12 + 12, minute))
}

fn either(first: i8, second: i8, minute: i8) -> String {
    format!("Is that {first:02}:{minute:02} or {second:02}:{minute:02}?")
}

fn once(phrase: &Phrase<'_>, now: Millis, here: DateTime, zone: &TimeZone) -> Asked<When> {
    let moment = match (phrase.in_minutes, phrase.in_days, phrase.on) {
        (Some(minutes), None, None) if phrase.times.is_none() && phrase.day_part.is_none() => {
            minutes.checked_mul(60_000).map(|wait| Millis(now.0.saturating_add(wait)))
        }
        (None, Some(days), None) if phrase.times.is_none() && phrase.day_part.is_none() => {
            later_day(here, days).and_then(|then| first_moment(then, zone))
        }
        (None, Some(days), None) => return on_day(Day::Ahead(days), phrase, here, zone),
        (None, None, Some(day)) => return on_day(day, phrase, here, zone),
        (None, None, None) if phrase.times.is_some() => return on_day(Day::Ahead(0), phrase, here, zone),
        _ => None,
    };
    Ok(moment.map_or(When::NotUnderstood, When::Once))
}

fn later_day(here: DateTime, days: i64) -> Option<DateTime> {
    here.checked_add(days.checked_abs().filter(|days| *days < 40_000)?.days()).ok()
}

fn on_day(day: Day, phrase: &Phrase<'_>, here: DateTime, zone: &TimeZone) -> Asked<When> {
    let time = match phrase.times {
        Some([time]) => *time,
        Some(_) => return Err("Should that be every day? Otherwise say one time.".to_owned()),
        None => return Err(NO_TIME.to_owned()),
    };
    let is_today = day == Day::Ahead(0);
    let at = match time {
        ClockTime::Midnight if is_today => {
            later_day(here.date().to_datetime(jiff::civil::Time::midnight()), 1)
        }
        ClockTime::Midnight => {
            return Err("Is that 00:00, at the start of that day, or 24:00, at its end?".to_owned());
        }
        ClockTime::Bare { hour: hour @ 1..=6, minute } if is_today && phrase.day_part.is_none() => {
            // Only one reading may still be ahead.
            let (early, late) = (here.date().at(hour, minute, 0, 0), here.date().at(hour + 12, minute, 0, 0));
            if early > here {
                return Err(either(hour, hour + 12, minute));
            }
            Some(late)
        }
        ClockTime::Sure { .. } | ClockTime::Bare { .. } => {
            let (hour, minute) = settle(time, phrase.day_part)?;
            date_of(day, here, hour, minute)?.map(|date| date.at(hour, minute, 0, 0))
        }
    };
    let Some(at) = at else {
        return Ok(When::NotUnderstood);
    };
    if at > here {
        return Ok(first_moment(at, zone).map_or(When::NotUnderstood, When::Once));
    }
    Err(if at.date() == here.date() {
        format!("{} has passed today. Should it be tomorrow at {0}?", at.strftime("%H:%M"))
    } else {
        format!("{} is in the past. Which date is meant?", at.strftime("%-d %B %Y"))
    })
}

/// The date of a day seen from `here`; a weekday, a day of the month or a date without a year is the next one with that
/// time ahead. None when there is no such date.
fn date_of(day: Day, here: DateTime, hour: i8, minute: i8) -> Asked<Option<Date>> {
    let today = here.date();
    let is_ahead = |date: &Date| date.at(hour, minute, 0, 0) > here;
    Ok(match day {
        Day::Ahead(days) => later_day(here, days).map(DateTime::date),
        Day::Next(weekday) => today.nth_weekday(1, weekday).ok(),
        Day::Coming(weekday) => {
            let today = Some(today).filter(|today| today.weekday() == weekday).filter(is_ahead);
            today.or_else(|| here.date().nth_weekday(1, weekday).ok())
        }
        Day::OfMonth(day) => {
            let months =
                (0..12).filter_map(|months| today.first_of_month().checked_add(months.months()).ok());
            months.filter_map(|month| Date::new(month.year(), month.month(), day).ok()).find(is_ahead)
        }
        Day::Date { day, month, year: Some(year) } => Some(existing(Date::new(year, month, day))?),
        Day::Date { day, month, year: None } => {
            let years = today.year()..=today.year().saturating_add(8);
            let mut dates = years.filter_map(|year| Date::new(year, month, day).ok()).peekable();
            existing(dates.peek().ok_or(()))?;
            // Today's date with a passed time is a slip, not next year's.
            dates.find(|date| *date == today || is_ahead(date))
        }
    })
}

fn existing<T, E>(date: Result<T, E>) -> Asked<T> {
    date.map_err(|_| "There is no such date. Which one is meant?".to_owned())
}
