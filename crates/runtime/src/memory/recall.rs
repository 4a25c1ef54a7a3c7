//! Recall: full text, vectors and recency over facts and over what was said, fused into one order.

use super::{MemoryDesk, MemoryError};
use cortex_brain::{Int8Vector, Ranking, fuse, match_expression, rank_turns, strength};
use cortex_store::{FactFilter, SaidTurn};
use cortex_types::limits::LIST_ROWS_MAX;
use cortex_types::{Fact, FactScope, Millis, is_local};
use std::collections::{BTreeSet, HashMap, HashSet};

/// Hits of each side that the fusion looks at.
const CANDIDATES: u32 = 100;
const CANDIDATES_OF_MANY: usize = 5_000;
const LIMIT_MAX: usize = 200;

const WORDS: f64 = 1.0;
const MEANING: f64 = 1.0;
/// Enough to put the newer of two equal ones first.
const RECENCY: f64 = 0.05;

/// What decides the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecallBy {
    Words,
    Meaning,
    Both,
}

/// Which facts are found that no person has looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unreviewed {
    /// The owner looks.
    All,
    /// Those of this topic, as facts name it.
    Of(String),
    None,
}

/// What is looked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Recall {
    /// A blank one asks for the strongest facts.
    pub query: String,
    pub limit: usize,
    /// Facts of these scopes; `None` is every scope.
    pub scopes: Option<Vec<FactScope>>,
    /// Facts of this category; `None` is every category.
    pub category: Option<String>,
    /// Facts that faded below this are left out.
    pub min_strength: f64,
    /// Also what was said, not only what was kept of it.
    pub include_turns: bool,
    /// What was said to these users only; `None` is everybody.
    pub people: Option<Vec<String>>,
    pub by: RecallBy,
    /// Facts that come back count as used; a look at them does not.
    pub touches: bool,
    pub unreviewed: Unreviewed,
}

impl Recall {
    /// Facts of every scope, and what was said.
    pub fn of(query: &str, limit: usize) -> Self {
        Self {
            query: query.to_owned(),
            limit,
            scopes: None,
            category: None,
            min_strength: 0.0,
            include_turns: true,
            people: None,
            by: RecallBy::Both,
            touches: true,
            unreviewed: Unreviewed::None,
        }
    }
}

/// One thing that was recalled; a higher score is a better hit, at most 1.
#[derive(Debug, Clone, PartialEq)]
pub struct Recalled {
    pub score: f64,
    pub item: RecalledItem,
}

/// What it is.
#[derive(Debug, Clone, PartialEq)]
pub enum RecalledItem {
    /// As it was before this recall made it strong again.
    Fact {
        fact: Box<Fact>,
        strength: f64,
    },
    Turn(Box<SaidTurn>),
}

impl MemoryDesk {
    /// The best hits, best first. Facts among them are touched: cold ones are hot again.
    pub async fn recall(&self, asked: Recall) -> Result<Vec<Recalled>, MemoryError> {
        let now = self.0.clock.now();
        let limit = asked.limit.min(LIMIT_MAX);
        let mut hits = if asked.query.trim().is_empty() {
            self.strongest(&asked, now).await?
        } else {
            self.search(&asked, limit, now).await?
        };
        hits.sort_by(|one, other| other.score.total_cmp(&one.score));
        hits.truncate(limit);
        let facts = hits.iter().filter_map(|hit| match &hit.item {
            RecalledItem::Fact { fact, .. } => Some(fact.seq),
            RecalledItem::Turn(_) => None,
        });
        let facts: Vec<i64> = facts.collect();
        if asked.touches && !facts.is_empty() {
            self.touch(facts).await?;
        }
        Ok(hits)
    }

    async fn strongest(&self, asked: &Recall, now: Millis) -> Result<Vec<Recalled>, MemoryError> {
        let facts = self.0.store.facts().latest_accessed(filter(asked), LIST_ROWS_MAX).await?;
        Ok(facts.into_iter().filter_map(|fact| recalled(fact, asked, None, now)).collect())
    }

    async fn search(&self, asked: &Recall, limit: usize, now: Millis) -> Result<Vec<Recalled>, MemoryError> {
        let words = match asked.by {
            RecallBy::Words | RecallBy::Both => match_expression(&asked.query),
            RecallBy::Meaning => String::new(),
        };
        let meaning = match asked.by {
            RecallBy::Meaning | RecallBy::Both => self.vector_of(&asked.query).await,
            RecallBy::Words => None,
        };
        let mut hits = Vec::new();
        let ranked = self.rank_facts(asked, &words, meaning.as_ref()).await?;
        // Filters that the index does not know are applied here, so the order is walked until there are enough.
        for some in ranked.chunks(limit.max(1)) {
            let facts = self.0.store.facts().by_seq(some.iter().map(|(seq, _)| *seq).collect()).await?;
            let scores: HashMap<i64, f64> = some.iter().copied().collect();
            hits.extend(facts.into_iter().filter_map(|fact| {
                let score = scores.get(&fact.seq).copied();
                recalled(fact, asked, score, now)
            }));
            if hits.len() >= limit {
                break;
            }
        }
        if asked.include_turns {
            hits.extend(self.search_turns(asked, limit, &words, meaning.as_ref()).await?);
        }
        Ok(hits)
    }

