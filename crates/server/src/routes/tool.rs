//! `/api/v2/tools`: what the assistant can do, and the trust in what changed.

use crate::body::JsonBody;
use crate::fields::Fields;
use crate::json::Json;
use crate::path_id::PathId;
use crate::refusal::Refusal;
use crate::state::AppState;
use axum::extract::State;
use cortex_api::{
    AwaitingTrust, CutText, ErrorBody, ErrorCode, ToolEffect, ToolList, ToolRow, ToolTrustRequest,
    UntrustedCode, UntrustedTool,
};
use cortex_tools::{HostPolicy, McpState, Mutation, SkillState, ToolDefinition, ToolSource, TrustError};
use cortex_types::limits::{UNTRUSTED_TEXT_CHARS_MAX, UNTRUSTED_TEXTS_CHARS_MAX};
use http::StatusCode;

/// The tools that can be called now, and what keeps others from it.
#[utoipa::path(get, path = "/api/v2/tools", tag = "tool", responses((status = 200, body = ToolList)))]
pub(crate) async fn list(State(app): State<AppState>) -> Result<Json<ToolList>, Refusal> {
    let items = app.runtime.tools().into_iter().map(|(tool, asks_first)| row(tool, asks_first)).collect();
    let awaiting_trust = app.toolbox.awaiting_trust().await;
    let awaiting_trust = awaiting_trust
        .map_err(|error| Refusal::because(ErrorCode::StorageUnavailable, error.to_string()))?
        .into_iter()
        .map(untrusted)
        .collect();
    Ok(Json(ToolList { items, held_back: held_back(&app), awaiting_trust }))
}

/// Trust a skill or an MCP server as it was shown.
#[utoipa::path(
    post, path = "/api/v2/tools/{id}/trust", tag = "tool", params(("id" = String, Path)),
    request_body = ToolTrustRequest, responses(
    (status = 204, description = "Trusted"), (status = 400, body = ErrorBody), (status = 404, body = ErrorBody),
    (status = 409, body = ErrorBody, description = "It changed since it was shown, or the skill cannot be started"),
))]
pub(crate) async fn trust(
    State(app): State<AppState>,
    PathId(id): PathId,
    JsonBody(body): JsonBody,
) -> Result<StatusCode, Refusal> {
    let mut fields = Fields::of(&body);
    let shown = fields.name("digest");
    fields.finish()?;
    match app.toolbox.trust(&id, &shown).await {
        Ok(()) => Ok(StatusCode::NO_CONTENT),
        Err(TrustError::NoSkill(_)) => Err(Refusal::new(ErrorCode::NotFound)),
        Err(error @ (TrustError::NotAsShown(_) | TrustError::Broken(_))) => {
            Err(Refusal::because(ErrorCode::Conflict, error.to_string()))
        }
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

/// What waits for trust, as far as it fits the bounds of what is shown.
pub fn untrusted(row: cortex_tools::NewOffer) -> AwaitingTrust {
    let mut room = UNTRUSTED_TEXTS_CHARS_MAX;
    let tools = row.tools.into_iter().map(|tool| {
        let definition = tool.definition;
        UntrustedTool {
            is_new: tool.is_new,
            effect: match definition.mutation {
                Mutation::ReadOnly => ToolEffect::Reads,
                Mutation::Mutates => ToolEffect::Changes,
                Mutation::Undeclared => ToolEffect::Undeclared,
            },
            description: cut(&definition.description, &mut room),
            old_description: tool.old_description.map(|old| cut(&old, &mut room)),
            arguments_schema: cut(&definition.input_schema_json, &mut room),
            name: definition.name.to_string(),
        }
    });
    AwaitingTrust {
        name: row.name,
        digest: row.digest,
        tools: tools.collect(),
        code: row.code.map(|code| UntrustedCode {
            folder: code.folder.display().to_string(),
            sha256: code.sha256,
            hosts: match code.hosts {
                HostPolicy::AnyPublic => None,
                HostPolicy::Only(hosts) => Some(hosts.iter().map(ToString::to_string).collect()),
            },
        }),
    }
}

fn cut(text: &str, room: &mut usize) -> CutText {
    let all = text.chars().count();
    let kept = all.min(UNTRUSTED_TEXT_CHARS_MAX).min(*room);
    *room -= kept;
    CutText { text: text.chars().take(kept).collect(), left_out: all - kept }
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
