//! 366 days in each of three zones through the store and the runtime's own look at the clock, with kills, downtime and a clock
//! that jumps: every slot ends in exactly one record, and no run comes twice.

use super::{DAY, HOUR, Keeper, MINUTE, at, is_run};
use cortex_brain::{Schedule, slot_event_id, slots_between};
use cortex_store::Timing;
use cortex_types::{CatchUp, Millis, SlotOutcome};
use jiff::tz::TimeZone;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

/// Every hour; daily times that a clock change jumps over or brings twice; weekdays; the first Monday of a month.
const CRONS: [&str; 7] =
    ["0 * * * *", "30 2 * * *", "15 2 * * *", "30 1 * * *", "45 1 * * *", "0 9 * * 1-5", "0 8 * * 1#1"];
const YEAR_STARTS: &str = "2026-01-01T00:00:00Z";
const DAYS: i64 = 366;

struct Job {
    id: i64,
    schedule: Schedule,
    zone: TimeZone,
    is_paused: bool,
}

/// What can happen next in a year.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Incident {
    /// The process is killed and stays away for a while.
    Kill,
    /// The clock is set ahead.
    Leap,
    SetBack,
    PauseOrResume,
    /// Time goes on to the next fire.
    Tick,
}

struct Year {
    keeper: Keeper,
    jobs: Vec<Job>,
    random: StdRng,
    happened: BTreeMap<Incident, u32>,
}

impl Year {
    async fn begin(zone_name: &str, seed: u64) -> Self {
        let keeper = Keeper::starting_at(at(YEAR_STARTS));
        let mut jobs = Vec::new();
        let crons = CRONS.iter().map(|cron| Timing::Cron((*cron).to_owned()));
        let once = Timing::Once(Millis(at(YEAR_STARTS).0 + 100 * DAY + 17 * MINUTE));
        for (number, timing) in crons.chain([once]).enumerate() {
            let schedule = match &timing {
                Timing::Cron(cron) => Schedule::Recurring(cron.parse().unwrap()),
                Timing::Once(moment) => Schedule::Once(*moment),
            };
            let catch_up = if number % 3 == 2 { CatchUp::Skip } else { CatchUp::Once };
            let id = keeper.add(timing, zone_name, catch_up).await;
            jobs.push(Job { id, schedule, zone: TimeZone::get(zone_name).unwrap(), is_paused: false });
        }
        Self { keeper, jobs, random: StdRng::seed_from_u64(seed), happened: BTreeMap::new() }
    }

    fn ends(&self) -> Millis {
        Millis(at(YEAR_STARTS).0 + DAYS * DAY)
    }

    /// Moves the clock, never out of the year.
    fn move_clock(&mut self, by_ms: i64) {
        let moved = Millis(self.keeper.now().0 + by_ms);
        self.keeper.set_clock(moved.clamp(at(YEAR_STARTS), self.ends()));
    }

    async fn go_on(&mut self) {
        let what = match self.random.random_range(0..1_000) {
            0..15 => Incident::Kill,
            15..20 => Incident::Leap,
            20..30 => Incident::SetBack,
            30..36 => Incident::PauseOrResume,
            _ => Incident::Tick,
        };
        *self.happened.entry(what).or_default() += 1;
        match what {
            Incident::Kill => {
                let down = if self.random.random_bool(0.1) { 3 * DAY } else { 10 * MINUTE };
                let down = self.random.random_range(0..down);
                self.keeper.crash().await;
                self.move_clock(down);
            }
            Incident::Leap => {
                let by = self.random.random_range(0..2 * DAY);
                self.move_clock(by);
            }
            Incident::SetBack => {
                let by = self.random.random_range(0..3 * HOUR);
                self.move_clock(-by);
            }
            Incident::PauseOrResume => {
                let paused = self.jobs.iter().position(|job| job.is_paused);
                let any = self.random.random_range(0..self.jobs.len());
                self.turn_over(paused.unwrap_or(any)).await;
            }
            Incident::Tick => self.wait_for_the_next_fire().await,
        }
        self.keeper.runtime.fire_due().await.unwrap();
        if self.random.random_bool(0.97) {
            self.keeper.answer_all().await;
        }
    }

