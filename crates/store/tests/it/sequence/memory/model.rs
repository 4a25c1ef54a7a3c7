//! What memory should hold: plain lists.

use cortex_store::{KeptAs, KeptFact};
use cortex_types::{FactId, FactTier, Millis};
use std::collections::BTreeMap;

/// The limits of an eviction in days and hits.
pub(super) const EVICT_DAYS: i64 = 14;
pub(super) const EVICT_HITS: u32 = 3;
pub(super) const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

/// A fact without what only the store knows.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ModelFact {
    pub(super) id: FactId,
    pub(super) text: String,
    pub(super) keys: Vec<String>,
    /// What each source said.
    pub(super) said: Vec<String>,
    pub(super) tier: FactTier,
    pub(super) pinned: bool,
    pub(super) hits: u32,
    pub(super) accessed: Millis,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Model {
    pub(super) facts: Vec<ModelFact>,
    /// The key that made each fact; others joined it.
    made_by: BTreeMap<FactId, String>,
    /// The model of each fact's vector.
    pub(super) fact_vectors: BTreeMap<FactId, String>,
    /// Texts of the turns in order, and how many of them are indexed.
    pub(super) turns: Vec<String>,
    pub(super) indexed: usize,
    /// The model of each turn's vector, by its place.
    pub(super) turn_vectors: BTreeMap<usize, String>,
}

/// A text to be remembered.
pub(super) struct Told<'a> {
    pub(super) id: &'a FactId,
    pub(super) text: &'a str,
    pub(super) key: Option<&'a str>,
    pub(super) upsert: bool,
    pub(super) like: Option<&'a FactId>,
    pub(super) vector_model: &'a str,
}

impl Model {
    pub(super) fn remember(&mut self, told: &Told<'_>, now: Millis) -> (FactId, KeptAs) {
        let known = told
            .key
            .and_then(|key| self.facts.iter_mut().find(|fact| fact.keys.iter().any(|known| known == key)));
        let mut parted = None;
        if let Some(fact) = known {
            if !told.upsert {
                return (fact.id.clone(), KeptAs::Replayed);
            }
            if fact.keys.len() == 1 && self.made_by.get(&fact.id).map(String::as_str) == told.key {
                fact.text = told.text.to_owned();
                fact.said.push(told.text.to_owned());
                self.fact_vectors.insert(fact.id.clone(), told.vector_model.to_owned());
                return (fact.id.clone(), KeptAs::Updated);
            }
            // Others told it too: the key goes its own way.
            fact.keys.retain(|key| Some(key.as_str()) != told.key);
            self.made_by.retain(|id, key| (&fact.id, Some(key.as_str())) != (id, told.key));
            parted = Some(fact.id.clone());
        }
        let like = told.like.filter(|like| parted.as_ref() != Some(like));
        if let Some(fact) = self.facts.iter_mut().find(|fact| like == Some(&fact.id)) {
            fact.said.push(told.text.to_owned());
            fact.keys.extend(told.key.map(str::to_owned));
            fact.keys.sort();
            (fact.tier, fact.accessed) = (FactTier::Hot, fact.accessed.max(now));
            return (fact.id.clone(), KeptAs::Merged);
        }
        self.facts.push(ModelFact {
            id: told.id.clone(),
            text: told.text.to_owned(),
            keys: told.key.into_iter().map(str::to_owned).collect(),
            said: vec![told.text.to_owned()],
            tier: FactTier::Hot,
            pinned: false,
            hits: 0,
            accessed: now,
        });
        self.fact_vectors.insert(told.id.clone(), told.vector_model.to_owned());
        self.made_by.extend(told.key.map(|key| (told.id.clone(), key.to_owned())));
        (told.id.clone(), KeptAs::Created)
    }

    pub(super) fn evict(&mut self, now: Millis) -> usize {
        let since = now.0 - EVICT_DAYS * DAY_MS;
        let stale = self.facts.iter_mut().filter(|fact| {
            fact.tier == FactTier::Hot && !fact.pinned && fact.hits < EVICT_HITS && fact.accessed.0 < since
        });
        stale.map(|fact| fact.tier = FactTier::Cold).count()
    }

    /// The texts of the turns that were indexed.
    pub(super) fn index(&mut self, limit: usize, vector_model: &str) -> String {
        let until = self.turns.len().min(self.indexed + limit);
        let texts = self.turns[self.indexed..until].join("|");
        self.turn_vectors.extend((self.indexed..until).map(|turn| (turn, vector_model.to_owned())));
        self.indexed = until;
        texts
    }

    pub(super) fn reembed_facts(&mut self, wanted: &str, limit: usize) -> usize {
        let facts = self.facts.iter().map(|fact| fact.id.clone());
        let stale = facts.filter(|id| self.fact_vectors.get(id).is_none_or(|of| of != wanted));
        let stale: Vec<FactId> = stale.take(limit).collect();
        let made = stale.len();
        self.fact_vectors.extend(stale.into_iter().map(|id| (id, wanted.to_owned())));
        made
    }

    pub(super) fn reembed_turns(&mut self, wanted: &str, limit: usize) -> usize {
        let stale =
            (0..self.indexed).filter(|turn| self.turn_vectors.get(turn).is_none_or(|of| of != wanted));
        let stale: Vec<usize> = stale.take(limit).collect();
        let made = stale.len();
        self.turn_vectors.extend(stale.into_iter().map(|turn| (turn, wanted.to_owned())));
        made
    }
}

pub(super) fn outcome(kept: KeptFact) -> (FactId, KeptAs) {
    (kept.id, kept.outcome)
}
