//! Where each tool call of the last answer stands, read off the journal.

use cortex_types::{ApprovalId, ChatReply, Decision, StepBody, ToolCall};
use std::collections::HashSet;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CallState {
    Open,
    /// A person was asked and has not answered.
    Asked,
    Decided(Decision, ApprovalId),
    Started {
        mutates: bool,
    },
    Answered,
}

/// Gives every call of an answer an id of its own: two calls under one id could not be told apart in the journal,
/// and one approval would cover both.
pub(super) fn with_distinct_ids(mut reply: ChatReply) -> ChatReply {
    let mut taken = HashSet::new();
    for (position, call) in reply.tool_calls.iter_mut().enumerate() {
        let mut tries = 0;
        while call.id.is_empty() || taken.contains(&call.id) {
            call.id = format!("call_{position}_{tries}");
            tries += 1;
        }
        taken.insert(call.id.clone());
    }
    reply
}

/// The calls in order, each with its state. Providers reuse call ids from round to round, so only what
/// stands behind the last answer counts.
pub(super) fn states(calls: &[ToolCall], steps: &[StepBody]) -> Vec<(ToolCall, CallState)> {
    let last_answer = steps.iter().rposition(|step| matches!(step, StepBody::ModelAnswered { .. }));
    let since = &steps[last_answer.map_or(0, |position| position + 1)..];
    let state_of = |id: &str| {
        since.iter().fold(CallState::Open, |state, step| match step {
            StepBody::ApprovalAsked { call_id, .. } if call_id == id => CallState::Asked,
            StepBody::ApprovalDecided { call_id, decision, approval } if call_id == id => {
                CallState::Decided(*decision, approval.clone())
            }
            StepBody::ToolStarted { call_id, mutates, .. } if call_id == id => {
                CallState::Started { mutates: *mutates }
            }
            StepBody::ToolAnswered { call_id, .. } if call_id == id => CallState::Answered,
            StepBody::ModelAnswered { .. }
            | StepBody::ApprovalAsked { .. }
            | StepBody::ApprovalDecided { .. }
            | StepBody::ToolStarted { .. }
            | StepBody::UntrustedRead { .. }
            | StepBody::ToolAnswered { .. } => state,
        })
    };
    calls.iter().map(|call| (call.clone(), state_of(&call.id))).collect()
}

/// Calls that were to run and came back without a result are open again.
pub(super) fn forget_unstarted(steps: &mut Vec<StepBody>) {
    let last = steps.iter().rposition(|step| matches!(step, StepBody::ModelAnswered { .. }));
    let since = steps.split_off(last.map_or(0, |position| position + 1));
    let is_answered = |id: &str| {
        since.iter().any(|step| matches!(step, StepBody::ToolAnswered { call_id, .. } if call_id == id))
    };
    let is_unstarted =
        |step: &StepBody| matches!(step, StepBody::ToolStarted { call_id, .. } if !is_answered(call_id));
    steps.extend(since.iter().filter(|step| !is_unstarted(step)).cloned());
}
