//! The compactor: idle conversations become summaries and step back from the foreground; those that stay silent are archived.

use super::{Garden, GardenerError, GardenerMind, long_before};
use crate::context::{Compaction, ContextDesk, SummaryBy};
use cortex_brain::summary_line;
use cortex_types::TopicRef;
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
        let desk = self.contexts();
        let (mut summarised, mut stepped_back, mut failures) = (0, 0, Vec::new());
        for idle in channels.idle(long_before(now, IDLE_FOR), TOPICS_PER_RUN).await? {
            let line = match self.summarise(&desk, &idle.topic).await? {
                // Its line stays: the last words of so short a conversation are its summary.
                Compaction::Unchanged => None,
                Compaction::Interrupted => return Err(GardenerError::Stopped),
                Compaction::Summarised { summary, by, untrusted, .. } => {
                    summarised += 1;
                    match by {
                        SummaryBy::Model | SummaryBy::Rules => {}
                        SummaryBy::RulesInstead { reason } => failures.push(reason),
                    }
                    // No other channel hears what others wrote by its line.
                    (!untrusted).then(|| summary_line(&summary))
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

    /// One conversation, idle or not, because somebody asks for it.
    pub(super) async fn compact_topic(&self, topic: &TopicRef) -> Result<String, GardenerError> {
        match self.summarise(&self.contexts(), topic).await? {
            Compaction::Unchanged => {
                Ok("too little was said to fold; the newest exchanges always stay".to_owned())
            }
            Compaction::Interrupted => Err(GardenerError::Stopped),
            Compaction::Summarised { covered, by, .. } => {
                let by = match by {
                    SummaryBy::Model => "by the model".to_owned(),
                    SummaryBy::Rules => "by rules".to_owned(),
                    SummaryBy::RulesInstead { reason } => {
                        format!("by rules, because the model failed: {reason}")
                    }
                };
                Ok(format!("a summary stands for {covered} more lines, {by}"))
            }
        }
    }

    async fn summarise(&self, desk: &ContextDesk, topic: &TopicRef) -> Result<Compaction, GardenerError> {
        let model = match self.mind() {
            GardenerMind::Model => {
                self.check_cap().await?;
                Some(&*self.models)
            }
            GardenerMind::Rules => None,
        };
        let compacted = desk.compact(topic.clone(), model, &self.stop).await?;
        self.parts.store.gardener().pay(compacted.calls).await?;
        Ok(compacted.outcome)
    }

    fn contexts(&self) -> ContextDesk {
        ContextDesk(Arc::clone(&self.parts))
    }
}
