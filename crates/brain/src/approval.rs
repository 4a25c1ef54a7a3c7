//! Approvals: who may answer what, read from an event, and the words people are asked with.

use crate::trust::SEND_TOOL;
use cortex_types::{ApprovalStatus, Decision, TopicRef};
use sha2::{Digest, Sha256};
use std::time::Duration;

mod approver;
mod question;

pub use approver::is_approver;
pub use question::{Asking, Question};

/// An event that answers a question to a person. It is never shown to the model, valid or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalAnswer {
    pub token: String,
    /// `None` when the words are no decision.
    pub decision: Option<Decision>,
}

/// What answering came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerOutcome {
    Decided(Decision),
    /// Approved while the tool's server is away: the call waits for it, so long at most.
    ApprovedToWait(Duration),
    /// Somebody was faster.
    AlreadyResolved(ApprovalStatus),
    Expired,
    /// Not this user, topic or source.
    NotYours,
    UnknownToken,
    /// A token without a decision.
    NotADecision,
}

/// Reads the answer out of an event's text and metadata (D9), if it is one: metadata.decision, .action or .data, else
/// the text `apr_…:approve|deny`, else a plain word together with metadata.approvalToken.
pub fn read_answer(text: &str, metadata_json: Option<&str>) -> Option<ApprovalAnswer> {
    let metadata: Metadata =
        metadata_json.and_then(|json| serde_json::from_str(json).ok()).unwrap_or_default();
    let named = metadata.approval_token.as_deref();
    let fields = [metadata.decision.as_deref(), metadata.action.as_deref(), metadata.data.as_deref()];
    for said in fields.into_iter().flatten().chain([text]) {
        if let Some((token, decision)) = button_data(said) {
            return Some(ApprovalAnswer { token: token.to_owned(), decision });
        }
        if let (Some(token), Some(decision)) = (named, plain_decision(said)) {
            return Some(ApprovalAnswer { token: token.to_owned(), decision: Some(decision) });
        }
    }
    named.map(|token| ApprovalAnswer { token: token.to_owned(), decision: None })
}

#[derive(Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    #[serde(deserialize_with = "text_or_none")]
    decision: Option<String>,
    #[serde(deserialize_with = "text_or_none")]
    action: Option<String>,
    #[serde(deserialize_with = "text_or_none")]
    data: Option<String>,
    #[serde(deserialize_with = "text_or_none")]
    approval_token: Option<String>,
}

/// Metadata is free: a field of another type is somebody else's field.
fn text_or_none<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    #[derive(serde::Deserialize)]
    #[serde(untagged)]
    enum Field {
        Text(String),
        Other(serde::de::IgnoredAny),
    }
    Ok(match <Field as serde::Deserialize>::deserialize(deserializer)? {
        Field::Text(text) => Some(text),
        Field::Other(_) => None,
    })
}

/// `apr_<token>:<word>` and nothing around it: a quoted token decides nothing. A token with another word, or with
/// none, is an answer all the same, so that the model never sees it.
fn button_data(said: &str) -> Option<(&str, Option<Decision>)> {
    let said = said.trim();
    let (token, word) = said.split_once(':').unwrap_or((said, ""));
    let body = token.strip_prefix("apr_")?;
    let is_token = !body.is_empty() && body.chars().all(|letter| letter.is_ascii_alphanumeric());
    let is_word = word.chars().all(|letter| letter.is_ascii_alphabetic());
    let decision = match word {
        "approve" => Some(Decision::Approved),
        "deny" => Some(Decision::Denied),
        _ => None,
    };
    (is_token && is_word).then_some((token, decision))
}

fn plain_decision(word: &str) -> Option<Decision> {
    match word.trim().to_ascii_lowercase().as_str() {
        "approve" | "yes" | "y" => Some(Decision::Approved),
        "deny" | "no" | "n" => Some(Decision::Denied),
        _ => None,
    }
}

/// What a message of one plain word would decide, if it decided anything.
pub fn bare_decision(text: &str) -> Option<Decision> {
    let word = text.trim().trim_end_matches(['.', '!']).to_ascii_lowercase();
    match word.as_str() {
        "approve" | "approved" | "yes" | "y" | "yep" | "yeah" | "ok" | "okay" | "sure" => {
            Some(Decision::Approved)
        }
        "deny" | "denied" | "no" | "n" | "nope" => Some(Decision::Denied),
        _ => None,
    }
}

/// What stands above a question that is shown again, because somebody answered with a plain word. How to answer is said by
/// whoever shows it: buttons, commands or words to type.
pub fn bare_word_note(open: usize) -> String {
    match open {
        0 | 1 => "I am still waiting for your answer; a plain yes or no does not decide this:".to_owned(),
        _ => format!(
            "{open} questions are open, and a plain yes or no does not say which one you mean. One of them:"
        ),
    }
}

/// What is said of open questions that cannot be shown again.
pub fn damaged_question_note(questions: usize) -> String {
    let (what, it) = if questions == 1 { ("A question", "it ends") } else { ("Some questions", "they end") };
    format!(
        "{what} to you cannot be shown again: damaged on disk. Nothing was decided; {it} by being left unanswered."
    )
}

/// Binds an approval to exactly one call: any other byte is another call.
pub fn bind(tool: &str, canonical_arguments: &str, user: &str, topic: &TopicRef, version: &str) -> [u8; 32] {
    let mut hasher = Sha256::new();
    for part in [tool, canonical_arguments, user, &topic.source, &topic.topic_key, version] {
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part.as_bytes());
    }
    hasher.finalize().into()
}

/// The line the user gets for an answer.
pub fn outcome_line(tool: &str, outcome: AnswerOutcome) -> String {
    match outcome {
        AnswerOutcome::Decided(Decision::Approved) if tool == SEND_TOOL => {
            "Approved: the message is sent now.".to_owned()
        }
        AnswerOutcome::Decided(Decision::Denied) if tool == SEND_TOOL => {
            "Denied: the message is not sent.".to_owned()
        }
        AnswerOutcome::Decided(Decision::Expired) | AnswerOutcome::Expired if tool == SEND_TOOL => {
            "Too late: the question has expired, and the message was not sent.".to_owned()
        }
        AnswerOutcome::Decided(Decision::Approved) => format!("Approved: {tool} runs now."),
        AnswerOutcome::ApprovedToWait(longest) => format!(
            "Approved: {tool} runs as soon as its server is there. If that takes more than {} seconds, it does not run, and I tell you.",
            longest.as_millis().div_ceil(1_000)
        ),
        AnswerOutcome::Decided(Decision::Denied) => format!("Denied: {tool} will not run."),
        AnswerOutcome::Decided(Decision::Expired) | AnswerOutcome::Expired => {
            format!("Too late: the approval of {tool} has expired, and it was not run.")
        }
        AnswerOutcome::AlreadyResolved(status) => format!("{tool} was already {status}."),
        AnswerOutcome::NotYours => "This approval is not yours to answer.".to_owned(),
        AnswerOutcome::UnknownToken => "There is no such approval.".to_owned(),
        AnswerOutcome::NotADecision => "Answer approve or deny.".to_owned(),
    }
}

#[cfg(test)]
mod tests;
