//! `/api/v2/tools`: what the assistant can do.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolList {
    pub items: Vec<ToolRow>,
    /// Skills and servers whose tools are not among them, and why.
    pub held_back: Vec<String>,
    /// What of them a person can trust, and what that would be.
    #[serde(default)]
    pub awaiting_trust: Vec<AwaitingTrust>,
}

/// Everything of one skill or MCP server that one decision trusts, as far as it is new.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AwaitingTrust {
    #[schema(example = "notes")]
    pub name: String,
    /// Over everything that would be trusted, shown or not; `POST /api/v2/tools/{id}/trust` takes it.
    pub digest: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<UntrustedCode>,
    pub tools: Vec<UntrustedTool>,
}

/// Code of a skill that nobody trusts yet. It does not run, so what its tools say is not known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UntrustedCode {
    pub folder: String,
    /// Over its files and permissions.
    pub sha256: String,
    /// The hosts that it may reach; absent when it may reach every public one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<Vec<String>>,
}

/// A tool that is new, or says something else of itself than when it was trusted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UntrustedTool {
    pub name: String,
    pub is_new: bool,
    pub effect: ToolEffect,
    pub description: CutText,
    /// What it said when it was trusted; absent when that is not known any more, and for a new tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old_description: Option<CutText>,
    /// JSON Schema.
    pub arguments_schema: CutText,
}

/// Whether a tool says that it changes something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum ToolEffect {
    Reads,
    Changes,
    Undeclared,
}

/// The beginning of a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CutText {
    pub text: String,
    /// Characters that follow and are not shown.
    pub left_out: usize,
}

/// The decision to trust what was shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolTrustRequest {
    /// The digest of `awaitingTrust`.
    pub digest: String,
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
