//! The runtime as a whole: what its parts share, and what happens once at the start.

use crate::approval::{self, ApprovalDesk};
use crate::channel::ChannelDesk;
use crate::config::RuntimeConfig;
use crate::context::ContextDesk;
use crate::effect::check_calls::asks_first;
use crate::engram::EngramClient;
use crate::floor::FloorReader;
use crate::gardener::Gardener;
use crate::intake::Intake;
use crate::memory::MemoryDesk;
use crate::mint;
use crate::op::{self, OpDesk};
use crate::outbox::OutboxDesk;
use crate::pump::Pump;
use crate::schedule::ScheduleDesk;
use crate::scheduler;
use crate::tool::memory::MemoryTools;
use crate::tool::schedule::ScheduleTools;
use crate::tool::session::SessionTools;
use crate::watchdog::WatchdogReport;
use cortex_brain::{FailureNotice, notice_text, window_of};
use cortex_bus::Bus;
use cortex_models::Models;
use cortex_store::{Recovered, Store, StoreError};
use cortex_tools::{Registry, RegistryBuilder, RegistryError, ToolDefinition, ToolRunner};
use cortex_types::{ChannelSettings, Clock, NewReply};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::{Notify, Semaphore, watch};
use tokio_util::sync::CancellationToken;

/// No lease and no planned retry lies further ahead than this; see `Outbox::clamp_future`.
const FUTURE_MAX: Duration = Duration::from_secs(3_600);

/// What every part of the flow needs.
pub(crate) struct Parts {
    pub(crate) store: Store,
    pub(crate) bus: Bus,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) config: RuntimeConfig,
    pub(crate) floor: FloorReader,
    pub(crate) tools: Arc<Registry>,
    pub(crate) memory: MemoryDesk,
    /// What each channel may do now.
    pub(crate) channels: watch::Sender<Arc<ChannelSettings>>,
    /// One change of it at a time, each by what the store has then.
    pub(crate) channel_change: Semaphore,
    /// Tokens of a prompt and its answer, once the models are known.
    pub(crate) window: OnceLock<u32>,
    /// Rings when an event may have become claimable.
    pub(crate) arrived: Notify,
    /// How many turns this process has answered.
    pub(crate) answered: watch::Sender<u64>,
    /// What the watchdog found.
    pub(crate) watchdog: watch::Sender<WatchdogReport>,
}

/// The flow of one home. Clones share it.
#[derive(Clone)]
pub struct Runtime(Arc<Parts>);

/// What the start found and put right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BootReport {
    pub recovered: Recovered,
    /// Messages and events whose lease or wait lay too far ahead, because a clock was set back.
    pub clamped: usize,
    /// Ops that nobody would have ended any more.
    pub orphaned: usize,
}

impl Runtime {
    /// `tools` are offered beside the built-ins that need the flow itself.
    pub fn new(
        config: RuntimeConfig,
        store: Store,
        bus: Bus,
        clock: Arc<dyn Clock>,
        tools: RegistryBuilder,
    ) -> Result<Self, RegistryError> {
        let floor = FloorReader::new(config.workspace.clone());
        let channels = watch::Sender::new(Arc::new(config.channels.clone()));
        let schedules: Arc<dyn ToolRunner> = Arc::new(ScheduleTools {
            store: store.clone(),
            timezone: config.scheduler_timezone.clone(),
            channels: channels.subscribe(),
        });
        let memory = MemoryDesk::new(store.clone(), config.embedder.clone(), Arc::clone(&clock));
        let memories: Arc<dyn ToolRunner> = Arc::new(MemoryTools {
            memory: memory.clone(),
            store: store.clone(),
            engram: config.engram.clone(),
            channels: channels.subscribe(),
        });
        let sessions: Arc<dyn ToolRunner> =
            Arc::new(SessionTools { store: store.clone(), channels: channels.subscribe() });
        let tools = tools
            .add_all(ScheduleTools::definitions(), &schedules)?
            .add_all(MemoryTools::definitions(), &memories)?
            .add_all(SessionTools::definitions(), &sessions)?
            .also_called("memory_query", "memory.query")
            .also_called("fetch_chat_history", "session.history")
            .build();
        let (window, arrived, answered) = (OnceLock::new(), Notify::new(), watch::Sender::new(0));
        let watchdog = watch::Sender::default();
        let parts = Parts {
            store,
            bus,
            clock,
            config,
            floor,
            tools: Arc::new(tools),
            memory,
            channels,
            channel_change: Semaphore::new(1),
            window,
            arrived,
            answered,
            watchdog,
        };
        Ok(Self(Arc::new(parts)))
    }

