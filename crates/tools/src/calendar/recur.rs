//! Local times of a recurrence rule within a window, without walking there from the beginning of time.

#[cfg(test)]
mod tests;

use super::rule::{Frequency, Rule};
use super::value::WrittenTime;
use jiff::civil::{Date, DateTime, Time, Weekday};
use jiff::{Span, ToSpan};

/// How much a query may look at, so that no rule can keep it busy.
#[derive(Debug)]
pub(super) struct Budget {
    left: u64,
}

/// The budget is spent: what was found is not all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OverBudget;

impl Budget {
    pub(super) fn of(steps: u64) -> Self {
        Self { left: steps }
    }

    pub(super) fn left(&self) -> u64 {
        self.left
    }

    /// Over the budget nothing is left.
    pub(super) fn spend(&mut self, steps: u64) -> Result<(), OverBudget> {
        let left = self.left.checked_sub(steps);
        self.left = left.unwrap_or(0);
        left.map(|_| ()).ok_or(OverBudget)
    }
}

/// The local times of `rule` from `from` to `to`, both included, in order. `start` is when the event first takes place.
/// What was found before the budget ran out stays in `found`.
pub(super) fn local_times(
    rule: &Rule,
    start: DateTime,
    (from, to): (DateTime, DateTime),
    budget: &mut Budget,
    found: &mut Vec<DateTime>,
) -> Result<(), OverBudget> {
    let last = rule.until.map_or(to, |until| to.min(end_of(until)));
    // A count has to be counted from the start; everything else can begin near the window.
    let mut period = if rule.count.is_some() { 0 } else { periods_before(rule, start, from) };
    let mut left = rule.count.unwrap_or(u32::MAX);
    while let Some(begins) = period_start(rule, start, period) {
        if begins > last {
            break;
        }
        budget.spend(1)?;
        for time in times_in_period(rule, start, begins, budget)? {
            if time < start {
                continue;
            }
            if time > last || left == 0 {
                return Ok(());
            }
            left -= 1;
            if time >= from {
                found.push(time);
            }
        }
        period += 1;
    }
    Ok(())
}

fn end_of(until: WrittenTime) -> DateTime {
    match until {
        WrittenTime::Day(day) => day.to_datetime(Time::constant(23, 59, 59, 0)),
        WrittenTime::Local(at) | WrittenTime::Utc(at) => at,
    }
}

/// A number of periods that certainly lie before `from`.
fn periods_before(rule: &Rule, start: DateTime, from: DateTime) -> i64 {
    let seconds = start.duration_until(from).as_secs();
    let whole = match rule.frequency {
        Frequency::Yearly => i64::from(from.year() - start.year()),
        Frequency::Monthly => {
            i64::from(from.year() - start.year()) * 12 + i64::from(from.month() - start.month())
        }
        Frequency::Weekly => seconds / (7 * 24 * 3_600),
        Frequency::Daily => seconds / (24 * 3_600),
        Frequency::Hourly => seconds / 3_600,
        Frequency::Minutely => seconds / 60,
        Frequency::Secondly => seconds,
    };
    ((whole - 1) / rule.interval - 1).max(0)
}

/// The first moment of a period; `None` beyond the last year.
fn period_start(rule: &Rule, start: DateTime, period: i64) -> Option<DateTime> {
    let steps = period.checked_mul(rule.interval)?;
    let midnight = |date: Date| date.to_datetime(Time::midnight());
    let after = |from: DateTime, span: Result<Span, jiff::Error>| from.checked_add(span.ok()?).ok();
    match rule.frequency {
        Frequency::Yearly => after(midnight(start.date().first_of_year()), Span::new().try_years(steps)),
        Frequency::Monthly => after(midnight(start.date().first_of_month()), Span::new().try_months(steps)),
        Frequency::Weekly => {
            after(midnight(week_of(start.date(), rule.week_start)), Span::new().try_weeks(steps))
        }
        Frequency::Daily => after(midnight(start.date()), Span::new().try_days(steps)),
        Frequency::Hourly => after(start.date().at(start.hour(), 0, 0, 0), Span::new().try_hours(steps)),
        Frequency::Minutely => {
            after(start.date().at(start.hour(), start.minute(), 0, 0), Span::new().try_minutes(steps))
        }
        Frequency::Secondly => after(start, Span::new().try_seconds(steps)),
    }
}

/// The first day of the week that holds `day`; the day itself at the very beginning of the calendar.
fn week_of(day: Date, week_start: Weekday) -> Date {
    let back = i64::from(day.weekday().since(week_start));
    day.checked_sub(back.days()).unwrap_or(day)
}

fn times_in_period(
    rule: &Rule,
    start: DateTime,
    begins: DateTime,
    budget: &mut Budget,
) -> Result<Vec<DateTime>, OverBudget> {
    let clock = clock_times(rule, start, begins);
    let days = days_in_period(rule, start, begins.date());
    budget.spend(days.len() as u64)?;
    let mut times = Vec::new();
    for day in days.into_iter().filter(|day| is_due(rule, start, *day)) {
        budget.spend(clock.len() as u64)?;
        times.extend(clock.iter().map(|time| day.to_datetime(*time)));
    }
    if rule.positions.is_empty() {
        return Ok(times);
    }
    let mut picked: Vec<DateTime> =
        rule.positions.iter().filter_map(|position| nth(&times, *position)).copied().collect();
    picked.sort_unstable();
    picked.dedup();
    Ok(picked)
}

