//! What each due slot becomes. Every slot of a job ends in exactly one record, whatever the clock or the server did.

use super::{Schedule, SlotRange, slots_between};
use cortex_types::{CatchUp, Millis, SlotOutcome, SlotRecord};
use jiff::tz::TimeZone;
use std::time::Duration;

/// A slot seen this late is still on time: ticks are not exact, and a restart takes a moment.
const ON_TIME: Duration = Duration::from_secs(60);

/// What to do with a slot whose job still runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overlap {
    /// Skip it, with a record.
    Skip,
    /// Run beside it.
    Allow,
}

/// A job as the decision needs it.
#[derive(Debug, Clone)]
pub struct JobView<'a> {
    pub id: &'a str,
    pub schedule: &'a Schedule,
    pub zone: &'a TimeZone,
    pub catch_up: CatchUp,
    pub overlap: Overlap,
    pub is_paused: bool,
    pub is_running: bool,
    /// Every slot up to here has its record. A job starts with its creation; a changed schedule or zone with the
    /// change. Decide once more before pausing or resuming, so that slots are judged by the state they passed in.
    pub decided_until: Millis,
}

/// A run that is due now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueRun {
    pub slot: Millis,
    /// The external id of its event: one event a slot, however often it is tried.
    pub event_id: String,
    /// How many slots before it were missed since the last decision.
    pub missed: u64,
}

/// What a look at the clock decides. Records, event and the new `decided_until` belong in one transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tick {
    /// In order of time.
    pub records: Vec<SlotRecord>,
    pub run: Option<DueRun>,
    pub decided_until: Millis,
}

/// Decides every slot after `decided_until` up to `now`. A clock that went back finds nothing to decide.
pub fn decide_slots(job: &JobView<'_>, now: Millis) -> Tick {
    let Some(due) = slots_between(job.schedule, job.zone, job.decided_until, now) else {
        return Tick { records: Vec::new(), run: None, decided_until: job.decided_until };
    };
    let missed = due.count - 1;
    let ending = ending(job, missed, now.since(due.last) > ON_TIME);
    let run = match ending {
        SlotOutcome::Fired | SlotOutcome::CaughtUp => {
            Some(DueRun { slot: due.last, event_id: slot_event_id(job.id, due.last), missed })
        }
        SlotOutcome::Skipped | SlotOutcome::Missed => None,
    };
    Tick { records: records(job, due, ending), run, decided_until: due.last }
}

/// `schedule:<jobId>:<epoch ms of the slot>`.
pub fn slot_event_id(job_id: &str, slot: Millis) -> String {
    format!("schedule:{job_id}:{}", slot.0)
}

/// How the newest due slot ends.
fn ending(job: &JobView<'_>, missed: u64, is_late: bool) -> SlotOutcome {
    if job.is_paused {
        return SlotOutcome::Skipped;
    }
    match job.catch_up {
        CatchUp::Skip if is_late => SlotOutcome::Missed,
        CatchUp::Once | CatchUp::Skip if job.is_running && job.overlap == Overlap::Skip => {
            SlotOutcome::Skipped
        }
        CatchUp::Once if is_late || missed > 0 => SlotOutcome::CaughtUp,
        CatchUp::Once | CatchUp::Skip => SlotOutcome::Fired,
    }
}

