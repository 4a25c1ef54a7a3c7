//! Which clock an event's times are on: all day, wherever one is, a known zone, or one that the file defines itself.

use super::component::{Component, ZoneComponent};
use super::line::{ContentLine, LineFault};
use super::recur::{Budget, local_times};
use super::rule::rule;
use super::value::{WrittenTime, offset, written_time};
use super::windows_zones::iana_name;
use jiff::Timestamp;
use jiff::civil::{DateTime, date};
use jiff::tz::{Offset, TimeZone};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How a local time becomes a moment.
#[derive(Debug, Clone)]
pub(super) enum EventClock {
    /// Days, in the reader's zone.
    AllDay,
    /// Times without a zone, which are the reader's.
    Floating,
    Zone(TimeZone),
    Defined(Arc<DefinedZone>),
}

/// A zone by the rules of the file: every change of its clock, in order.
#[derive(Debug)]
pub(super) struct DefinedZone {
    before: Offset,
    changes: Vec<ClockChange>,
}

#[derive(Debug, Clone, Copy)]
struct ClockChange {
    /// On the clock that ends here.
    local: DateTime,
    at: Timestamp,
    from: Offset,
    to: Offset,
}

/// The zones that a file defines, by TZID.
#[derive(Debug, Default)]
pub(super) struct Zones {
    defined: BTreeMap<String, EventClock>,
}

const CHANGES_MAX: usize = 2_000;
const CHANGE_STEPS_MAX: u64 = 200_000;
/// Rules without an end are followed up to here.
const CHANGES_UNTIL: DateTime = date(2100, 1, 1).at(0, 0, 0, 0);

impl EventClock {
    /// A time that comes twice is the first; one that the clock jumps over is as much later as the jump is long.
    pub(super) fn moment(&self, local: DateTime, home: &TimeZone) -> Option<Timestamp> {
        match self {
            Self::AllDay | Self::Floating => home.to_timestamp(local).ok(),
            Self::Zone(zone) => zone.to_timestamp(local).ok(),
            Self::Defined(zone) => zone.offset_at_local(local).to_timestamp(local).ok(),
        }
    }

    pub(super) fn local(&self, at: Timestamp, home: &TimeZone) -> DateTime {
        match self {
            Self::AllDay | Self::Floating => home.to_datetime(at),
            Self::Zone(zone) => zone.to_datetime(at),
            Self::Defined(zone) => zone.offset_at(at).to_datetime(at),
        }
    }
}

impl DefinedZone {
    fn offset_at_local(&self, local: DateTime) -> Offset {
        let next = self.changes.partition_point(|change| change.local <= local);
        let Some(change) = next.checked_sub(1).and_then(|index| self.changes.get(index)) else {
            return self.before;
        };
        // Within a jump the old clock still counts.
        let is_jumped_over = change.to.to_datetime(change.at) > local;
        if is_jumped_over { change.from } else { change.to }
    }

    fn offset_at(&self, at: Timestamp) -> Offset {
        let next = self.changes.partition_point(|change| change.at <= at);
        next.checked_sub(1).and_then(|index| self.changes.get(index)).map_or(self.before, |change| change.to)
    }
}

impl Zones {
    /// Takes the zones that a file defines. One with a name that is known anyway needs no rules of its own.
    pub(super) fn of(components: &[ZoneComponent], faults: &mut Vec<LineFault>) -> Self {
        let mut zones = Self::default();
        for component in components {
            let Some(id) = component.head.first("TZID") else {
                continue;
            };
            let location = component.head.first("X-LIC-LOCATION").and_then(|line| known(&line.value));
            let clock = match known(&id.value).or(location) {
                Some(zone) => Ok(EventClock::Zone(zone)),
                None => defined(component).map(|zone| EventClock::Defined(Arc::new(zone))),
            };
            match clock {
                Ok(clock) => drop(zones.defined.insert(id.value.clone(), clock)),
                Err(fault) => faults.push(fault),
            }
        }
        zones
    }

