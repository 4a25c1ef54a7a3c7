//! The vectors in memory: loaded once, kept in step with every write, and made anew when the embedding model changes.

use super::{MemoryDesk, MemoryError};
use cortex_brain::{Int8Vector, VectorIndex};
use cortex_models::EmbedError;
use cortex_store::{FactVector, IndexedTurn, SaidTurn, TextToEmbed, VectorCounts, VectorsOf};
use cortex_types::FactScope;
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use tokio_util::sync::CancellationToken;

/// Rows that are read at once when the vectors are loaded.
const LOADED_AT_ONCE: u32 = 4_096;
/// Turns that one transaction indexes, and texts that one request embeds.
const BATCH: u32 = 128;

/// Facts and turns as the scan sees them.
#[derive(Default)]
pub(super) struct Vectors {
    facts: VectorIndex,
    turns: VectorIndex,
    /// The tag of each scope.
    scopes: HashMap<FactScope, u32>,
}

/// How many texts have a vector of the model in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VectorStatus {
    pub model: String,
    pub facts: VectorCounts,
    pub turns: VectorCounts,
}

/// How making the vectors anew ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reembedding {
    /// Every text has its vector; so many were made.
    Done(u64),
    /// The model did not answer or the server stops; the rest is made by the next run.
    Interrupted(u64),
}

impl Vectors {
    fn put_fact(&mut self, seq: i64, scope: &FactScope, vector: &Int8Vector) {
        let next = u32::try_from(self.scopes.len()).unwrap_or(u32::MAX);
        let tag = *self.scopes.entry(scope.clone()).or_insert(next);
        if !self.facts.put(seq, tag, vector) {
            tracing::warn!(seq, "A fact's vector has other dimensions than the rest; it is not searched");
        }
    }

    fn put_turn(&mut self, id: i64, vector: &Int8Vector) {
        if !self.turns.put(id, 0, vector) {
            tracing::warn!(id, "A turn's vector has other dimensions than the rest; it is not searched");
        }
    }

    fn nearest_facts(
        &self,
        query: &Int8Vector,
        scopes: Option<&[FactScope]>,
        limit: usize,
    ) -> Vec<(i64, f32)> {
        match scopes {
            None => self.facts.nearest(query, limit, |_| true),
            Some(scopes) => {
                let tags: Vec<u32> =
                    scopes.iter().filter_map(|scope| self.scopes.get(scope).copied()).collect();
                self.facts.nearest(query, limit, |tag| tags.contains(&tag))
            }
        }
    }
}

impl MemoryDesk {
    /// Every text whose vector is missing or of another model gets one, batch by batch; a stop loses nothing.
    pub async fn reembed(&self, stop: &CancellationToken) -> Result<Reembedding, MemoryError> {
        self.reembedding_begins();
        let ended = self.reembed_all(stop).await;
        self.reembedding_ended(&ended);
        ended
    }

    async fn reembed_all(&self, stop: &CancellationToken) -> Result<Reembedding, MemoryError> {
        // Before the first look: a text that loses its vector meanwhile asks for another run.
        self.0.is_incomplete.store(false, Ordering::Relaxed);
        let mut made = 0;
        for of in [VectorsOf::Facts, VectorsOf::Turns] {
            let mut after = 0;
            loop {
                let texts = self.0.store.memory_index().to_embed(of, self.model(), after, BATCH).await?;
                let Some(last) = texts.last().map(|text| text.row) else { break };
                after = last;
                let some = if stop.is_cancelled() { None } else { self.reembed_some(of, texts).await? };
                let Some(some) = some else {
                    self.0.is_incomplete.store(true, Ordering::Relaxed);
                    return Ok(Reembedding::Interrupted(made));
                };
                made += some;
            }
        }
        Ok(Reembedding::Done(made))
    }

    pub async fn vector_status(&self) -> Result<VectorStatus, MemoryError> {
        let index = self.0.store.memory_index();
        Ok(VectorStatus {
            model: self.model(),
            facts: index.counts(VectorsOf::Facts, self.model()).await?,
            turns: index.counts(VectorsOf::Turns, self.model()).await?,
        })
    }

    /// Indexes what was said since the last time, so that it is found. The answer says how many turns.
    pub async fn catch_up(&self) -> Result<u64, MemoryError> {
        let _turn = self.0.changes.lock().await;
        let mut indexed = 0;
        loop {
            let turns = self.0.store.memory_index().turns_to_index(BATCH).await?;
            if turns.is_empty() {
                return Ok(indexed);
            }
            indexed += turns.len() as u64;
            self.index(turns).await?;
        }
    }

    pub(super) async fn nearest_facts(
        &self,
        query: &Int8Vector,
        scopes: Option<&[FactScope]>,
        limit: usize,
    ) -> Result<Vec<(i64, f32)>, MemoryError> {
        self.load().await?;
        let vectors = self.0.vectors.read().await;
        Ok(vectors.as_ref().map(|vectors| vectors.nearest_facts(query, scopes, limit)).unwrap_or_default())
    }

    pub(super) async fn nearest_turns(
        &self,
        query: &Int8Vector,
        limit: usize,
    ) -> Result<Vec<(i64, f32)>, MemoryError> {
        self.load().await?;
        let vectors = self.0.vectors.read().await;
        Ok(vectors.as_ref().map(|vectors| vectors.turns.nearest(query, limit, |_| true)).unwrap_or_default())
    }

    /// A fact that has no vector now leaves the scan.
    pub(super) async fn put(&self, seq: i64, scope: &FactScope, vector: Option<&Int8Vector>) {
        if let Some(vectors) = self.0.vectors.write().await.as_mut() {
            match vector {
                Some(vector) => vectors.put_fact(seq, scope, vector),
                None => vectors.facts.remove(seq),
            }
        }
    }

