//! The facts that a prompt knows: hot ones of the built-in memory, or what an Engram service recalls.

use super::MemoryError;
use crate::runtime::Parts;
use cortex_brain::KnownFact;
use cortex_store::StoreError;
use cortex_types::limits::KNOWN_FACTS_MAX;
use cortex_types::{Accounts, Event, FactScope};

/// What holds everywhere, for this person, on this channel and in this topic; best first. A service that does not
/// answer knows nothing, and the turn goes on.
pub(crate) async fn known_facts(
    parts: &Parts,
    event: &Event,
    accounts: &Accounts,
) -> Result<Vec<KnownFact>, StoreError> {
    if let Some(engram) = &parts.config.engram {
        let hits = engram.recall(&event.text, &event.topic.topic_key).await;
        return Ok((0..).zip(hits).map(|(seq, hit)| KnownFact { seq, text: hit.content }).collect());
    }
    match parts.memory.hot(scopes(event, accounts), KNOWN_FACTS_MAX).await {
        Ok(facts) => Ok(facts.into_iter().map(|fact| KnownFact { seq: fact.seq, text: fact.text }).collect()),
        Err(MemoryError::Store(error)) => Err(error),
        Err(other) => Err(StoreError::Fault(other.to_string())),
    }
}

fn scopes(event: &Event, accounts: &Accounts) -> Vec<FactScope> {
    let users = match accounts {
        Accounts::Everyone => vec![event.user_id.clone()],
        Accounts::Only(users) => users.clone(),
    };
    let own =
        [FactScope::Global, FactScope::Channel(event.channel.clone()), FactScope::of_topic(&event.topic)];
    own.into_iter().chain(users.into_iter().map(FactScope::User)).collect()
}
