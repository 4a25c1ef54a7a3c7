//! Runs one turn: performs what the brain decides and journals what it learns.

use crate::effect::call_model::{Asked, call_model};
use crate::effect::end_turn::{end_turn, patiently};
use crate::mint;
use crate::runtime::Parts;
use cortex_brain::{
    Effect, FailureNotice, HistoryLine, Input, Output, Speaker, Turn, TurnContext, TurnLimits, backoff,
    notice_text,
};
use cortex_models::Models;
use cortex_store::{Claimed, FinishedTurn, HistoryRow, StoreError, TurnEnd};
use cortex_types::{Event, Millis, ModelCall, NewReply, Step, StepBody};
use fail::fail_point;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

/// Answers a claimed event, or leaves it for later with a reason. Ends in exactly one `TurnEnd`.
pub(crate) async fn run_turn(parts: &Parts, models: &Models, claimed: Claimed, cancel: &CancellationToken) {
    fail_point!("turn.after_claim");
    let Claimed { event, steps } = claimed;
    let mut journal = Journal { next_number: steps.len(), unpaid: Vec::new() };
    let bodies = steps.into_iter().map(|step| step.body).collect();
    let end = match prepare(parts, &event, bodies).await {
        Ok(turn) => drive(parts, models, &event, turn, &mut journal, cancel).await,
        Err(StoreError::Damaged(reason)) => {
            failed(parts, &event, &reason, FailureNotice::Broken { reason: reason.clone() })
        }
        Err(error) => retry(parts, &event, error.to_string(), None),
    };
    end_turn(parts, &event, end, journal.unpaid, cancel).await;
}

/// What the journal of this turn still needs.
struct Journal {
    next_number: usize,
    /// Model calls that no recorded step carries yet.
    unpaid: Vec<ModelCall>,
}

impl Journal {
    fn number(&mut self, body: StepBody, at: Millis) -> Step {
        let number = u32::try_from(self.next_number).unwrap_or(u32::MAX);
        self.next_number += 1;
        Step { number, at, body }
    }
}

async fn prepare(parts: &Parts, event: &Event, steps: Vec<StepBody>) -> Result<Turn, StoreError> {
    let config = &parts.config;
    // A group is a user's line and what answered it.
    let lines = config.active_window_size.saturating_mul(2);
    let history = parts.store.turns().history(event.topic.clone(), lines).await?;
    let context = TurnContext {
        floor: parts.floor.read().await,
        history: history.into_iter().map(line).collect(),
        event: event.clone(),
    };
    let limits = TurnLimits {
        attempts_max: config.inbox_max_attempts,
        tool_rounds_max: config.max_tool_rounds,
        tokens_max: config.max_tokens_per_event,
        day_tokens_left: day_tokens_left(parts).await?,
    };
    Ok(Turn::new(context, limits, steps))
}

fn line(row: HistoryRow) -> HistoryLine {
    let speaker = if row.role == "user" { Speaker::User } else { Speaker::Assistant };
    HistoryLine { speaker, content: row.content }
}

async fn day_tokens_left(parts: &Parts) -> Result<Option<u64>, StoreError> {
    let Some(most) = parts.config.max_tokens_per_day else { return Ok(None) };
    let now = parts.clock.now().0;
    let spent = parts.store.tokens_since(Millis(now - now.rem_euclid(DAY_MS))).await?;
    Ok(Some(most.saturating_sub(spent)))
}

async fn drive(
    parts: &Parts,
    models: &Models,
    event: &Event,
    mut turn: Turn,
    journal: &mut Journal,
    cancel: &CancellationToken,
) -> TurnEnd {
    let mut input = Input::Begin;
    loop {
        let mut learned = None;
        for effect in turn.step(input) {
            match effect {
                Effect::Record(bodies) => {
                    if let Err(error) = record(parts, event, bodies, journal, cancel).await {
                        return retry(parts, event, error.to_string(), None);
                    }
                }
                Effect::CallModel(request) => {
                    let (asked, calls) = call_model(parts, models, &event.id, &request, cancel).await;
                    journal.unpaid.extend(calls);
                    fail_point!("turn.after_model");
                    match asked {
                        Asked::Learned(input) => learned = Some(input),
                        Asked::Cancelled => return TurnEnd::Parked,
                    }
                }
                Effect::Finish { last_step, output, content } => {
                    let now = parts.clock.now();
                    let last_step = last_step.map(|body| journal.number(body, now));
                    let replies = replies(event, output, now);
                    return TurnEnd::Answered(FinishedTurn { last_step, content, replies });
                }
                Effect::RetryLater { reason, retry_after } => {
                    return retry(parts, event, reason, retry_after);
                }
                Effect::Fail { reason, notice } => return failed(parts, event, &reason, notice),
            }
        }
        match learned {
            Some(next) => input = next,
            // The brain always asks, finishes or fails; anything else is a fault of its own.
            None => {
                let reason = "the turn stopped without an outcome".to_owned();
                return failed(parts, event, &reason, FailureNotice::Broken { reason: reason.clone() });
            }
        }
    }
}

async fn record(
    parts: &Parts,
    event: &Event,
    bodies: Vec<StepBody>,
    journal: &mut Journal,
    cancel: &CancellationToken,
) -> Result<(), StoreError> {
    let now = parts.clock.now();
    let steps: Vec<Step> = bodies.into_iter().map(|body| journal.number(body, now)).collect();
    let calls = std::mem::take(&mut journal.unpaid);
    patiently(parts, cancel, || {
        let (steps, calls) = (steps.clone(), calls.clone());
        async move { parts.store.turns().record_steps(event, steps, calls).await }
    })
    .await?;
    fail_point!("turn.after_record");
    Ok(())
}

fn replies(event: &Event, output: Output, now: Millis) -> Vec<NewReply> {
    match output {
        Output::Say(text) => vec![reply_to(event, text, now)],
        Output::Silence => Vec::new(),
    }
}

fn reply_to(event: &Event, text: String, now: Millis) -> NewReply {
    NewReply { id: mint::outbox_id(now), topic: event.topic.clone(), text, payload_json: None }
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

/// How a turn that panicked ends: like any transient failure, so that a poisoned event fails in the end.
pub(crate) fn after_panic(parts: &Parts, event: &Event, panic: &str) -> TurnEnd {
    let reason = format!("the turn panicked: {panic}");
    if event.attempts < parts.config.inbox_max_attempts {
        retry(parts, event, reason, None)
    } else {
        failed(
            parts,
            event,
            &reason,
            FailureNotice::Broken { reason: "the turn broke every time".to_owned() },
        )
    }
}
