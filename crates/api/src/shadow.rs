//! `GET /api/v2/shadow`: what would have been sent, beside what was.

use crate::{InboxRow, OutboxRow};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// `GET /api/v2/shadow?limit=`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ShadowQuery {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 500)]
    pub limit: Option<u32>,
}

/// The newest events of which something was held back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ShadowReport {
    pub items: Vec<ShadowRow>,
}

/// An event and what it led to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ShadowRow {
    pub event: InboxRow,
    /// Recorded and not sent; `lastError` says why.
    pub would_have_been_sent: Vec<OutboxRow>,
    pub sent: Vec<OutboxRow>,
}
