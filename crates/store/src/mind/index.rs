//! What recall searches beside the facts themselves: vectors of facts and turns, and the full text of what was said.

use crate::engine::row::readable;
use crate::mind::history::{SaidTurn, TURN, said_turn};
use crate::{Store, StoreError};
use cortex_types::{FactScope, Millis, SILENCE_MARK};
use fail::fail_point;
use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter};

const TURNS_INDEXED: &str = "turns_indexed";

/// Transitions of the index.
pub struct MemoryIndex<'a>(pub(crate) &'a Store);

/// A vector as it is kept: who made it, and its bytes, which only the embedder's model gives a meaning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredVector {
    pub model: String,
    pub dims: u32,
    pub bytes: Vec<u8>,
}

/// A fact's vector and where the fact holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FactVector {
    pub seq: i64,
    pub scope: FactScope,
    pub dims: u32,
    pub bytes: Vec<u8>,
}

/// A turn's vector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnVector {
    pub turn: i64,
    pub dims: u32,
    pub bytes: Vec<u8>,
}

/// A line of the history with its place in the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexedTurn {
    pub turn: SaidTurn,
    pub vector: Option<StoredVector>,
}

/// A text whose vector is missing or of another model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextToEmbed {
    /// A fact's or a turn's row.
    pub row: i64,
    pub text: String,
    /// Where a fact holds; a turn has none.
    pub scope: Option<FactScope>,
}

/// How many vectors there are, and how many of them are of the asked model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VectorCounts {
    pub texts: u64,
    pub embedded: u64,
}

/// How much was said, and how much of it is indexed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnCounts {
    pub said: u64,
    pub indexed: u64,
}

/// Whose vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VectorsOf {
    Facts,
    Turns,
}

impl MemoryIndex<'_> {
    /// Vectors of this model after row `after`, by row.
    pub async fn fact_vectors(
        &self,
        model: String,
        after: i64,
        limit: u32,
    ) -> Result<Vec<FactVector>, StoreError> {
        self.0.read(move |connection| fact_vectors(connection, &model, after, limit)).await
    }

    pub async fn turn_vectors(
        &self,
        model: String,
        after: i64,
        limit: u32,
    ) -> Result<Vec<TurnVector>, StoreError> {
        self.0
            .read(move |connection| {
                let mut statement = connection.prepare_cached(
                    "SELECT turn_id, dims, vector FROM turn_vectors WHERE turn_id > ?2 AND model = ?1
                     ORDER BY turn_id LIMIT ?3",
                )?;
                let rows = statement.query_map(params![model, after, limit], |row| {
                    Ok(TurnVector { turn: row.get(0)?, dims: row.get(1)?, bytes: row.get(2)? })
                })?;
                Ok(rows.collect::<Result<_, _>>()?)
            })
            .await
    }

    /// The oldest turns that are not indexed yet; silence is never indexed.
    pub async fn turns_to_index(&self, limit: u32) -> Result<Vec<SaidTurn>, StoreError> {
        self.0
            .read(move |connection| {
                let sql =
                    format!("{TURN} WHERE turns.id > ?1 AND turns.content <> ?3 ORDER BY turns.id LIMIT ?2");
                let mut statement = connection.prepare_cached(&sql)?;
                let cursor = cursor(connection, TURNS_INDEXED)?;
                let rows =
                    statement.query_map(params![cursor, limit, SILENCE_MARK], |row| Ok(said_turn(row)))?;
                readable("turn", rows.map(|row| row?))
            })
            .await
    }

    /// Full text, vectors and cursor in one transaction; what is behind the cursor already stays as it is.
    pub async fn index_turns(&self, batch: Vec<IndexedTurn>, now: Millis) -> Result<(), StoreError> {
        self.0.write(move |connection| index_turns(connection, &batch, now)).await
    }

    /// The best full-text hits among the turns, better ones first.
    pub async fn search_turns(
        &self,
        query: String,
        people: Option<Vec<String>>,
        limit: u32,
    ) -> Result<Vec<i64>, StoreError> {
        self.0
            .read(move |connection| {
                if query.is_empty() {
                    return Ok(Vec::new());
                }
                let Some(people) = people else {
                    let mut statement = connection.prepare_cached(
                        "SELECT rowid FROM turns_fts WHERE turns_fts MATCH ?1 ORDER BY rank LIMIT ?2",
                    )?;
                    let rows = statement.query_map(params![query, limit], |row| row.get(0))?;
                    return Ok(rows.collect::<Result<_, _>>()?);
                };
                let sql = format!(
                    "SELECT turns_fts.rowid FROM turns_fts JOIN turns ON turns.id = turns_fts.rowid
                       JOIN inbox_messages ON inbox_messages.seq = turns.event_seq
                     WHERE turns_fts MATCH ? AND inbox_messages.user_id IN ({}) ORDER BY turns_fts.rank LIMIT {limit}",
                    vec!["?"; people.len()].join(", ")
                );
                let mut statement = connection.prepare_cached(&sql)?;
                let bound = params_from_iter(std::iter::once(query).chain(people));
                let rows = statement.query_map(bound, |row| row.get(0))?;
                Ok(rows.collect::<Result<_, _>>()?)
            })
            .await
    }

    /// Texts after row `after` whose vector is missing or of another model, by row.
    pub async fn to_embed(
        &self,
        of: VectorsOf,
        model: String,
        after: i64,
        limit: u32,
    ) -> Result<Vec<TextToEmbed>, StoreError> {
        self.0.read(move |connection| to_embed(connection, of, &model, after, limit)).await
    }

    /// Puts vectors of texts that still say what they said when they were embedded. The answer is the rows of those.
    pub async fn put_vectors(
        &self,
        of: VectorsOf,
        batch: Vec<(TextToEmbed, StoredVector)>,
    ) -> Result<Vec<i64>, StoreError> {
        self.0.write(move |connection| put_vectors(connection, of, &batch)).await
    }

    pub async fn counts(&self, of: VectorsOf, model: String) -> Result<VectorCounts, StoreError> {
        self.0.read(move |connection| counts(connection, of, &model)).await
    }

    /// Everything that was said, and how much of it is indexed; silence is neither.
    pub async fn turn_counts(&self) -> Result<TurnCounts, StoreError> {
        self.0
            .read(|connection| {
                let mut statement = connection.prepare_cached(
                    "SELECT count(*), count(*) FILTER (WHERE id <= ?1) FROM turns WHERE content <> ?2",
                )?;
                let counted = |row: &Row<'_>| Ok(TurnCounts { said: row.get(0)?, indexed: row.get(1)? });
                Ok(statement.query_row(params![cursor(connection, TURNS_INDEXED)?, SILENCE_MARK], counted)?)
            })
            .await
    }

    /// The dimensions of this model's vectors, once there is one.
    pub async fn dims(&self, model: String) -> Result<Option<u32>, StoreError> {
        self.0
            .read(move |connection| {
                let mut statement = connection.prepare_cached(
                    "SELECT dims FROM (SELECT model, dims FROM fact_vectors UNION ALL SELECT model, dims FROM turn_vectors)
                     WHERE model = ?1 LIMIT 1",
                )?;
                Ok(statement.query_row([model], |row| row.get(0)).optional()?)
            })
            .await
    }

    /// From now on this model's vectors are those in use; readers of `cortex_cold_memory_vec` see no others.
    pub async fn use_model(&self, model: String, now: Millis) -> Result<(), StoreError> {
        self.0
            .write(move |connection| {
                connection
                    .prepare_cached(
                        "INSERT INTO active_embedder(only_row, model, since) VALUES (1, ?1, ?2)
                         ON CONFLICT(only_row) DO UPDATE SET model = ?1, since = ?2 WHERE model <> ?1",
                    )?
                    .execute(params![model, now.0])?;
                Ok(())
            })
            .await
    }
}

