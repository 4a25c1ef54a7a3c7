//! The journal of a turn: what was learned, in order, so that a crash resumes after the last step.

use crate::{ApprovalId, ChatReply, Decision, Millis};
use serde::{Deserialize, Serialize};

/// One recorded step of a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Position in the turn, from 0.
    pub number: u32,
    pub at: Millis,
    pub body: StepBody,
}

/// What a step recorded. A tool call goes planned (in the model's answer) → started → answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum StepBody {
    /// The model's whole answer; never paid for twice.
    ModelAnswered { reply: ChatReply, profile: String, model: String },
    /// A person was asked; the turn waits.
    ApprovalAsked { call_id: String, approval: ApprovalId },
    /// A person answered, or the time was over.
    ApprovalDecided { call_id: String, approval: ApprovalId, decision: Decision },
    /// On disk before the tool runs: a mutating call that started and has no answer is unknown, never re-run.
    ToolStarted { call_id: String, name: String, mutates: bool },
    /// From here on the turn knows what others wrote; it asks before it reaches out, and its facts are unreviewed.
    UntrustedRead { from: String },
    /// How one tool call ended, as the model will see it.
    ToolAnswered { call_id: String, name: String, text: String, ending: ToolEnding },
}

/// How a tool call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolEnding {
    Done,
    /// It ran and failed.
    Failed,
    /// It may have run; nobody knows (D24).
    Unknown,
    /// It was not run: no such tool, bad arguments, or the gate said no.
    Refused,
    /// A person said no.
    Denied,
    /// Nobody answered in time.
    Expired,
}

impl ToolEnding {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
            Self::Refused => "refused",
            Self::Denied => "denied",
            Self::Expired => "expired",
        }
    }

    pub fn is_error(self) -> bool {
        self != Self::Done
    }
}

impl StepBody {
    pub fn kind(&self) -> &'static str {
        match self {
            Self::ModelAnswered { .. } => "model_answered",
            Self::ApprovalAsked { .. } => "approval_asked",
            Self::ApprovalDecided { .. } => "approval_decided",
            Self::ToolStarted { .. } => "tool_started",
            Self::UntrustedRead { .. } => "untrusted_read",
            Self::ToolAnswered { .. } => "tool_answered",
        }
    }
}
