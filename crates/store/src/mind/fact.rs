//! Facts: kept once with everything that said them, found by key, text and scope, hot or cold, forgotten for good.

mod forgotten;
mod keep;
mod read;
mod search;

use read::Legible;
pub(crate) use read::{hot, pinned};

use crate::mind::index::StoredVector;
use crate::mind::summary::SummaryText;
use crate::{Page, PageRequest, Store, StoreError, engine::audit, mind::summary};
use cortex_types::limits::PINNED_FACTS_MAX;
use cortex_types::{Accounts, Fact, FactId, FactOrigin, FactScope, FactTier, Millis, NewFact};
use fail::fail_point;
use rusqlite::{Connection, OptionalExtension, params};

/// Transitions of facts.
pub struct Facts<'a>(pub(crate) &'a Store);

/// What is meant when a key or a near-duplicate is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// A known key is the fact that is there, as it is.
    Once,
    /// A known key gets this text, category and metadata.
    Upsert,
    /// As once, but what a person had forgotten stays so.
    Learned,
}

/// A fact to be kept, as the index sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct FactToKeep {
    pub fact: NewFact,
    pub keep: Keep,
    /// Says the same, so it gets this source instead of a second row. A known key goes first.
    pub near_duplicate: Option<FactId>,
    /// `None` when no embedder answered; it is made later.
    pub vector: Option<StoredVector>,
}

/// What became of a fact that was to be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeptAs {
    Created,
    Updated,
    /// Its words are a further source of a fact that says the same.
    Merged,
    /// The key was known.
    Replayed,
    /// A person had it forgotten, so it is not kept; there is no such row.
    Forgotten,
}

/// A kept fact and what the index needs to follow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptFact {
    pub seq: i64,
    pub id: FactId,
    pub outcome: KeptAs,
}

/// A fact as a prompt has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HotFact {
    pub seq: i64,
    pub id: FactId,
    pub text: String,
    pub unreviewed: bool,
}

/// Which facts are listed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FactFilter {
    /// `None` is every scope.
    pub scopes: Option<Vec<FactScope>>,
    pub category: Option<String>,
    pub tier: Option<FactTier>,
    /// Only those that stand in every prompt.
    pub pinned: bool,
    /// Only those that no person has looked at.
    pub unreviewed: bool,
}

/// Whose facts a prompt has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptScopes {
    /// Everywhere, a channel, a topic.
    pub places: Vec<FactScope>,
    pub people: Accounts,
    /// The topic, as unreviewed facts name it.
    pub topic: String,
}

/// What became of a fact that was to be pinned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PinOutcome {
    Pinned,
    /// There is no such fact.
    Missing,
    /// As many as a prompt holds are pinned already.
    Full,
}

/// What a person changes about a fact; `None` leaves it as it is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FactEdit {
    pub text: Option<String>,
    /// Of the new text.
    pub vector: Option<StoredVector>,
    pub category: Option<String>,
    /// A person's change is a source, too.
    pub origin: Option<FactOrigin>,
}

/// Which facts go cold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Eviction {
    pub unaccessed_since: Millis,
    pub hits_below: u32,
}

