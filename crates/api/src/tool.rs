//! `/api/v2/tools`: what the assistant can do.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolList {
    pub items: Vec<ToolRow>,
    /// Skills and servers whose tools are not among them, and why.
    pub held_back: Vec<String>,
}

/// A tool that can be called now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolRow {
    #[schema(example = "schedule.create")]
    pub name: String,
    pub description: String,
    /// `built-in`, `skill <id>` or `mcp <server>`.
    pub origin: String,
    /// Whether a person is asked before it runs.
    pub asks_first: bool,
}
