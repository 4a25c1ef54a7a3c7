//! The turn as a pure state machine: what was learned goes in, what to do next comes out.
//!
//! The journal is the state. A turn that is built from its recorded steps asks for exactly what a crash kept
//! from being recorded, so resuming and running are the same code.

use crate::context::TurnContext;
use crate::failure::FailureNotice;
use crate::output::{Output, parse_output, without_pictures};
use crate::trust::{is_own_reading, without_mark};
use calls::{CallState, forget_unstarted, states, with_distinct_ids};
use cortex_types::limits::{OPEN_QUESTIONS_MAX, TOOL_CALLS_MAX};
use cortex_types::{
    ApprovalId, ChatMessage, ChatReply, ChatRequest, DENIED_RESULT, Decision, EXPIRED_RESULT, Sampling,
    StepBody, ToolCall, ToolEnding, ToolSpec,
};
use std::collections::HashMap;
use std::time::Duration;

mod calls;
mod send;

pub use send::{ApprovedSend, SendVerdicts};

/// The bounds of one turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnLimits {
    /// Tries of the event before it fails for good.
    pub attempts_max: u32,
    /// Rounds of tool calls before the model must answer without tools (D8).
    pub tool_rounds_max: u32,
    /// Tokens one event may cost; `None` is no limit.
    pub tokens_max: Option<u64>,
    /// Tokens left of the day's budget; `None` is no limit.
    pub day_tokens_left: Option<u64>,
}

/// What the turn learns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// The turn starts, or resumes after the recorded steps.
    Begin,
    ModelAnswered {
        reply: ChatReply,
        profile: String,
        model: String,
    },
    ModelFailed(ModelFailure),
    /// What the registry says of each call it was asked about.
    CallsChecked(Vec<(String, CallVerdict)>),
    /// How the calls that could run went. One without a result still waits and has not started.
    ToolsRan(Vec<ToolResult>),
}

/// Whether a call may run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallVerdict {
    /// Runs at once; `mutates` says that it may change something all the same, so it is never repeated.
    Free { mutates: bool },
    /// Changes something, and this exact call was granted before.
    Granted,
    /// Changes something: a person is asked.
    Gated,
    /// Cannot run; the model is told why.
    Refused(String),
}

/// A call that may run, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadyCall {
    pub call: ToolCall,
    pub clearance: Clearance,
    /// The model wanted it after it had read what others wrote.
    pub marked: bool,
    /// It may change something, so a start without an end is unknown.
    pub mutates: bool,
}

impl ReadyCall {
    /// The step that says that it may have run from here on.
    pub fn started(&self) -> StepBody {
        let ToolCall { id, name, .. } = &self.call;
        StepBody::ToolStarted { call_id: id.clone(), name: name.clone(), mutates: self.mutates }
    }
}

/// What a call may run on; looked at once more right before it does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Clearance {
    /// Nobody needs to be asked.
    Free,
    /// This exact call was granted for a while.
    Granted,
    /// A person approved it.
    Approved(ApprovalId),
}

/// How one tool call went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolResult {
    pub call_id: String,
    pub text: String,
    pub ending: ToolEnding,
    /// Others wrote it, or part of it.
    pub untrusted: bool,
}

/// Why no provider answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelFailure {
    Transient { reason: String, retry_after: Option<Duration> },
    Permanent { reason: String },
}