    async fn rank_facts(
        &self,
        asked: &Recall,
        words: &str,
        meaning: Option<&Int8Vector>,
    ) -> Result<Vec<(i64, f64)>, MemoryError> {
        let by_words = self.0.store.facts().search_text(words.to_owned(), filter(asked), CANDIDATES).await?;
        let by_meaning = match meaning {
            Some(meaning) => {
                self.nearest_facts(meaning, asked.scopes.as_deref(), CANDIDATES as usize).await?
            }
            None => Vec::new(),
        };
        Ok(fused(by_words, by_meaning))
    }

    async fn search_turns(
        &self,
        asked: &Recall,
        limit: usize,
        words: &str,
        meaning: Option<&Int8Vector>,
    ) -> Result<Vec<Recalled>, MemoryError> {
        self.catch_up().await?;
        let index = self.0.store.memory_index();
        let by_words = index.search_turns(words.to_owned(), asked.people.clone(), CANDIDATES).await?;
        let by_meaning = match meaning {
            Some(meaning) => self.nearest_turns_of(asked.people.as_deref(), meaning).await?,
            None => Vec::new(),
        };
        let ranked = self.rank_turns(&asked.query, &fused(by_words, by_meaning)).await?;
        let mut hits = Vec::new();
        for some in ranked.chunks(limit.max(1)) {
            let turns = self.0.store.history().by_id(some.iter().map(|(id, _)| *id).collect()).await?;
            // Everybody is not programs without a key: what they said is not the owner's memory.
            let is_asked_for = |turn: &SaidTurn| match &asked.people {
                Some(people) => people.contains(&turn.user_id),
                None => !is_local(&turn.user_id),
            };
            for turn in turns.into_iter().filter(is_asked_for) {
                let score = some.iter().find(|(id, _)| *id == turn.id).map_or(0.0, |(_, score)| *score);
                hits.push(Recalled { score, item: RecalledItem::Turn(Box::new(turn)) });
            }
            if hits.len() >= limit {
                break;
            }
        }
        Ok(hits)
    }

    /// The scan does not know who spoke, so among many people it looks further.
    async fn nearest_turns_of(
        &self,
        people: Option<&[String]>,
        meaning: &Int8Vector,
    ) -> Result<Vec<(i64, f32)>, MemoryError> {
        let Some(people) = people else { return self.nearest_turns(meaning, CANDIDATES as usize).await };
        let mut near = self.nearest_turns(meaning, CANDIDATES_OF_MANY).await?;
        let turns = self.0.store.history().by_id(near.iter().map(|(id, _)| *id).collect()).await?;
        let theirs: HashSet<i64> =
            turns.iter().filter(|turn| people.contains(&turn.user_id)).map(|turn| turn.id).collect();
        near.retain(|(id, _)| theirs.contains(id));
        near.truncate(CANDIDATES as usize);
        Ok(near)
    }

    /// The hits and the turns beside them, ranked by what they say about each other and by who spoke.
    async fn rank_turns(&self, query: &str, hits: &[(i64, f64)]) -> Result<Vec<(i64, f64)>, MemoryError> {
        let history = self.0.store.history();
        let mut places = history.places(hits.iter().map(|(id, _)| *id).collect()).await?;
        let known: HashSet<i64> = places.iter().map(|place| place.id).collect();
        let beside: BTreeSet<i64> = places
            .iter()
            .flat_map(|place| place.before.into_iter().chain(place.after))
            .filter(|id| !known.contains(id))
            .collect();
        places.extend(history.places(beside.into_iter().collect()).await?);
        Ok(rank_turns(query, hits, &places))
    }
}

fn filter(asked: &Recall) -> FactFilter {
    FactFilter { scopes: asked.scopes.clone(), category: asked.category.clone(), ..FactFilter::default() }
}

/// `None` when it is not what was asked for. Without a score its strength is its score.
fn recalled(fact: Fact, asked: &Recall, score: Option<f64>, now: Millis) -> Option<Recalled> {
    let strength = strength(&fact, now);
    let is_asked_for = asked.category.is_none() || fact.category == asked.category;
    let is_strong = strength >= asked.min_strength;
    let may_be_seen = match (&asked.unreviewed, &fact.unreviewed_in) {
        (_, None) | (Unreviewed::All, Some(_)) => true,
        (Unreviewed::Of(topic), Some(own)) => topic == own,
        (Unreviewed::None, Some(_)) => false,
    };
    let score = score.unwrap_or(strength);
    (is_asked_for && is_strong && may_be_seen)
        .then(|| Recalled { score, item: RecalledItem::Fact { fact: Box::new(fact), strength } })
}

fn fused(by_words: Vec<i64>, by_meaning: Vec<(i64, f32)>) -> Vec<(i64, f64)> {
    let by_meaning: Vec<i64> = by_meaning.into_iter().map(|(row, _)| row).collect();
    let mut newest_first: Vec<i64> = by_words.iter().chain(&by_meaning).copied().collect();
    newest_first.sort_unstable_by(|one, other| other.cmp(one));
    newest_first.dedup();
    fuse(&[
        Ranking { weight: WORDS, rows: by_words },
        Ranking { weight: MEANING, rows: by_meaning },
        Ranking { weight: RECENCY, rows: newest_first },
    ])
}
