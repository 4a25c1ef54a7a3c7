//! Runs one turn: performs what the brain decides and journals what it learns.

use crate::approval::{answer_event, bare_answer};
use crate::context;
use crate::context::EventContext;
use crate::effect::ask_approval::{questions, send_questions, unasked};
use crate::effect::call_model::{Asked, call_model};
use crate::effect::check_calls::{check_calls, is_open_to};
use crate::effect::end_turn::{end_turn, left_in_flight, patiently, suspended};
use crate::effect::route_answer::{RoutedAnswer, reply_to, route_answer};
use crate::effect::run_tool::run_tools;
use crate::effect::send::{check_sends, send_targets};
use crate::runtime::Parts;
use cortex_brain::{
    AnswerOutcome, Effect, FailureNotice, Input, Preview, ReadyCall, Turn, TurnLimits, background_words,
    backoff, came_with, count_tokens, heard, notice_text, outcome_line, read_answer, untrusted_channel,
};
use cortex_models::Models;
use cortex_store::{
    AskedApproval, Claimed, FinishedTurn, StoreError, Suspended, Suspension, TurnEnd, TurnTokens,
    UntrustedLines,
};
use cortex_types::{Event, Millis, ModelCall, NewReply, OpId, Sight, Step, StepBody, ToolSpec};
use fail::fail_point;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

/// Answers a claimed event, or leaves it for later with a reason. Ends in exactly one `TurnEnd`.
pub(crate) async fn run_turn(parts: &Parts, models: &Models, claimed: Claimed, cancel: &CancellationToken) {
    fail_point!("turn.after_claim");
    let Claimed { event, steps } = claimed;
    let mut journal = Journal { next_number: steps.len(), ..Journal::default() };
    let bodies = steps.into_iter().map(|step| step.body).collect();
    let ended = match &event.answer {
        Some(answer) => answer_event(parts, &event, answer).await.map(Ended::by),
        None if holds_a_token(&event) => Ok(Ended::by(unheard_answer(parts, &event))),
        None => answered_or_driven(parts, models, &event, bodies, &mut journal, cancel).await,
    };
    let end = match ended {
        Ok(Ended::By(end)) => *end,
        Ok(Ended::Suspended) => return,
        // Nothing more is written, and the event is not lost: the next start on a whole database finds it in flight.
        Err(StoreError::FileDamaged(_)) => return left_in_flight(parts, &event),
        Err(StoreError::Damaged(reason)) => {
            failed(parts, &event, &reason, FailureNotice::Broken { reason: reason.clone() })
        }
        Err(error) => after_fault(parts, &event, error.to_string()),
    };
    end_turn(parts, &event, end, journal.unpaid, cancel).await;
    // An answer may have made another event of this or any topic claimable.
    parts.arrived.notify_one();
}

/// A plain word may be meant for a question that is open; everything else is for the model.
async fn answered_or_driven(
    parts: &Parts,
    models: &Models,
    event: &Event,
    steps: Vec<StepBody>,
    journal: &mut Journal,
    cancel: &CancellationToken,
) -> Result<Ended, StoreError> {
    if steps.is_empty()
        && let Some(end) = bare_answer(parts, event).await?
    {
        return Ok(Ended::by(end));
    }
    // Right after the start, tools of others are still on their way.
    if unless(cancel, parts.tools.opened()).await.is_none() {
        return Ok(Ended::by(TurnEnd::Parked));
    }
    let turn = prepare(parts, event, steps, journal).await?;
    Ok(drive(parts, models, event, turn, journal, cancel).await)
}

/// An event from inside, or from before answers were kept apart: it decides nothing, and the model never sees it (D9).
fn holds_a_token(event: &Event) -> bool {
    read_answer(&event.text, event.metadata_json.as_deref()).is_some()
}

fn unheard_answer(parts: &Parts, event: &Event) -> TurnEnd {
    let text = outcome_line("", AnswerOutcome::NotYours);
    TurnEnd::Handled { replies: vec![reply_to(event, text, parts.clock.now())] }
}

/// How driving a turn came to an end.
enum Ended {
    By(Box<TurnEnd>),
    /// It waits for a person; that is on disk already.
    Suspended,
}

