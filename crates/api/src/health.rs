//! `GET /health`: whether the server can take a message. It says nothing else, because anybody may ask.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    pub status: HealthStatus,
}

/// 200 when healthy, 503 otherwise; `/readyz` is 200 when full, because what makes room must still come through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum HealthStatus {
    Healthy,
    Degraded,
    /// The database is damaged; `cortex doctor` names what.
    Damaged,
    /// A limit of the settings is reached: new events are refused, everything else works.
    Full,
}