pub(crate) fn counts(
    connection: &Connection,
    of: VectorsOf,
    model: &str,
) -> Result<VectorCounts, StoreError> {
    let sql = match of {
        VectorsOf::Facts => {
            "SELECT (SELECT count(*) FROM facts), (SELECT count(*) FROM fact_vectors WHERE model = ?1)"
        }
        VectorsOf::Turns => {
            "SELECT (SELECT count(*) FROM turns WHERE content <> '[silence]' AND id <= coalesce((SELECT position FROM memory_cursors
               WHERE name = 'turns_indexed'), 0)), (SELECT count(*) FROM turn_vectors WHERE model = ?1)"
        }
    };
    let counted = |row: &Row<'_>| Ok(VectorCounts { texts: row.get(0)?, embedded: row.get(1)? });
    Ok(connection.prepare_cached(sql)?.query_row([model], counted)?)
}

fn fact_vectors(
    connection: &Connection,
    model: &str,
    after: i64,
    limit: u32,
) -> Result<Vec<FactVector>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT fact_seq, scope, scope_key, dims, vector FROM fact_vectors JOIN facts ON facts.seq = fact_seq
         WHERE fact_seq > ?2 AND model = ?1 ORDER BY fact_seq LIMIT ?3",
    )?;
    let rows = statement.query_map(params![model, after, limit], |row| {
        Ok((row.get(0)?, row.get::<_, String>(1)?, row.get::<_, String>(2)?, row.get(3)?, row.get(4)?))
    })?;
    let vectors = rows.map(|row| {
        let (seq, scope, scope_key, dims, bytes) = row?;
        let scope = FactScope::from_parts(&scope, &scope_key)
            .ok_or_else(|| StoreError::Damaged(format!("fact {seq}: its scope is unknown")))?;
        Ok(FactVector { seq, scope, dims, bytes })
    });
    readable("vector of a fact", vectors)
}

