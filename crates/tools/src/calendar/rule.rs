//! Recurrence rules (RRULE) as written.

use super::value::{WrittenTime, written_time};
use jiff::civil::Weekday;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Frequency {
    Yearly,
    Monthly,
    Weekly,
    Daily,
    Hourly,
    Minutely,
    Secondly,
}

/// A weekday, or the nth one of a month or year; a negative n counts from the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RuleDay {
    pub(super) nth: Option<i16>,
    pub(super) weekday: Weekday,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) frequency: Frequency,
    pub(super) interval: i64,
    pub(super) count: Option<u32>,
    pub(super) until: Option<WrittenTime>,
    pub(super) months: Vec<i16>,
    pub(super) month_days: Vec<i16>,
    pub(super) year_days: Vec<i16>,
    pub(super) week_numbers: Vec<i16>,
    pub(super) days: Vec<RuleDay>,
    pub(super) hours: Vec<i16>,
    pub(super) minutes: Vec<i16>,
    pub(super) seconds: Vec<i16>,
    pub(super) positions: Vec<i16>,
    pub(super) week_start: Weekday,
}

const LIST_MAX: usize = 400;

/// Reads a rule; the error says which part of it is wrong.
pub(super) fn rule(text: &str) -> Result<Rule, String> {
    let mut rule = Rule {
        frequency: Frequency::Daily,
        interval: 1,
        count: None,
        until: None,
        months: Vec::new(),
        month_days: Vec::new(),
        year_days: Vec::new(),
        week_numbers: Vec::new(),
        days: Vec::new(),
        hours: Vec::new(),
        minutes: Vec::new(),
        seconds: Vec::new(),
        positions: Vec::new(),
        week_start: Weekday::Monday,
    };
    let mut has_frequency = false;
    for part in text.trim().split(';').filter(|part| !part.is_empty()) {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        has_frequency |= name.eq_ignore_ascii_case("FREQ");
        take(&mut rule, &name.to_ascii_uppercase(), &value.to_ascii_uppercase())
            .ok_or_else(|| format!("the rule says {part:.60}, which is no rule"))?;
    }
    if has_frequency { Ok(rule) } else { Err("the rule has no FREQ".to_owned()) }
}

fn take(rule: &mut Rule, name: &str, value: &str) -> Option<()> {
    match name {
        "FREQ" => rule.frequency = frequency(value)?,
        "INTERVAL" => {
            rule.interval = value.parse().ok().filter(|interval| (1..=100_000).contains(interval))?
        }
        "COUNT" => rule.count = Some(value.parse().ok().filter(|count| *count > 0)?),
        "UNTIL" => rule.until = Some(written_time(value)?),
        "BYMONTH" => rule.months = numbers(value, 1, 12)?,
        "BYMONTHDAY" => rule.month_days = signed(value, 31)?,
        "BYYEARDAY" => rule.year_days = signed(value, 366)?,
        "BYWEEKNO" => rule.week_numbers = signed(value, 53)?,
        "BYDAY" => rule.days = list(value, rule_day)?,
        "BYHOUR" => rule.hours = numbers(value, 0, 23)?,
        "BYMINUTE" => rule.minutes = numbers(value, 0, 59)?,
        // 60 is a leap second, which no clock here shows.
        "BYSECOND" => {
            rule.seconds = numbers(value, 0, 60)?.into_iter().map(|second| second.min(59)).collect()
        }
        "BYSETPOS" => rule.positions = signed(value, 366)?,
        "WKST" => rule.week_start = weekday(value)?,
        _ if name.starts_with("X-") => {}
        _ => return None,
    }
    Some(())
}

fn frequency(value: &str) -> Option<Frequency> {
    Some(match value {
        "YEARLY" => Frequency::Yearly,
        "MONTHLY" => Frequency::Monthly,
        "WEEKLY" => Frequency::Weekly,
        "DAILY" => Frequency::Daily,
        "HOURLY" => Frequency::Hourly,
        "MINUTELY" => Frequency::Minutely,
        "SECONDLY" => Frequency::Secondly,
        _ => return None,
    })
}

fn list<T>(value: &str, item: impl Fn(&str) -> Option<T>) -> Option<Vec<T>> {
    let items: Vec<T> = value.split(',').take(LIST_MAX).map(item).collect::<Option<_>>()?;
    Some(items)
}

/// In order and each once.
fn numbers(value: &str, low: i16, high: i16) -> Option<Vec<i16>> {
    let mut found =
        list(value, |item| item.trim().parse::<i16>().ok().filter(|number| (low..=high).contains(number)))?;
    found.sort_unstable();
    found.dedup();
    Some(found)
}

fn signed(value: &str, largest: i16) -> Option<Vec<i16>> {
    numbers(value, -largest, largest).filter(|found| !found.contains(&0))
}

fn rule_day(item: &str) -> Option<RuleDay> {
    let item = item.trim();
    let (nth, day) = item.split_at_checked(item.len().checked_sub(2)?)?;
    let nth = if nth.is_empty() {
        None
    } else {
        Some(nth.parse().ok().filter(|nth: &i16| *nth != 0 && nth.abs() <= 53)?)
    };
    Some(RuleDay { nth, weekday: weekday(day)? })
}

fn weekday(text: &str) -> Option<Weekday> {
    Some(match text {
        "MO" => Weekday::Monday,
        "TU" => Weekday::Tuesday,
        "WE" => Weekday::Wednesday,
        "TH" => Weekday::Thursday,
        "FR" => Weekday::Friday,
        "SA" => Weekday::Saturday,
        "SU" => Weekday::Sunday,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_rule_is_refused_with_the_part_that_is_wrong() {
        let table = [
            ("", "the rule has no FREQ"),
            ("INTERVAL=2", "the rule has no FREQ"),
            ("FREQ=OFTEN", "the rule says FREQ=OFTEN, which is no rule"),
            ("FREQ=DAILY;INTERVAL=0", "the rule says INTERVAL=0, which is no rule"),
            ("FREQ=DAILY;COUNT=0", "the rule says COUNT=0, which is no rule"),
            ("FREQ=DAILY;BYDAY=XX", "the rule says BYDAY=XX, which is no rule"),
            ("FREQ=DAILY;BYDAY=é", "the rule says BYDAY=é, which is no rule"),
            ("FREQ=DAILY;BYMONTHDAY=0", "the rule says BYMONTHDAY=0, which is no rule"),
            ("FREQ=DAILY;BYHOUR=24", "the rule says BYHOUR=24, which is no rule"),
            ("FREQ=DAILY;UNTIL=soon", "the rule says UNTIL=soon, which is no rule"),
            ("FREQ=DAILY;BYCOLOUR=1", "the rule says BYCOLOUR=1, which is no rule"),
        ];
        for (text, expected) in table {
            assert_eq!(rule(text), Err(expected.to_owned()), "{text}");
        }
        assert!(rule("freq=weekly;byday=mo,-1SU;X-OURS=1;wkst=SU").is_ok());
    }
}
