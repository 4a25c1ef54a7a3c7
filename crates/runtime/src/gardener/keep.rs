//! Keeping what was learned: journaled before, kept by key, settled after, so that a kill repeats nothing.

use super::{Garden, GardenerError};
use crate::engram::{EngramError, EngramMemory};
use crate::memory::NewMemory;
use cortex_brain::ExtractedFact;
use cortex_store::{Keep, Learned, StoreError};
use cortex_types::{Accounts, Audience, FactScope, FactSource, ModelCall, TopicRef};
use fail::fail_point;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// A fact with everything that is needed to keep it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct LearnedFact {
    #[serde(flatten)]
    pub(super) fact: ExtractedFact,
    /// The conversation it comes from.
    pub(super) topic_key: String,
    /// How facts name that conversation; empty in what an older program wrote down.
    #[serde(default)]
    pub(super) topic_name: String,
    pub(super) scope: FactScope,
    pub(super) source: FactSource,
    /// The only topic that sees it until a person has looked.
    #[serde(default)]
    pub(super) unreviewed_in: Option<String>,
}

impl LearnedFact {
    /// The same words of the same conversation are the same fact, here and in an Engram.
    fn key(&self) -> String {
        let named = [self.topic_key.as_str(), &self.fact.content, self.fact.category.as_str()].join("\0");
        let digest = Sha256::digest(named);
        let hex: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        format!("cortex:extract:{hex}")
    }
}

impl Garden {
    /// Writes down what was learned, then keeps it.
    pub(super) async fn learn(
        &self,
        from: Learned,
        facts: Vec<LearnedFact>,
        calls: Vec<ModelCall>,
    ) -> Result<usize, GardenerError> {
        let now = self.parts.clock.now();
        let json = serde_json::to_string(&facts)
            .map_err(|error| StoreError::Fault(format!("facts cannot be written: {error}")))?;
        self.parts.store.gardener().journal(from.clone(), json, calls, now).await?;
        fail_point!("gardener.after_journal");
        self.keep(from, facts).await
    }

    /// Where something that this user said here holds: everywhere while all users are one owner, else for that person
    /// (D17). What was said in a group is the group's: its people are several, and not all of them are the owner.
    pub(super) async fn scope_of(&self, user_id: &str, topic: &TopicRef) -> Result<FactScope, StoreError> {
        let audience = self.parts.store.audience_of(topic.clone()).await?;
        Ok(match (audience, self.parts.channels.borrow().accounts_of(user_id)) {
            (Audience::Group, _) => FactScope::of_topic(topic),
            (Audience::Private, Accounts::Everyone) => FactScope::Global,
            (Audience::Private, Accounts::Only(_)) => FactScope::User(user_id.to_owned()),
        })
    }

    /// What an earlier run had learned and was stopped over.
    pub(super) async fn journaled(&self) -> Result<Vec<(Learned, Vec<LearnedFact>)>, GardenerError> {
        let entries = self.parts.store.gardener().journaled().await?.into_iter();
        let read = entries.map(|(from, json)| {
            let facts = serde_json::from_str(&json)
                .map_err(|error| StoreError::Damaged(format!("the gardener's journal: {error}")))?;
            Ok((from, facts))
        });
        read.collect()
    }

    pub(super) async fn keep(&self, from: Learned, facts: Vec<LearnedFact>) -> Result<usize, GardenerError> {
        let mut count = facts.len();
        for fact in facts {
            match &self.parts.config.engram {
                // A service cannot tell them from reviewed ones.
                Some(_) if fact.unreviewed_in.is_some() => {
                    tracing::info!(
                        source = fact.source.reference,
                        "A fact that others wrote is not kept by the service"
                    );
                    count -= 1;
                }
                Some(engram) => {
                    let memory = EngramMemory {
                        idempotency_key: fact.key(),
                        content: fact.fact.content,
                        category: fact.fact.category.as_str().to_owned(),
                        scope_id: if fact.topic_name.is_empty() { fact.topic_key } else { fact.topic_name },
                        upsert: true,
                    };
                    match engram.remember(&memory).await {
                        Ok(()) => {}
                        // It will refuse it again; the facts behind it must not wait for ever.
                        Err(EngramError::Refused(status @ (400 | 409 | 413 | 422))) => {
                            tracing::warn!(status, "The memory service refuses a fact; it is left out");
                            count -= 1;
                        }
                        Err(error) => return Err(error.into()),
                    }
                }
                None => {
                    let memory = NewMemory {
                        idempotency_key: Some(fact.key()),
                        text: fact.fact.content,
                        category: Some(fact.fact.category.as_str().to_owned()),
                        scope: fact.scope,
                        source: fact.source,
                        metadata_json: None,
                        unreviewed_in: fact.unreviewed_in,
                        // A person's change of it stays, and what was forgotten is not learned again.
                        keep: Keep::Learned,
                    };
                    self.parts.memory.remember(memory).await?;
                }
            }
            fail_point!("gardener.after_fact");
        }
        self.parts.store.gardener().settle(from, self.parts.clock.now()).await?;
        Ok(count)
    }
}
