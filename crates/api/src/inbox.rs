//! `/api/v2/inbox`: the accepted events, for people.

use crate::{WireTime, schema};
use cortex_types::{EventId, InboxStatus, Priority};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// `GET /api/v2/inbox?…`, newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase")]
pub struct InboxQuery {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(schema_with = schema::inbox_status, required = false)]
    pub status: Option<InboxStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 500)]
    pub limit: Option<u32>,
    /// The `nextCursor` of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
}

/// A page of the inbox.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct InboxList {
    pub items: Vec<InboxRow>,
    /// Absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// An event as the inbox keeps it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct InboxRow {
    #[schema(value_type = String, example = "evt_01J00000000000000000000000")]
    pub event_id: EventId,
    pub source: String,
    pub external_message_id: String,
    pub idempotency_key: String,
    pub topic_key: String,
    pub user_id: String,
    pub text: String,
    #[schema(value_type = Option<Object>, required = true)]
    pub metadata: Option<serde_json::Value>,
    #[schema(schema_with = schema::priority)]
    pub priority: Priority,
    #[schema(schema_with = schema::inbox_status)]
    pub status: InboxStatus,
    pub attempts: u32,
    /// Why it failed, or why its last attempt did.
    #[schema(required = true)]
    pub error: Option<String>,
    pub occurred_at: WireTime,
    pub created_at: WireTime,
    pub updated_at: WireTime,
}
