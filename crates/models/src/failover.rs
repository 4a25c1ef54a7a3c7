//! Asks the providers in order until one gives a whole answer.

use crate::collect::{Collector, Flow};
use crate::config::Timeouts;
use crate::delta::{Delta, DeltaSink};
use crate::error::{CallError, ModelError, Verdict};
use crate::model::{Model, PieceStream, Wire};
use crate::model_name::Site;
use crate::price::PriceTable;
use cortex_types::limits::ERROR_CHARS_MAX;
use cortex_types::{CallOutcome, ChatReply, ChatRequest, Clock, Millis, ModelCall, TokenUsage};
use futures::StreamExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

/// How long a provider that failed stands behind the others when it did not say.
const COOL_DOWN: Duration = Duration::from_secs(30);
/// The same for a refused key, which rarely heals by itself.
const COOL_DOWN_REFUSED: Duration = Duration::from_secs(300);
/// How long to wait for counts after the answer is whole.
const AFTER_FINISH: Duration = Duration::from_secs(2);
/// How long a server may take to end its answer after it said that it has.
const READ_TO_END: Duration = Duration::from_millis(50);

/// The providers of this process, in the order in which they are asked.
pub struct Models {
    pub(crate) providers: Vec<Provider>,
    pub(crate) notes: Vec<String>,
    pub(crate) prices: PriceTable,
    pub(crate) timeouts: Timeouts,
    pub(crate) clock: Arc<dyn Clock>,
}

/// The outcome of one question, and every provider call it took.
#[derive(Debug, Clone, PartialEq)]
pub struct Answered {
    pub outcome: Result<ChatReply, ModelError>,
    pub calls: Vec<ModelCall>,
}

impl Answered {
    /// The call that gave the answer, when there is one.
    pub fn answering_call(&self) -> Option<&ModelCall> {
        self.outcome.as_ref().ok().and_then(|_| self.calls.last())
    }
}

/// How a provider came to be in the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    Profile,
    SynapseUrl,
    FoundKey,
    Probed,
    BuiltIn,
}

/// One provider, as `cortex status` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderInfo {
    pub name: String,
    /// As in `ModelCall::provider`.
    pub provider: &'static str,
    pub model: String,
    pub origin: Origin,
}

/// One provider in its place in the order.
pub(crate) struct Provider {
    pub(crate) name: String,
    pub(crate) origin: Origin,
    pub(crate) model: Box<dyn Model>,
    /// What it speaks and whose server it is; nothing for what is built in.
    pub(crate) place: Option<(Wire, Site)>,
    /// Until then others are asked first; it never keeps this one from being asked.
    cools_until: AtomicI64,
}

impl Provider {
    pub(crate) fn new(
        name: &str,
        origin: Origin,
        model: Box<dyn Model>,
        place: Option<(Wire, Site)>,
    ) -> Self {
        Self { name: name.to_owned(), origin, model, place, cools_until: AtomicI64::new(0) }
    }
}

impl Models {
    /// The providers in the order in which they are asked.
    pub fn describe(&self) -> Vec<ProviderInfo> {
        self.providers
            .iter()
            .map(|provider| ProviderInfo {
                name: provider.name.clone(),
                provider: provider.model.kind(),
                model: provider.model.name(),
                origin: provider.origin,
            })
            .collect()
    }

    /// What a person should know about the choice, such as a profile that chat cannot use.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Asks until one provider gives a whole answer. Nothing of a failed call is ever returned.
    pub async fn answer(
        &self,
        request: &ChatRequest,
        deltas: &dyn DeltaSink,
        cancel: &CancellationToken,
    ) -> Answered {
        let mut calls = Vec::new();
        let mut failures = Vec::new();
        for provider in self.in_order() {
            let (result, call) = self.call(provider, request, deltas, cancel).await;
            calls.push(call);
            let error = match result {
                Ok(reply) => return Answered { outcome: Ok(reply), calls },
                Err(CallError::Cancelled) => return Answered { outcome: Err(ModelError::Cancelled), calls },
                Err(error) => error,
            };
            let verdict = error.verdict();
            failures.push(Failure { verdict, line: format!("{}: {error}", provider.name) });
            if verdict == Verdict::Stop {
                break;
            }
        }
        Answered { outcome: Err(summary(&failures)), calls }
    }

    /// Those that failed lately stand behind the others, the soonest back first.
    pub(crate) fn in_order(&self) -> Vec<&Provider> {
        let now = self.clock.now();
        let mut providers: Vec<&Provider> = self.providers.iter().collect();
        providers.sort_by_key(|provider| {
            let until = provider.cools_until.load(Ordering::Relaxed);
            if until > now.0 { until } else { 0 }
        });
        providers
    }

