//! The facts that a prompt knows: hot ones of the built-in memory, or pinned ones and what an Engram service recalls.

use crate::runtime::Parts;
use cortex_brain::KnownFact;
use cortex_store::{PromptScopes, StoreError};
use cortex_types::limits::KNOWN_FACTS_MAX;
use cortex_types::{Accounts, Event, FactScope, INTERNAL_CHANNELS};

/// What holds everywhere, for this person, on this channel and in this topic; best first. A service that does not
/// answer knows nothing, and the turn goes on.
pub(crate) async fn known_facts(
    parts: &Parts,
    event: &Event,
    accounts: &Accounts,
) -> Result<Vec<KnownFact>, StoreError> {
    let scopes = scopes(event, accounts);
    if let Some(engram) = &parts.config.engram {
        let pinned = parts.store.facts().pinned(scopes).await?.into_iter().map(|fact| fact.text);
        let hits = engram.recall(&event.text, &event.topic.topic_key, accounts).await;
        let known = pinned.chain(hits.into_iter().map(|hit| hit.content));
        return Ok((0..).zip(known).map(|(seq, text)| KnownFact { seq, text }).collect());
    }
    let facts = parts.store.facts().hot(scopes, KNOWN_FACTS_MAX).await?;
    Ok(facts.into_iter().map(|fact| KnownFact { seq: fact.seq, text: fact.text }).collect())
}

/// An event from inside holds where its topic is (D18).
fn scopes(event: &Event, accounts: &Accounts) -> PromptScopes {
    let is_internal = INTERNAL_CHANNELS.contains(&event.channel.as_str());
    let channel = if is_internal { event.topic.source.clone() } else { event.channel.clone() };
    PromptScopes {
        places: vec![
            FactScope::Global,
            FactScope::Channel(channel),
            FactScope::of_topic(&event.topic),
            // As a memory client names it.
            FactScope::Topic(event.topic.topic_key.clone()),
        ],
        people: accounts.clone(),
    }
}
