//! The flow without its doors: intake, pump and outbox over a temporary store, on a test's own time.

#![expect(clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

use crate::frozen_time::FrozenTime;
use crate::models::TestModels;
use crate::patience::eventually;
use crate::store::TempStore;
use cortex_bus::Bus;
use cortex_models::Models;
use cortex_runtime::{BootReport, Gardener, IncomingEvent, Runtime, RuntimeConfig, TokenKey};
use cortex_store::TracedEvent;
use cortex_tools::{Registry, RegistryBuilder};
use cortex_types::{
    AcceptedEvent, Clock, Event, EventId, InboxStatus, Millis, Priority, Speaker, StepBody, ToolEnding,
};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// How a test wants its runtime.
#[derive(Clone)]
pub struct RuntimeSetup {
    models: TestModels,
    clock: Arc<dyn Clock>,
    flow: Arc<dyn Fn(&mut RuntimeConfig) + Send + Sync>,
    tools: Arc<dyn Fn() -> RegistryBuilder + Send + Sync>,
    gardening: bool,
}

impl RuntimeSetup {
    pub fn new(models: TestModels, time: &FrozenTime) -> Self {
        Self {
            models,
            clock: time.clock(),
            flow: Arc::new(|_| {}),
            tools: Arc::new(Registry::builder),
            gardening: false,
        }
    }

    pub fn scripted(script: serde_json::Value, time: &FrozenTime) -> Self {
        Self::new(TestModels::Script(script), time)
    }

    pub fn flow(mut self, change: impl Fn(&mut RuntimeConfig) + Send + Sync + 'static) -> Self {
        self.flow = Arc::new(change);
        self
    }

    /// The tools beside those that the flow brings.
    pub fn tools(mut self, tools: impl Fn() -> RegistryBuilder + Send + Sync + 'static) -> Self {
        self.tools = Arc::new(tools);
        self
    }

    /// The gardener works by itself; otherwise it does what a test asks it for.
    pub fn gardening(mut self) -> Self {
        self.gardening = true;
        self
    }

    pub async fn start(&self) -> TestRuntime {
        self.start_on(TempStore::create()).await
    }

    /// Recovers what the store has in flight, then runs.
    pub async fn start_on(&self, store: TempStore) -> TestRuntime {
        let folder = store.path().parent().map(Path::to_owned).expect("a database has a folder");
        let mut config = RuntimeConfig::for_workspace(folder.join("workspace"));
        // One that is started again makes the same tokens.
        config.token_key = TokenKey::new(b"of the tests");
        (self.flow)(&mut config);
        let bus = Bus::default();
        let runtime =
            Runtime::new(config, store.clone(), bus.clone(), Arc::clone(&self.clock), (self.tools)());
        let runtime = runtime.expect("no two tools share a name");
        let boot = runtime.recover().await.expect("a store can be recovered");
        let models = Models::assemble(self.models.config(&folder), Arc::clone(&self.clock)).await;
        let models = Arc::new(models.expect("the models can be assembled"));
        let stop = CancellationToken::new();
        let gardener = runtime.gardener(Arc::clone(&models));
        let (pump, keeper) = (runtime.pump(models), runtime.clone());
        let (pump_stop, keeper_stop, garden_stop) = (stop.clone(), stop.clone(), stop.clone());
        let garden = self.gardening.then(|| gardener.clone());
        let garden = async move {
            if let Some(gardener) = garden {
                gardener.run(garden_stop).await;
            }
        };
        let pump = tokio::spawn(async move {
            tokio::join!(pump.run(pump_stop), keeper.keep_time(keeper_stop), garden);
        });
        TestRuntime { store, bus, runtime, gardener, boot, stop, pump }
    }
}

/// A runtime at work.
pub struct TestRuntime {
    pub store: TempStore,
    pub bus: Bus,
    pub runtime: Runtime,
    pub gardener: Gardener,
    pub boot: BootReport,
    stop: CancellationToken,
    pump: JoinHandle<()>,
}

impl TestRuntime {
    /// A new message of normal priority.
    pub async fn say(&self, topic: &str, text: &str) -> EventId {
        self.say_at(topic, text, Priority::Normal).await
    }

