//! Slots of a cron schedule on the real time line: the next, the newest, and how many.

use super::cron::Cron;
use cortex_types::Millis;
use jiff::civil::{Date, DateTime};
use jiff::tz::{AmbiguousOffset, AmbiguousTimestamp, TimeZone};
use jiff::{Span, Timestamp, ToSpan};
use std::collections::BTreeSet;

/// No clock is set back by more than this, so local order and real order differ at most so far.
const FOLD_HOURS_MAX: i64 = 3;
/// Days around a change of the clock that are looked at one time at a time.
const CHANGE_DAYS: i64 = 2;

/// The first slot strictly after `after`.
pub(super) fn next_slot(cron: &Cron, zone: &TimeZone, after: Millis) -> Option<Millis> {
    let start = local(zone, after)?.checked_sub(FOLD_HOURS_MAX.hours()).ok()?;
    let times = cron.days_from(start.date()).flat_map(|day| cron.times_of(day));
    nearest(times.skip_while(|time| *time < start), cron, zone, |slot| slot > after, Millis::min)
}

/// The last slot at or before `until`.
pub(super) fn newest_slot(cron: &Cron, zone: &TimeZone, until: Millis) -> Option<Millis> {
    let start = local(zone, until)?.checked_add(FOLD_HOURS_MAX.hours()).ok()?;
    let times = cron.days_back_from(start.date()).flat_map(|day| cron.times_of(day).rev());
    nearest(times.skip_while(|time| *time > start), cron, zone, |slot| slot <= until, Millis::max)
}

/// How many slots lie after `after` up to and with `until`.
pub(super) fn count_slots(cron: &Cron, zone: &TimeZone, after: Millis, until: Millis) -> u64 {
    let (Some(first), Some(last)) = (local(zone, after), local(zone, until)) else {
        return 0;
    };
    let (first, last) = (first.date(), last.date());
    let changing = changing_days(zone, after, until);
    let Ok(day_before) = first.yesterday() else {
        return 0;
    };
    let mut total = 0;
    // Slots of neighbouring days can be the same moment only where the clock changes, so one run of such days is
    // brought together before it is counted.
    let mut run: BTreeSet<Millis> = BTreeSet::new();
    let mut run_ends = day_before;
    for day in cron.days_from(day_before) {
        if day > last && last.tomorrow().is_ok_and(|after_last| day > after_last) {
            break;
        }
        let is_whole = day > first && day < last;
        if is_whole && !changing.contains(&day) {
            total += cron.slots_a_day();
            continue;
        }
        if day > run_ends {
            total += run.len() as u64;
            run.clear();
        }
        run.extend(
            cron.times_of(day)
                .flat_map(|time| moments(time, cron, zone))
                .filter(|slot| *slot > after && *slot <= until),
        );
        run_ends = day.tomorrow().unwrap_or(day);
    }
    total + run.len() as u64
}

/// When a local time comes: the first time where it comes twice, right after the jump where it does not come.
pub(super) fn first_moment(time: DateTime, zone: &TimeZone) -> Option<Millis> {
    first_of(zone.to_ambiguous_timestamp(time), zone).map(|moment| Millis(moment.as_millisecond()))
}

pub(super) fn local(zone: &TimeZone, at: Millis) -> Option<DateTime> {
    Some(zone.to_datetime(Timestamp::from_millisecond(at.0).ok()?))
}

/// Walks local times until the nearest wanted slot is certain: nothing later in the walk can come before it.
fn nearest(
    times: impl Iterator<Item = DateTime>,
    cron: &Cron,
    zone: &TimeZone,
    is_wanted: impl Fn(Millis) -> bool,
    nearer: fn(Millis, Millis) -> Millis,
) -> Option<Millis> {
    let mut found: Option<(DateTime, Millis)> = None;
    for time in times {
        if let Some((at, slot)) = found
            && is_farther_than(time, at, FOLD_HOURS_MAX.hours())
        {
            return Some(slot);
        }
        for slot in moments(time, cron, zone).filter(|slot| is_wanted(*slot)) {
            found = Some(found.map_or((time, slot), |(at, best)| (at, nearer(best, slot))));
        }
    }
    found.map(|(_, slot)| slot)
}

fn is_farther_than(time: DateTime, from: DateTime, span: Span) -> bool {
    let (low, high) = if time < from { (time, from) } else { (from, time) };
    low.checked_add(span).is_ok_and(|edge| edge < high)
}

/// The real moments of a local time: one; two where the clock is set back and the schedule goes on; none where the
/// clock jumps over it and the next hour is due anyway.
fn moments(time: DateTime, cron: &Cron, zone: &TimeZone) -> impl Iterator<Item = Millis> {
    let ambiguous = zone.to_ambiguous_timestamp(time);
    let (first, second) = match ambiguous.offset() {
        AmbiguousOffset::Fold { .. } if cron.keeps_firing() => {
            (ambiguous.earlier().ok(), ambiguous.later().ok())
        }
        AmbiguousOffset::Gap { .. } if cron.is_every_hour() => (None, None),
        AmbiguousOffset::Fold { .. } | AmbiguousOffset::Gap { .. } | AmbiguousOffset::Unambiguous { .. } => {
            (first_of(ambiguous, zone), None)
        }
    };
    first.into_iter().chain(second).map(|moment| Millis(moment.as_millisecond()))
}

fn first_of(ambiguous: AmbiguousTimestamp, zone: &TimeZone) -> Option<Timestamp> {
    let earlier = ambiguous.earlier().ok()?;
    match ambiguous.offset() {
        AmbiguousOffset::Unambiguous { .. } | AmbiguousOffset::Fold { .. } => Some(earlier),
        AmbiguousOffset::Gap { .. } => Some(zone.following(earlier).next()?.timestamp()),
    }
}

fn changing_days(zone: &TimeZone, after: Millis, until: Millis) -> BTreeSet<Date> {
    let margin = (CHANGE_DAYS + 1) * 24;
    let (Ok(from), Ok(to)) = (Timestamp::from_millisecond(after.0), Timestamp::from_millisecond(until.0))
    else {
        return BTreeSet::new();
    };
    let (Ok(from), Ok(to)) = (from.checked_sub(margin.hours()), to.checked_add(margin.hours())) else {
        return BTreeSet::new();
    };
    zone.following(from)
        .map(|change| change.timestamp())
        .take_while(|change| *change <= to)
        .flat_map(|change| {
            let day = zone.to_datetime(change).date();
            (-CHANGE_DAYS..=CHANGE_DAYS).filter_map(move |offset| day.checked_add(offset.days()).ok())
        })
        .collect()
}
