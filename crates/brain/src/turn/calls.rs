//! Where each tool call of the last answer stands, read off the journal.

use cortex_types::{ChatReply, Decision, StepBody, ToolCall};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallState {
    Open,
    /// A person was asked and has not answered.
    Asked,
    Decided(Decision),
    Started {
        mutates: bool,
    },
    Answered,
}

/// The calls of `reply` in order, each with its state. Providers reuse call ids from round to round, so only what
/// stands behind the last answer counts.
pub(super) fn states(reply: &ChatReply, steps: &[StepBody]) -> Vec<(ToolCall, CallState)> {
    let last_answer = steps.iter().rposition(|step| matches!(step, StepBody::ModelAnswered { .. }));
    let since = &steps[last_answer.map_or(0, |position| position + 1)..];
    let state_of = |id: &str| {
        since.iter().fold(CallState::Open, |state, step| match step {
            StepBody::ApprovalAsked { call_id, .. } if call_id == id => CallState::Asked,
            StepBody::ApprovalDecided { call_id, decision, .. } if call_id == id => {
                CallState::Decided(*decision)
            }
            StepBody::ToolStarted { call_id, mutates, .. } if call_id == id => {
                CallState::Started { mutates: *mutates }
            }
            StepBody::ToolAnswered { call_id, .. } if call_id == id => CallState::Answered,
            StepBody::ModelAnswered { .. }
            | StepBody::ApprovalAsked { .. }
            | StepBody::ApprovalDecided { .. }
            | StepBody::ToolStarted { .. }
            | StepBody::ToolAnswered { .. } => state,
        })
    };
    reply.tool_calls.iter().map(|call| (call.clone(), state_of(&call.id))).collect()
}