    /// The next search reads the vectors anew.
    pub(super) async fn load_again(&self) {
        *self.0.vectors.write().await = None;
    }

    pub(super) async fn drop_vector(&self, seq: i64) {
        if let Some(vectors) = self.0.vectors.write().await.as_mut() {
            vectors.facts.remove(seq);
        }
    }

    /// Lines of the history are gone; so is what the index kept of them.
    pub(crate) async fn turns_dropped(&self, ids: &[i64]) {
        if let Some(vectors) = self.0.vectors.write().await.as_mut() {
            for id in ids {
                vectors.turns.remove(*id);
            }
        }
    }

    pub(super) fn model(&self) -> String {
        self.0.embedder.name().to_owned()
    }

    /// Reads all vectors of the model in use, once.
    async fn load(&self) -> Result<(), MemoryError> {
        if self.0.vectors.read().await.is_some() {
            return Ok(());
        }
        let mut slot = self.0.vectors.write().await;
        if slot.is_some() {
            return Ok(());
        }
        let index = self.0.store.memory_index();
        let mut vectors = Vectors::default();
        let mut after = 0;
        loop {
            let rows = index.fact_vectors(self.model(), after, LOADED_AT_ONCE).await?;
            let Some(last) = rows.last().map(|row| row.seq) else { break };
            after = last;
            for FactVector { seq, scope, bytes, .. } in rows {
                if let Some(vector) = Int8Vector::from_f32_bytes(&bytes) {
                    vectors.put_fact(seq, &scope, &vector);
                }
            }
        }
        after = 0;
        loop {
            let rows = index.turn_vectors(self.model(), after, LOADED_AT_ONCE).await?;
            let Some(last) = rows.last().map(|row| row.turn) else { break };
            after = last;
            for row in rows {
                if let Some(vector) = Int8Vector::from_bytes(&row.bytes) {
                    vectors.put_turn(row.turn, &vector);
                }
            }
        }
        *slot = Some(vectors);
        Ok(())
    }

    async fn index(&self, turns: Vec<SaidTurn>) -> Result<(), MemoryError> {
        let texts: Vec<&str> = turns.iter().map(|turn| turn.content.as_str()).collect();
        let made: Vec<Option<Int8Vector>> = match self.0.embedder.embed(&texts).await {
            Ok(made) => made.iter().map(|vector| Some(Int8Vector::of(vector))).collect(),
            Err(error) => {
                tracing::warn!(%error, "What was said has no vectors yet; it is found by its words alone");
                self.no_vector(error.to_string());
                vec![None; turns.len()]
            }
        };
        let ids: Vec<i64> = turns.iter().map(|turn| turn.id).collect();
        let with_vector = |(turn, vector): (SaidTurn, &Option<Int8Vector>)| IndexedTurn {
            turn,
            vector: vector.as_ref().map(|vector| self.stored(VectorsOf::Turns, vector)),
        };
        let batch = turns.into_iter().zip(&made).map(with_vector).collect();
        self.0.store.memory_index().index_turns(batch, self.0.clock.now()).await?;
        if let Some(vectors) = self.0.vectors.write().await.as_mut() {
            for (id, vector) in ids.into_iter().zip(made) {
                if let Some(vector) = vector {
                    vectors.put_turn(id, &vector);
                }
            }
        }
        Ok(())
    }

    /// How many vectors were made; `None` when the model is away. A text that the model refuses holds up no other: it is
    /// found by its words alone.
    async fn reembed_some(&self, of: VectorsOf, texts: Vec<TextToEmbed>) -> Result<Option<u64>, MemoryError> {
        match self.reembed_batch(of, &texts).await? {
            Ok(()) => return Ok(Some(texts.len() as u64)),
            Err(EmbedError::Away(_)) => return Ok(None),
            Err(EmbedError::Refused(_)) => {}
        }
        let mut made = 0;
        for text in &texts {
            match self.reembed_batch(of, std::slice::from_ref(text)).await? {
                Ok(()) => made += 1,
                Err(EmbedError::Away(_)) => return Ok(None),
                Err(EmbedError::Refused(_)) => {
                    tracing::warn!(row = text.row, "A text has no vector: the model refuses it");
                }
            }
        }
        Ok(Some(made))
    }

    async fn reembed_batch(
        &self,
        of: VectorsOf,
        texts: &[TextToEmbed],
    ) -> Result<Result<(), EmbedError>, MemoryError> {
        let words: Vec<&str> = texts.iter().map(|text| text.text.as_str()).collect();
        let made = match self.0.embedder.embed_in_background(&words).await {
            Ok(made) => made,
            Err(error) => {
                tracing::warn!(%error, "Vectors could not be made anew");
                self.no_vector(error.to_string());
                return Ok(Err(error));
            }
        };
        // A fact that is changed meanwhile must not get the vector of its old words in memory.
        let _turn = self.0.changes.lock().await;
        let made: Vec<Int8Vector> = made.iter().map(|vector| Int8Vector::of(vector)).collect();
        let batch = texts.iter().cloned().zip(made.iter().map(|vector| self.stored(of, vector))).collect();
        let put = self.0.store.memory_index().put_vectors(of, batch).await?;
        if let Some(vectors) = self.0.vectors.write().await.as_mut() {
            for (text, vector) in texts.iter().zip(&made).filter(|(text, _)| put.contains(&text.row)) {
                match &text.scope {
                    Some(scope) => vectors.put_fact(text.row, scope, vector),
                    None => vectors.put_turn(text.row, vector),
                }
            }
        }
        Ok(Ok(()))
    }
}