/// One record for the newest slot and one for those before it, or one for all when they end alike.
fn records(job: &JobView<'_>, due: SlotRange, ending: SlotOutcome) -> Vec<SlotRecord> {
    let newest = SlotRecord { outcome: ending, from: due.last, to: due.last, count: 1 };
    let before = Millis(due.last.0 - 1);
    let Some(rest) = slots_between(job.schedule, job.zone, job.decided_until, before) else {
        return vec![newest];
    };
    let outcome = if job.is_paused { SlotOutcome::Skipped } else { SlotOutcome::Missed };
    let earlier = SlotRecord { outcome, from: rest.first, to: rest.last, count: rest.count };
    if outcome == ending {
        vec![SlotRecord { to: due.last, count: rest.count + 1, ..earlier }]
    } else {
        vec![earlier, newest]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;

    const START: &str = "2026-06-01T00:00:00Z";

    fn at(text: &str) -> Millis {
        Millis(text.parse::<Timestamp>().unwrap().as_millisecond())
    }

    fn job<'a>(schedule: &'a Schedule, zone: &'a TimeZone) -> JobView<'a> {
        JobView {
            id: "job_1",
            schedule,
            zone,
            catch_up: CatchUp::Once,
            overlap: Overlap::Skip,
            is_paused: false,
            is_running: false,
            decided_until: at(START),
        }
    }

    fn hourly(change: impl FnOnce(&mut JobView<'_>), now: &str) -> Tick {
        let schedule = Schedule::Recurring("0 * * * *".parse().unwrap());
        let zone = TimeZone::UTC;
        let mut job = job(&schedule, &zone);
        change(&mut job);
        decide_slots(&job, at(now))
    }

    fn shown(tick: &Tick) -> String {
        let time = |at: Millis| at.to_rfc3339()[11..16].to_owned();
        let record = |record: &SlotRecord| {
            format!("{:?} {}-{} x{}", record.outcome, time(record.from), time(record.to), record.count)
        };
        let mut lines: Vec<String> = tick.records.iter().map(record).collect();
        lines.extend(tick.run.iter().map(|run| format!("run {} missed {}", time(run.slot), run.missed)));
        lines.join("; ")
    }

    fn check(change: impl FnOnce(&mut JobView<'_>), now: &str, expected: &str) {
        assert_eq!(shown(&hourly(change, &format!("2026-06-01T{now}Z"))), expected);
    }

    #[test]
    fn one_slot_has_one_ending() {
        check(|_| {}, "00:59:59", "");
        check(|_| {}, "01:00:00", "Fired 01:00-01:00 x1; run 01:00 missed 0");
        check(|_| {}, "01:01:00", "Fired 01:00-01:00 x1; run 01:00 missed 0");
        check(|_| {}, "01:01:01", "CaughtUp 01:00-01:00 x1; run 01:00 missed 0");
        check(|job| job.catch_up = CatchUp::Skip, "01:00:59", "Fired 01:00-01:00 x1; run 01:00 missed 0");
        check(|job| job.catch_up = CatchUp::Skip, "01:05:00", "Missed 01:00-01:00 x1");
        check(|job| job.is_running = true, "01:00:00", "Skipped 01:00-01:00 x1");
        check(|job| job.is_paused = true, "01:00:00", "Skipped 01:00-01:00 x1");
        check(
            |job| {
                job.is_running = true;
                job.overlap = Overlap::Allow;
            },
            "01:00:00",
            "Fired 01:00-01:00 x1; run 01:00 missed 0",
        );
    }

    #[test]
    fn after_downtime_one_run_stands_for_all() {
        check(|_| {}, "03:10:00", "Missed 01:00-02:00 x2; CaughtUp 03:00-03:00 x1; run 03:00 missed 2");
        check(|_| {}, "03:00:00", "Missed 01:00-02:00 x2; CaughtUp 03:00-03:00 x1; run 03:00 missed 2");
        check(|job| job.catch_up = CatchUp::Skip, "03:10:00", "Missed 01:00-03:00 x3");
        check(
            |job| job.catch_up = CatchUp::Skip,
            "03:00:10",
            "Missed 01:00-02:00 x2; Fired 03:00-03:00 x1; run 03:00 missed 2",
        );
        check(|job| job.is_paused = true, "03:10:00", "Skipped 01:00-03:00 x3");
        check(|job| job.is_running = true, "03:10:00", "Missed 01:00-02:00 x2; Skipped 03:00-03:00 x1");
    }

    #[test]
    fn a_clock_that_goes_back_decides_nothing_again() {
        let tick = hourly(|job| job.decided_until = at("2026-06-01T05:00:00Z"), "2026-06-01T03:00:00Z");
        assert_eq!((shown(&tick).as_str(), tick.decided_until), ("", at("2026-06-01T05:00:00Z")));
    }

    #[test]
    fn a_clock_that_jumps_thirty_days_catches_up_once() {
        let tick = hourly(|_| {}, "2026-07-01T00:00:00Z");
        assert_eq!(tick.records.iter().map(|record| record.count).sum::<u64>(), 30 * 24);
        assert_eq!(tick.run.unwrap().missed, 30 * 24 - 1);
        assert_eq!(tick.records.len(), 2);
    }

    #[test]
    fn a_year_of_missed_minutes_is_two_records() {
        let schedule = Schedule::Recurring("* * * * *".parse().unwrap());
        let zone = TimeZone::get("Europe/Berlin").unwrap();
        let tick = decide_slots(&job(&schedule, &zone), at("2027-06-01T00:00:00Z"));
        let counts: Vec<u64> = tick.records.iter().map(|record| record.count).collect();
        assert_eq!(counts, [365 * 24 * 60 - 1, 1]);
    }

    #[test]
    fn the_event_of_a_slot_is_named_after_job_and_moment() {
        let tick = hourly(|_| {}, "2026-06-01T01:00:00Z");
        assert_eq!(tick.run.unwrap().event_id, "schedule:job_1:1780275600000");
    }

    #[test]
    fn a_single_run_is_decided_once() {
        let schedule = Schedule::Once(at("2026-06-01T01:30:00Z"));
        let due = |decided_until: Millis, now: &str| {
            let zone = TimeZone::UTC;
            let job = JobView { decided_until, ..job(&schedule, &zone) };
            decide_slots(&job, at(&format!("2026-06-01T{now}Z")))
        };
        assert_eq!(shown(&due(at(START), "01:29:59")), "");
        let first = due(at(START), "01:30:01");
        assert_eq!(shown(&first), "Fired 01:30-01:30 x1; run 01:30 missed 0");
        assert_eq!(shown(&due(first.decided_until, "09:00:00")), "");
        assert_eq!(shown(&due(at(START), "09:00:00")), "CaughtUp 01:30-01:30 x1; run 01:30 missed 0");
    }
}
