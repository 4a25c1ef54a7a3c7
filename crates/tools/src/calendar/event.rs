//! One event of a file, as its lines say.

use super::component::Component;
use super::line::{ContentLine, LineFault};
use super::rule::{Rule, rule};
use super::value::{Length, WrittenTime, length, plain_text, written_time};
use super::zone::{EventClock, Zones};
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// An event, or the change of one occurrence of it.
#[derive(Debug, Clone)]
pub(super) struct CalendarEvent {
    pub(super) line: usize,
    pub(super) uid: Option<String>,
    pub(super) sequence: i64,
    pub(super) is_cancelled: bool,
    pub(super) summary: String,
    pub(super) location: String,
    pub(super) description: String,
    pub(super) start: DateTime,
    pub(super) clock: EventClock,
    pub(super) length: Length,
    pub(super) rules: Vec<Rule>,
    /// Further times, with a length of their own where they have one.
    pub(super) added: Vec<(DateTime, EventClock, Option<Length>)>,
    pub(super) removed: Vec<(DateTime, EventClock)>,
    pub(super) replaces: Option<Replaced>,
}

/// The occurrence that an event stands in for.
#[derive(Debug, Clone)]
pub(super) struct Replaced {
    pub(super) at: DateTime,
    pub(super) clock: EventClock,
    pub(super) reach: Reach,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    This,
    ThisAndLater,
}

const TEXT_CHARS_MAX: usize = 2_000;
const DATES_MAX: usize = 10_000;

impl CalendarEvent {
    pub(super) fn read(component: &Component, zones: &Zones) -> Result<Self, LineFault> {
        let no_start = || LineFault { line: component.line, text: "this event has no DTSTART".to_owned() };
        let start_line = component.first("DTSTART").or_else(|| component.first("RECURRENCE-ID"));
        let start_line = start_line.ok_or_else(no_start)?;
        let (start, clock) = zones.read(start_line, &start_line.value)?;
        let text = |name: &str| {
            component.first(name).map_or_else(String::new, |line| {
                plain_text(&line.value).chars().take(TEXT_CHARS_MAX).collect()
            })
        };
        let value = |name: &str| component.first(name).map(|line| line.value.trim());
        Ok(Self {
            line: component.line,
            uid: value("UID").filter(|uid| !uid.is_empty()).map(str::to_owned),
            sequence: value("SEQUENCE").and_then(|value| value.parse().ok()).unwrap_or(0),
            is_cancelled: value("STATUS").is_some_and(|status| status.eq_ignore_ascii_case("CANCELLED")),
            summary: text("SUMMARY"),
            location: text("LOCATION"),
            description: text("DESCRIPTION"),
            length: event_length(component, zones, start, &clock)?,
            rules: rules(component, &clock)?,
            added: added(component, zones)?,
            removed: removed(component, zones)?,
            replaces: replaced(component, zones)?,
            start,
            clock,
        })
    }
}

/// From DTEND or DURATION; without either a day lasts a day and a time lasts no time.
fn event_length(
    component: &Component,
    zones: &Zones,
    start: DateTime,
    clock: &EventClock,
) -> Result<Length, LineFault> {
    let is_all_day = matches!(clock, EventClock::AllDay);
    let shortest = Length { days: i64::from(is_all_day), seconds: 0 };
    if let Some(line) = component.first("DTEND") {
        let (end, end_clock) = zones.read(line, &line.value)?;
        let found = length_between((start, clock), (end, &end_clock));
        return found.ok_or_else(|| line.fault("this event ends before it starts")).map(|length| {
            // Some producers write the same day as start and end of a whole day.
            if length == Length::default() { shortest } else { length }
        });
    }
    match component.first("DURATION") {
        Some(line) => length(&line.value)
            .filter(|length| length.days >= 0 && length.seconds >= 0)
            .ok_or_else(|| line.fault("DURATION is no length of an event")),
        None => Ok(shortest),
    }
}

fn length_between(
    (start, clock): (DateTime, &EventClock),
    (end, end_clock): (DateTime, &EventClock),
) -> Option<Length> {
    if matches!(clock, EventClock::AllDay) {
        let days = i64::from((end.date() - start.date()).get_days());
        return (days >= 0).then_some(Length { days, seconds: 0 });
    }
    // Both ends are on the same clock, or have zones of their own; a floating time has any, so UTC does.
    let seconds =
        end_clock.moment(end, &TimeZone::UTC)?.as_second() - clock.moment(start, &TimeZone::UTC)?.as_second();
    (seconds >= 0).then_some(Length { days: 0, seconds })
}

fn rules(component: &Component, clock: &EventClock) -> Result<Vec<Rule>, LineFault> {
    let read = |line: &ContentLine| {
        let mut rule = rule(&line.value).map_err(|reason| line.fault(reason))?;
        if let (Some(WrittenTime::Utc(until)), EventClock::Zone(_) | EventClock::Defined(_)) =
            (rule.until, clock)
        {
            let until = TimeZone::UTC.to_timestamp(until).map_err(|error| line.fault(error.to_string()))?;
            rule.until = Some(WrittenTime::Local(clock.local(until, &TimeZone::UTC)));
        }
        Ok(rule)
    };
    component.all("RRULE").map(read).collect()
}

fn added(
    component: &Component,
    zones: &Zones,
) -> Result<Vec<(DateTime, EventClock, Option<Length>)>, LineFault> {
    let mut found = Vec::new();
    for line in component.all("RDATE") {
        for value in line.value.split(',').take(DATES_MAX) {
            let (start, end) = value.split_once('/').map_or((value, None), |(start, end)| (start, Some(end)));
            let (at, clock) = zones.read(line, start)?;
            let length = match end {
                None => None,
                Some(end) if written_time(end).is_some() => {
                    let (end, end_clock) = zones.read(line, end)?;
                    length_between((at, &clock), (end, &end_clock))
                }
                Some(end) => Some(length(end).ok_or_else(|| line.fault("this period has no end"))?),
            };
            found.push((at, clock, length));
        }
    }
    Ok(found)
}

fn removed(component: &Component, zones: &Zones) -> Result<Vec<(DateTime, EventClock)>, LineFault> {
    let mut found = Vec::new();
    for line in component.all("EXDATE") {
        for value in line.value.split(',').take(DATES_MAX) {
            found.push(zones.read(line, value)?);
        }
    }
    Ok(found)
}

fn replaced(component: &Component, zones: &Zones) -> Result<Option<Replaced>, LineFault> {
    let Some(line) = component.first("RECURRENCE-ID") else {
        return Ok(None);
    };
    let (at, clock) = zones.read(line, &line.value)?;
    let is_range = line.parameter("RANGE").is_some_and(|range| range.eq_ignore_ascii_case("THISANDFUTURE"));
    Ok(Some(Replaced { at, clock, reach: if is_range { Reach::ThisAndLater } else { Reach::This } }))
}