impl Facts<'_> {
    /// Keeps a fact once: by its key, as a further source of one that says the same, or as a new one.
    pub async fn keep(&self, new: FactToKeep, now: Millis) -> Result<KeptFact, StoreError> {
        self.0.write(move |connection| keep::keep(connection, &new, now)).await
    }

    /// Puts a fact from another home as it was there. One whose id or key is here already changes nothing; one that was
    /// pinned there is not pinned here when there is no room for it.
    pub async fn restore(
        &self,
        fact: Fact,
        near_duplicate: Option<FactId>,
        vector: Option<StoredVector>,
    ) -> Result<KeptFact, StoreError> {
        self.0
            .write(move |connection| {
                keep::restore(connection, &fact, near_duplicate.as_ref(), vector.as_ref())
            })
            .await
    }

    pub async fn find(&self, id: FactId) -> Result<Option<Fact>, StoreError> {
        self.0.read(move |connection| read::find(connection, &id)).await
    }

    /// The facts with these row numbers that are still there, in no order.
    pub async fn by_seq(&self, seqs: Vec<i64>) -> Result<Vec<Fact>, StoreError> {
        self.0.read(move |connection| read::by_seq(connection, &seqs)).await
    }

    /// Newest first.
    pub async fn list(&self, filter: FactFilter, page: PageRequest) -> Result<Page<Fact>, StoreError> {
        self.0.read(move |connection| read::list(connection, &filter, page)).await
    }

    /// The facts of every prompt: pinned ones first, then by hits and recency.
    pub async fn hot(&self, scopes: PromptScopes, limit: usize) -> Result<Vec<HotFact>, StoreError> {
        self.0.read(move |connection| hot(connection, &scopes, limit)).await
    }

    /// The best full-text hits: row number and BM25, better ones first.
    pub async fn search_text(
        &self,
        query: String,
        filter: FactFilter,
        limit: u32,
    ) -> Result<Vec<i64>, StoreError> {
        self.0.read(move |connection| search::facts(connection, &query, &filter, limit)).await
    }

    /// The row number of the changed fact; `None` when there is no such fact.
    pub async fn edit(&self, id: FactId, edit: FactEdit, now: Millis) -> Result<Option<i64>, StoreError> {
        self.0.write(move |connection| keep::edit(connection, &id, &edit, now)).await
    }

    /// A person has looked at a fact: it holds wherever its scope does. False when there is no such fact.
    pub async fn review(&self, id: FactId, now: Millis) -> Result<bool, StoreError> {
        self.0
            .write(move |connection| {
                let changed = connection
                    .prepare_cached("UPDATE facts SET unreviewed_in = NULL, updated_at = ?2 WHERE id = ?1")?
                    .execute(params![id.as_str(), now.0])?;
                audit::record(connection, now, "fact_reviewed", id.as_str(), "")?;
                Ok(changed == 1)
            })
            .await
    }

    /// Keeps a fact in every prompt, as long as there is room for it. Who pins it has looked at it.
    pub async fn pin(&self, id: FactId, now: Millis) -> Result<PinOutcome, StoreError> {
        self.0.write(move |connection| pin(connection, &id, now)).await
    }

    pub async fn unpin(&self, id: FactId, now: Millis) -> Result<bool, StoreError> {
        self.0.write(move |connection| set_pinned(connection, &id, 0, now)).await
    }

    /// Removes a fact with its index rows. `rewrite` gets each summary with what the fact's sources said and says
    /// what is left of it, or `None` when it says nothing of it. The answer is its row number.
    pub async fn forget(
        &self,
        id: FactId,
        now: Millis,
        rewrite: impl Fn(&str, &[&str]) -> Option<SummaryText> + Send + 'static,
    ) -> Result<Option<i64>, StoreError> {
        self.0.write(move |connection| forget(connection, &id, now, &rewrite)).await
    }

    /// Facts that were of use: their strength is whole again, they gained a hit, and cold ones are hot.
    pub async fn touch(&self, seqs: Vec<i64>, now: Millis) -> Result<(), StoreError> {
        self.0
            .write(move |connection| {
                let mut touch = connection.prepare_cached(
                    "UPDATE facts SET strength = 1.0, hit_count = hit_count + 1, last_accessed_at = max(?2, last_accessed_at),
                       tier = 'hot', archived_at = NULL WHERE seq = ?1",
                )?;
                seqs.iter().try_for_each(|seq| touch.execute([*seq, now.0]).map(|_| ()))?;
                fail_point!("fact.touch.before_commit");
                Ok(())
            })
            .await
    }

    /// The facts that were told or of use most lately.
    pub async fn latest_accessed(&self, filter: FactFilter, limit: u32) -> Result<Vec<Fact>, StoreError> {
        self.0.read(move |connection| read::latest_accessed(connection, &filter, limit)).await
    }

    pub async fn count_pinned(&self) -> Result<u64, StoreError> {
        self.0
            .read(|connection| {
                let mut statement =
                    connection.prepare_cached("SELECT count(*) FROM facts WHERE pinned = 1")?;
                Ok(statement.query_row([], |row| row.get(0))?)
            })
            .await
    }

    pub async fn count(&self, tier: FactTier) -> Result<u64, StoreError> {
        self.0
            .read(move |connection| {
                let mut statement =
                    connection.prepare_cached("SELECT count(*) FROM facts WHERE tier = ?1")?;
                Ok(statement.query_row([tier.as_str()], |row| row.get(0))?)
            })
            .await
    }

    /// Moves at most `limit` facts to the cold tier; pinned ones stay. The answer says how many went.
    pub async fn evict(&self, which: Eviction, limit: u32, now: Millis) -> Result<usize, StoreError> {
        self.0.write(move |connection| evict(connection, which, limit, now)).await
    }
}