/// What is to be done, in order.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Ask the models; `marked` says that the answer is given knowing what others wrote.
    CallModel { request: ChatRequest, marked: bool },
    /// Journal these before anything that follows, and tell the user the notices in the same transaction.
    Record { steps: Vec<StepBody>, notices: Vec<String> },
    /// Ask the registry about these calls; `marked` says that the model wrote them knowing what others wrote.
    CheckCalls { calls: Vec<ToolCall>, marked: bool },
    /// Look up where these words for other channels would go.
    CheckSends(Vec<ToolCall>),
    /// Run these side by side, each as soon as it can, with its start journaled right before. A call that waits has not
    /// started: whatever ends the wait, it did not run. Those that ran are told of while others still wait.
    RunTools(Vec<ReadyCall>),
    /// Ask a person about each of these and suspend the turn; each that is approved runs at once.
    AskApprovals(Vec<ToolCall>),
    /// The same for words that would go to other channels.
    AskSends(Vec<ToolCall>),
    /// Questions are still open: suspend again.
    KeepWaiting,
    /// The turn has its answer. `last_step` is not yet in the journal and goes there in the same transaction.
    Finish {
        last_step: Option<StepBody>,
        output: Output,
        sends: SendVerdicts,
        /// The turn knew what others wrote: it read it, or its prompt held it.
        marked: bool,
    },
    /// Try the event again later.
    RetryLater { reason: String, retry_after: Option<Duration> },
    /// Give the event up and tell the user.
    Fail { reason: String, notice: FailureNotice },
}

/// One event being answered.
#[derive(Debug, Clone)]
pub struct Turn {
    context: TurnContext,
    limits: TurnLimits,
    tools: Vec<ToolSpec>,
    steps: Vec<StepBody>,
    /// What the registry said of the calls of the last answer; asked anew after a crash.
    verdicts: HashMap<String, CallVerdict>,
}

impl Turn {
    /// A turn whose `steps` were recorded by earlier attempts; empty for a new one.
    pub fn new(context: TurnContext, limits: TurnLimits, tools: Vec<ToolSpec>, steps: Vec<StepBody>) -> Self {
        Self { context, limits, tools, steps, verdicts: HashMap::new() }
    }

    pub fn step(&mut self, input: Input) -> Vec<Effect> {
        match input {
            Input::Begin => {
                let mut effects = self.mark_by_prompt();
                effects.extend(self.resume());
                effects
            }
            Input::ModelAnswered { reply, profile, model } => {
                let reply = with_distinct_ids(reply);
                let answered = StepBody::ModelAnswered { reply: reply.clone(), profile, model };
                if self.is_final(&reply) {
                    return self.end_with(&reply, Some(answered));
                }
                self.verdicts.clear();
                self.steps.push(answered.clone());
                self.advance(vec![answered], Vec::new())
            }
            Input::ModelFailed(failure) => vec![self.after_failure(failure)],
            Input::CallsChecked(verdicts) => {
                self.verdicts.extend(verdicts);
                match self.last_reply().cloned().filter(|reply| self.was_final(reply)) {
                    Some(reply) => self.end_with(&reply, None),
                    None => self.advance(Vec::new(), Vec::new()),
                }
            }
            Input::ToolsRan(results) => {
                let mut record = Vec::new();
                let mut notices = Vec::new();
                for result in results {
                    let name = self.name_of(&result.call_id);
                    let was_approved = self.was_approved(&result.call_id);
                    let notice = ending_notice(&name, result.ending, was_approved, &result.text);
                    notices.extend(notice.map(|notice| without_pictures(&notice)));
                    let read = result.untrusted.then(|| name.clone());
                    self.answer_call(&mut record, result.call_id, name, result.text, result.ending);
                    read.into_iter().for_each(|from| self.mark(&mut record, from));
                }
                forget_unstarted(&mut self.steps);
                self.advance(record, notices)
            }
        }
    }

    /// A prompt that holds what others wrote marks the turn before the model is asked.
    fn mark_by_prompt(&mut self) -> Vec<Effect> {
        let mut record = Vec::new();
        if let Some(from) = self.context.untrusted().map(str::to_owned) {
            self.mark(&mut record, from);
        }
        let is_new = !record.is_empty();
        is_new.then_some(Effect::Record { steps: record, notices: Vec::new() }).into_iter().collect()
    }