    /// The time of a DTSTART, DTEND, RDATE, EXDATE or RECURRENCE-ID value and its clock.
    pub(super) fn read(&self, line: &ContentLine, value: &str) -> Result<(DateTime, EventClock), LineFault> {
        let unreadable =
            || line.fault(format!("{} has no date in it: {:?}", line.name, super::line::shown(value)));
        Ok(match written_time(value).ok_or_else(unreadable)? {
            WrittenTime::Day(day) => (day.at(0, 0, 0, 0), EventClock::AllDay),
            WrittenTime::Utc(at) => (at, EventClock::Zone(TimeZone::UTC)),
            WrittenTime::Local(at) => match line.parameter("TZID") {
                Some(id) => (at, self.named(id).ok_or_else(|| unknown(line, id))?),
                None => (at, EventClock::Floating),
            },
        })
    }

    fn named(&self, id: &str) -> Option<EventClock> {
        self.defined.get(id).cloned().or_else(|| known(id).map(EventClock::Zone))
    }
}

fn unknown(line: &ContentLine, id: &str) -> LineFault {
    line.fault(format!("the time zone {:?} is not known and not defined in the file", super::line::shown(id)))
}

/// A zone by its IANA name, its Windows name, or either behind a producer's prefix such as `/mozilla.org/2005/`.
fn known(id: &str) -> Option<TimeZone> {
    let get = |name: &str| TimeZone::get(name).ok();
    let id = id.trim();
    if let Some(zone) = iana_name(id).or(Some(id)).and_then(get) {
        return Some(zone);
    }
    let parts: Vec<&str> = id.split('/').filter(|part| !part.is_empty()).collect();
    (1..parts.len()).filter(|start| parts.len() - start <= 3).find_map(|start| get(&parts[start..].join("/")))
}

fn defined(component: &ZoneComponent) -> Result<DefinedZone, LineFault> {
    let mut changes = Vec::new();
    for part in &component.rules {
        changes.extend(changes_of(part)?);
    }
    changes.sort_by_key(|change: &ClockChange| change.at);
    changes.truncate(CHANGES_MAX);
    let head = &component.head;
    let first = changes
        .first()
        .ok_or_else(|| LineFault { line: head.line, text: "this time zone has no rules".to_owned() })?;
    Ok(DefinedZone { before: first.from, changes })
}

fn changes_of(part: &Component) -> Result<Vec<ClockChange>, LineFault> {
    let line = |name: &str| {
        let text = format!("a rule of this time zone has no {name}");
        part.first(name).ok_or(LineFault { line: part.line, text })
    };
    let read_offset = |name: &str| {
        let line = line(name)?;
        offset(&line.value).ok_or_else(|| line.fault(format!("{name} is no offset")))
    };
    let (from, to) = (read_offset("TZOFFSETFROM")?, read_offset("TZOFFSETTO")?);
    let start_line = line("DTSTART")?;
    let local = |line: &ContentLine, value: &str| match written_time(value) {
        Some(WrittenTime::Local(at)) => Ok(at),
        Some(WrittenTime::Utc(_) | WrittenTime::Day(_)) | None => Err(line.fault("this is no local time")),
    };
    let start = local(start_line, &start_line.value)?;
    let mut onsets = vec![start];
    for dates in part.all("RDATE") {
        for value in dates.value.split(',').take(CHANGES_MAX) {
            onsets.push(local(dates, value)?);
        }
    }
    for text in part.all("RRULE") {
        let mut rule = rule(&text.value).map_err(|reason| text.fault(reason))?;
        if let Some(WrittenTime::Utc(until)) = rule.until {
            let until = Offset::UTC.to_timestamp(until).map(|until| from.to_datetime(until));
            rule.until = until.ok().map(WrittenTime::Local);
        }
        local_times(&rule, start, (start, CHANGES_UNTIL), &mut Budget::of(CHANGE_STEPS_MAX), &mut onsets)
            .map_err(|_| text.fault("this time zone changes too often"))?;
    }
    onsets.sort_unstable();
    onsets.dedup();
    let change = |local: DateTime| Some(ClockChange { local, at: from.to_timestamp(local).ok()?, from, to });
    Ok(onsets.into_iter().filter_map(change).collect())
}
