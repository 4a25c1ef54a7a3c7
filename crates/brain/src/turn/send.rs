//! Words for other channels from a turn that knows what others wrote: a person sees them before they go (D19).

use super::calls::{CallState, states};
use super::{CallVerdict, Effect, Turn};
use crate::output::Output;
use crate::trust::{send_call, send_channel};
use cortex_types::{ApprovalId, ChatReply, Decision, StepBody, ToolCall};

/// Channels that a person is asked about for one answer; it goes to no further ones.
const ASKED_MAX: usize = 4;

/// What was decided about words for other channels; those that are not named here go out as always.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SendVerdicts {
    /// Looked at once more right before the words go.
    pub approved: Vec<ApprovedSend>,
    /// Those that nobody had to be asked about.
    pub unasked: Vec<ToolCall>,
    /// Channels that do not get them.
    pub withheld: Vec<String>,
}

/// Words for a channel that a person approved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovedSend {
    pub call: ToolCall,
    pub approval: ApprovalId,
}

impl Turn {
    /// Ends the turn with this answer: at once, or once a person has said what may go elsewhere. `last_step` is the answer
    /// while it is not on record.
    pub(super) fn end_with(&mut self, reply: &ChatReply, last_step: Option<StepBody>) -> Vec<Effect> {
        let output = self.output_of(reply);
        let marked = self.is_marked();
        let sends: Vec<ToolCall> = match &output {
            Output::Say { text, to } if marked => {
                to.channels.iter().map(|channel| send_call(channel, text)).collect()
            }
            Output::Say { .. } | Output::Silence => Vec::new(),
        };
        if sends.is_empty() {
            let sends = SendVerdicts::default();
            return vec![Effect::Finish { last_step, output, sends, marked }];
        }
        let mut effects = Vec::new();
        // Before anybody is asked the answer is on record: what is approved is what was said then.
        if let Some(answered) = last_step {
            self.verdicts.clear();
            self.steps.push(answered.clone());
            effects.push(Effect::Record { steps: vec![answered], notices: Vec::new() });
        }
        effects.push(self.next_for_sends(output, &sends));
        effects
    }

    fn next_for_sends(&self, output: Output, sends: &[ToolCall]) -> Effect {
        let (asked_about, too_many) = sends.split_at(sends.len().min(ASKED_MAX));
        let mut verdicts = SendVerdicts {
            withheld: too_many.iter().map(|call| send_channel(call).to_owned()).collect(),
            ..SendVerdicts::default()
        };
        let (mut unchecked, mut gated, mut asked) = (Vec::new(), Vec::new(), false);
        for (call, state) in states(asked_about, &self.steps) {
            match (state, self.verdicts.get(&call.id)) {
                (CallState::Open, None) => unchecked.push(call),
                (CallState::Open, Some(CallVerdict::Gated)) => gated.push(call),
                (CallState::Open, Some(CallVerdict::Free { .. } | CallVerdict::Granted)) => {
                    verdicts.unasked.push(call);
                }
                (CallState::Decided(Decision::Approved, approval), _) => {
                    verdicts.approved.push(ApprovedSend { call, approval });
                }
                (CallState::Asked, _) => asked = true,
                (CallState::Open, Some(CallVerdict::Refused(_)))
                | (CallState::Decided(Decision::Denied | Decision::Expired, _), _)
                | (CallState::Started { .. } | CallState::Answered, _) => {
                    verdicts.withheld.push(send_channel(&call).to_owned());
                }
            }
        }
        match (unchecked.is_empty(), gated.is_empty(), asked) {
            (false, _, _) => Effect::CheckSends(unchecked),
            (true, false, _) => Effect::AskSends(gated),
            (true, true, true) => Effect::KeepWaiting,
            (true, true, false) => {
                Effect::Finish { last_step: None, output, sends: verdicts, marked: self.is_marked() }
            }
        }
    }
}
