//! A question to a person, as it comes with a message: which approval it is about, and what its buttons send.

use cortex_types::{ApprovalId, PromptPayload};
use serde::Deserialize;

/// What a message's payload holds when the message asks something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Question {
    pub(crate) approval_id: ApprovalId,
    payload: PromptPayload,
}

/// A button.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Press {
    Approve,
    Deny,
}

impl Press {
    /// What one types for it in a chat.
    pub(crate) fn command(self) -> &'static str {
        match self {
            Self::Approve => "/approve",
            Self::Deny => "/deny",
        }
    }

    /// What has happened when it was pressed.
    pub(crate) fn done(self) -> &'static str {
        match self {
            Self::Approve => "approved",
            Self::Deny => "denied",
        }
    }
}

impl Question {
    /// The question of a payload; `None` when it asks nothing, or was answered.
    pub(crate) fn of(payload: Option<&serde_json::Value>) -> Option<Self> {
        let payload = PromptPayload::deserialize(payload?).ok()?;
        Some(Self { approval_id: payload.approval_id.clone(), payload })
    }

    /// The question as a terminal shows it: its words, and exactly what would run; `None` when they did not come apart.
    pub(crate) fn shown(&self) -> Option<String> {
        let PromptPayload { question, verbatim, .. } = &self.payload;
        (!verbatim.is_empty()).then(|| format!("{question}\n\n{}", indented(verbatim)))
    }
}

/// Set off from the words around it.
pub(crate) fn indented(verbatim: &str) -> String {
    let lines =
        verbatim.lines().map(|line| if line.is_empty() { String::new() } else { format!("  {line}") });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_payload_with_buttons_is_a_question() {
        let payload = json!({"approvalId": "apv_01ARZ3NDEKTSV4RRFFQ69G5FAV", "buttons": [
            {"label": "Approve", "data": "apr_X:approve"}, {"label": "Deny", "data": "apr_X:deny"}]});
        assert_eq!(Question::of(Some(&payload)).unwrap().shown(), None);
        let mut payload = payload;
        payload["question"] = json!("May I?");
        payload["verbatim"] = json!("  next: now\n\nwhat: \"*x*\"");
        let shown = Question::of(Some(&payload)).unwrap().shown();
        assert_eq!(shown.as_deref(), Some("May I?\n\n    next: now\n\n  what: \"*x*\""));
        for none in [json!({}), json!({"buttons": []}), json!({"approvalId": 7, "buttons": []})] {
            assert_eq!(Question::of(Some(&none)), None, "{none}");
        }
    }
}