    pub async fn say_at(&self, topic: &str, text: &str, priority: Priority) -> EventId {
        let event = said(topic, text);
        self.accepted(IncomingEvent { priority, ..event }).await
    }

    /// A new message by somebody else than the tests' own connector.
    pub async fn say_as(&self, speaker: &Speaker, topic: &str, text: &str) -> EventId {
        self.accepted_from(speaker, said(topic, text)).await
    }

    /// A new message with what a connector tells of it.
    pub async fn say_with(&self, topic: &str, text: &str, metadata: &serde_json::Value) -> EventId {
        let metadata_json = Some(metadata.to_string());
        self.accepted(IncomingEvent { metadata_json, ..said(topic, text) }).await
    }

    async fn accepted(&self, event: IncomingEvent) -> EventId {
        self.accepted_from(&Speaker::owner("test"), event).await
    }

    async fn accepted_from(&self, speaker: &Speaker, event: IncomingEvent) -> EventId {
        match self.runtime.intake().accept(speaker, event).await.expect("the store accepts") {
            AcceptedEvent::Queued(id) => id,
            AcceptedEvent::Duplicate { first, .. } => panic!("{first} was here before"),
            AcceptedEvent::ChannelOff => panic!("the channel is off"),
            AcceptedEvent::NameRefused(why) => panic!("{why}"),
        }
    }

    pub async fn event(&self, id: &EventId) -> Event {
        self.store.inbox().find(id.clone()).await.expect("readable").expect("an accepted event exists")
    }

    /// The event once it is in this status.
    #[track_caller]
    pub fn reaches(&self, id: &EventId, wanted: InboxStatus) -> impl Future<Output = Event> {
        eventually(format!("{id} to be {wanted}"), move || async move {
            Some(self.event(id).await).filter(|event| event.status == wanted)
        })
    }

    /// The event once an attempt of it failed and the next one is planned, and when that is due.
    #[track_caller]
    pub fn backs_off(&self, id: &EventId, attempts: u32) -> impl Future<Output = (Event, Millis)> {
        eventually(format!("{id} to back off"), move || async move {
            let event = self.event(id).await;
            let is_waiting = event.status == InboxStatus::Pending && event.attempts == attempts;
            let due = self.store.inbox().next_due().await.expect("readable");
            due.filter(|_| is_waiting).map(|due| (event, due))
        })
    }

    pub async fn trace(&self, id: &EventId) -> TracedEvent {
        self.store.trace(id.clone()).await.expect("readable").expect("an accepted event exists")
    }

    /// What the first tool said in the turn of the event, and how the call ended.
    pub async fn tool_answer(&self, id: &EventId) -> (String, ToolEnding) {
        let answered = self.trace(id).await.steps.into_iter().find_map(|step| match step.body {
            StepBody::ToolAnswered { text, ending, .. } => Some((text, ending)),
            StepBody::ModelAnswered { .. }
            | StepBody::ApprovalAsked { .. }
            | StepBody::ApprovalDecided { .. }
            | StepBody::UntrustedRead { .. }
            | StepBody::ToolStarted { .. } => None,
        });
        answered.expect("a tool was called")
    }

    /// What was put into the outbox for the event.
    pub async fn replies(&self, id: &EventId) -> Vec<String> {
        self.trace(id).await.replies.into_iter().map(|reply| reply.text).collect()
    }

    /// Tells the pump to stop, without waiting.
    pub fn begin_stop(&self) {
        self.stop.cancel();
    }

    /// A clean stop: turns finish or are parked.
    pub async fn stop(self) -> TempStore {
        self.stop.cancel();
        self.pump.await.expect("the pump ends without a panic");
        self.store
    }

    /// What a kill leaves: nothing that runs goes on, and only what was committed is there.
    pub fn crash(mut self) -> TempStore {
        self.pump.abort();
        self.store.crash();
        self.store
    }
}

/// A message that was never seen before.
fn said(topic: &str, text: &str) -> IncomingEvent {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    IncomingEvent {
        external_message_id: number.to_string(),
        idempotency_key: number.to_string(),
        topic_key: topic.to_owned(),
        user_id: "ada".to_owned(),
        text: text.to_owned(),
        occurred_at: Millis(1),
        metadata_json: None,
        priority: Priority::Normal,
    }
}