/// Replaces the vector of a fact; `None` takes it away, and it is made later.
pub(crate) fn put_fact_vector(
    connection: &Connection,
    seq: i64,
    vector: Option<&StoredVector>,
) -> Result<(), StoreError> {
    match vector {
        Some(vector) => connection
            .prepare_cached(
                "INSERT OR REPLACE INTO fact_vectors(fact_seq, model, dims, vector) VALUES (?1, ?2, ?3, ?4)",
            )?
            .execute(params![seq, vector.model, vector.dims, vector.bytes])?,
        None => connection.prepare_cached("DELETE FROM fact_vectors WHERE fact_seq = ?1")?.execute([seq])?,
    };
    Ok(())
}

fn index_turns(connection: &Connection, batch: &[IndexedTurn], now: Millis) -> Result<(), StoreError> {
    let done = cursor(connection, TURNS_INDEXED)?;
    let mut text = connection
        .prepare_cached("INSERT INTO turns_fts(rowid, content) SELECT ?1, ?2 WHERE EXISTS (SELECT 1 FROM turns WHERE id = ?1)")?;
    let mut vectors = connection.prepare_cached(
        "INSERT INTO turn_vectors(turn_id, model, dims, vector) SELECT ?1, ?2, ?3, ?4 WHERE EXISTS (SELECT 1 FROM turns WHERE id = ?1)",
    )?;
    for IndexedTurn { turn, vector } in batch.iter().filter(|indexed| indexed.turn.id > done) {
        text.execute(params![turn.id, turn.content])?;
        if let Some(vector) = vector {
            vectors.execute(params![turn.id, vector.model, vector.dims, vector.bytes])?;
        }
    }
    fail_point!("memory_index.turns.before_cursor");
    if let Some(last) = batch.iter().map(|indexed| indexed.turn.id).max().filter(|last| *last > done) {
        set_cursor(connection, TURNS_INDEXED, last, now)?;
    }
    fail_point!("memory_index.turns.before_commit");
    Ok(())
}

fn to_embed(
    connection: &Connection,
    of: VectorsOf,
    model: &str,
    after: i64,
    limit: u32,
) -> Result<Vec<TextToEmbed>, StoreError> {
    let sql = match of {
        VectorsOf::Facts => {
            "SELECT seq, text, scope, scope_key FROM facts LEFT JOIN fact_vectors ON fact_seq = seq
             WHERE seq > ?2 AND (model IS NULL OR model <> ?1) ORDER BY seq LIMIT ?3"
        }
        VectorsOf::Turns => {
            "SELECT id, content, NULL, NULL FROM turns LEFT JOIN turn_vectors ON turn_id = id
             WHERE id > ?2 AND id <= coalesce((SELECT position FROM memory_cursors WHERE name = 'turns_indexed'), 0)
               AND (model IS NULL OR model <> ?1) AND content <> '[silence]' ORDER BY id LIMIT ?3"
        }
    };
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map(params![model, after, limit], |row| {
        let scope: Option<String> = row.get(2)?;
        let scope = scope.zip(row.get::<_, Option<String>>(3)?);
        let scope = scope.and_then(|(kind, key)| FactScope::from_parts(&kind, &key));
        Ok(TextToEmbed { row: row.get(0)?, text: row.get(1)?, scope })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn put_vectors(
    connection: &Connection,
    of: VectorsOf,
    batch: &[(TextToEmbed, StoredVector)],
) -> Result<Vec<i64>, StoreError> {
    let sql = match of {
        VectorsOf::Facts => {
            "INSERT OR REPLACE INTO fact_vectors(fact_seq, model, dims, vector)
             SELECT seq, ?3, ?4, ?5 FROM facts WHERE seq = ?1 AND text = ?2"
        }
        VectorsOf::Turns => {
            "INSERT OR REPLACE INTO turn_vectors(turn_id, model, dims, vector)
             SELECT id, ?3, ?4, ?5 FROM turns WHERE id = ?1 AND content = ?2"
        }
    };
    let mut statement = connection.prepare_cached(sql)?;
    let mut put = Vec::with_capacity(batch.len());
    for (text, vector) in batch {
        let bound = params![text.row, text.text, vector.model, vector.dims, vector.bytes];
        if statement.execute(bound)? == 1 {
            put.push(text.row);
        }
    }
    fail_point!("memory_index.vectors.before_commit");
    Ok(put)
}

/// How far a task over the history has come; 0 before it began.
pub(crate) fn cursor(connection: &Connection, name: &str) -> Result<i64, StoreError> {
    let mut statement = connection.prepare_cached("SELECT position FROM memory_cursors WHERE name = ?1")?;
    Ok(statement.query_row([name], |row| row.get(0)).optional()?.unwrap_or(0))
}

pub(crate) fn set_cursor(
    connection: &Connection,
    name: &str,
    position: i64,
    now: Millis,
) -> Result<(), StoreError> {
    connection
        .prepare_cached(
            "INSERT INTO memory_cursors(name, position, updated_at) VALUES (?1, ?2, ?3)
             ON CONFLICT(name) DO UPDATE SET position = ?2, updated_at = ?3",
        )?
        .execute(params![name, position, now.0])?;
    Ok(())
}