impl Ended {
    fn by(end: TurnEnd) -> Self {
        Self::By(Box::new(end))
    }
}

/// What the journal of this turn still needs.
#[derive(Default)]
pub(crate) struct Journal {
    next_number: usize,
    /// Model calls that no recorded step carries yet.
    unpaid: Vec<ModelCall>,
    /// Ops whose end stands in the prompt.
    shown: Vec<OpId>,
    /// Those that a model has seen there. An answer from an earlier attempt was given without them.
    read: Vec<OpId>,
}

impl Journal {
    fn number(&mut self, body: StepBody, at: Millis) -> Step {
        let number = u32::try_from(self.next_number).unwrap_or(u32::MAX);
        self.next_number += 1;
        Step { number, at, body }
    }
}

async fn prepare(
    parts: &Parts,
    event: &Event,
    steps: Vec<StepBody>,
    journal: &mut Journal,
) -> Result<Turn, StoreError> {
    let config = &parts.config;
    let limits = TurnLimits {
        attempts_max: config.inbox_max_attempts,
        tool_rounds_max: config.max_tool_rounds,
        tokens_max: config.max_tokens_per_event,
        day_tokens_left: day_tokens_left(parts).await?,
    };
    let tools = offered(parts, event.sight());
    let EventContext { context, ended_ops } = context::of_event(parts, event, &tools).await?;
    journal.shown = ended_ops;
    Ok(Turn::new(context, limits, tools, steps))
}

pub(crate) async fn day_tokens_left(parts: &Parts) -> Result<Option<u64>, StoreError> {
    let Some(most) = parts.config.max_tokens_per_day else { return Ok(None) };
    let now = parts.clock.now().0;
    let spent = parts.store.tokens_since(Millis(now - now.rem_euclid(DAY_MS))).await?;
    Ok(Some(most.saturating_sub(spent)))
}

/// The tools that a turn in a topic of this source may use, as the model sees them.
pub(crate) fn offered(parts: &Parts, sight: Sight) -> Vec<ToolSpec> {
    let open = parts.tools.definitions().into_iter().filter(|tool| is_open_to(sight, tool));
    let tools = open.map(|tool| ToolSpec {
        name: tool.name.as_str().to_owned(),
        description: tool.description,
        input_schema_json: tool.input_schema_json,
    });
    tools.collect()
}

async fn drive(
    parts: &Parts,
    models: &Models,
    event: &Event,
    mut turn: Turn,
    journal: &mut Journal,
    cancel: &CancellationToken,
) -> Ended {
    let mut input = Input::Begin;
    loop {
        let mut learned = None;
        for effect in turn.step(input) {
            match perform(parts, models, event, effect, journal, cancel).await {
                Ok(Performed::Nothing) => {}
                Ok(Performed::Learned(next)) => learned = Some(next),
                Ok(Performed::Ended(ended)) => return ended,
                Err(error) => return Ended::by(after_fault(parts, event, error.to_string())),
            }
        }
        match learned {
            Some(next) => input = next,
            // The brain always asks, finishes or fails; anything else is a fault of its own.
            None => {
                let reason = "the turn stopped without an outcome".to_owned();
                let notice = FailureNotice::Broken { reason: reason.clone() };
                return Ended::by(failed(parts, event, &reason, notice));
            }
        }
    }
}

enum Performed {
    Nothing,
    Learned(Input),
    Ended(Ended),
}

