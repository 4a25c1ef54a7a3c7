//! `GET /api/v2/usage`: what the models were asked and what it cost.

use crate::WireTime;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// What the rows are grouped by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum UsageBy {
    #[default]
    Model,
    Day,
    Provider,
}

impl UsageBy {
    pub const ALL: [Self; 3] = [Self::Model, Self::Day, Self::Provider];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Day => "day",
            Self::Provider => "provider",
        }
    }
}

/// `GET /api/v2/usage?since=&by=`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct UsageQuery {
    /// Only calls started at or after this moment; RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(value_type = Option<String>, format = DateTime)]
    pub since: Option<WireTime>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(inline)]
    pub by: Option<UsageBy>,
}

/// The groups, and the sum of all of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UsageReport {
    pub by: UsageBy,
    #[schema(required = true)]
    pub since: Option<WireTime>,
    pub rows: Vec<UsageRow>,
    pub total: UsageCounts,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UsageRow {
    /// The model, the day (`YYYY-MM-DD`, UTC) or the provider.
    pub key: String,
    #[serde(flatten)]
    pub counts: UsageCounts,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UsageCounts {
    pub calls: u64,
    pub failed: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cached_tokens: u64,
    /// Millionths of a US dollar.
    pub cost_micros: u64,
    /// Summed over the calls.
    pub latency_ms: u64,
}
