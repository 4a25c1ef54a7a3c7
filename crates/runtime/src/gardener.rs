//! The gardener: what has to be done in its own time, each task at its interval, one run of it at a time.

mod compactor;
mod evictor;
mod extractor;
mod harvester;
mod keep;
mod pace;
mod think;

use crate::runtime::Parts;
use crate::timer::wait_until;
use cortex_models::Models;
use cortex_store::{GardenerRun, StoreError};
use cortex_types::limits::ERROR_CHARS_MAX;
use cortex_types::{GardenerTask, Millis, TopicRef};
use metrics::counter;
use pace::{Look, Pace};
use std::sync::Arc;
use std::time::Duration;
use think::DAY_MS;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

/// Longest sleep; a bell rings earlier when enough was said.
const LONGEST_SLEEP: Duration = Duration::from_secs(60 * 60);

/// Does the chores of one home. Clones share it.
#[derive(Clone)]
pub struct Gardener(Arc<Garden>);

struct Garden {
    parts: Arc<Parts>,
    models: Arc<Models>,
    /// Held while a task runs, in the order of `GardenerTask::ALL`.
    running: [Mutex<()>; GardenerTask::ALL.len()],
    stop: CancellationToken,
}

/// What thinks for the gardener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GardenerMind {
    Model,
    /// No model is configured: fixed rules do what they can.
    Rules,
}

/// How the gardener is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GardenerStatus {
    pub mind: GardenerMind,
    pub tasks: Vec<GardenerTaskStatus>,
    pub tokens_today: u64,
    /// `None` is no limit.
    pub tokens_per_day: Option<u64>,
}

/// One task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GardenerTaskStatus {
    pub task: GardenerTask,
    pub last: Option<GardenerRun>,
    pub next_run_at: Millis,
    pub is_running: bool,
}

/// How a run that was asked for went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GardenerAnswer {
    Done { report: String },
    Failed { reason: String },
    AlreadyRunning,
}

/// What a run is for.
#[derive(Clone, Copy)]
enum Occasion {
    Schedule,
    /// Beside the schedule, which stays as it is (D22).
    EnoughWasSaid,
}

