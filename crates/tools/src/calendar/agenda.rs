//! What takes place within a window: every occurrence of every event, moved, removed and cancelled ones considered.

use super::event::{CalendarEvent, Reach};
use super::line::LineFault;
use super::recur::{Budget, OverBudget, local_times};
use super::value::Length;
use super::zone::EventClock;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan};
use std::collections::{BTreeMap, BTreeSet};

/// A stretch of time: from the first moment up to, but without, the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) from: Timestamp,
    pub(super) to: Timestamp,
}

/// One time that an event takes place.
#[derive(Debug, Clone)]
pub(super) struct Occurrence<'a> {
    pub(super) event: &'a CalendarEvent,
    pub(super) start: Timestamp,
    pub(super) end: Timestamp,
}

const EVENT_STEPS_MAX: u64 = 200_000;
const QUERY_STEPS_MAX: u64 = 5_000_000;
const EVENT_OCCURRENCES_MAX: usize = 5_000;
const OCCURRENCES_MAX: usize = 100_000;

/// Everything that takes place in the window, also what began before it; in order of start. Faults name the events that
/// repeat too often to be followed.
pub(super) fn occurrences<'a>(
    events: &'a [CalendarEvent],
    window: Window,
    home: &TimeZone,
    faults: &mut Vec<LineFault>,
) -> Vec<Occurrence<'a>> {
    let mut budget = Budget::of(QUERY_STEPS_MAX);
    let mut found = Vec::new();
    for series in series_of(events) {
        let mut own = Budget::of(EVENT_STEPS_MAX.min(budget.left()));
        let granted = own.left();
        let room = found.len() + EVENT_OCCURRENCES_MAX;
        let is_whole = series.expand(window, home, &mut own, &mut found).is_ok() && found.len() <= room;
        // One event must not crowd out the others.
        found.truncate(room);
        let is_spent = budget.spend(granted - own.left()).is_err() || budget.left() == 0;
        if is_spent || found.len() > OCCURRENCES_MAX {
            let text = "there is too much to follow; what comes after this event is not shown".to_owned();
            faults.push(LineFault { line: series.line(), text });
            break;
        }
        if !is_whole {
            let text = "this event repeats too often; not all of it is shown".to_owned();
            faults.push(LineFault { line: series.line(), text });
        }
    }
    found.sort_by(|one, other| {
        (one.start, one.end, &one.event.summary).cmp(&(other.start, other.end, &other.event.summary))
    });
    found
}

/// The events of one UID: what repeats, and what stands in for single occurrences.
#[derive(Default)]
struct Series<'a> {
    master: Option<&'a CalendarEvent>,
    changes: Vec<&'a CalendarEvent>,
}

/// Events that belong together; without a UID each is on its own.
fn series_of(events: &[CalendarEvent]) -> Vec<Series<'_>> {
    let mut by_uid: BTreeMap<&str, Series<'_>> = BTreeMap::new();
    let mut all = Vec::new();
    for event in events {
        let Some(uid) = &event.uid else {
            all.push(Series { master: Some(event), changes: Vec::new() });
            continue;
        };
        let series = by_uid.entry(uid).or_default();
        match (&event.replaces, series.master) {
            (Some(_), _) => series.changes.push(event),
            // The later version of the same event counts.
            (None, Some(known)) if known.sequence > event.sequence => {}
            (None, _) => series.master = Some(event),
        }
    }
    all.extend(by_uid.into_values());
    all
}

impl<'a> Series<'a> {
    fn line(&self) -> usize {
        self.master.or_else(|| self.changes.first().copied()).map_or(1, |event| event.line)
    }

    fn expand(
        &self,
        window: Window,
        home: &TimeZone,
        budget: &mut Budget,
        found: &mut Vec<Occurrence<'a>>,
    ) -> Result<(), OverBudget> {
        let changes = self.newest_changes(home);
        for change in changes.values().filter(|change| !change.is_cancelled) {
            found.extend(
                occurrence(change, change.start, &change.clock, change.length, home)
                    .filter(|it| it.is_in(window)),
            );
        }
        let Some(master) = self.master.filter(|master| !master.is_cancelled) else {
            return Ok(());
        };
        let removed: BTreeSet<Timestamp> =
            master.removed.iter().filter_map(|(at, clock)| clock.moment(*at, home)).collect();
        let mut times = Vec::new();
        let result = times_of(master, self.reach(window, home), home, budget, &mut times);
        for (at, clock, length) in times {
            let Some(moment) = clock.moment(at, home) else { continue };
            if removed.contains(&moment) || changes.contains_key(&moment) {
                continue;
            }
            let later =
                changes.range(..moment).rev().map(|(_, change)| change).find(|change| is_for_later(change));
            let (event, shift, length) = match later {
                None => (master, SignedDuration::ZERO, length),
                Some(change) if change.is_cancelled => continue,
                Some(change) => (*change, shift_of(change, home), change.length),
            };
            let moved = occurrence(event, at, &clock, length, home).and_then(|it| it.moved_by(shift));
            found.extend(moved.filter(|it| it.is_in(window)));
        }
        result
    }

