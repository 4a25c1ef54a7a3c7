//! A year of slots in three zones, with restarts and a clock that jumps, against a list made minute by minute.

use super::{Cron, JobView, Overlap, Schedule, decide_slots, next_fires, slots_between};
use cortex_types::{CatchUp, SlotOutcome};
use cortex_types::{Millis, SlotRecord};
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::LazyLock;

const MINUTE: i64 = 60_000;
const YEAR_STARTS: &str = "2026-01-01T00:00:00Z";
const YEAR_MINUTES: i64 = 366 * 24 * 60;
const SCHEDULES: &[&str] = &[
    "*/15 * * * *",
    "7 * * * *",
    "30 2 * * *",
    "0 */2 * * *",
    "10,40 1-3 * * *",
    "*/20 1-3 * * 0",
    "0 9 * * 1-5",
    "0 8 * * 1#1",
    "59 23 L * *",
];

fn at(text: &str) -> Millis {
    Millis(text.parse::<Timestamp>().unwrap().as_millisecond())
}

fn zone(name: &str) -> TimeZone {
    TimeZone::get(name).unwrap()
}

/// A real minute: what the wall clock shows, what it jumped over to get there, and whether it showed that before.
struct Minute {
    at: Millis,
    wall: DateTime,
    jumped_over: Vec<DateTime>,
    is_second: bool,
}

const ZONES: [&str; 3] = ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe"];

/// The year in each zone, made once a test.
static YEARS: LazyLock<BTreeMap<&str, Vec<Minute>>> =
    LazyLock::new(|| ZONES.into_iter().map(|name| (name, minutes_of_the_year(&zone(name)))).collect());

fn minutes_of_the_year(zone: &TimeZone) -> Vec<Minute> {
    let wall_at = |at: i64| zone.to_datetime(Timestamp::from_millisecond(at).unwrap());
    let start = at(YEAR_STARTS).0;
    let (mut before, mut latest) = (wall_at(start), wall_at(start));
    (1..=YEAR_MINUTES)
        .map(|minute| {
            let at = start + minute * MINUTE;
            let wall = wall_at(at);
            let of_day = |wall: DateTime| i32::from(wall.hour()) * 60 + i32::from(wall.minute());
            let jumped_over = if (of_day(wall) - of_day(before)).rem_euclid(24 * 60) == 1 {
                Vec::new()
            } else {
                let next = |wall: &DateTime| wall.checked_add(1.minute()).ok();
                std::iter::successors(next(&before), next).take_while(|skipped| *skipped < wall).collect()
            };
            let is_second = wall <= latest;
            (before, latest) = (wall, latest.max(wall));
            Minute { at: Millis(at), wall, jumped_over, is_second }
        })
        .collect()
}

/// The rule read literally: each real minute asks the wall clock, and each jump asks for the minutes that it skipped.
fn slots_by_minute(cron: &str, zone_name: &str) -> Vec<Millis> {
    let pattern: croner::Cron = cron.parse().unwrap();
    let is_every_hour = pattern.pattern.hours.values().len() == 24;
    let keeps_firing = is_every_hour || cron.starts_with('*');
    // Asking for the minute first makes a year of minutes bearable.
    let minutes_due = pattern.pattern.minutes.values();
    let matches = |wall: &DateTime| {
        minutes_due.contains(&wall.minute().unsigned_abs().into()) && pattern.is_time_matching(wall).unwrap()
    };
    let is_due = |minute: &&Minute| {
        let is_on = matches(&minute.wall) && (keeps_firing || !minute.is_second);
        is_on || (!is_every_hour && minute.jumped_over.iter().any(matches))
    };
    YEARS[zone_name].iter().filter(is_due).map(|minute| minute.at).collect()
}

fn fires_until(schedule: &Schedule, zone: &TimeZone, after: Millis, until: Millis) -> Vec<Millis> {
    let following = |slot: &Millis| next_fires(schedule, zone, *slot, 1).pop().filter(|next| *next <= until);
    std::iter::successors(following(&after), following).collect()
}

fn local_fires(cron: &str, zone_name: &str, after: &str, count: usize) -> Vec<String> {
    let (zone, schedule) = (zone(zone_name), Schedule::Recurring(cron.parse().unwrap()));
    next_fires(&schedule, &zone, at(after), count)
        .into_iter()
        .map(|slot| {
            let slot = Timestamp::from_millisecond(slot.0).unwrap().to_zoned(zone.clone());
            slot.strftime("%d %H:%M%:z").to_string()
        })
        .collect()
}

