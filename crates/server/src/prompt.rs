//! A message that asks something, for clients without buttons: they need the words to type.

use cortex_types::{ApprovalId, PromptPayload};

/// A question to a person, in a message that still carries its token.
pub(crate) struct Prompt {
    pub(crate) id: ApprovalId,
    pub(crate) token: String,
}

impl Prompt {
    /// The question of a message's payload; `None` when it asks nothing, or was answered.
    pub(crate) fn of(payload_json: Option<&str>) -> Option<Self> {
        let payload: PromptPayload = serde_json::from_str(payload_json?).ok()?;
        let (token, _) = payload.buttons.first()?.data.split_once(':')?;
        Some(Self { id: payload.approval_id, token: token.to_owned() })
    }
}

/// The text of a message for a client that may know nothing but text.
pub(crate) fn text_to_type(text: &str, payload_json: Option<&str>) -> String {
    match Prompt::of(payload_json) {
        None => text.to_owned(),
        Some(Prompt { token, .. }) => format!("{text}\n\nTo answer, send {token}:approve or {token}:deny"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_says_what_to_type_and_anything_else_stays_as_it_is() {
        let payload = r#"{"approvalId":"apv_01J00000000000000000000000","buttons":[{"label":"Approve","data":"apr_X:approve"}]}"#;
        assert_eq!(
            text_to_type("May I?", Some(payload)),
            "May I?\n\nTo answer, send apr_X:approve or apr_X:deny"
        );
        for none in [None, Some("{}"), Some(r#"{"buttons":[]}"#), Some("[1]")] {
            assert_eq!(text_to_type("Hello", none), "Hello");
        }
    }
}