    fn mark(&mut self, record: &mut Vec<StepBody>, from: String) {
        if !self.is_marked() || (is_own_reading(&from) && !self.has_read_itself()) {
            let read = StepBody::UntrustedRead { from };
            self.steps.push(read.clone());
            record.push(read);
        }
    }

    fn is_marked(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, StepBody::UntrustedRead { .. }))
    }

    /// Whether the journal names something that it read itself, and not only what its prompt held.
    fn has_read_itself(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, StepBody::UntrustedRead { from } if is_own_reading(from)))
    }

    /// Whether the model's last answer was given after the turn had read what others wrote.
    fn last_answer_is_marked(&self) -> bool {
        let last = self.steps.iter().rposition(|step| matches!(step, StepBody::ModelAnswered { .. }));
        let before = &self.steps[..last.unwrap_or(self.steps.len())];
        before.iter().any(|step| matches!(step, StepBody::UntrustedRead { .. }))
    }

    fn resume(&mut self) -> Vec<Effect> {
        let Some(reply) = self.last_reply().cloned() else { return vec![self.ask()] };
        if self.was_final(&reply) {
            return self.end_with(&reply, None);
        }
        let mut record = Vec::new();
        let mut notices = Vec::new();
        for (call, state) in states(&reply.tool_calls, &self.steps) {
            if state == (CallState::Started { mutates: true }) {
                let text =
                    "the server stopped while this ran: it may or may not have taken effect; outcome unknown";
                notices.extend(ending_notice(&call.name, ToolEnding::Unknown, false, text));
                self.answer_call(&mut record, call.id, call.name, text.to_owned(), ToolEnding::Unknown);
            }
        }
        self.advance(record, notices)
    }

    /// The next effects for the calls of the last answer; asks the model once all of them are answered.
    fn advance(&mut self, mut record: Vec<StepBody>, notices: Vec<String>) -> Vec<Effect> {
        let next = self.next_for_calls(&mut record);
        let mut effects = Vec::new();
        if !record.is_empty() {
            effects.push(Effect::Record { steps: record, notices });
        }
        effects.push(next);
        effects
    }

    fn next_for_calls(&mut self, record: &mut Vec<StepBody>) -> Effect {
        let Some(reply) = self.last_reply().cloned() else { return self.ask() };
        self.answer_decided(&reply, record);
        let (mut unchecked, mut free, mut allowed, mut gated, mut asked) =
            (vec![], vec![], vec![], vec![], 0_usize);
        for (call, state) in states(&reply.tool_calls, &self.steps) {
            match (state, self.verdicts.get(&call.id)) {
                (CallState::Answered, _) => {}
                (CallState::Open, None) => unchecked.push(call),
                (CallState::Open, Some(CallVerdict::Free { mutates })) => free.push((call, *mutates)),
                (CallState::Started { mutates: false }, _) => free.push((call, false)),
                (CallState::Open, Some(CallVerdict::Granted)) => allowed.push((call, Clearance::Granted)),
                (CallState::Decided(Decision::Approved, approval), _) => {
                    allowed.push((call, Clearance::Approved(approval)));
                }
                (CallState::Open, Some(CallVerdict::Gated)) => gated.push(call),
                (CallState::Asked, _) => asked += 1,
                (CallState::Open, Some(CallVerdict::Refused(_)))
                | (CallState::Decided(Decision::Denied | Decision::Expired, _), _)
                | (CallState::Started { mutates: true }, _) => {}
            }
        }
        if !unchecked.is_empty() {
            return Effect::CheckCalls { calls: unchecked, marked: self.last_answer_is_marked() };
        }
        if !free.is_empty() {
            let marked = self.last_answer_is_marked();
            let clearance = Clearance::Free;
            let ready = |(call, mutates)| ReadyCall { call, clearance: clearance.clone(), marked, mutates };
            return self.run(free.into_iter().map(ready).collect());
        }
        // One after the other: what changes something never runs beside another change.
        if let Some((call, clearance)) = allowed.into_iter().next() {
            let marked = self.last_answer_is_marked();
            return self.run(vec![ReadyCall { call, clearance, marked, mutates: true }]);
        }
        // The others stay open in the journal and are asked about once a place is free: nobody reads ten questions.
        gated.truncate(OPEN_QUESTIONS_MAX.saturating_sub(asked));
        match (gated.is_empty(), asked) {
            (false, _) => Effect::AskApprovals(gated),
            (true, 0) => self.ask(),
            (true, _) => Effect::KeepWaiting,
        }
    }

    /// Refused, denied and expired calls get their answer without running.
    fn answer_decided(&mut self, reply: &ChatReply, record: &mut Vec<StepBody>) {
        for (position, (call, state)) in states(&reply.tool_calls, &self.steps).into_iter().enumerate() {
            let (text, ending) = match (state, self.verdicts.get(&call.id)) {
                (CallState::Open, _) if position >= TOOL_CALLS_MAX => {
                    let text = format!("not run: at most {TOOL_CALLS_MAX} tool calls in one answer");
                    (text, ToolEnding::Refused)
                }
                (CallState::Open, Some(CallVerdict::Refused(text))) => (text.clone(), ToolEnding::Refused),
                (CallState::Decided(Decision::Denied, _), _) => {
                    (DENIED_RESULT.to_owned(), ToolEnding::Denied)
                }
                (CallState::Decided(Decision::Expired, _), _) => {
                    (EXPIRED_RESULT.to_owned(), ToolEnding::Expired)
                }
                _ => continue,
            };
            self.answer_call(record, call.id, call.name, text, ending);
        }
    }

    fn run(&mut self, calls: Vec<ReadyCall>) -> Effect {
        self.steps.extend(calls.iter().map(ReadyCall::started));
        Effect::RunTools(calls)
    }

    fn answer_call(
        &mut self,
        record: &mut Vec<StepBody>,
        call_id: String,
        name: String,
        text: String,
        ending: ToolEnding,
    ) {
        let answered = StepBody::ToolAnswered { call_id, name, text, ending };
        self.steps.push(answered.clone());
        record.push(answered);
    }

    /// No tools asked for, or asked for after the last round: the words are the answer.
    fn is_final(&self, reply: &ChatReply) -> bool {
        reply.tool_calls.is_empty() || self.rounds() >= self.limits.tool_rounds_max
    }

    /// The same of an answer that is on record.
    fn was_final(&self, reply: &ChatReply) -> bool {
        reply.tool_calls.is_empty() || self.rounds() > self.limits.tool_rounds_max
    }

    fn output_of(&self, reply: &ChatReply) -> Output {
        let said = if reply.text.trim().is_empty() {
            format!("I could not finish this within {} rounds of tool calls.", self.limits.tool_rounds_max)
        } else {
            reply.text.clone()
        };
        let output = parse_output(&said);
        if self.is_marked() { output.without_pictures() } else { output }
    }

    fn after_failure(&self, failure: ModelFailure) -> Effect {
        match failure {
            ModelFailure::Transient { reason, retry_after }
                if self.context.event.attempts < self.limits.attempts_max =>
            {
                Effect::RetryLater { reason, retry_after }
            }
            ModelFailure::Transient { reason, .. } => {
                let reason = format!("{reason} (given up after {} attempts)", self.context.event.attempts);
                Effect::Fail { notice: FailureNotice::Model { reason: reason.clone() }, reason }
            }
            ModelFailure::Permanent { reason } => {
                Effect::Fail { notice: FailureNotice::Model { reason: reason.clone() }, reason }
            }
        }
    }

    fn ask(&self) -> Effect {
        if let Some(reason) = self.budget_reason() {
            return Effect::Fail { notice: FailureNotice::Budget { reason: reason.clone() }, reason };
        }
        let mut messages = self.context.messages().to_vec();
        messages.extend(self.steps.iter().filter_map(message));
        // After the last round the model gets one call without tools, so that it has to say something.
        let may_call = self.rounds() < self.limits.tool_rounds_max;
        let (system, stable_system_bytes) = self.context.system();
        let request = ChatRequest {
            system,
            stable_system_bytes,
            messages,
            tools: if may_call { self.tools.clone() } else { Vec::new() },
            max_output_tokens: None,
            sampling: Sampling::default(),
        };
        Effect::CallModel { request, marked: self.is_marked() }
    }

    fn budget_reason(&self) -> Option<String> {
        if self.limits.day_tokens_left == Some(0) {
            return Some("budget_exceeded: the tokens of this day are used up".to_owned());
        }
        let most = self.limits.tokens_max?;
        let spent: u64 = self.replies().map(|reply| reply.usage.total()).sum();
        (spent >= most)
            .then(|| format!("budget_exceeded: {spent} tokens of {most} for one message are used up"))
    }

    fn name_of(&self, call_id: &str) -> String {
        let calls = self.last_reply().map(|reply| reply.tool_calls.as_slice()).unwrap_or_default();
        calls.iter().find(|call| call.id == call_id).map(|call| call.name.clone()).unwrap_or_default()
    }

    /// Whether a person said yes to this call of the last answer.
    fn was_approved(&self, id: &str) -> bool {
        let since =
            self.steps.iter().rev().take_while(|step| !matches!(step, StepBody::ModelAnswered { .. }));
        since.into_iter().any(|step| {
            matches!(step, StepBody::ApprovalDecided { call_id, decision: Decision::Approved, .. } if call_id == id)
        })
    }

    fn rounds(&self) -> u32 {
        let asked = self.replies().filter(|reply| !reply.tool_calls.is_empty()).count();
        u32::try_from(asked).unwrap_or(u32::MAX)
    }

    fn last_reply(&self) -> Option<&ChatReply> {
        self.replies().last()
    }

    fn replies(&self) -> impl Iterator<Item = &ChatReply> {
        self.steps.iter().filter_map(|step| match step {
            StepBody::ModelAnswered { reply, .. } => Some(reply),
            StepBody::ApprovalAsked { .. }
            | StepBody::ApprovalDecided { .. }
            | StepBody::ToolStarted { .. }
            | StepBody::UntrustedRead { .. }
            | StepBody::ToolAnswered { .. } => None,
        })
    }
}