#[test]
fn a_time_that_the_clock_jumps_over_is_due_right_after_the_jump() {
    let berlin = |cron, count| local_fires(cron, "Europe/Berlin", "2026-03-28T12:00:00Z", count);
    assert_eq!(berlin("30 2 * * *", 2), ["29 03:00+02:00", "30 02:30+02:00"]);
    assert_eq!(berlin("0 2,14 * * *", 3), ["28 14:00+01:00", "29 03:00+02:00", "29 14:00+02:00"]);
    assert_eq!(berlin("*/20 2 * * *", 2), ["29 03:00+02:00", "30 02:00+02:00"]);
    assert_eq!(berlin("0 */2 * * *", 8)[5..], ["29 00:00+01:00", "29 03:00+02:00", "29 04:00+02:00"]);
    assert_eq!(
        local_fires("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00:00Z", 2),
        ["04 02:30+11:00", "05 02:15+11:00"]
    );
}

#[test]
fn a_time_that_comes_twice_is_due_the_first_time() {
    assert_eq!(
        local_fires("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", 2),
        ["25 02:30+02:00", "26 02:30+01:00"]
    );
    assert_eq!(
        local_fires("0,30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", 3),
        ["25 02:00+02:00", "25 02:30+02:00", "26 02:00+01:00"]
    );
    assert_eq!(
        local_fires("45 1 * * *", "Australia/Lord_Howe", "2026-04-04T00:00:00Z", 2),
        ["05 01:45+11:00", "06 01:45+10:30"]
    );
}

#[test]
fn a_schedule_within_the_hour_goes_on_in_real_time() {
    assert_eq!(
        local_fires("*/30 * * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", 3),
        ["29 01:30+01:00", "29 03:00+02:00", "29 03:30+02:00"]
    );
    assert_eq!(
        local_fires("*/30 * * * *", "Europe/Berlin", "2026-10-24T23:30:00Z", 5),
        ["25 02:00+02:00", "25 02:30+02:00", "25 02:00+01:00", "25 02:30+01:00", "25 03:00+01:00"]
    );
    assert_eq!(
        local_fires("*/15 * * * *", "Australia/Lord_Howe", "2026-04-04T14:30:00Z", 5),
        ["05 01:45+11:00", "05 01:30+10:30", "05 01:45+10:30", "05 02:00+10:30", "05 02:15+10:30"]
    );
}

#[test]
fn a_leap_day_waits_for_its_year() {
    assert_eq!(
        next_fires(
            &Schedule::Recurring("0 12 29 2 *".parse().unwrap()),
            &TimeZone::UTC,
            at("2026-01-01T00:00:00Z"),
            2
        ),
        [at("2028-02-29T12:00:00Z"), at("2032-02-29T12:00:00Z")]
    );
}

#[test]
fn a_whole_day_that_a_zone_left_out_is_made_up_for_once() {
    assert_eq!(
        local_fires("0 9 * * *", "Pacific/Apia", "2011-12-29T00:00:00Z", 3),
        ["29 09:00-10:00", "31 00:00+14:00", "31 09:00+14:00"]
    );
}

#[test]
fn a_year_in_three_zones_is_the_same_minute_by_minute() {
    for name in ZONES {
        for cron in SCHEDULES {
            let expected = slots_by_minute(cron, name);
            let schedule = Schedule::Recurring(cron.parse().unwrap());
            let found = next_fires(&schedule, &zone(name), at(YEAR_STARTS), expected.len());
            assert_eq!(found, expected, "{cron} in {name}");
            assert!(found.windows(2).all(|pair| pair[0] < pair[1]), "{cron} in {name}");
        }
    }
}

/// One look at the clock in a simulated year.
#[derive(Debug, Clone, Copy)]
enum Look {
    After { minutes: i64 },
    Restart { down_minutes: i64 },
    ClockJump { minutes: i64 },
    Pause,
    Resume,
    Running,
}

