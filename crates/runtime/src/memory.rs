//! The desk for memory: keeps facts once, recalls them and what was said, and lets go of what is no longer asked for.

mod exchange;
mod keeper;
mod known;
mod recall;
mod status;
mod vectors;

pub use exchange::Imported;
pub(crate) use known::{facts_to_read, known_facts};
pub use recall::{Recall, RecallBy, Recalled, RecalledItem, Unreviewed};
pub use status::{EmbeddingProgress, MemoryStatus};
pub use vectors::{Reembedding, VectorStatus};

use crate::mint;
use cortex_brain::{
    EVICT_BELOW_HITS, EVICT_UNACCESSED, Int8Vector, count_tokens, is_near_duplicate, without_told,
};
use cortex_models::Embedder;
use cortex_store::{
    Eviction, FactEdit, FactFilter, FactToKeep, Keep, KeptAs, Page, PageRequest, PinOutcome, Store,
    StoreError, StoredVector, SummaryText, VectorsOf,
};
use cortex_types::limits::PINNED_FACTS_MAX;
use cortex_types::{
    Clock, EventId, Fact, FactId, FactOrigin, FactScope, FactSource, FactSourceKind, FactTier, Millis,
    NewFact, TopicRef,
};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tokio::sync::{Mutex, RwLock, watch};
use vectors::Vectors;

/// Longest text of a fact.
const TEXT_BYTES_MAX: usize = 32 * 1024;
/// Facts that one transaction of an eviction moves.
const EVICTED_AT_ONCE: u32 = 500;
/// Neighbours that are looked at for one that says the same.
const NEAR_MAX: usize = 8;

/// Everything that can be done with memory. Clones share it.
#[derive(Clone)]
pub struct MemoryDesk(Arc<Memory>);

struct Memory {
    store: Store,
    embedder: Embedder,
    clock: Arc<dyn Clock>,
    /// `None` until somebody needs them.
    vectors: RwLock<Option<Vectors>>,
    /// One change of the facts after the other: two that say the same must see each other.
    changes: Mutex<()>,
    /// Some text may have no vector of the model in use; so it is at every start.
    is_incomplete: AtomicBool,
    /// Where making vectors anew stands.
    progress: watch::Sender<EmbeddingProgress>,
}

/// Something to be remembered.
#[derive(Debug, Clone, PartialEq)]
pub struct NewMemory {
    pub text: String,
    pub category: Option<String>,
    pub scope: FactScope,
    pub source: FactSource,
    pub metadata_json: Option<String>,
    pub idempotency_key: Option<String>,
    /// The only topic that sees it until a person has looked; `None` is reviewed.
    pub unreviewed_in: Option<String>,
    pub keep: Keep,
}

/// Where it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remembered {
    pub id: FactId,
    pub outcome: KeptAs,
}

