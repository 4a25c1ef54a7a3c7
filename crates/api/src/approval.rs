//! `/api/v2/approvals`: questions to a person, and grants.

use crate::{WireTime, schema};
use cortex_types::{ApprovalId, ApprovalStatus, EventId, GrantId};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// `GET /api/v2/approvals?…`, newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalQuery {
    /// Also those that are resolved.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub all: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 500)]
    pub limit: Option<u32>,
    /// The `nextCursor` of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
}

/// A page of questions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalList {
    pub items: Vec<ApprovalRow>,
    /// Absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// A question about one tool call. Its token is not here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalRow {
    #[schema(value_type = String, example = "apv_01J00000000000000000000000")]
    pub approval_id: ApprovalId,
    #[schema(value_type = String, example = "evt_01J00000000000000000000000")]
    pub event_id: EventId,
    pub source: String,
    pub topic_key: String,
    pub user_id: String,
    pub tool_name: String,
    /// Canonical JSON: exactly what runs.
    pub tool_arguments_json: String,
    /// The words that the person was asked with.
    #[serde(default)]
    #[schema(required = true)]
    pub question: String,
    /// The preview and every argument with hidden characters spelled out, as the person was shown them.
    #[serde(default)]
    #[schema(required = true)]
    pub verbatim: String,
    #[schema(schema_with = schema::approval_status)]
    pub status: ApprovalStatus,
    #[schema(required = true)]
    pub resolved_by: Option<String>,
    #[schema(required = true)]
    pub resolved_at: Option<WireTime>,
    pub expires_at: WireTime,
    pub created_at: WireTime,
}

/// `POST /api/v2/approvals/{id}/grant`: allow the same call again for a while.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GrantRequest {
    #[schema(minimum = 1, maximum = 86400, example = 1800)]
    pub seconds: u32,
}

/// `GET /api/v2/grants?…`, newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase")]
pub struct GrantQuery {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 500)]
    pub limit: Option<u32>,
    /// The `nextCursor` of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
}

/// A page of grants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GrantList {
    pub items: Vec<GrantRow>,
    /// Absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// A time-boxed permission for one exact call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GrantRow {
    #[schema(value_type = String, example = "grt_01J00000000000000000000000")]
    pub grant_id: GrantId,
    pub source: String,
    pub topic_key: String,
    pub user_id: String,
    pub tool_name: String,
    pub tool_arguments_json: String,
    pub created_at: WireTime,
    pub expires_at: WireTime,
    #[schema(required = true)]
    pub revoked_at: Option<WireTime>,
}

/// The id of a new grant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GrantAnswer {
    #[schema(value_type = String, example = "grt_01J00000000000000000000000")]
    pub grant_id: GrantId,
}
