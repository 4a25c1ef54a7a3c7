//! The journal of a turn: what was learned, in order, so that a crash resumes after the last step.

use crate::{ChatReply, Millis};
use serde::{Deserialize, Serialize};

/// One recorded step of a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Position in the turn, from 0.
    pub number: u32,
    pub at: Millis,
    pub body: StepBody,
}

/// What a step recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum StepBody {
    /// The model's whole answer; never paid for twice.
    ModelAnswered { reply: ChatReply, profile: String, model: String },
    /// The result of one tool call, as the model will see it.
    ToolAnswered { call_id: String, name: String, text: String, is_error: bool },
}

impl StepBody {
    pub fn kind(&self) -> &'static str {
        match self {
            Self::ModelAnswered { .. } => "model_answered",
            Self::ToolAnswered { .. } => "tool_answered",
        }
    }
}
