//! The facts that a prompt knows: hot ones of the built-in memory, or pinned ones and what an Engram service recalls.

use crate::runtime::Parts;
use cortex_brain::KnownFact;
use cortex_store::{FactsInPrompt, HotFact, PromptScopes};
use cortex_types::limits::KNOWN_FACTS_MAX;
use cortex_types::{Accounts, Event, FactScope, Sight, is_machine_channel};

/// What holds everywhere, for this person, on this channel and in this topic.
pub(crate) fn facts_to_read(parts: &Parts, event: &Event, accounts: &Accounts) -> FactsInPrompt {
    let scopes = scopes(event, accounts);
    match (is_asked(parts, event), &parts.config.engram) {
        (false, _) => FactsInPrompt::None,
        (true, None) => FactsInPrompt::Hot(scopes, KNOWN_FACTS_MAX),
        (true, Some(_)) => FactsInPrompt::Pinned(scopes),
    }
}

/// What was read, best first, and behind it what a memory service recalls. One that does not answer knows nothing, and
/// the turn goes on.
pub(crate) async fn known_facts(
    parts: &Parts,
    event: &Event,
    accounts: &Accounts,
    read: Vec<HotFact>,
) -> Vec<KnownFact> {
    let known = read.into_iter().map(|fact| KnownFact {
        seq: fact.seq,
        text: fact.text,
        unreviewed: fact.unreviewed,
    });
    let Some(engram) = parts.config.engram.as_ref().filter(|_| is_asked(parts, event)) else {
        return known.collect();
    };
    let hits = engram.recall(&event.text, &FactScope::topic_name(&event.topic), accounts).await;
    let hits = hits.into_iter().map(|hit| KnownFact { seq: 0, text: hit.content, unreviewed: false });
    (0..).zip(known.chain(hits)).map(|(seq, fact)| KnownFact { seq, ..fact }).collect()
}

fn is_asked(parts: &Parts, event: &Event) -> bool {
    parts.config.memory_enabled && event.sight() != Sight::Nothing
}

/// An event that nobody said holds where its topic is (D18).
fn scopes(event: &Event, accounts: &Accounts) -> PromptScopes {
    let channel = if is_machine_channel(&event.channel) { &event.topic.source } else { &event.channel };
    PromptScopes {
        places: FactScope::places(event.sight(), &event.topic, channel),
        people: accounts.clone(),
        topic: FactScope::topic_name(&event.topic),
    }
}
