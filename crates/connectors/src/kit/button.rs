//! Buttons: what a message's payload offers, and what a press means.

use serde::{Deserialize, Serialize};

/// One button under a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Button {
    pub label: String,
    pub data: String,
}

#[derive(Deserialize)]
struct ButtonPayload {
    buttons: Vec<Button>,
}

/// What a message asks: words, and exactly what would run.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Asked {
    pub(crate) approval_id: String,
    pub(crate) question: String,
    pub(crate) verbatim: String,
    /// How many characters of it are the tool's preview, which is cut before the arguments are.
    #[serde(default)]
    pub(crate) preview_chars: usize,
}

impl Asked {
    /// `None` when the payload asks nothing, or keeps its question in the text.
    pub(crate) fn of(payload: Option<&serde_json::Value>) -> Option<Self> {
        Self::deserialize(payload?).ok().filter(|asked| !asked.verbatim.is_empty())
    }
}

/// The buttons of a payload; none when it has none.
pub(crate) fn buttons_of(payload: Option<&serde_json::Value>) -> Vec<Button> {
    payload
        .and_then(|payload| ButtonPayload::deserialize(payload).ok())
        .map_or(Vec::new(), |found| found.buttons)
}

/// `apr_…` of `apr_…:approve`.
pub(crate) fn approval_token(data: &str) -> Option<&str> {
    approval_parts(data).map(|(token, _)| token)
}

/// `approve` of `apr_…:approve`.
pub(crate) fn approval_word(data: &str) -> Option<&str> {
    approval_parts(data).map(|(_, word)| word)
}

/// The data of the button that says this word.
pub(crate) fn data_with_word<'a>(buttons: &'a [Button], word: &str) -> Option<&'a str> {
    buttons.iter().map(|button| button.data.as_str()).find(|data| approval_word(data) == Some(word))
}

fn approval_parts(data: &str) -> Option<(&str, &str)> {
    data.split_once(':').filter(|(token, _)| token.starts_with("apr_"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn buttons_are_read_from_a_payload_and_from_nothing_else() {
        let payload =
            json!({"approvalId": "apv_1", "buttons": [{"label": "Approve", "data": "apr_X:approve"}]});
        let button = Button { label: "Approve".to_owned(), data: "apr_X:approve".to_owned() };
        assert_eq!(buttons_of(Some(&payload)), [button]);
        for none in [json!({}), json!({"buttons": "x"}), json!([]), json!({"buttons": [{"label": "x"}]})] {
            assert!(buttons_of(Some(&none)).is_empty(), "{none}");
        }
        assert!(buttons_of(None).is_empty());
    }

    #[test]
    fn the_token_and_the_word_are_read_from_the_data() {
        assert_eq!(approval_token("apr_X:approve"), Some("apr_X"));
        assert_eq!(approval_word("apr_X:deny"), Some("deny"));
        assert_eq!(approval_token("color:red"), None);
    }
}
