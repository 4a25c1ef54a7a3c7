//! Keeps one skill's engine: starts it, speaks with it, gives it up when its time is over and starts another.

use super::SkillIsolation;
use super::fetch::{SkillRequest, SkillResponse};
use super::program::Traces;
use super::tally::{OverLimits, Tally};
use super::wire::{Ending, EngineSetup, FromEngine, ListedTool, LogLevel, ToEngine};
use super::worker::{Gone, LivingThreads, Worker};
use crate::egress::{Egress, FetchRequest, HostPolicy};
use crate::tool::{CallContext, Mutation, ToolCallError, ToolName, ToolOutcome};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;

/// Reading modules and listing tools is done at once, or never.
const LOAD_MAX: Duration = Duration::from_secs(5);
/// Threads of one skill, the working one and those that hang, after which no other is started.
const THREADS_MAX: usize = 4;

pub(crate) struct Keeper {
    pub(crate) setup: EngineSetup,
    pub(crate) traces: Traces,
    pub(crate) hosts: HostPolicy,
    pub(crate) isolation: SkillIsolation,
    pub(crate) egress: Arc<Egress>,
    /// Holds the engine between calls; who has the lock has the engine, so calls of a skill run one after another.
    pub(crate) idle: Mutex<Option<Worker>>,
    pub(crate) living: LivingThreads,
}

impl Keeper {
    /// Starts an engine and keeps it for the first call. The error is the engine's trace.
    pub(crate) async fn load(&self) -> Result<Vec<ListedTool>, String> {
        let (worker, tools) = self.start().await?;
        *self.idle.lock().await = Some(worker);
        Ok(tools)
    }

    pub(crate) async fn call(
        &self,
        name: &ToolName,
        mutation: Mutation,
        arguments_json: &str,
        context: &CallContext,
    ) -> Result<ToolOutcome, ToolCallError> {
        let call = ToEngine::Call {
            name: name.as_str().to_owned(),
            arguments_json: arguments_json.to_owned(),
            now_iso: context.now.to_rfc3339(),
        };
        let busy = || ToolCallError::NotRun(format!("{} was busy with another call", self.setup.skill));
        let mut idle = tokio::select! {
            biased;
            () = context.cancel.cancelled() => return Err(busy()),
            idle = self.idle.lock() => idle,
        };
        let mut worker = tokio::select! {
            biased;
            () = context.cancel.cancelled() => return Err(busy()),
            worker = self.ready(idle.take()) => worker?,
        };
        // From here on the call may take effect. Whatever ends this future drops the worker, and with it the engine.
        let ended = tokio::select! {
            biased;
            () = context.cancel.cancelled() => return Err(ToolCallError::Unknown("stopped".to_owned())),
            ended = self.converse(&mut worker, call, &context.reach) => ended,
        };
        match ended {
            Ok(Ending::Done(text)) => {
                *idle = Some(worker);
                Ok(ToolOutcome { text })
            }
            Ok(Ending::Threw(trace)) => {
                *idle = Some(worker);
                Err(ToolCallError::Failed(self.traces.told(&trace)))
            }
            Ok(Ending::Broke(trace)) => {
                let told = self.traces.told(&trace);
                Err(ToolCallError::Failed(format!("{told}\n(its heap is {} MiB)", self.setup.heap_mib)))
            }
            Ok(Ending::BrokeHalfway(trace)) => {
                let told = format!("{} (it had already begun to act)", self.traces.told(&trace));
                Err(match mutation {
                    Mutation::ReadOnly => ToolCallError::Failed(told),
                    Mutation::Mutates | Mutation::Undeclared => ToolCallError::Unknown(told),
                })
            }
            Err(Gone) => Err(ToolCallError::Unknown(format!(
                "the engine of {} ended during the call",
                self.setup.skill
            ))),
        }
    }

    /// The id of the child process that waits for a call.
    pub(crate) async fn process_id(&self) -> Option<u32> {
        self.idle.lock().await.as_ref().and_then(Worker::process_id)
    }

    async fn ready(&self, mut kept: Option<Worker>) -> Result<Worker, ToolCallError> {
        let is_running = kept.as_mut().is_some_and(Worker::is_running);
        match kept.filter(|_| is_running) {
            Some(worker) => Ok(worker),
            None => {
                let started = self.start().await;
                started
                    .map(|(worker, _)| worker)
                    .map_err(|trace| ToolCallError::NotRun(self.traces.told(&trace)))
            }
        }
    }

