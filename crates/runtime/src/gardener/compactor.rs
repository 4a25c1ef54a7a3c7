//! The compactor: idle conversations become summaries and step back from the foreground; those that stay silent are archived.

use super::{Garden, GardenerError, GardenerMind, long_before};
use crate::context::{Compaction, ContextDesk, SummaryBy};
use cortex_brain::summary_line;
use std::sync::Arc;
use std::time::Duration;

/// A conversation that is silent for longer is idle; exactly an hour is not longer.
const IDLE_FOR: Duration = Duration::from_secs(60 * 60);
/// One that is silent for longer is archived.
const ARCHIVED_AFTER: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// Conversations of one run; the rest is for the next.
const TOPICS_PER_RUN: u32 = 50;

impl Garden {
    pub(super) async fn compact(&self) -> Result<String, GardenerError> {
        let now = self.parts.clock.now();
        let channels = self.parts.store.channels();
        let archived = channels.archive(long_before(now, ARCHIVED_AFTER)).await?;
        let desk = ContextDesk(Arc::clone(&self.parts));
        let (mut summarised, mut stepped_back, mut failures) = (0, 0, Vec::new());
        for idle in channels.idle(long_before(now, IDLE_FOR), TOPICS_PER_RUN).await? {
            let model = match self.mind() {
                GardenerMind::Model => {
                    self.check_cap().await?;
                    Some(&*self.models)
                }
                GardenerMind::Rules => None,
            };
            let compacted = desk.compact(idle.topic.clone(), model, &self.stop).await?;
            self.parts.store.gardener().pay(compacted.calls).await?;
            let line = match compacted.outcome {
                // Its line stays: the last words of so short a conversation are its summary.
                Compaction::Unchanged => None,
                Compaction::Interrupted => return Err(GardenerError::Stopped),
                Compaction::Summarised { summary, by, .. } => {
                    summarised += 1;
                    match by {
                        SummaryBy::Model | SummaryBy::Rules => {}
                        SummaryBy::RulesInstead { reason } => failures.push(reason),
                    }
                    Some(summary_line(&summary))
                }
            };
            stepped_back += usize::from(channels.step_back(idle, line).await?);
        }
        let by = self.mind_in_words();
        let failed = match failures.first() {
            Some(reason) => {
                format!("; {} of them by rules, because the model failed: {reason}", failures.len())
            }
            None => String::new(),
        };
        Ok(format!(
            "{summarised} conversations summarised, {by}{failed}; {stepped_back} out of the foreground, {archived} archived"
        ))
    }
}