async fn perform(
    parts: &Parts,
    models: &Models,
    event: &Event,
    effect: Effect,
    journal: &mut Journal,
    cancel: &CancellationToken,
) -> Result<Performed, StoreError> {
    let ended = |end| Ok(Performed::Ended(Ended::by(end)));
    match effect {
        Effect::Record { steps, notices } => {
            record(parts, event, steps, notices, journal, cancel).await?;
            Ok(Performed::Nothing)
        }
        Effect::CallModel { request, marked } => {
            let preview = if marked { Preview::without_pictures() } else { Preview::default() };
            let (asked, calls) = call_model(parts, models, event, &request, preview, cancel).await;
            journal.unpaid.extend(calls);
            fail_point!("turn.after_model");
            match asked {
                Asked::Learned(input) => {
                    journal.read.clone_from(&journal.shown);
                    Ok(Performed::Learned(input))
                }
                Asked::Cancelled => ended(TurnEnd::Parked),
            }
        }
        Effect::CheckCalls { calls, marked } => {
            match unless(cancel, check_calls(parts, event, &calls, marked)).await {
                Some(checked) => Ok(Performed::Learned(Input::CallsChecked(checked?))),
                None => ended(TurnEnd::Parked),
            }
        }
        Effect::CheckSends(calls) => {
            Ok(Performed::Learned(Input::CallsChecked(check_sends(parts, event, &calls).await?)))
        }
        Effect::RunTools(calls) => {
            let round = run_tools(parts, event, &calls, &Mutex::new(journal), cancel).await;
            match (round.results, round.failed) {
                // What ran is kept first; the others are asked for again, and end the turn then.
                (results, _) if !results.is_empty() => Ok(Performed::Learned(Input::ToolsRan(results))),
                (_, Some(error)) => Err(error),
                (_, None) => ended(TurnEnd::Parked),
            }
        }
        Effect::AskApprovals(calls) => match unless(cancel, questions(parts, event, &calls)).await {
            Some(Ok(questions)) => suspend(parts, event, questions, journal, cancel).await,
            Some(Err(refused)) => Ok(Performed::Learned(Input::CallsChecked(refused))),
            None => ended(TurnEnd::Parked),
        },
        Effect::AskSends(calls) => match send_questions(parts, event, &calls).await? {
            Ok(questions) => suspend(parts, event, questions, journal, cancel).await,
            Err(free) => Ok(Performed::Learned(Input::CallsChecked(free))),
        },
        Effect::KeepWaiting => ended(TurnEnd::Waiting),
        Effect::Finish { last_step, output, sends, marked } => {
            let now = parts.clock.now();
            let last_step = last_step.map(|body| journal.number(body, now));
            let targets = send_targets(parts, event, sends).await?;
            let routed = route_answer(parts, event, output, &targets, now).await?;
            let finished = finished(event, routed, marked, std::mem::take(&mut journal.read));
            let untrusted = untrusted_lines(event, marked);
            ended(TurnEnd::Answered(Box::new(FinishedTurn { last_step, untrusted, ..finished })))
        }
        Effect::RetryLater { reason, retry_after } => ended(retry(parts, event, reason, retry_after)),
        Effect::Fail { reason, notice } => ended(failed(parts, event, &reason, notice)),
    }
}

/// What may wait for somebody else, such as a server that is away; `None` when the time to finish ends first. Nothing has
/// begun by then, so the turn is parked and the next start goes on from here.
pub(crate) async fn unless<T>(cancel: &CancellationToken, waiting: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        () = cancel.cancelled() => None,
        done = waiting => Some(done),
    }
}

/// What an answered turn leaves behind.
fn finished(event: &Event, routed: RoutedAnswer, marked: bool, acknowledged: Vec<OpId>) -> FinishedTurn {
    let RoutedAnswer { replies, content } = routed;
    let attachments = came_with(event);
    let tokens = TurnTokens {
        heard: count_tokens(&heard(attachments.as_deref(), event.text.clone())),
        said: count_tokens(&content),
    };
    let summary = background_words(event, &content, marked);
    FinishedTurn { content, replies, tokens, summary, acknowledged, attachments, ..FinishedTurn::default() }
}

/// A person's own words are theirs, whatever the turn that hears them has read.
fn untrusted_lines(event: &Event, marked: bool) -> UntrustedLines {
    UntrustedLines { heard: untrusted_channel(&event.channel).is_some(), said: marked }
}

async fn record(
    parts: &Parts,
    event: &Event,
    bodies: Vec<StepBody>,
    notices: Vec<String>,
    journal: &mut Journal,
    cancel: &CancellationToken,
) -> Result<(), StoreError> {
    let now = parts.clock.now();
    let steps: Vec<Step> = bodies.into_iter().map(|body| journal.number(body, now)).collect();
    let notices: Vec<NewReply> = notices.into_iter().map(|text| reply_to(event, text, now)).collect();
    write(parts, event, steps, notices, std::mem::take(&mut journal.unpaid), cancel).await
}

