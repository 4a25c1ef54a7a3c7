//! `/api/v2/schedules`: jobs, their next fires, and what became of their slots.

use crate::{WireTime, schema};
use cortex_types::{CatchUp, EventId, SlotOutcome};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What to create or change; `when` is English, `cron` five fields, `runAt` one moment. One of them is enough.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScheduleRequest {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "every weekday at 9")]
    pub when: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cron: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub what: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = schema::catch_up)]
    pub catch_up: Option<CatchUp>,
    /// Where the reminder goes; the command line's own topic when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic_key: Option<String>,
}

/// What was done, in words, and the job as it now is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ScheduleAnswer {
    pub text: String,
    /// None for a preview.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<i64>,
    /// None for a preview, and for a job that was taken away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<ScheduleRow>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ScheduleList {
    pub items: Vec<ScheduleRow>,
}

/// A job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScheduleRow {
    pub id: i64,
    pub description: String,
    /// Empty for a one-shot job.
    pub cron: String,
    #[schema(required = true)]
    pub run_at: Option<WireTime>,
    pub timezone: String,
    #[schema(schema_with = schema::catch_up)]
    pub catch_up: CatchUp,
    pub source: String,
    pub topic_key: String,
    pub enabled: bool,
    #[schema(required = true)]
    pub last_run_at: Option<WireTime>,
    pub next_fires: Vec<WireTime>,
    /// The newest slots.
    pub slots: Vec<SlotRow>,
}

/// What became of a slot, or of a run of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SlotRow {
    #[schema(schema_with = schema::slot_outcome)]
    pub outcome: SlotOutcome,
    pub from: WireTime,
    pub to: WireTime,
    pub count: u64,
}

/// The event of a job that was fired by hand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunNowAnswer {
    #[schema(value_type = String, example = "evt_01J00000000000000000000000")]
    pub event_id: EventId,
}
