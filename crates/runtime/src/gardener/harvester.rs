//! The harvester: takes facts from results that were read, then puts old ops away.

use super::keep::LearnedFact;
use super::{Garden, GardenerError, long_before};
use cortex_brain::{FACTS_MAX, harvest_by_rules, harvest_request};
use cortex_store::Learned;
use cortex_types::{FactScope, FactSource, FactSourceKind, Op, OpId};
use std::time::Duration;

/// Ops of one run; the rest is for the next.
const OPS_PER_RUN: u32 = 100;
/// Longest part of a result that is looked at.
const RESULT_CHARS_MAX: usize = 8_000;
/// How long a harvested op stays in sight.
const ARCHIVED_AFTER: Duration = Duration::from_secs(7 * 24 * 60 * 60);

impl Garden {
    /// An op that fails keeps its place for the next run and does not stop the others.
    pub(super) async fn harvest(&self) -> Result<String, GardenerError> {
        let before = long_before(self.parts.clock.now(), ARCHIVED_AFTER);
        let archived = self.parts.store.ops().archive(before).await?;
        let (mut facts, mut harvested) = (0, 0);
        let mut failed: Vec<(OpId, GardenerError)> = Vec::new();
        for (from, learned) in self.journaled().await? {
            if let Learned::FromOp(op) = &from {
                let op = op.clone();
                match self.keep(from, learned).await {
                    Ok(kept) => facts += kept,
                    Err(error) => failed.push((op, error)),
                }
            }
        }
        for op in self.parts.store.ops().harvestable(OPS_PER_RUN).await? {
            // What was learned of it is journaled and was paid for.
            if failed.iter().any(|(other, _)| *other == op.id) {
                continue;
            }
            match self.harvest_op(&op).await {
                Ok(kept) => {
                    facts += kept;
                    harvested += 1;
                }
                Err(GardenerError::Stopped) => return Err(GardenerError::Stopped),
                Err(error) => failed.push((op.id, error)),
            }
        }
        let by = self.mind_in_words();
        let failures = match failed.first() {
            Some((op, error)) => format!("; {} failed and are tried again, {op}: {error}", failed.len()),
            None => String::new(),
        };
        Ok(format!("{facts} facts from {harvested} ops, {by}; {archived} put away{failures}"))
    }

    async fn harvest_op(&self, op: &Op) -> Result<usize, GardenerError> {
        let result: String =
            op.result.as_deref().unwrap_or_default().chars().take(RESULT_CHARS_MAX).collect();
        let request = harvest_request(&op.description, &result);
        let thought = self.think(&request, || harvest_by_rules(&op.description, &result)).await?;
        let scope = self.scope_of(&op.user_id, &op.topic).await?;
        let learned = thought.facts.into_iter().take(FACTS_MAX).map(|fact| LearnedFact {
            fact,
            topic_key: op.topic.topic_key.clone(),
            topic_name: FactScope::topic_name(&op.topic),
            scope: scope.clone(),
            source: FactSource { kind: FactSourceKind::Op, reference: op.id.to_string() },
            // A result is what others wrote.
            unreviewed_in: Some(FactScope::topic_name(&op.topic)),
        });
        self.learn(Learned::FromOp(op.id.clone()), learned.collect(), thought.calls).await
    }
}