    async fn start(&self) -> Result<(Worker, Vec<ListedTool>), String> {
        let threads = self.living.now();
        if threads >= THREADS_MAX {
            return Err(format!(
                "{} is disabled: {threads} of its calls hang in native code; mend it, or set skillIsolation to \"process\"",
                self.setup.skill
            ));
        }
        let fault = |error: std::io::Error| format!("the engine cannot start: {error}");
        let mut worker = Worker::start(&self.setup.skill, &self.isolation, &self.living).map_err(fault)?;
        let listing = tokio::time::timeout(LOAD_MAX, self.listed(&mut worker)).await;
        match listing {
            Ok(Ok(tools)) => Ok((worker, tools?)),
            Ok(Err(Gone)) => Err("the engine ended while it loaded".to_owned()),
            Err(_) => Err(format!("loading takes over {} ms", LOAD_MAX.as_millis())),
        }
    }

    async fn listed(&self, worker: &mut Worker) -> Result<Result<Vec<ListedTool>, String>, Gone> {
        worker.send(ToEngine::Load(Box::new(self.setup.clone()))).await?;
        let mut tally = Tally::default();
        loop {
            let message = worker.receive().await?;
            tally.count(&message).map_err(|over| self.give_up(over))?;
            match message {
                FromEngine::Loaded(tools) => return Ok(Ok(tools)),
                FromEngine::Refused(trace) => return Ok(Err(trace)),
                FromEngine::Log { level, text } => self.log(level, &text),
                FromEngine::Fetch { op, .. } => {
                    let result = Err("nothing is fetched before a tool is called".to_owned());
                    tally.answered();
                    worker.send(ToEngine::Fetched { op, result }).await?;
                }
                FromEngine::Ended(_) => return Err(Gone),
            }
        }
    }

    /// One call: answers what the engine asks for until it is done.
    async fn converse(
        &self,
        worker: &mut Worker,
        call: ToEngine,
        reach: &HostPolicy,
    ) -> Result<Ending, Gone> {
        let mut fetches = FuturesUnordered::new();
        let mut tally = Tally::default();
        worker.send(call).await?;
        loop {
            tokio::select! {
                message = worker.receive() => {
                    let message = message?;
                    tally.count(&message).map_err(|over| self.give_up(over))?;
                    match message {
                        FromEngine::Ended(ending) => return Ok(ending),
                        FromEngine::Fetch { op, request } => {
                            fetches.push(async move { (op, self.fetch(request, reach).await) });
                        }
                        FromEngine::Log { level, text } => self.log(level, &text),
                        FromEngine::Refused(trace) => return Ok(Ending::Broke(trace)),
                        FromEngine::Loaded(_) => return Err(Gone),
                    }
                }
                Some((op, result)) = fetches.next() => {
                    tally.answered();
                    worker.send(ToEngine::Fetched { op, result }).await?;
                }
            }
        }
    }

    /// An engine of ours keeps the limits by itself: this is one that its skill has got out of.
    fn give_up(&self, over: OverLimits) -> Gone {
        tracing::error!(skill = self.setup.skill, "a skill went over {over}; its engine is ended");
        Gone
    }

    /// The skill decides where it asks first. Where it is sent on to is decided by the list in its manifest or, without one,
    /// by what the call may reach.
    async fn fetch(&self, request: SkillRequest, reach: &HostPolicy) -> Result<SkillResponse, String> {
        let onward = match &self.hosts {
            listed @ HostPolicy::Only(_) => listed,
            HostPolicy::AnyPublic => reach,
        };
        let request = FetchRequest { onward: onward.clone(), ..request.into() };
        let fetched = self.egress.fetch(request, &self.hosts).await;
        fetched.map(SkillResponse::from).map_err(|error| error.to_string())
    }

    fn log(&self, level: LogLevel, text: &str) {
        let skill = self.setup.skill.as_str();
        let text = self.traces.told(text);
        match level {
            LogLevel::Debug => tracing::debug!(skill, "{text}"),
            LogLevel::Info => tracing::info!(skill, "{text}"),
            LogLevel::Warn => tracing::warn!(skill, "{text}"),
            LogLevel::Error => tracing::error!(skill, "{text}"),
        }
    }
}
