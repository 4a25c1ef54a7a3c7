//! The gardener's tasks and how often each is due.

use crate::status::UnknownStatus;
use serde::{Deserialize, Serialize};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(60 * 60);

crate::status::status_type!(
    /// What the gardener does when nobody waits for it.
    GardenerTask, "compactor, extractor, evictor, harvester", {
        /// Summarises idle conversations.
        Compactor = "compactor",
        /// Takes facts from what was said.
        Extractor = "extractor",
        /// Moves facts that nobody asks for to the cold tier, and drops old history.
        Evictor = "evictor",
        /// Takes facts from the results of ops.
        Harvester = "harvester",
    }
);

impl GardenerTask {
    pub fn interval(self) -> Duration {
        match self {
            Self::Compactor => HOUR,
            Self::Extractor | Self::Harvester => 6 * HOUR,
            Self::Evictor => 7 * 24 * HOUR,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compaction_is_hourly_extraction_and_harvest_six_hourly_and_eviction_weekly() {
        let hours = |task: GardenerTask| task.interval().as_secs() / 3_600;
        assert_eq!(GardenerTask::ALL.iter().map(|task| hours(*task)).collect::<Vec<_>>(), [1, 6, 168, 6]);
    }
}