/// What the model sees of a step.
fn message(step: &StepBody) -> Option<ChatMessage> {
    match step {
        StepBody::ModelAnswered { reply, .. } => {
            Some(ChatMessage::Assistant { text: reply.text.clone(), tool_calls: reply.tool_calls.clone() })
        }
        StepBody::ToolAnswered { call_id, name, text, ending } => Some(ChatMessage::Tool {
            call_id: call_id.clone(),
            name: name.clone(),
            text: text.clone(),
            is_error: ending.is_error(),
        }),
        StepBody::ApprovalAsked { .. }
        | StepBody::ApprovalDecided { .. }
        | StepBody::ToolStarted { .. }
        | StepBody::UntrustedRead { .. } => None,
    }
}

/// What nobody knows (D24), and what was approved and did not run after all (D9), the user is told.
fn ending_notice(name: &str, ending: ToolEnding, was_approved: bool, text: &str) -> Option<String> {
    let text = without_mark(text);
    match ending {
        ToolEnding::Unknown => Some(format!(
            "{name} may have run, and I do not know how it ended ({text}). I will not run it again by myself."
        )),
        ToolEnding::Expired => Some(format!("{name} did not run ({text}).")),
        ToolEnding::Refused if was_approved => Some(format!("{name} did not run ({text}).")),
        ToolEnding::Done | ToolEnding::Failed | ToolEnding::Refused | ToolEnding::Denied => None,
    }
}

#[cfg(test)]
mod tests;
