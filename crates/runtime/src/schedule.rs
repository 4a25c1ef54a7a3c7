//! The owner's desk for schedules: the same operations as `schedule.*`, without a model.

use crate::runtime::Parts;
use crate::scheduler::{event_of, is_off, plan};
use crate::tool::schedule::{ASK_THE_USER, ScheduleTools};
use cortex_brain::{DueRun, next_fires, slot_event_id};
use cortex_store::{ScheduledJob, StoreError};
use cortex_tools::{CallContext, HostPolicy, ToolCallError, ToolName, ToolRunner};
use cortex_types::{AcceptedEvent, Millis, SlotRecord, TopicRef};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Makes, shows and changes jobs for the owner.
#[derive(Clone)]
pub struct ScheduleDesk(pub(crate) Arc<Parts>);

/// Why the desk did not do it.
#[derive(Debug, thiserror::Error)]
pub enum ScheduleError {
    #[error("there is no schedule {0}")]
    NotFound(i64),
    /// The words or the cron are wrong; the text says how.
    #[error("{0}")]
    Invalid(String),
    /// It was in order and did not come to its end.
    #[error("{0}")]
    Unfinished(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ScheduleDesk {
    /// Runs a `schedule.*` tool as the owner; the answer is the tool's text.
    pub async fn run_tool(
        &self,
        tool: &str,
        arguments_json: &str,
        target: TopicRef,
        user_id: String,
    ) -> Result<(String, Option<i64>), ScheduleError> {
        let parts = &self.0;
        let name =
            ToolName::new("schedule", tool).map_err(|error| ScheduleError::Invalid(error.to_string()))?;
        let context = CallContext {
            topic: target,
            sight: cortex_types::Sight::Everything,
            event: None,
            user_id,
            now: parts.clock.wall(),
            reach: HostPolicy::AnyPublic,
            cancel: CancellationToken::new(),
        };
        let tools = ScheduleTools {
            store: parts.store.clone(),
            timezone: parts.config.scheduler_timezone.clone(),
            channels: parts.channels.subscribe(),
        };
        let refused = |error: ToolCallError| match error {
            // Here the person asks: what a model would pass on as a question is told as it is.
            ToolCallError::NotRun(reason) => match reason.strip_prefix(ASK_THE_USER) {
                Some(question) => ScheduleError::Invalid(format!("{question} Say which, and try again")),
                None => ScheduleError::Invalid(reason),
            },
            ToolCallError::Failed(_) | ToolCallError::TimedOut(_) | ToolCallError::Unknown(_) => {
                ScheduleError::Unfinished(error.to_string())
            }
        };
        let prepared = tools.prepare(&name, arguments_json, &context).await.map_err(refused)?;
        let done = tools.perform(&name, &prepared.arguments_json, &context).await.map_err(refused)?;
        // A change may have made a run due that the next tick would have found.
        parts.arrived.notify_one();
        Ok((done.text, done.id))
    }

    pub async fn list(&self) -> Result<Vec<ScheduledJob>, StoreError> {
        self.0.store.schedules().list().await
    }

    pub async fn find(&self, id: i64) -> Result<ScheduledJob, ScheduleError> {
        self.0.store.schedules().find(id).await?.ok_or(ScheduleError::NotFound(id))
    }

    pub async fn records(&self, id: i64, limit: u32) -> Result<Vec<SlotRecord>, StoreError> {
        self.0.store.schedules().records(id, limit).await
    }

    /// The next fires of a job.
    pub fn next_fires(&self, job: &ScheduledJob, limit: usize) -> Vec<Millis> {
        let Ok((schedule, zone)) = plan(job) else { return Vec::new() };
        // After a clock was set back, slots that have their record do not come again.
        next_fires(&schedule, &zone, self.0.clock.wall().max(job.decided_until), limit)
    }

    /// Fires a job now, beside its schedule; its slots stay as they are.
    pub async fn run_now(&self, id: i64) -> Result<AcceptedEvent, ScheduleError> {
        let job = self.find(id).await?;
        let now = self.0.clock.now();
        if is_off(&self.0.channels.borrow(), &job) {
            return Ok(AcceptedEvent::ChannelOff);
        }
        let run =
            DueRun { slot: now, event_id: format!("{}:now", slot_event_id(&id.to_string(), now)), missed: 0 };
        let accepted = self.0.store.inbox().accept(event_of(&job, &run, now), now).await?;
        self.0.arrived.notify_one();
        Ok(accepted)
    }
}