    async fn call(
        &self,
        provider: &Provider,
        request: &ChatRequest,
        deltas: &dyn DeltaSink,
        cancel: &CancellationToken,
    ) -> (Result<ChatReply, CallError>, ModelCall) {
        let started_at = self.clock.now();
        let started = Instant::now();
        let mut collector = Collector::new(request, deltas);
        let heard = tokio::select! {
            biased;
            () = cancel.cancelled() => Err(CallError::Cancelled),
            heard = timeout(self.timeouts.total, listen(&*provider.model, request, self.timeouts.idle, &mut collector)) =>
                heard.unwrap_or(Err(CallError::TooLong(self.timeouts.total))),
        };
        let counted = collector.counted();
        let has_shown = collector.has_shown();
        let result = heard.and_then(|()| collector.into_reply());
        if result.is_err() && has_shown {
            deltas.push(Delta::Restarted);
        }
        self.cool(provider, result.as_ref().err().map(CallError::verdict));
        let call = self.record(provider, started_at, started.elapsed(), counted, &result);
        (result, call)
    }

    /// What a failure, or none, means for the order.
    pub(crate) fn cool(&self, provider: &Provider, failure: Option<Verdict>) {
        let pause = match failure {
            None => Duration::ZERO,
            Some(Verdict::Transient { retry_after }) => retry_after.unwrap_or(COOL_DOWN),
            Some(Verdict::Refused) => COOL_DOWN_REFUSED,
            // The question was at fault, or the caller left: nothing is known about the provider.
            Some(Verdict::Stop) => return,
        };
        provider.cools_until.store(self.clock.now().after(pause).0, Ordering::Relaxed);
    }

    fn record(
        &self,
        provider: &Provider,
        started_at: Millis,
        latency: Duration,
        counted: TokenUsage,
        result: &Result<ChatReply, CallError>,
    ) -> ModelCall {
        let model = provider.model.name();
        let (usage, outcome) = match result {
            Ok(reply) => (reply.usage, CallOutcome::Answered),
            Err(error) => (counted, CallOutcome::Failed { error: shortened(error.to_string()) }),
        };
        ModelCall {
            profile: provider.name.clone(),
            provider: provider.model.kind().to_owned(),
            started_at,
            latency_ms: u64::try_from(latency.as_millis()).unwrap_or(u64::MAX),
            cost_micros: self.prices.cost_micros(&model, usage),
            model,
            usage,
            outcome,
        }
    }
}

/// Feeds `collector` until the provider is done, broken or silent.
pub(crate) async fn listen(
    model: &dyn Model,
    request: &ChatRequest,
    idle: Duration,
    collector: &mut Collector<'_>,
) -> Result<(), CallError> {
    let mut pieces = timeout(idle, model.open(request)).await.unwrap_or(Err(CallError::Idle(idle)))?;
    let mut finished_at = None;
    loop {
        let now = Instant::now();
        if collector.is_finished() {
            finished_at.get_or_insert(now);
        }
        let deadline = finished_at.map_or(now + idle, |at| at + AFTER_FINISH.min(idle));
        let batch = match timeout_at(deadline, pieces.next()).await {
            Ok(None) => return Ok(()),
            Ok(Some(Ok(batch))) => batch,
            // The answer is whole: a connection that breaks or hangs now takes nothing away from it.
            Ok(Some(Err(_))) | Err(_) if finished_at.is_some() => return Ok(()),
            Ok(Some(Err(error))) => return Err(error),
            Err(_) => return Err(CallError::Idle(idle)),
        };
        for piece in batch {
            match collector.take(piece)? {
                Flow::More => {}
                Flow::Enough => return Ok(()),
                Flow::Ended => {
                    read_to_end(pieces).await;
                    return Ok(());
                }
            }
        }
    }
}

/// A body that was read to its end gives its connection back, and the next call saves a handshake.
async fn read_to_end(mut pieces: PieceStream) {
    let rest = async { while pieces.next().await.is_some() {} };
    timeout(READ_TO_END, rest).await.unwrap_or_default();
}

struct Failure {
    verdict: Verdict,
    line: String,
}

/// One error for all: worth a retry when any provider may be back, after the earliest of their times.
fn summary(failures: &[Failure]) -> ModelError {
    let lines: Vec<&str> = failures.iter().map(|failure| failure.line.as_str()).collect();
    let message = shortened(lines.join("; "));
    let waits: Vec<Option<Duration>> = failures
        .iter()
        .filter_map(|failure| match failure.verdict {
            Verdict::Transient { retry_after } => Some(retry_after),
            Verdict::Refused | Verdict::Stop => None,
        })
        .collect();
    if waits.is_empty() {
        return ModelError::Permanent { message };
    }
    let all_named: Option<Vec<Duration>> = waits.into_iter().collect();
    ModelError::Transient { retry_after: all_named.and_then(|waits| waits.into_iter().min()), message }
}

pub(crate) fn shortened(line: String) -> String {
    if line.chars().count() <= ERROR_CHARS_MAX { line } else { line.chars().take(ERROR_CHARS_MAX).collect() }
}
