//! Where memory stands: what is kept, what is indexed, and how far vectors of the model in use have come.

use super::{MemoryDesk, MemoryError, Reembedding, VectorStatus};
use cortex_store::{StoreError, TurnCounts};
use cortex_types::FactTier;
use std::sync::atomic::Ordering;

/// Memory in numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryStatus {
    pub hot: u64,
    pub cold: u64,
    /// Of the hot ones.
    pub pinned: u64,
    pub turns: TurnCounts,
    pub vectors: VectorStatus,
    /// Of the model in use; `None` while it has made no vector.
    pub dims: Option<u32>,
    pub progress: EmbeddingProgress,
}

/// Where making vectors anew stands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EmbeddingProgress {
    pub is_running: bool,
    /// Why the last vector could not be made; gone once every text has its own.
    pub last_error: Option<String>,
}

impl MemoryDesk {
    pub async fn status(&self) -> Result<MemoryStatus, MemoryError> {
        let store = &self.0.store;
        Ok(MemoryStatus {
            hot: self.count(FactTier::Hot).await?,
            cold: self.count(FactTier::Cold).await?,
            pinned: store.facts().count_pinned().await?,
            turns: store.memory_index().turn_counts().await?,
            vectors: self.vector_status().await?,
            dims: match self.0.embedder.dims() {
                Some(dims) => Some(dims),
                None => store.memory_index().dims(self.model()).await?,
            },
            progress: self.progress(),
        })
    }

    /// Where making vectors anew stands.
    pub fn progress(&self) -> EmbeddingProgress {
        self.0.progress.borrow().clone()
    }

    /// Says in the database whose vectors are in use.
    pub(crate) async fn use_embedder(&self) -> Result<(), StoreError> {
        self.0.store.memory_index().use_model(self.model(), self.0.clock.now()).await
    }

    /// The embedding model did not answer: what has no vector gets one later.
    pub(super) fn no_vector(&self, reason: String) {
        self.0.is_incomplete.store(true, Ordering::Relaxed);
        self.0.progress.send_modify(|progress| progress.last_error = Some(reason));
    }

    pub(super) fn reembedding_begins(&self) {
        self.0.progress.send_modify(|progress| progress.is_running = true);
    }

    pub(super) fn reembedding_ended(&self, ended: &Result<Reembedding, MemoryError>) {
        self.0.progress.send_modify(|progress| {
            progress.is_running = false;
            match ended {
                Ok(Reembedding::Done(_)) => progress.last_error = None,
                Ok(Reembedding::Interrupted(_)) => {}
                Err(error) => progress.last_error = Some(error.to_string()),
            }
        });
    }
}