    /// A tick comes a little after the moment it is for.
    async fn wait_for_the_next_fire(&mut self) {
        let jobs = self.keeper.store.schedules().list().await.unwrap();
        let next = jobs.iter().filter(|job| job.enabled).filter_map(|job| job.next_run_at).min();
        let wait = next.map_or(HOUR, |next| (next.0 - self.keeper.now().0).max(0));
        let late = self.random.random_range(0..55_000);
        self.move_clock(wait + late);
    }

    async fn turn_over(&mut self, place: usize) {
        let job = &mut self.jobs[place];
        job.is_paused = !job.is_paused;
        let tool = if job.is_paused { "pause" } else { "resume" };
        self.keeper.change(tool, &json!({"id": job.id})).await.unwrap();
    }

    async fn end(&mut self) {
        self.keeper.set_clock(self.ends());
        for place in 0..self.jobs.len() {
            if self.jobs[place].is_paused {
                self.turn_over(place).await;
            }
        }
        self.keeper.runtime.fire_due().await.unwrap();
    }

    /// Compares each job's records with its slots; returns how many slots ended how.
    async fn check(&self) -> BTreeMap<SlotOutcome, u64> {
        let mut ended = BTreeMap::new();
        let mut runs = BTreeSet::new();
        for job in &self.jobs {
            let slots = |after, until| slots_between(&job.schedule, &job.zone, after, until);
            let records = self.keeper.records(job.id).await;
            let expected = slots(at(YEAR_STARTS), self.ends()).unwrap().count;
            let name = format!("job {} {:?} {:?}", job.id, job.schedule, job.zone.iana_name());
            assert_eq!(records.iter().map(|record| record.count).sum::<u64>(), expected, "{name}");
            assert!(records.windows(2).all(|pair| pair[0].to < pair[1].from), "{name}: records overlap");
            for record in &records {
                let range = slots(Millis(record.from.0 - 1), record.to).unwrap();
                assert_eq!((range.first, range.last, range.count), (record.from, record.to, record.count));
                *ended.entry(record.outcome).or_default() += record.count;
                if is_run(record.outcome) {
                    assert_eq!(record.count, 1, "{name}");
                    runs.insert(slot_event_id(&job.id.to_string(), record.to));
                }
            }
        }
        let events = self.keeper.events().await;
        let ids: BTreeSet<String> = events.iter().map(|event| event.external_message_id.clone()).collect();
        assert_eq!((ids.len(), &ids), (events.len(), &runs), "each run has its one event");
        ended
    }
}

#[expect(clippy::print_stdout, reason = "the figures of a year are worth a line")]
async fn simulate(zone: &str, seed: u64) {
    let mut year = Year::begin(zone, seed).await;
    while year.keeper.now() < year.ends() {
        year.go_on().await;
    }
    year.end().await;
    let ended = year.check().await;
    println!("{zone} slots={} {ended:?} {:?}", ended.values().sum::<u64>(), year.happened);
    assert_eq!(ended.len(), 4, "every kind of ending must come, or the year was too quiet");
    assert_eq!(year.happened.len(), 5);
}

#[tokio::test]
async fn a_year_in_berlin_leaves_one_record_for_each_slot() {
    simulate("Europe/Berlin", 1).await;
}

#[tokio::test]
async fn a_year_in_new_york_leaves_one_record_for_each_slot() {
    simulate("America/New_York", 2).await;
}

/// Where the clock changes by half an hour.
#[tokio::test]
async fn a_year_on_lord_howe_leaves_one_record_for_each_slot() {
    simulate("Australia/Lord_Howe", 3).await;
}