    /// Puts back what the process before left in flight. Only for the holder of the home's lock, before the pump.
    pub async fn recover(&self) -> Result<BootReport, StoreError> {
        let parts = &self.0;
        let now = parts.clock.now();
        parts.store.outbox().take_back_pushed(now).await?;
        // Before anything is put into the outbox: what was live yesterday may be in shadow today.
        self.channels().apply(parts.config.channels.clone()).await?;
        let notice = move |event: &cortex_types::Event| NewReply {
            id: mint::outbox_id(now),
            topic: event.topic.clone(),
            text: notice_text(&FailureNotice::Restarts),
            payload_json: None,
        };
        let recovered = parts.store.inbox().recover(parts.config.inbox_max_restarts, now, notice).await?;
        let messages = parts.store.outbox().clamp_future(FUTURE_MAX, now).await?;
        let permissions = parts.store.approvals().clamp_future(now).await?;
        let clamped = messages + permissions + parts.store.inbox().clamp_future(FUTURE_MAX, now).await?;
        let orphaned = op::fail_orphans(parts).await?;
        parts.memory.use_embedder().await?;
        Ok(BootReport { recovered, clamped, orphaned })
    }

    pub fn intake(&self) -> Intake {
        Intake(Arc::clone(&self.0))
    }

    pub fn approvals(&self) -> ApprovalDesk {
        ApprovalDesk(Arc::clone(&self.0))
    }

    pub fn channels(&self) -> ChannelDesk {
        ChannelDesk(Arc::clone(&self.0))
    }

    pub fn context(&self) -> ContextDesk {
        ContextDesk(Arc::clone(&self.0))
    }

    pub fn schedules(&self) -> ScheduleDesk {
        ScheduleDesk(Arc::clone(&self.0))
    }

    pub fn ops(&self) -> OpDesk {
        OpDesk(Arc::clone(&self.0))
    }

    /// The service that keeps memory, where it is not kept here.
    pub fn engram(&self) -> Option<&EngramClient> {
        self.0.config.engram.as_ref()
    }

    pub fn memory(&self) -> MemoryDesk {
        self.0.memory.clone()
    }

    /// The tools that can be called now, each with whether it asks first.
    pub fn tools(&self) -> Vec<(ToolDefinition, bool)> {
        let with_question = |tool: ToolDefinition| {
            let asks_first = asks_first(&self.0, tool.mutation);
            (tool, asks_first)
        };
        self.0.tools.definitions().into_iter().map(with_question).collect()
    }

    /// A line for each tool that is not offered because its name is taken.
    pub fn tool_collisions(&self) -> Vec<String> {
        self.0.tools.collisions()
    }

    /// Expires open questions, fires schedules and keeps the memory's index until `stop`; run it once, beside the pump.
    pub async fn keep_time(&self, stop: CancellationToken) {
        let sweep = approval::sweep(Arc::clone(&self.0), stop.clone());
        let schedule = scheduler::run(Arc::clone(&self.0), stop.clone());
        futures::join!(sweep, schedule, self.0.memory.keep_up(stop));
    }

    /// One look at the schedules, as `keep_time` does at every tick; for whoever moves the clock himself.
    pub async fn fire_due(&self) -> Result<(), StoreError> {
        scheduler::tick(&self.0).await
    }

    /// What `maxTokensPerDay` leaves for today; none without such a limit.
    pub async fn day_tokens_left(&self) -> Result<Option<u64>, StoreError> {
        crate::turn::day_tokens_left(&self.0).await
    }

    /// What the watchdog found since the start.
    pub fn watchdog(&self) -> WatchdogReport {
        *self.0.watchdog.borrow()
    }

    pub fn outbox(&self) -> OutboxDesk {
        OutboxDesk(Arc::clone(&self.0))
    }

    /// The gardener, thinking with these models; run it once.
    pub fn gardener(&self, models: Arc<Models>) -> Gardener {
        Gardener::new(Arc::clone(&self.0), models)
    }

    /// The pump that answers events with these models; run it once.
    pub fn pump(&self, models: Arc<Models>) -> Pump {
        let windows = models.describe().into_iter().map(|provider| window_of(&provider.model));
        // A second pump would be for the same models.
        self.0.window.get_or_init(|| self.0.config.context_tokens.or(windows.min()).unwrap_or_default());
        Pump::new(Arc::clone(&self.0), models)
    }
}
