//! The compactor: idle conversations become summaries and step back from the foreground.

use super::{Garden, GardenerError, GardenerMind};
use crate::context::ContextDesk;
use cortex_types::{ChannelLayer, Millis};
use std::sync::Arc;
use std::time::Duration;

/// How long a conversation is silent before it is idle.
const IDLE_FOR: Duration = Duration::from_secs(60 * 60);
/// Conversations of one run; the rest is for the next.
const TOPICS_PER_RUN: u32 = 50;

impl Garden {
    pub(super) async fn compact(&self) -> Result<String, GardenerError> {
        let idle = i64::try_from(IDLE_FOR.as_millis()).unwrap_or(i64::MAX);
        let since = Millis(self.parts.clock.now().0.saturating_sub(idle));
        let topics = self.parts.store.channels().idle(since, TOPICS_PER_RUN).await?;
        let (mut summarised, stepped_back) = (0, topics.len());
        let desk = ContextDesk(Arc::clone(&self.parts));
        for topic in topics {
            let model = match self.mind() {
                GardenerMind::Model => {
                    self.check_cap().await?;
                    Some(&*self.models)
                }
                GardenerMind::Rules => None,
            };
            let compacted = desk.compact(topic.clone(), model, &self.stop).await?;
            self.parts.store.gardener().pay(compacted.calls).await?;
            summarised += usize::from(compacted.covered > 0);
            // Its line stays: it has the last words, which say more than the beginning of a summary.
            self.parts.store.channels().summarise(topic, None, ChannelLayer::Background).await?;
        }
        let by = self.mind_in_words();
        Ok(format!("{summarised} conversations summarised, {stepped_back} out of the foreground, {by}"))
    }
}
