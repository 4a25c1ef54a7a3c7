//! A line of the history among the others of its conversation.

/// Where a turn stands and who said it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnPlace {
    pub id: i64,
    /// The turn before it in its topic; silence is passed over.
    pub before: Option<i64>,
    pub after: Option<i64>,
    /// The user, or the assistant by its role.
    pub speaker: String,
}
