//! `/api/v2/context`: what the model would see in a topic now.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// Which topic.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams, ToSchema)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase")]
pub struct ContextQuery {
    /// The topic's key.
    pub topic: String,
    /// Needed only when several sources have a topic of this key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// A prompt, part by part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContextShown {
    pub source: String,
    pub topic_key: String,
    /// In the order in which the model sees them.
    pub sections: Vec<ContextSection>,
    /// What the tools' descriptions take.
    pub tool_tokens: u32,
    /// Sections and tools together.
    pub tokens: u32,
    /// Tokens the model takes, its answer included.
    pub window: u32,
}

/// A part of a prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContextSection {
    #[schema(example = "known_facts")]
    pub name: String,
    /// An estimate.
    pub tokens: u32,
    pub text: String,
}

/// What taking a summary back did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContextUndone {
    pub source: String,
    pub topic_key: String,
    /// The summary that no longer stands for its turns; none when there was none.
    #[schema(required = true)]
    pub summary: Option<String>,
}

/// What compacting a topic did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContextCompacted {
    pub source: String,
    pub topic_key: String,
    /// False when it failed; then everything is as it was.
    pub done: bool,
    #[schema(example = "a summary stands for 34 more lines, by the model")]
    pub report: String,
}
