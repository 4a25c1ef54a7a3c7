//! What the user is told when an event could not be answered.

/// Why the user gets a notice instead of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FailureNotice {
    /// The model failed for good, or too often.
    Model { reason: String },
    /// The turn itself broke.
    Broken { reason: String },
    /// The server was restarted too often in the middle of the turn.
    Restarts,
    /// A token budget is used up.
    Budget { reason: String },
}

/// The words of the notice.
pub fn notice_text(notice: &FailureNotice) -> String {
    match notice {
        FailureNotice::Model { reason } => format!("I could not answer this message: {reason}"),
        FailureNotice::Broken { reason } => {
            format!("I could not answer this message because of an internal error: {reason}")
        }
        FailureNotice::Restarts => {
            "I could not answer this message: the server was restarted too often while I worked on it."
                .to_owned()
        }
        FailureNotice::Budget { reason } => format!("I could not answer this message: {reason}"),
    }
}
