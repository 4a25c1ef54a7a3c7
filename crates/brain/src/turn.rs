//! The turn as a pure state machine: what was learned goes in, what to do next comes out.
//!
//! The journal is the state. A turn that is built from its recorded steps asks for exactly what a crash kept
//! from being recorded, so resuming and running are the same code.

use crate::context::TurnContext;
use crate::failure::FailureNotice;
use crate::output::{Output, SILENCE_MARK, parse_output};
use cortex_types::limits::TOOL_CALLS_MAX;
use cortex_types::{ChatMessage, ChatReply, ChatRequest, StepBody, ToolCall};
use std::time::Duration;

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
    CallModel(ChatRequest),
    /// Journal these before anything that follows.
    Record(Vec<StepBody>),
    /// The turn has its answer. `last_step` is not yet in the journal and goes there in the same transaction.
    Finish {
        last_step: Option<StepBody>,
        output: Output,
        content: String,
    },
    /// Try the event again later.
    RetryLater {
        reason: String,
        retry_after: Option<Duration>,
    },
    /// Give the event up and tell the user.
    Fail {
        reason: String,
        notice: FailureNotice,
    },
}

/// One event being answered.
#[derive(Debug, Clone)]
pub struct Turn {
    context: TurnContext,
    limits: TurnLimits,
    steps: Vec<StepBody>,
}

impl Turn {
    /// A turn whose `steps` were recorded by earlier attempts; empty for a new one.
    pub fn new(context: TurnContext, limits: TurnLimits, steps: Vec<StepBody>) -> Self {
        Self { context, limits, steps }
    }

    pub fn step(&mut self, input: Input) -> Vec<Effect> {
        match input {
            Input::Begin => self.resume(),
            Input::ModelAnswered { reply, profile, model } => {
                let answered = StepBody::ModelAnswered { reply: reply.clone(), profile, model };
                if self.is_final(&reply) {
                    return vec![self.finish(&reply, Some(answered))];
                }
                self.steps.push(answered.clone());
                let answers = self.answer_tools(&reply);
                let mut recorded = vec![answered];
                recorded.extend(answers);
                vec![Effect::Record(recorded), self.ask()]
            }
            Input::ModelFailed(failure) => vec![self.after_failure(failure)],
        }
    }

    fn resume(&mut self) -> Vec<Effect> {
        let Some(reply) = self.last_reply().cloned() else { return vec![self.ask()] };
        let tools_before = self.steps.len();
        if self.rounds() > self.limits.tool_rounds_max || reply.tool_calls.is_empty() {
            return vec![self.finish(&reply, None)];
        }
        let answers = self.answer_tools(&reply);
        if self.steps.len() == tools_before {
            return vec![self.ask()];
        }
        vec![Effect::Record(answers), self.ask()]
    }

    /// No tools asked for, or asked for after the last round: the words are the answer.
    fn is_final(&self, reply: &ChatReply) -> bool {
        reply.tool_calls.is_empty() || self.rounds() >= self.limits.tool_rounds_max
    }

    fn finish(&self, reply: &ChatReply, last_step: Option<StepBody>) -> Effect {
        let said = if reply.text.trim().is_empty() {
            format!("I could not finish this within {} rounds of tool calls.", self.limits.tool_rounds_max)
        } else {
            reply.text.clone()
        };
        let output = parse_output(&said);
        let content = match &output {
            Output::Say(text) => text.clone(),
            Output::Silence => SILENCE_MARK.to_owned(),
        };
        Effect::Finish { last_step, output, content }
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
        let mut messages = self.context.messages();
        for step in &self.steps {
            messages.push(match step {
                StepBody::ModelAnswered { reply, .. } => {
                    ChatMessage::Assistant { text: reply.text.clone(), tool_calls: reply.tool_calls.clone() }
                }
                StepBody::ToolAnswered { call_id, name, text, is_error } => ChatMessage::Tool {
                    call_id: call_id.clone(),
                    name: name.clone(),
                    text: text.clone(),
                    is_error: *is_error,
                },
            });
        }
        Effect::CallModel(ChatRequest {
            system: self.context.system(),
            messages,
            tools: Vec::new(),
            max_output_tokens: None,
        })
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

    /// Answers every call of `reply` that has no answer yet, in order, and keeps the answers as steps.
    fn answer_tools(&mut self, reply: &ChatReply) -> Vec<StepBody> {
        // Providers reuse call ids from round to round: only what stands behind the last answer counts.
        let last_answer = self.steps.iter().rposition(|step| matches!(step, StepBody::ModelAnswered { .. }));
        let answered: Vec<&str> = self.steps[last_answer.unwrap_or(0)..]
            .iter()
            .filter_map(|step| match step {
                StepBody::ToolAnswered { call_id, .. } => Some(call_id.as_str()),
                StepBody::ModelAnswered { .. } => None,
            })
            .collect();
        let open =
            reply.tool_calls.iter().enumerate().filter(|(_, call)| !answered.contains(&call.id.as_str()));
        let answers: Vec<StepBody> = open.map(|(position, call)| refuse_call(position, call)).collect();
        self.steps.extend(answers.iter().cloned());
        answers
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
            StepBody::ToolAnswered { .. } => None,
        })
    }
}

/// No tool is offered yet, so every call is a mistake of the model, and the model is told.
fn refuse_call(position: usize, call: &ToolCall) -> StepBody {
    let text = if position >= TOOL_CALLS_MAX {
        format!("not run: at most {TOOL_CALLS_MAX} tool calls in one answer")
    } else if serde_json::from_str::<serde::de::IgnoredAny>(&call.arguments_json).is_err() {
        format!("not run: the arguments of {} are not valid JSON", call.name)
    } else {
        format!("not run: there is no tool named {}", call.name)
    };
    StepBody::ToolAnswered { call_id: call.id.clone(), name: call.name.clone(), text, is_error: true }
}

#[cfg(test)]
mod tests;