/// The days that can be due, in order. A rule that leaves the day to the start of the event has few of them.
fn days_in_period(rule: &Rule, start: DateTime, first: Date) -> Vec<Date> {
    let run = |first: Date, count: i16| {
        std::iter::successors(Some(first), |day| day.tomorrow().ok()).take(usize::from(count.unsigned_abs()))
    };
    let listed: Vec<i8> = rule.months.iter().filter_map(|month| i8::try_from(*month).ok()).collect();
    let own_day = |month: i8| Date::new(first.year(), month, start.day()).ok();
    let month = |month: i8| {
        Date::new(first.year(), month, 1).ok().map(|first| run(first, first.days_in_month().into()))
    };
    match rule.frequency {
        Frequency::Yearly if !has_days(rule) && rule.week_numbers.is_empty() => {
            let months = if listed.is_empty() { vec![start.month()] } else { listed };
            months.into_iter().filter_map(own_day).collect()
        }
        Frequency::Yearly if !listed.is_empty() => listed.into_iter().filter_map(month).flatten().collect(),
        Frequency::Yearly => run(first, first.days_in_year()).collect(),
        Frequency::Monthly if !has_days(rule) => own_day(first.month()).into_iter().collect(),
        Frequency::Monthly => run(first, first.days_in_month().into()).collect(),
        Frequency::Weekly => run(first, 7).collect(),
        Frequency::Daily | Frequency::Hourly | Frequency::Minutely | Frequency::Secondly => vec![first],
    }
}

/// Whether the rule names days itself.
fn has_days(rule: &Rule) -> bool {
    !(rule.days.is_empty() && rule.month_days.is_empty() && rule.year_days.is_empty())
}

fn nth<T>(items: &[T], position: i16) -> Option<&T> {
    let index = usize::from(position.unsigned_abs()) - 1;
    if position > 0 { items.get(index) } else { items.iter().rev().nth(index) }
}

/// The times of day within one period.
fn clock_times(rule: &Rule, start: DateTime, begins: DateTime) -> Vec<Time> {
    let fixed = |unit: Frequency, listed: &[i16], own: i8, here: i8| -> Vec<i8> {
        let listed = || listed.iter().filter_map(|value| i8::try_from(*value).ok());
        if rule.frequency >= unit {
            // The period is this hour, minute or second; a list can only leave it out.
            let is_in = listed().next().is_none() || listed().any(|value| value == here);
            return is_in.then_some(here).into_iter().collect();
        }
        let all: Vec<i8> = listed().collect();
        if all.is_empty() { vec![own] } else { all }
    };
    let hours = fixed(Frequency::Hourly, &rule.hours, start.hour(), begins.hour());
    let minutes = fixed(Frequency::Minutely, &rule.minutes, start.minute(), begins.minute());
    let seconds = fixed(Frequency::Secondly, &rule.seconds, start.second(), begins.second());
    let of_minute = |hour: i8, minute: i8| {
        seconds.iter().filter_map(move |second| Time::new(hour, minute, *second, 0).ok())
    };
    hours.iter().flat_map(|hour| minutes.iter().flat_map(move |minute| of_minute(*hour, *minute))).collect()
}

/// Whether a day of the period belongs to the rule: every list that is given has to name it.
fn is_due(rule: &Rule, start: DateTime, day: Date) -> bool {
    let is_in_month = rule.months.is_empty() || rule.months.contains(&i16::from(day.month()));
    is_in_month
        && named(&rule.month_days, i16::from(day.day()), i16::from(day.days_in_month()))
        && named(&rule.year_days, day.day_of_year(), day.days_in_year())
        && week_is_named(rule, day)
        && (rule.days.is_empty() || weekday_is_named(rule, day))
        && is_default(rule, start, day)
}

/// A list that names a day by its number or by its number from the end; an empty one names all.
fn named(list: &[i16], number: i16, length: i16) -> bool {
    list.is_empty() || list.contains(&number) || list.contains(&(number - length - 1))
}

fn week_is_named(rule: &Rule, day: Date) -> bool {
    if rule.week_numbers.is_empty() {
        return true;
    }
    // A week belongs to the year that holds most of it, which is the year of its fourth day.
    let Ok(fourth) = week_of(day, rule.week_start).checked_add(3.days()) else {
        return false;
    };
    let weeks_in_year = (fourth.days_in_year() - (fourth.day_of_year() - 1) % 7 - 1) / 7 + 1;
    named(&rule.week_numbers, (fourth.day_of_year() - 1) / 7 + 1, weeks_in_year)
}

fn weekday_is_named(rule: &Rule, day: Date) -> bool {
    let is_yearly = rule.frequency == Frequency::Yearly;
    // The nth weekday is counted within the month, or within the year when no month is in play.
    let (number, length) = if rule.frequency == Frequency::Monthly || (is_yearly && !rule.months.is_empty()) {
        (i16::from(day.day()), i16::from(day.days_in_month()))
    } else {
        (day.day_of_year(), day.days_in_year())
    };
    let is_counted = is_yearly || rule.frequency == Frequency::Monthly;
    rule.days.iter().any(|named| {
        let is_nth = |nth: i16| nth == (number - 1) / 7 + 1 || nth == -((length - number) / 7 + 1);
        named.weekday == day.weekday() && (!is_counted || named.nth.is_none_or(is_nth))
    })
}

/// Where a rule names weeks but no days, the weekday is that of the start.
fn is_default(rule: &Rule, start: DateTime, day: Date) -> bool {
    match rule.frequency {
        Frequency::Yearly | Frequency::Weekly if !has_days(rule) => {
            let is_exact = rule.frequency == Frequency::Yearly && rule.week_numbers.is_empty();
            is_exact || day.weekday() == start.weekday()
        }
        Frequency::Yearly
        | Frequency::Monthly
        | Frequency::Weekly
        | Frequency::Daily
        | Frequency::Hourly
        | Frequency::Minutely
        | Frequency::Secondly => true,
    }
}
