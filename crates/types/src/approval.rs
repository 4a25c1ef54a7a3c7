//! Approvals: what a person is asked about a tool call, and how it can end.

use crate::status::UnknownStatus;
use crate::{ApprovalId, EventId, Millis, TopicRef};
use serde::{Deserialize, Serialize};

/// How a question to a person ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    Approved,
    Denied,
    Expired,
}

impl Decision {
    pub fn as_str(self) -> &'static str {
        ApprovalStatus::from(self).as_str()
    }

    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Approved, Self::Denied, Self::Expired].into_iter().find(|decision| decision.as_str() == word)
    }
}

/// What an event answers a question with. The token itself is not kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenAnswer {
    pub token_sha256: [u8; 32],
    /// `None` when the words are no decision.
    pub decision: Option<Decision>,
}

/// A question about one call, before it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewApproval {
    pub id: ApprovalId,
    /// SHA-256 of the token; the token itself is only in the prompt.
    pub token_sha256: [u8; 32],
    pub call_id: String,
    pub tool_name: String,
    /// Canonical: the bytes that were shown and will run.
    pub tool_arguments_json: String,
    /// The words that the person is asked with.
    pub question: String,
    /// What the tool itself says of the call.
    pub preview: Option<String>,
    /// Binds tool, arguments, user, topic and tool version together.
    pub binding: [u8; 32],
    pub expires_at: Millis,
}

/// A question as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approval {
    pub id: ApprovalId,
    pub event: EventId,
    pub call_id: String,
    pub topic: TopicRef,
    pub user_id: String,
    pub tool_name: String,
    pub tool_arguments_json: String,
    /// `None` for one that was asked before its words were kept.
    pub question: Option<String>,
    pub preview: Option<String>,
    pub binding: [u8; 32],
    pub status: ApprovalStatus,
    pub resolved_by: Option<String>,
    pub resolved_at: Option<Millis>,
    pub expires_at: Millis,
    pub created_at: Millis,
}

/// Whether a person had been shown a question when they said something: words that are older than that mean something else.
/// Platforms tell times in whole seconds.
pub fn was_shown_before(shown_at: Option<Millis>, said_at: Millis) -> bool {
    shown_at.is_some_and(|shown_at| shown_at.0.div_euclid(1_000) <= said_at.0.div_euclid(1_000))
}

/// What the model reads as the result of a call that a person denied.
pub const DENIED_RESULT: &str = "not run: the user denied it";
/// The same for one that nobody answered in time.
pub const EXPIRED_RESULT: &str = "not run: nobody approved it in time";

/// What a message that asks something carries beside its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PromptPayload {
    pub approval_id: ApprovalId,
    /// Plain words: what will happen, who asked, and until when.
    #[serde(default)]
    pub question: String,
    /// Exactly what would run. It is shown as it is, in full or with a count of what is cut off, and never rendered.
    #[serde(default)]
    pub verbatim: String,
    /// How many characters of `verbatim` are the tool's preview; the arguments stand behind it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub preview_chars: usize,
    pub buttons: Vec<PromptButton>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// One answer to a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptButton {
    pub label: String,
    /// What it sends: `apr_…:approve`.
    pub data: String,
}

crate::status::status_type!(
    /// The life of an approval.
    ApprovalStatus, "pending, approved, denied, expired", {
        Pending = "pending",
        Approved = "approved",
        Denied = "denied",
        Expired = "expired",
    }
);

/// Longest part of a call's arguments in a line of the history.
const ASKED_CHARS_MAX: usize = 400;

/// The line of the history that says what a person was asked and what came of it.
pub fn asked_line(tool: &str, arguments_json: &str, status: ApprovalStatus) -> String {
    let shown = match arguments_json.char_indices().nth(ASKED_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &arguments_json[..end]),
        None => arguments_json.to_owned(),
    };
    let came_of_it = match status {
        ApprovalStatus::Pending => "waiting for their answer",
        ApprovalStatus::Approved => "they approved it",
        ApprovalStatus::Denied => "they denied it",
        ApprovalStatus::Expired => "nobody answered in time",
    };
    format!("[asked the user to approve {tool} {shown}: {came_of_it}]")
}

impl From<Decision> for ApprovalStatus {
    fn from(decision: Decision) -> Self {
        match decision {
            Decision::Approved => Self::Approved,
            Decision::Denied => Self::Denied,
            Decision::Expired => Self::Expired,
        }
    }
}
