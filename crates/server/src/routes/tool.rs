//! `/api/v2/tools`: what the assistant can do, and the trust in what changed.

use crate::path_id::PathId;
use crate::refusal::Refusal;
use crate::state::AppState;
use axum::Json;
use axum::extract::State;
use cortex_api::{ErrorBody, ErrorCode, ToolList, ToolRow};
use cortex_tools::{McpState, SkillState, ToolDefinition, ToolSource, TrustError};
use http::StatusCode;

/// The tools that can be called now, and what keeps others from it.
#[utoipa::path(get, path = "/api/v2/tools", tag = "tool", responses((status = 200, body = ToolList)))]
pub(crate) async fn list(State(app): State<AppState>) -> Json<ToolList> {
    let items = app.runtime.tools().into_iter().map(|(tool, asks_first)| row(tool, asks_first)).collect();
    Json(ToolList { items, held_back: held_back(&app) })
}

/// Trust a skill or an MCP server as it is now.
#[utoipa::path(post, path = "/api/v2/tools/{id}/trust", tag = "tool", params(("id" = String, Path)), responses(
    (status = 204, description = "Trusted"), (status = 404, body = ErrorBody),
    (status = 409, body = ErrorBody, description = "The skill cannot be started"),
))]
pub(crate) async fn trust(State(app): State<AppState>, PathId(id): PathId) -> Result<StatusCode, Refusal> {
    match app.toolbox.trust(&id).await {
        Ok(()) => Ok(StatusCode::NO_CONTENT),
        Err(TrustError::NoSkill(_)) => Err(Refusal::new(ErrorCode::NotFound)),
        Err(TrustError::Broken(reason)) => Err(Refusal::because(ErrorCode::Conflict, reason)),
        Err(TrustError::Store(error)) => {
            Err(Refusal::because(ErrorCode::StorageUnavailable, error.to_string()))
        }
    }
}

fn row(tool: ToolDefinition, asks_first: bool) -> ToolRow {
    ToolRow {
        name: tool.name.to_string(),
        description: tool.description,
        origin: match tool.source {
            ToolSource::BuiltIn => "built-in".to_owned(),
            ToolSource::Skill { id, version } => format!("skill {id} {version}"),
            ToolSource::Mcp { server } => format!("mcp {server}"),
        },
        asks_first,
    }
}

fn held_back(app: &AppState) -> Vec<String> {
    let set = app.toolbox.skills();
    let skills = set.skills().filter_map(|skill| match set.state(skill) {
        SkillState::Ready => None,
        state @ (SkillState::Changed(_) | SkillState::CodeChanged) => {
            Some(format!("skill {}: {state}", skill.manifest.id))
        }
    });
    let servers = app.toolbox.mcp_status().into_iter().flat_map(|status| {
        let down = match status.state {
            McpState::Ready { .. } => None,
            McpState::Connecting => Some("is connecting".to_owned()),
            McpState::Down { error, retry_in } => {
                Some(format!("is down, next try in {} s: {error}", retry_in.as_secs()))
            }
            McpState::Stopped => Some("is stopped".to_owned()),
        };
        let name = status.name;
        down.into_iter().chain(status.problems).map(move |line| format!("mcp {name}: {line}"))
    });
    skills.chain(servers).chain(app.runtime.tool_collisions()).collect()
}