/// Journals that a call may have run from here on. Others of its round do the same, and share a commit.
pub(crate) async fn record_start(
    parts: &Parts,
    event: &Event,
    ready: &ReadyCall,
    journal: &Mutex<&mut Journal>,
    cancel: &CancellationToken,
) -> Result<(), StoreError> {
    let (step, calls) = {
        let mut journal = journal.lock().unwrap_or_else(PoisonError::into_inner);
        (journal.number(ready.started(), parts.clock.now()), std::mem::take(&mut journal.unpaid))
    };
    write(parts, event, vec![step], Vec::new(), calls, cancel).await
}

async fn write(
    parts: &Parts,
    event: &Event,
    steps: Vec<Step>,
    notices: Vec<NewReply>,
    calls: Vec<ModelCall>,
    cancel: &CancellationToken,
) -> Result<(), StoreError> {
    let now = parts.clock.now();
    patiently(parts, cancel, || {
        let (steps, calls, notices) = (steps.clone(), calls.clone(), notices.clone());
        async move { parts.store.turns().record_steps(event, steps, calls, notices, now).await }
    })
    .await?;
    fail_point!("turn.after_record");
    Ok(())
}

/// Puts the questions on disk and the turn to rest, in one transaction.
async fn suspend(
    parts: &Parts,
    event: &Event,
    questions: Vec<(StepBody, AskedApproval)>,
    journal: &mut Journal,
    cancel: &CancellationToken,
) -> Result<Performed, StoreError> {
    let (now, first_number) = (parts.clock.now(), journal.next_number);
    let (bodies, asked): (Vec<StepBody>, Vec<_>) = questions.into_iter().unzip();
    let reads = parts.store.turns().untrusted_reads(event.id.clone()).await?;
    let suspension = Suspension {
        steps: bodies.into_iter().map(|body| journal.number(body, now)).collect(),
        asked,
        calls: std::mem::take(&mut journal.unpaid),
        attachments: came_with(event),
        untrusted: untrusted_lines(event, !reads.is_empty()),
    };
    let written = patiently(parts, cancel, || {
        let suspension = suspension.clone();
        async move { parts.store.approvals().suspend(event, suspension, now).await }
    });
    match written.await? {
        Suspended::Waits => {
            suspended(parts, event);
            Ok(Performed::Ended(Ended::Suspended))
        }
        Suspended::TooMany { room } => {
            // None of it is on record.
            journal.next_number = first_number;
            journal.unpaid = suspension.calls;
            Ok(Performed::Learned(Input::CallsChecked(unasked(&suspension.asked, room))))
        }
    }
}

fn retry(parts: &Parts, event: &Event, reason: String, retry_after: Option<Duration>) -> TurnEnd {
    let delay = backoff(event.attempts, rand::random()).max(retry_after.unwrap_or_default());
    tracing::warn!(event = %event.id, attempt = event.attempts, reason, ?delay, "An event is tried again later");
    TurnEnd::RetryAt { due_at: parts.clock.now().after(delay), reason }
}

fn failed(parts: &Parts, event: &Event, reason: &str, notice: FailureNotice) -> TurnEnd {
    tracing::error!(event = %event.id, reason, "An event failed and its user is told");
    let replies = vec![reply_to(event, notice_text(&notice), parts.clock.now())];
    TurnEnd::Failed { reason: reason.to_owned(), replies }
}

/// How a turn that panicked ends.
pub(crate) fn after_panic(parts: &Parts, event: &Event, panic: &str) -> TurnEnd {
    after_fault(parts, event, format!("the turn panicked: {panic}"))
}

/// How a turn that broke ends: like any transient failure, so that a poisoned event fails in the end.
fn after_fault(parts: &Parts, event: &Event, reason: String) -> TurnEnd {
    if event.attempts < parts.config.inbox_max_attempts {
        retry(parts, event, reason, None)
    } else {
        let told = FailureNotice::Broken { reason: "the turn broke every time".to_owned() };
        failed(parts, event, &reason, told)
    }
}