fn pin(connection: &Connection, id: &FactId, now: Millis) -> Result<PinOutcome, StoreError> {
    let is_pinned: Option<bool> = connection
        .prepare_cached("SELECT pinned FROM facts WHERE id = ?1")?
        .query_row([id.as_str()], |row| row.get(0))
        .optional()?;
    match is_pinned {
        None => Ok(PinOutcome::Missing),
        Some(false) if !has_room_for_pin(connection)? => Ok(PinOutcome::Full),
        Some(_) => {
            set_pinned(connection, id, 1, now)?;
            Ok(PinOutcome::Pinned)
        }
    }
}

fn has_room_for_pin(connection: &Connection) -> Result<bool, StoreError> {
    let pinned: usize = connection
        .prepare_cached("SELECT count(*) FROM facts WHERE pinned = 1")?
        .query_row([], |row| row.get(0))?;
    Ok(pinned < PINNED_FACTS_MAX)
}

fn set_pinned(connection: &Connection, id: &FactId, pinned: i64, now: Millis) -> Result<bool, StoreError> {
    let changed = connection
        .prepare_cached(
            "UPDATE facts SET pinned = ?2, updated_at = ?3, tier = CASE ?2 WHEN 1 THEN 'hot' ELSE tier END,
               archived_at = CASE ?2 WHEN 1 THEN NULL ELSE archived_at END,
               unreviewed_in = CASE ?2 WHEN 1 THEN NULL ELSE unreviewed_in END WHERE id = ?1",
        )?
        .execute(params![id.as_str(), pinned, now.0])?;
    Ok(changed == 1)
}

fn forget(
    connection: &Connection,
    id: &FactId,
    now: Millis,
    rewrite: &dyn Fn(&str, &[&str]) -> Option<SummaryText>,
) -> Result<Option<i64>, StoreError> {
    // It goes by its id: that it is damaged is one reason more to want it gone.
    let Some(seq) = seq_of(connection, id)? else { return Ok(None) };
    let Legible { scope, texts } = read::legible(connection, seq)?;
    let said: Vec<&str> = texts.iter().map(String::as_str).collect();
    summary::rewrite_all(connection, &|content| rewrite(content, &said))?;
    if let Some(scope) = &scope {
        said.iter().try_for_each(|text| forgotten::add(connection, scope, text, now))?;
    }
    connection.prepare_cached("DELETE FROM facts WHERE seq = ?1")?.execute([seq])?;
    audit::record(connection, now, "fact_forgotten", id.as_str(), "")?;
    fail_point!("fact.forget.before_commit");
    Ok(Some(seq))
}

fn evict(connection: &Connection, which: Eviction, limit: u32, now: Millis) -> Result<usize, StoreError> {
    let moved = connection
        .prepare_cached(
            "UPDATE facts SET tier = 'cold', archived_at = ?4 WHERE seq IN
               (SELECT seq FROM facts WHERE tier = 'hot' AND pinned = 0 AND hit_count < ?2 AND last_accessed_at < ?1
                ORDER BY last_accessed_at LIMIT ?3)",
        )?
        .execute(params![which.unaccessed_since.0, which.hits_below, limit, now.0])?;
    fail_point!("fact.evict.before_commit");
    Ok(moved)
}

pub(crate) fn seq_of(connection: &Connection, id: &FactId) -> Result<Option<i64>, StoreError> {
    let mut statement = connection.prepare_cached("SELECT seq FROM facts WHERE id = ?1")?;
    Ok(statement.query_row([id.as_str()], |row| row.get(0)).optional()?)
}