/// Why a task did not come to its end. What it had done stays.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GardenerError {
    #[error("{0}")]
    Model(String),
    #[error("the daily token cap of {0} is reached")]
    CapReached(u64),
    #[error("the server stops")]
    Stopped,
    #[error(transparent)]
    Memory(#[from] crate::memory::MemoryError),
    #[error(transparent)]
    Engram(#[from] crate::engram::EngramError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Gardener {
    pub(crate) fn new(parts: Arc<Parts>, models: Arc<Models>) -> Self {
        let garden = Garden { parts, models, running: Default::default(), stop: CancellationToken::new() };
        Self(Arc::new(garden))
    }

    /// Runs what is due until `stop`; call it once.
    pub async fn run(&self, stop: CancellationToken) {
        // A model that thinks when the server stops is not waited for.
        let interrupt = async {
            stop.cancelled().await;
            self.0.stop.cancel();
        };
        futures::join!(interrupt, self.keep_going(&stop));
    }

    async fn keep_going(&self, stop: &CancellationToken) {
        if let Err(error) = self.0.parts.store.gardener().begin(self.0.parts.clock.now()).await {
            tracing::warn!(%error, "The gardener cannot begin its diary now");
        }
        let mut answered = self.0.parts.answered.subscribe();
        let mut pace = Pace::new();
        let clock = &*self.0.parts.clock;
        let mut due = clock.now().after(self.run_due().await);
        while !stop.is_cancelled() {
            let count = *answered.borrow_and_update();
            if pace.is_due(count, clock.now()) {
                let look = self.extract_when_enough_was_said().await;
                pace.looked(&look, count, clock.now());
            }
            let wake = pace.wakes_at(count).map_or(due, |at| at.min(due));
            tokio::select! {
                () = stop.cancelled() => return,
                // Its sender lives as long as the runtime.
                changed = answered.changed() => if changed.is_err() { return },
                () = wait_until(clock, wake) => {}
            }
            if clock.now() >= due {
                due = clock.now().after(self.run_due().await);
            }
        }
    }

    /// Runs a task now, whenever it is due; the next run is due an interval from now.
    pub async fn run_task(&self, task: GardenerTask) -> Result<GardenerAnswer, StoreError> {
        self.run_once(task, Occasion::Schedule).await
    }

    /// Lets a summary stand for the older turns of a conversation now.
    pub async fn compact_topic(&self, topic: &TopicRef) -> GardenerAnswer {
        match self.0.compact_topic(topic).await {
            Ok(report) => GardenerAnswer::Done { report },
            Err(error) => GardenerAnswer::Failed { reason: error.to_string() },
        }
    }

    async fn run_once(&self, task: GardenerTask, occasion: Occasion) -> Result<GardenerAnswer, StoreError> {
        let Some(place) = self.place(task) else { return Ok(GardenerAnswer::AlreadyRunning) };
        let Ok(_running) = place.try_lock() else { return Ok(GardenerAnswer::AlreadyRunning) };
        let done = self.perform(task).await;
        let now = self.0.parts.clock.now();
        let (word, report) = match &done {
            Ok(report) => ("done", report.clone()),
            Err(error) => ("failed", format!("failed: {error}")),
        };
        counter!("cortex_gardener_runs_total", "task" => task.as_str(), "outcome" => word).increment(1);
        let report: String = report.chars().take(ERROR_CHARS_MAX).collect();
        let diary = self.0.parts.store.gardener();
        match occasion {
            Occasion::Schedule => diary.record_run(task, report.clone(), now).await?,
            Occasion::EnoughWasSaid => diary.record_extra_run(task, report.clone(), now).await?,
        }
        match done {
            Ok(_) => {
                tracing::info!(%task, report, "A task of the gardener is done");
                Ok(GardenerAnswer::Done { report })
            }
            Err(error) => {
                tracing::warn!(%task, %error, "A task of the gardener came to nothing");
                Ok(GardenerAnswer::Failed { reason: error.to_string() })
            }
        }
    }

    pub async fn status(&self) -> Result<GardenerStatus, StoreError> {
        let now = self.0.parts.clock.now();
        let mut runs = self.0.parts.store.gardener().runs().await?;
        let tasks = GardenerTask::ALL.iter().map(|task| {
            let last = runs.iter().position(|run| run.task == *task).map(|place| runs.swap_remove(place));
            GardenerTaskStatus {
                task: *task,
                next_run_at: last.as_ref().map_or(now, due_at),
                last: last.filter(|run| run.runs > 0),
                is_running: self.place(*task).is_some_and(|place| place.try_lock().is_err()),
            }
        });
        Ok(GardenerStatus {
            tasks: tasks.collect(),
            mind: self.0.mind(),
            tokens_today: self.0.parts.store.gardener().tokens_since(day_start(now)).await?,
            tokens_per_day: self.0.parts.config.gardener_tokens_per_day,
        })
    }

    fn place(&self, task: GardenerTask) -> Option<&Mutex<()>> {
        let place = GardenerTask::ALL.iter().position(|other| *other == task)?;
        self.0.running.get(place)
    }

    /// Runs every task that is due and says how long none will be.
    async fn run_due(&self) -> Duration {
        let now = self.0.parts.clock.now();
        let runs = match self.0.parts.store.gardener().runs().await {
            Ok(runs) => runs,
            Err(error) => {
                tracing::warn!(%error, "The gardener cannot read its diary now");
                return LONGEST_SLEEP;
            }
        };
        let mut sleep = LONGEST_SLEEP;
        for task in GardenerTask::ALL {
            let last = runs.iter().find(|run| run.task == *task);
            match last.map(due_at).filter(|due| *due > now) {
                Some(due) => sleep = sleep.min(due.since(now)),
                None => {
                    if let Err(error) = self.run_task(*task).await {
                        tracing::warn!(%task, %error, "A run of the gardener cannot be written down");
                    }
                    sleep = sleep.min(task.interval());
                }
            }
        }
        sleep
    }

    /// Every `extractionInterval` messages, beside the six-hourly run; both move one cursor (D22).
    async fn extract_when_enough_was_said(&self) -> Look {
        let config = &self.0.parts.config;
        let enough = if config.memory_enabled { config.extraction_interval } else { 0 };
        if enough == 0 {
            return Look::TooLittle(u64::MAX);
        }
        let waiting = match self.0.parts.store.gardener().waiting(enough).await {
            Ok(waiting) => waiting,
            Err(error) => {
                tracing::warn!(%error, "What was said cannot be counted now");
                return Look::Failed;
            }
        };
        if waiting < enough {
            return Look::TooLittle(u64::from(enough - waiting));
        }
        match self.run_once(GardenerTask::Extractor, Occasion::EnoughWasSaid).await {
            Ok(GardenerAnswer::Done { .. }) => Look::Extracted,
            Ok(GardenerAnswer::AlreadyRunning) => Look::TooLittle(1),
            Ok(GardenerAnswer::Failed { .. }) => Look::Failed,
            Err(error) => {
                tracing::warn!(%error, "A run of the gardener cannot be written down");
                Look::Failed
            }
        }
    }

    async fn perform(&self, task: GardenerTask) -> Result<String, GardenerError> {
        // Without memory nothing is learned; what was said waits for the day it is switched on.
        let learns = matches!(task, GardenerTask::Extractor | GardenerTask::Harvester);
        if learns && !self.0.parts.config.memory_enabled {
            return Ok("nothing: memory is off".to_owned());
        }
        match task {
            GardenerTask::Compactor => self.0.compact().await,
            GardenerTask::Extractor => self.0.extract().await,
            GardenerTask::Evictor => self.0.evict().await,
            GardenerTask::Harvester => self.0.harvest().await,
        }
    }
}

fn due_at(last: &GardenerRun) -> Millis {
    last.counted_from.after(last.task.interval())
}

fn long_before(now: Millis, age: Duration) -> Millis {
    Millis(now.0.saturating_sub(i64::try_from(age.as_millis()).unwrap_or(i64::MAX)))
}

fn day_start(now: Millis) -> Millis {
    Millis(now.0 - now.0.rem_euclid(DAY_MS))
}
