//! The extractor: takes facts from what people said, batch by batch behind one cursor.

use super::keep::LearnedFact;
use super::{Garden, GardenerError};
use cortex_brain::{ExtractedFact, FACTS_MAX, extract_by_rules, extraction_request, likeliest_line};
use cortex_store::{Learned, SaidTurn, Unextracted};
use cortex_types::{FactScope, FactSource, FactSourceKind, ModelCall, TopicRef};

/// Lines of the history that one batch looks at; about half of them are people's.
const BATCH_LINES: u32 = 40;
/// Batches of one run; a longer backlog is for the next.
const BATCHES_MAX: usize = 50;
/// Messages of one question. As many facts may come of it, so that no message is passed over for the others.
const LINES_PER_QUESTION: usize = FACTS_MAX;
/// Longest part of a message that is looked at.
const LINE_CHARS_MAX: usize = 2_000;

impl Garden {
    /// Everything behind the cursor. A model that fails leaves the cursor where it is.
    pub(super) async fn extract(&self) -> Result<String, GardenerError> {
        let mut facts = 0;
        for (from, learned) in self.journaled().await? {
            if matches!(from, Learned::FromTurns { .. }) {
                facts += self.keep(from, learned).await?;
            }
        }
        let mut messages = 0;
        for _ in 0..BATCHES_MAX {
            let Some(batch) = self.parts.store.gardener().unextracted(BATCH_LINES).await? else { break };
            messages += batch.lines.len();
            facts += self.extract_batch(batch).await?;
        }
        let by = self.mind_in_words();
        Ok(format!("{facts} facts from {messages} messages, {by}"))
    }

    async fn extract_batch(&self, batch: Unextracted) -> Result<usize, GardenerError> {
        let mut learned = Vec::new();
        let mut calls: Vec<ModelCall> = Vec::new();
        for lines in conversations(batch.lines).iter().flat_map(|lines| lines.chunks(LINES_PER_QUESTION)) {
            let texts: Vec<String> =
                lines.iter().map(|line| line.content.chars().take(LINE_CHARS_MAX).collect()).collect();
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            // Line by line: a cap on all of them would pass over what the last ones say.
            let by_rules = || texts.iter().flat_map(|text| extract_by_rules(&[text])).collect();
            let thought = match self.think(&extraction_request(&texts), by_rules).await {
                Ok(thought) => thought,
                Err(error) => {
                    // The batch is done again as a whole, but what it cost so far was spent.
                    self.parts.store.gardener().pay(calls).await?;
                    return Err(error);
                }
            };
            calls.extend(thought.calls);
            // All these lines are one person's in one conversation.
            let Some(first) = lines.first() else { continue };
            let scope = self.scope_of(&first.user_id, &first.topic).await?;
            let facts = thought.facts.into_iter();
            learned.extend(facts.map(|fact| {
                let place = likeliest_line(&fact.content, &texts);
                learned_from(place.and_then(|place| lines.get(place)).unwrap_or(first), fact, scope.clone())
            }));
        }
        self.learn(Learned::FromTurns { last: batch.last }, learned, calls).await
    }
}

fn learned_from(said: &SaidTurn, fact: ExtractedFact, scope: FactScope) -> LearnedFact {
    let topic_name = FactScope::topic_name(&said.topic);
    LearnedFact {
        fact,
        topic_key: said.topic.topic_key.clone(),
        scope,
        source: FactSource { kind: FactSourceKind::Turn, reference: said.event.to_string() },
        unreviewed_in: said.untrusted.then(|| topic_name.clone()),
        topic_name,
    }
}

/// What one person said in one conversation belongs together, apart from turns that read what others wrote; the order
/// inside stays.
fn conversations(lines: Vec<SaidTurn>) -> Vec<Vec<SaidTurn>> {
    let mut conversations: Vec<Vec<SaidTurn>> = Vec::new();
    let of = |line: &SaidTurn| -> (TopicRef, String, bool) {
        (line.topic.clone(), line.user_id.clone(), line.untrusted)
    };
    for line in lines {
        let place = conversations
            .iter_mut()
            .find(|conversation| conversation.first().is_some_and(|first| of(first) == of(&line)));
        match place {
            Some(conversation) => conversation.push(line),
            None => conversations.push(vec![line]),
        }
    }
    conversations
}