    /// The changes by the moment of the occurrence that they stand in for.
    fn newest_changes(&self, home: &TimeZone) -> BTreeMap<Timestamp, &'a CalendarEvent> {
        let mut newest: BTreeMap<Timestamp, &CalendarEvent> = BTreeMap::new();
        for change in &self.changes {
            let moment =
                change.replaces.as_ref().and_then(|replaced| replaced.clock.moment(replaced.at, home));
            let Some(moment) = moment else { continue };
            if newest.get(&moment).is_none_or(|known| known.sequence <= change.sequence) {
                newest.insert(moment, change);
            }
        }
        newest
    }

    /// The window with room for occurrences that a change moves into it.
    fn reach(&self, window: Window, home: &TimeZone) -> Window {
        let shifts = self
            .changes
            .iter()
            .filter(|change| is_for_later(change))
            .map(|change| shift_of(change, home).abs());
        let room = shifts.max().unwrap_or(SignedDuration::ZERO);
        Window {
            from: window.from.checked_sub(room).unwrap_or(Timestamp::MIN),
            to: window.to.checked_add(room).unwrap_or(Timestamp::MAX),
        }
    }
}

fn is_for_later(change: &CalendarEvent) -> bool {
    change.replaces.as_ref().is_some_and(|replaced| replaced.reach == Reach::ThisAndLater)
}

fn shift_of(change: &CalendarEvent, home: &TimeZone) -> SignedDuration {
    let before = change.replaces.as_ref().and_then(|replaced| replaced.clock.moment(replaced.at, home));
    let now = change.clock.moment(change.start, home);
    before.zip(now).map_or(SignedDuration::ZERO, |(before, now)| before.duration_until(now))
}

/// A local time with its clock and length.
type Placed = (DateTime, EventClock, Length);

/// The times of an event that can touch the window, from its start, its rules and its further dates.
fn times_of(
    event: &CalendarEvent,
    window: Window,
    home: &TimeZone,
    budget: &mut Budget,
    times: &mut Vec<Placed>,
) -> Result<(), OverBudget> {
    let longest = event.added.iter().filter_map(|(_, _, length)| *length).fold(event.length, |one, other| {
        Length { days: one.days.max(other.days), seconds: one.seconds.max(other.seconds) }
    });
    // Room for a clock that is set within the event or the window.
    let room = SignedDuration::from_hours(3);
    let reach_back = SignedDuration::from_secs((longest.days * 24 * 3_600).saturating_add(longest.seconds));
    let from = window.from.checked_sub(reach_back.saturating_add(room)).unwrap_or(Timestamp::MIN);
    let to = window.to.checked_add(room).unwrap_or(Timestamp::MAX);
    let local = (event.clock.local(from, home), event.clock.local(to, home));
    let mut found = vec![event.start];
    let mut result = Ok(());
    for rule in &event.rules {
        result = result.and(local_times(rule, event.start, local, budget, &mut found));
    }
    found.sort_unstable();
    found.dedup();
    times.extend(found.into_iter().map(|at| (at, event.clock.clone(), event.length)));
    let known: BTreeSet<Option<Timestamp>> =
        times.iter().map(|(at, clock, _)| clock.moment(*at, home)).collect();
    let added = event.added.iter().filter(|(at, clock, _)| !known.contains(&clock.moment(*at, home)));
    times.extend(added.map(|(at, clock, length)| (*at, clock.clone(), length.unwrap_or(event.length))));
    result
}

fn occurrence<'a>(
    event: &'a CalendarEvent,
    at: DateTime,
    clock: &EventClock,
    length: Length,
    home: &TimeZone,
) -> Option<Occurrence<'a>> {
    let start = clock.moment(at, home)?;
    let last_day = at.checked_add(length.days.days()).ok()?;
    let end = clock.moment(last_day, home)?.checked_add(SignedDuration::from_secs(length.seconds)).ok()?;
    Some(Occurrence { event, start, end })
}

impl Occurrence<'_> {
    pub(super) fn is_all_day(&self) -> bool {
        matches!(self.event.clock, EventClock::AllDay)
    }

    /// Touches the window; what takes no time has to lie in it.
    fn is_in(&self, window: Window) -> bool {
        let begins_before_end = self.start < window.to;
        begins_before_end && (self.end > window.from || (self.start == self.end && self.start >= window.from))
    }

    fn moved_by(self, shift: SignedDuration) -> Option<Self> {
        let (start, end) = (self.start.checked_add(shift).ok()?, self.end.checked_add(shift).ok()?);
        Some(Self { start, end, ..self })
    }
}
