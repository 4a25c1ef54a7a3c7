//! Schedules over a real store, on a clock that the test turns in both directions.

use cortex_bus::Bus;
use cortex_runtime::{Runtime, RuntimeConfig};
use cortex_store::{Claimed, NewJob, PageRequest, ScheduledJob, Timing, TurnEnd};
use cortex_testkit::{TempStore, topic};
use cortex_tools::Registry;
use cortex_types::{CatchUp, Event, ManualClock, Millis, SlotOutcome, SlotRecord};
use futures::future::try_join_all;
use std::sync::Arc;

mod change;
mod decide;
mod turn;
mod year;

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

fn at(text: &str) -> Millis {
    Millis(text.parse::<jiff::Timestamp>().unwrap().as_millisecond())
}

/// A runtime without its pump: the test looks at the schedules and ends what they start.
struct Keeper {
    store: TempStore,
    runtime: Runtime,
    clock: Arc<ManualClock>,
}

impl Keeper {
    fn starting_at(now: Millis) -> Self {
        let (store, clock) = (TempStore::create(), Arc::new(ManualClock::starting_at(now)));
        Self { runtime: runtime(&store, &clock), store, clock }
    }

    fn now(&self) -> Millis {
        cortex_types::Clock::now(&*self.clock)
    }

    fn set_clock(&self, now: Millis) {
        self.clock.advance_ms(now.0 - self.now().0);
    }

    /// Looks at the schedules at that moment.
    async fn look_at(&self, now: Millis) {
        self.set_clock(now);
        self.runtime.fire_due().await.unwrap();
    }

    /// A kill, and a start on what was committed.
    async fn crash(&mut self) {
        self.store.crash();
        self.runtime = runtime(&self.store, &self.clock);
        self.runtime.recover().await.unwrap();
    }

    async fn add(&self, timing: Timing, timezone: &str, catch_up: CatchUp) -> i64 {
        let mut job = NewJob {
            description: "stretch".to_owned(),
            action: "stretch".to_owned(),
            timing,
            timezone: timezone.to_owned(),
            catch_up,
            target: topic("telegram", "chat"),
            created_by: "ada".to_owned(),
            next_run_at: None,
        };
        // Due at once: the first look finds the first fire by itself.
        job.next_run_at = Some(self.now());
        self.store.schedules().add(job, self.now()).await.unwrap()
    }

    /// A job for every hour in UTC.
    async fn hourly(&self) -> i64 {
        self.add(Timing::Cron("0 * * * *".to_owned()), "UTC", CatchUp::Once).await
    }

    async fn job(&self, id: i64) -> ScheduledJob {
        self.store.schedules().find(id).await.unwrap().unwrap()
    }

    /// As the owner does it, by the tool of that name.
    async fn change(&self, tool: &str, arguments: &serde_json::Value) -> Result<String, String> {
        let desk = self.runtime.schedules();
        let done =
            desk.run_tool(tool, &arguments.to_string(), topic("telegram", "chat"), "ada".to_owned()).await;
        done.map(|(text, _)| text).map_err(|error| error.to_string())
    }

    /// The records of a job, oldest first.
    async fn records(&self, job: i64) -> Vec<SlotRecord> {
        let mut records = self.store.schedules().records(job, u32::MAX).await.unwrap();
        records.reverse();
        records
    }

    /// The records as `outcome first-last xcount`, in hours and minutes.
    async fn shown(&self, job: i64) -> String {
        let time = |at: Millis| at.to_rfc3339()[11..16].to_owned();
        let lines = self.records(job).await.into_iter().map(|record| {
            let SlotRecord { outcome, from, to, count } = record;
            match count {
                1 => format!("{outcome} {}", time(from)),
                _ => format!("{outcome} {}-{} x{count}", time(from), time(to)),
            }
        });
        lines.collect::<Vec<_>>().join("; ")
    }

    /// All events, newest first.
    async fn events(&self) -> Vec<Event> {
        let (mut events, mut before) = (Vec::new(), None);
        loop {
            let page = self.store.inbox().list(None, PageRequest { before, limit: u32::MAX }).await.unwrap();
            events.extend(page.rows);
            before = page.next_before;
            if before.is_none() {
                return events;
            }
        }
    }

    async fn texts(&self) -> Vec<String> {
        let mut texts: Vec<String> = self.events().await.into_iter().map(|event| event.text).collect();
        texts.reverse();
        texts
    }

    /// Ends every turn that is due.
    async fn answer_all(&self) {
        let mut claimed = self.claim().await;
        while !claimed.is_empty() {
            let turns = self.store.turns();
            let ends = claimed.iter().map(|claim| {
                let end = TurnEnd::Handled { replies: Vec::new() };
                turns.finish_turn(&claim.event, end, Vec::new(), self.now())
            });
            // The writer does them in this order; asked for together, they cost one wait for its thread.
            let (ended, next) = tokio::join!(try_join_all(ends), self.claim());
            ended.unwrap();
            claimed = next;
        }
    }

    async fn claim(&self) -> Vec<Claimed> {
        self.store.inbox().claim_next(100, self.now()).await.unwrap().whole
    }
}

fn runtime(store: &TempStore, clock: &Arc<ManualClock>) -> Runtime {
    let config = RuntimeConfig::for_workspace(store.path().with_file_name("workspace"));
    let clock = Arc::clone(clock);
    Runtime::new(config, (*store).clone(), Bus::default(), clock, Registry::builder()).unwrap()
}

fn is_run(outcome: SlotOutcome) -> bool {
    match outcome {
        SlotOutcome::Fired | SlotOutcome::CaughtUp => true,
        SlotOutcome::Skipped | SlotOutcome::Missed => false,
    }
}