fn looks() -> impl Strategy<Value = Vec<Look>> {
    let look = prop_oneof![
        8 => (1i64..90).prop_map(|minutes| Look::After { minutes }),
        2 => (1i64..5_000).prop_map(|down_minutes| Look::Restart { down_minutes }),
        1 => (-3_000i64..45_000).prop_map(|minutes| Look::ClockJump { minutes }),
        1 => Just(Look::Pause),
        1 => Just(Look::Resume),
        1 => Just(Look::Running),
    ];
    proptest::collection::vec(look, 50..400)
}

fn a_schedule() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(SCHEDULES)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn a_year_of_restarts_and_clock_jumps_gives_each_slot_one_record(
        zone_name in proptest::sample::select(&ZONES[..]),
        cron in a_schedule(),
        catch_up in prop_oneof![Just(CatchUp::Once), Just(CatchUp::Skip)],
        looks in looks(),
    ) {
        let (zone, schedule) = (zone(zone_name), Schedule::Recurring(cron.parse::<Cron>().unwrap()));
        let start = at(YEAR_STARTS);
        let mut job = JobView {
            id: "job", schedule: &schedule, zone: &zone, catch_up, overlap: Overlap::Skip,
            is_paused: false, is_running: false, decided_until: start,
        };
        let (mut now, mut records, mut runs) = (start, Vec::new(), Vec::new());
        let year_ends = Millis(start.0 + YEAR_MINUTES * MINUTE);
        for look in looks.into_iter().chain([Look::Resume]) {
            job.is_running = false;
            match look {
                Look::After { minutes } => now.0 += minutes * MINUTE,
                Look::Restart { down_minutes } => now.0 += down_minutes * MINUTE + 7,
                Look::ClockJump { minutes } => now.0 = (now.0 + minutes * MINUTE).max(start.0),
                Look::Pause => job.is_paused = true,
                Look::Resume => job.is_paused = false,
                Look::Running => job.is_running = true,
            }
            now = now.min(year_ends);
            let tick = decide_slots(&job, now);
            prop_assert!(tick.records.len() <= 2);
            prop_assert_eq!(decide_slots(&JobView { decided_until: tick.decided_until, ..job.clone() }, now).records, []);
            job.decided_until = tick.decided_until;
            runs.extend(tick.run);
            records.extend(tick.records);
        }
        let last = JobView { decided_until: job.decided_until, ..job.clone() };
        records.extend(decide_slots(&last, year_ends).records);

        let expected = slots_by_minute(cron, zone_name);
        prop_assert_eq!(records.iter().map(|record| record.count).sum::<u64>(), expected.len() as u64);
        prop_assert!(records.windows(2).all(|pair| pair[0].to < pair[1].from), "records overlap");
        prop_assert!(runs.windows(2).all(|pair| pair[0].slot < pair[1].slot), "a slot ran twice");
        for record in &records {
            let place = |slot: Millis| expected.binary_search(&slot);
            let (from, to) = (place(record.from).unwrap(), place(record.to).unwrap());
            prop_assert_eq!((to - from) as u64 + 1, record.count);
        }
        for run in &runs {
            let ran = |record: &&SlotRecord| record.from == run.slot && record.count == 1
                && matches!(record.outcome, SlotOutcome::Fired | SlotOutcome::CaughtUp);
            prop_assert_eq!(records.iter().filter(ran).count(), 1);
        }
    }

    #[test]
    fn counting_by_days_is_counting_one_by_one(
        zone_name in proptest::sample::select(&["Europe/Berlin", "Australia/Lord_Howe", "Pacific/Apia"][..]),
        cron in a_schedule(),
        start_minute in 0i64..500_000,
        length in 1i64..60_000,
        seconds in 0i64..60,
    ) {
        let (zone, schedule) = (zone(zone_name), Schedule::Recurring(cron.parse::<Cron>().unwrap()));
        let after = Millis(at("2011-06-01T00:00:00Z").0 + start_minute * MINUTE + seconds * 1_000);
        let until = Millis(after.0 + length * MINUTE);
        let slots = fires_until(&schedule, &zone, after, until);
        let range = slots_between(&schedule, &zone, after, until);
        prop_assert_eq!(range.map_or(0, |range| range.count), slots.len() as u64);
        prop_assert_eq!(range.map(|range| range.first), slots.first().copied());
        prop_assert_eq!(range.map(|range| range.last), slots.last().copied());
    }
}