/// Why memory did not do it.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    #[error("content is required")]
    Empty,
    #[error("content is longer than {TEXT_BYTES_MAX} bytes")]
    TooLong,
    #[error("upsert requires idempotency_key")]
    UpsertWithoutKey,
    #[error(
        "{PINNED_FACTS_MAX} facts are pinned already; unpin one first: `cortex memory list --pinned` shows them, \
         `cortex memory pin <fact> --off` unpins one"
    )]
    PinsFull,
    #[error("line {line}: {reason}")]
    BadLine { line: usize, reason: String },
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl MemoryDesk {
    /// What makes the vectors.
    pub fn embedder(&self) -> &Embedder {
        &self.0.embedder
    }

    pub(crate) fn new(store: Store, embedder: Embedder, clock: Arc<dyn Clock>) -> Self {
        Self(Arc::new(Memory {
            store,
            embedder,
            clock,
            vectors: RwLock::default(),
            changes: Mutex::default(),
            is_incomplete: AtomicBool::new(true),
            progress: watch::Sender::default(),
        }))
    }

    /// Keeps a text once: by its key, as a further source of a fact that says the same, or as a new fact.
    pub async fn remember(&self, new: NewMemory) -> Result<Remembered, MemoryError> {
        let text = checked_text(&new.text)?;
        if new.keep == Keep::Upsert && new.idempotency_key.is_none() {
            return Err(MemoryError::UpsertWithoutKey);
        }
        let now = self.0.clock.now();
        let fact = NewFact {
            id: FactId::from_ulid(mint::ulid_at(now)),
            text,
            category: new.category,
            scope: new.scope,
            source: new.source,
            metadata_json: new.metadata_json,
            idempotency_key: new.idempotency_key,
            unreviewed_in: new.unreviewed_in,
        };
        let desk = self.clone();
        to_the_end(async move {
            let _turn = desk.0.changes.lock().await;
            let vector = desk.vector_of(&fact.text).await;
            let near_duplicate = desk.near_duplicate(&fact.text, &fact.scope, vector.as_ref()).await?;
            let stored = vector.as_ref().map(|vector| desk.stored(VectorsOf::Facts, vector));
            let scope = fact.scope.clone();
            let new = FactToKeep { fact, keep: new.keep, near_duplicate, vector: stored };
            let kept = desk.0.store.facts().keep(new, now).await?;
            match kept.outcome {
                KeptAs::Created => desk.put(kept.seq, &scope, vector.as_ref()).await,
                KeptAs::Updated => match &vector {
                    Some(vector) => desk.put(kept.seq, &scope, Some(vector)).await,
                    // Whether its words and so its vector are other ones only the store knows.
                    None => desk.load_again().await,
                },
                KeptAs::Merged | KeptAs::Replayed | KeptAs::Forgotten => {}
            }
            Ok(Remembered { id: kept.id, outcome: kept.outcome })
        })
        .await
    }

    pub async fn find(&self, id: FactId) -> Result<Option<Fact>, MemoryError> {
        Ok(self.0.store.facts().find(id).await?)
    }

    /// Newest first.
    pub async fn list(&self, filter: FactFilter, page: PageRequest) -> Result<Page<Fact>, MemoryError> {
        Ok(self.0.store.facts().list(filter, page).await?)
    }

    /// A person's change. False when there is no such fact.
    pub async fn edit(
        &self,
        id: FactId,
        text: Option<String>,
        category: Option<String>,
        by: &str,
    ) -> Result<bool, MemoryError> {
        let text = text.as_deref().map(checked_text).transpose()?;
        let now = self.0.clock.now();
        let source = FactSource { kind: FactSourceKind::Person, reference: by.to_owned() };
        let origin = text.clone().map(|text| FactOrigin { source, text, at: now });
        let desk = self.clone();
        to_the_end(async move {
            let _turn = desk.0.changes.lock().await;
            let vector = match &text {
                Some(text) => desk.vector_of(text).await,
                None => None,
            };
            let stored = vector.as_ref().map(|vector| desk.stored(VectorsOf::Facts, vector));
            let is_new_text = text.is_some();
            let edit = FactEdit { text, vector: stored, category, origin };
            let Some(seq) = desk.0.store.facts().edit(id.clone(), edit, now).await? else { return Ok(false) };
            if let (true, Some(fact)) = (is_new_text, desk.0.store.facts().find(id).await?) {
                desk.put(seq, &fact.scope, vector.as_ref()).await;
            }
            Ok(true)
        })
        .await
    }

    /// A person has looked at a fact that was learned from what others wrote. False when there is no such fact.
    pub async fn review(&self, id: FactId) -> Result<bool, MemoryError> {
        Ok(self.0.store.facts().review(id, self.0.clock.now()).await?)
    }

    /// Where a fact of this event may be seen until a person has looked, when the event read what others wrote.
    pub(crate) async fn unreviewed_in(
        &self,
        event: EventId,
        topic: &TopicRef,
    ) -> Result<Option<String>, MemoryError> {
        let is_marked = !self.0.store.turns().untrusted_reads(event).await?.is_empty();
        Ok(is_marked.then(|| FactScope::topic_name(topic)))
    }

    /// Keeps a fact in every prompt. False when there is no such fact.
    pub async fn pin(&self, id: FactId) -> Result<bool, MemoryError> {
        match self.0.store.facts().pin(id, self.0.clock.now()).await? {
            PinOutcome::Pinned => Ok(true),
            PinOutcome::Missing => Ok(false),
            PinOutcome::Full => Err(MemoryError::PinsFull),
        }
    }

    pub async fn unpin(&self, id: FactId) -> Result<bool, MemoryError> {
        Ok(self.0.store.facts().unpin(id, self.0.clock.now()).await?)
    }

    /// Hot or cold, the fact goes, with its index rows and the sentences that tell it in summaries. False when there is no such fact.
    pub async fn forget(&self, id: FactId) -> Result<bool, MemoryError> {
        let desk = self.clone();
        to_the_end(async move {
            let _turn = desk.0.changes.lock().await;
            let Some(seq) = desk.0.store.facts().forget(id, desk.0.clock.now(), rest_of).await? else {
                return Ok(false);
            };
            desk.drop_vector(seq).await;
            Ok(true)
        })
        .await
    }

    /// Facts that were of use.
    pub async fn touch(&self, seqs: Vec<i64>) -> Result<(), MemoryError> {
        Ok(self.0.store.facts().touch(seqs, self.0.clock.now()).await?)
    }

    /// Moves facts that nobody asked for to the cold tier (D21), in small transactions. The answer says how many.
    pub async fn evict(&self, now: Millis) -> Result<usize, MemoryError> {
        let unaccessed = i64::try_from(EVICT_UNACCESSED.as_millis()).unwrap_or(i64::MAX);
        let which = Eviction {
            unaccessed_since: Millis(now.0.saturating_sub(unaccessed)),
            hits_below: EVICT_BELOW_HITS,
        };
        let mut moved = 0;
        loop {
            let some = self.0.store.facts().evict(which, EVICTED_AT_ONCE, now).await?;
            moved += some;
            if some == 0 {
                return Ok(moved);
            }
        }
    }

    /// How many facts are hot and cold.
    pub async fn count(&self, tier: FactTier) -> Result<u64, MemoryError> {
        Ok(self.0.store.facts().count(tier).await?)
    }

    /// The fact in the same scope that says the same as `text`.
    async fn near_duplicate(
        &self,
        text: &str,
        scope: &FactScope,
        vector: Option<&Int8Vector>,
    ) -> Result<Option<FactId>, MemoryError> {
        let Some(vector) = vector else { return Ok(None) };
        let near = self.nearest_facts(vector, Some(std::slice::from_ref(scope)), NEAR_MAX).await?;
        let facts = self.0.store.facts().by_seq(near.iter().map(|(seq, _)| *seq).collect()).await?;
        let cosine = |fact: &Fact| near.iter().find(|(seq, _)| *seq == fact.seq).map(|(_, cosine)| *cosine);
        let same = facts
            .into_iter()
            .find(|fact| cosine(fact).is_some_and(|cosine| is_near_duplicate(&fact.text, text, cosine)));
        Ok(same.map(|fact| fact.id))
    }

    /// `None` when the embedding model does not answer: the text is kept and gets its vector later.
    async fn vector_of(&self, text: &str) -> Option<Int8Vector> {
        match self.0.embedder.embed(&[text]).await {
            Ok(vectors) => vectors.first().map(|vector| Int8Vector::of(vector)),
            Err(error) => {
                tracing::warn!(%error, "A text has no vector yet; it is found by its words alone");
                self.no_vector(error.to_string());
                None
            }
        }
    }

    fn stored(&self, of: VectorsOf, vector: &Int8Vector) -> StoredVector {
        StoredVector {
            model: self.0.embedder.name().to_owned(),
            dims: u32::try_from(vector.dims()).unwrap_or(u32::MAX),
            bytes: match of {
                VectorsOf::Facts => vector.to_f32_bytes(),
                VectorsOf::Turns => vector.to_bytes(),
            },
        }
    }
}

/// What is left of a summary without the sentences that tell a forgotten fact.
fn rest_of(summary: &str, said: &[&str]) -> Option<SummaryText> {
    let content = without_told(summary, said)?;
    let tokens = count_tokens(&content);
    Some(SummaryText { content, tokens })
}

/// What is written and what is in memory must not part, so a caller that goes away does not stop it halfway.
async fn to_the_end<T: Send + 'static>(
    work: impl Future<Output = Result<T, MemoryError>> + Send + 'static,
) -> Result<T, MemoryError> {
    tokio::spawn(work).await.unwrap_or(Err(MemoryError::Store(StoreError::Closed)))
}

fn checked_text(text: &str) -> Result<String, MemoryError> {
    let text = text.trim();
    match text.len() {
        0 => Err(MemoryError::Empty),
        long if long > TEXT_BYTES_MAX => Err(MemoryError::TooLong),
        _ => Ok(text.to_owned()),
    }
}
