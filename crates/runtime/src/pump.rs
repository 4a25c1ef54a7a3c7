//! The pump: claims what is ready, runs turns side by side up to the limit, and stops without losing one.

use crate::effect::end_turn::end_turn;
use crate::runtime::Parts;
use crate::timer::wait_for;
use crate::turn::{after_panic, run_turn};
use crate::watchdog;
use cortex_bus::LiveNews;
use cortex_models::Models;
use cortex_store::{Places, StoreError};
use cortex_types::{Event, InboxStatus, Millis};
use metrics::gauge;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How long the pump waits after the store refused a claim.
const AFTER_REFUSAL: Duration = Duration::from_millis(500);
/// Longest sleep while an event backs off; a bell rings earlier for new ones.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);

/// Runs turns until it is told to stop.
pub struct Pump {
    parts: Arc<Parts>,
    models: Arc<Models>,
    turns: JoinSet<()>,
    /// The event of each running turn, for the one that panics.
    running: HashMap<Id, Event>,
    /// Tells turns that the time to finish is over.
    park: CancellationToken,
    /// When the watchdog looks again.
    look_at: Instant,
}

/// Why the pump looks again.
enum Wake {
    Arrived,
    Ended(Result<(Id, ()), JoinError>),
    Due,
    Stop,
}

impl Pump {
    pub(crate) fn new(parts: Arc<Parts>, models: Arc<Models>) -> Self {
        let park = CancellationToken::new();
        let look_at = Instant::now() + watchdog::LOOK_EVERY;
        Self { parts, models, turns: JoinSet::new(), running: HashMap::new(), park, look_at }
    }

    /// Claims and runs until `stop`, then lets running turns finish within the drain time and parks the rest.
    pub async fn run(mut self, stop: CancellationToken) {
        loop {
            // In every round: under load nothing is ever due by time alone.
            self.look_for_stranded().await;
            let sleep = self.claim().await;
            match self.wait(sleep, &stop).await {
                Wake::Arrived | Wake::Due => {}
                Wake::Ended(ended) => {
                    self.settle(ended).await;
                    while let Some(ended) = self.turns.try_join_next_with_id() {
                        self.settle(ended).await;
                    }
                }
                Wake::Stop => break,
            }
        }
        self.drain().await;
    }

    async fn wait(&mut self, sleep: Duration, stop: &CancellationToken) -> Wake {
        let (parts, look_at) = (Arc::clone(&self.parts), self.look_at);
        tokio::select! {
            biased;
            () = stop.cancelled() => Wake::Stop,
            Some(ended) = self.turns.join_next_with_id() => Wake::Ended(ended),
            () = parts.arrived.notified() => Wake::Arrived,
            () = tokio::time::sleep_until(look_at) => Wake::Due,
            () = wait_for(&*parts.clock, sleep) => Wake::Due,
        }
    }

    /// Fills the free places and says how long nothing can become ready by time alone.
    async fn claim(&mut self) -> Duration {
        let free = (self.parts.config.max_parallel_topics as usize).saturating_sub(self.turns.len());
        gauge!("cortex_turns_running").set(self.turns.len() as f64);
        if free == 0 || !self.parts.channels.borrow().enabled {
            return LONGEST_SLEEP;
        }
        match self.claim_up_to(free).await {
            Ok(sleep) => sleep,
            // Nothing is claimed from a damaged database; whoever stops the server ends this sleep.
            Err(error) if !error.is_news() => LONGEST_SLEEP,
            Err(error) => {
                tracing::warn!(%error, "No event can be claimed now; trying again");
                AFTER_REFUSAL
            }
        }
    }

    async fn claim_up_to(&mut self, free: usize) -> Result<Duration, StoreError> {
        let free_places = u32::try_from(free).unwrap_or(u32::MAX);
        let places = Places::of(self.parts.config.max_parallel_topics, free_places);
        let claims = self.parts.store.inbox().claim_next(places, self.parts.clock.now()).await?;
        // Whoever waits for one that had to be given up hears it as he hears the end of any turn.
        for event in claims.damaged {
            self.parts.bus.publish(LiveNews::Ended { event, status: InboxStatus::Failed });
        }
        let all_taken = claims.whole.len() < free;
        for claim in claims.whole {
            let (parts, models, park) =
                (Arc::clone(&self.parts), Arc::clone(&self.models), self.park.clone());
            let event = claim.event.clone();
            let task = self.turns.spawn(async move { run_turn(&parts, &models, claim, &park).await });
            self.running.insert(task.id(), event);
        }
        if !all_taken {
            return Ok(LONGEST_SLEEP);
        }
        let due = self.parts.store.inbox().next_due().await?;
        Ok(due.map_or(LONGEST_SLEEP, |due: Millis| due.since(self.parts.clock.now()).min(LONGEST_SLEEP)))
    }

    /// Between two claims the pump knows every event that this process works on; all others that are in flight are lost.
    async fn look_for_stranded(&mut self) {
        if Instant::now() < self.look_at {
            return;
        }
        watchdog::look(&self.parts, self.running.values().map(|event| event.seq).collect()).await;
        self.look_at = Instant::now() + watchdog::LOOK_EVERY;
    }

    async fn settle(&mut self, ended: Result<(Id, ()), JoinError>) {
        match ended {
            Ok((id, ())) => {
                self.running.remove(&id);
            }
            Err(error) => {
                let event = self.running.remove(&error.id());
                let (Some(event), Ok(panic)) = (event, error.try_into_panic()) else { return };
                let text = panic
                    .downcast_ref::<String>()
                    .map(String::as_str)
                    .or_else(|| panic.downcast_ref::<&str>().copied())
                    .unwrap_or("no reason given");
                let end = after_panic(&self.parts, &event, text);
                end_turn(&self.parts, &event, end, Vec::new(), &self.park).await;
            }
        }
    }

    async fn drain(mut self) {
        let patience = self.parts.config.drain;
        let finished = tokio::time::timeout(patience, self.settle_all()).await;
        if finished.is_err() {
            tracing::warn!(turns = self.turns.len(), "Turns that did not finish in time are parked");
            self.park.cancel();
            self.settle_all().await;
        }
    }

    async fn settle_all(&mut self) {
        while let Some(ended) = self.turns.join_next_with_id().await {
            self.settle(ended).await;
        }
    }
}
