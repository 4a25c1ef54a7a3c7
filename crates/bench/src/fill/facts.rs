//! Many facts with their vectors, as the store would have written them.

use super::{checksum, opened_to_fill, ulid};
use crate::BenchError;
use crate::corpus::sentence;
use cortex_brain::{Int8Vector, VectorIndex};
use cortex_models::{BUILT_IN_DIMS, BUILT_IN_EMBEDDER, embed_built_in};
use cortex_types::{Clock, FactId, SystemClock};
use rusqlite::params;
use std::path::Path;

/// Creates the database at `path` with facts from 1; the answer has their vectors.
pub(crate) fn write_facts(path: &Path, rows: u64) -> Result<VectorIndex, BenchError> {
    let mut connection = opened_to_fill(path)?;
    let now = SystemClock::start().now();
    let mut index = VectorIndex::default();
    let transaction = connection.transaction()?;
    let mut facts = transaction.prepare(
        "INSERT INTO facts(seq, id, text, category, created_at, updated_at, last_accessed_at, checksum)
         VALUES (?1, ?2, ?3, 'fact', ?4, ?4, ?4, ?5)",
    )?;
    let mut sources = transaction.prepare(
        "INSERT INTO fact_sources(fact_seq, number, kind, reference, text, at) VALUES (?1, 0, 'person', 'bench', ?2, ?3)",
    )?;
    let mut vectors = transaction
        .prepare("INSERT INTO fact_vectors(fact_seq, model, dims, vector) VALUES (?1, ?2, ?3, ?4)")?;
    for row in 1..=rows {
        let (id, text) = (FactId::from_ulid(ulid(now, row)), sentence(row));
        let sum = checksum(&[id.as_str(), &text, "global", ""], &[now.0]);
        facts.execute(params![row, id.as_str(), text, now.0, sum])?;
        sources.execute(params![row, text, now.0])?;
        let vector = Int8Vector::of(&embed_built_in(&text));
        vectors.execute(params![row, BUILT_IN_EMBEDDER, BUILT_IN_DIMS as u64, vector.to_f32_bytes()])?;
        index.put(i64::try_from(row).unwrap_or(i64::MAX), 0, &vector);
    }
    drop((facts, sources, vectors));
    transaction.commit()?;
    drop(connection);
    std::fs::File::open(path)?.sync_all()?;
    Ok(index)
}
