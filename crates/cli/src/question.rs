//! A question to a person, as it comes with a message: which approval it is about, and what its buttons send.

use cortex_types::ApprovalId;
use serde::Deserialize;

/// What a message's payload holds when the message asks something.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Question {
    pub(crate) approval_id: ApprovalId,
    buttons: Vec<Button>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Button {
    data: String,
}

/// A button.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Press {
    Approve,
    Deny,
}

impl Press {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Deny => "deny",
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
        Self::deserialize(payload?).ok()
    }

    /// What the button sends.
    pub(crate) fn data(&self, press: Press) -> Option<&str> {
        let ending = format!(":{}", press.as_str());
        self.buttons.iter().map(|button| button.data.as_str()).find(|data| data.ends_with(&ending))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_payload_with_buttons_is_a_question() {
        let payload = json!({"approvalId": "apv_01ARZ3NDEKTSV4RRFFQ69G5FAV", "buttons": [
            {"label": "Approve", "data": "apr_X:approve"}, {"label": "Deny", "data": "apr_X:deny"}]});
        let question = Question::of(Some(&payload)).unwrap();
        assert_eq!(question.data(Press::Approve), Some("apr_X:approve"));
        assert_eq!(question.data(Press::Deny), Some("apr_X:deny"));
        for none in [json!({}), json!({"buttons": []}), json!({"approvalId": 7, "buttons": []})] {
            assert_eq!(Question::of(Some(&none)), None, "{none}");
        }
    }
}
