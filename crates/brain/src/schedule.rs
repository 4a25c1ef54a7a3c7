//! Schedules: when a job is due, what each due slot becomes, and the English that people write for it.
//!
//! A slot is a moment at which a schedule says "now". Local time decides it, in the job's zone, so two days a year need
//! a rule:
//! - A time that does not exist (the clock jumps over it) is due right after the jump, once, however many times fell
//!   into it. A schedule for every hour needs no such repair: its next hour comes at once.
//! - A time that comes twice (the clock is set back) is due the first time. A schedule for every hour, or whose minutes
//!   start with `*`, goes on in real time and is due both times.

mod cron;
mod decide;
mod english;
mod phrase;
mod reminder;
#[cfg(test)]
mod simulation;
mod slots;

pub use cron::{Cron, CronError};
pub(crate) use english::end_of_question;

pub use decide::{DueRun, JobView, Overlap, Tick, decide_slots, slot_event_id};
pub use phrase::{When, parse_when};
pub use reminder::{Reminder, parse_reminder};

use cortex_types::Millis;
use jiff::tz::TimeZone;

/// When a job runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Schedule {
    Recurring(Cron),
    Once(Millis),
}

/// The slots of a stretch of time: how many, and the two ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotRange {
    pub first: Millis,
    pub last: Millis,
    pub count: u64,
}

/// The next slots strictly after `after`, at most `limit`; fewer when the schedule ends.
pub fn next_fires(schedule: &Schedule, zone: &TimeZone, after: Millis, limit: usize) -> Vec<Millis> {
    match schedule {
        Schedule::Recurring(cron) => {
            let following = |slot: &Millis| slots::next_slot(cron, zone, *slot);
            std::iter::successors(following(&after), following).take(limit).collect()
        }
        Schedule::Once(at) => (*at > after).then_some(*at).into_iter().take(limit).collect(),
    }
}

/// The slots after `after` up to and with `until`, counted by days: a year of minutes costs hundreds of steps, not
/// half a million.
pub fn slots_between(
    schedule: &Schedule,
    zone: &TimeZone,
    after: Millis,
    until: Millis,
) -> Option<SlotRange> {
    match schedule {
        Schedule::Recurring(cron) => {
            let first = slots::next_slot(cron, zone, after).filter(|slot| *slot <= until)?;
            let last = slots::newest_slot(cron, zone, until).filter(|slot| *slot >= first)?;
            let count = if first == last { 1 } else { slots::count_slots(cron, zone, after, until) };
            Some(SlotRange { first, last, count })
        }
        Schedule::Once(at) => {
            (*at > after && *at <= until).then_some(SlotRange { first: *at, last: *at, count: 1 })
        }
    }
}
