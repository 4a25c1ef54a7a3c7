//! Schedules: what becomes of each slot, a moment at which a schedule says "now".

use crate::Millis;
use crate::status::UnknownStatus;
use serde::{Deserialize, Serialize};

/// What to do with slots that passed while nobody looked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CatchUp {
    /// Run once for all of them.
    Once,
    /// Let them go.
    Skip,
}

crate::status::status_type!(
    /// How a slot ended.
    SlotOutcome, "fired, caught_up, skipped, missed", {
        /// Ran on time.
        Fired = "fired",
        /// Ran late, for itself and for those missed before it.
        CaughtUp = "caught_up",
        /// Let go on purpose: the job was paused or still running.
        Skipped = "skipped",
        /// Passed while nobody looked.
        Missed = "missed",
    }
);

/// The end of one slot, or of a run of neighbouring slots with the same end: all slots from `from` to `to`, both
/// included, are `count`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotRecord {
    pub outcome: SlotOutcome,
    pub from: Millis,
    pub to: Millis,
    pub count: u64,
}
