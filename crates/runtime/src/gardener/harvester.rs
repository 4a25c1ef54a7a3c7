//! The harvester: takes facts from results that were read, then puts old ops away.

use super::keep::LearnedFact;
use super::{Garden, GardenerError};
use cortex_brain::{FACTS_MAX, harvest_by_rules, harvest_request};
use cortex_store::Learned;
use cortex_types::{FactSource, FactSourceKind, Millis, Op};
use std::time::Duration;

/// Ops of one run; the rest is for the next.
const OPS_PER_RUN: u32 = 100;
/// Longest part of a result that is looked at.
const RESULT_CHARS_MAX: usize = 8_000;
/// How long a harvested op stays in sight.
const ARCHIVED_AFTER: Duration = Duration::from_secs(7 * 24 * 60 * 60);

impl Garden {
    pub(super) async fn harvest(&self) -> Result<String, GardenerError> {
        let mut facts = self.keep_journaled(|from| matches!(from, Learned::FromOp(_))).await?;
        let ops = self.parts.store.ops().harvestable(OPS_PER_RUN).await?;
        let harvested = ops.len();
        for op in ops {
            facts += self.harvest_op(&op).await?;
        }
        let age = i64::try_from(ARCHIVED_AFTER.as_millis()).unwrap_or(i64::MAX);
        let before = Millis(self.parts.clock.now().0.saturating_sub(age));
        let archived = self.parts.store.ops().archive(before).await?;
        let by = self.mind_in_words();
        Ok(format!("{facts} facts from {harvested} ops, {by}; {archived} put away"))
    }

    async fn harvest_op(&self, op: &Op) -> Result<usize, GardenerError> {
        let result: String =
            op.result.as_deref().unwrap_or_default().chars().take(RESULT_CHARS_MAX).collect();
        let request = harvest_request(&op.description, &result);
        let thought = self.think(&request, || harvest_by_rules(&op.description, &result)).await?;
        let learned = thought.facts.into_iter().take(FACTS_MAX).map(|fact| LearnedFact {
            fact,
            topic_key: op.topic.topic_key.clone(),
            scope: self.scope_of(&op.user_id),
            source: FactSource { kind: FactSourceKind::Op, reference: op.id.to_string() },
        });
        self.learn(Learned::FromOp(op.id.clone()), learned.collect(), thought.calls).await
    }
}
