//! How a fact comes to be kept once: known key, further source of one that says the same, or a row of its own.

use super::read::{fact_checksum, find, first_whole, origins};
use super::{FactEdit, FactToKeep, Keep, KeptAs, KeptFact, forgotten, has_room_for_pin};
use crate::mind::index::{self, StoredVector};
use crate::{StoreError, engine::checksum};
use cortex_types::{Fact, FactId, FactOrigin, FactScope, Millis, NewFact};
use fail::fail_point;
use rusqlite::{Connection, params};

/// A fact that is there.
struct PresentFact {
    seq: i64,
    id: FactId,
}

impl PresentFact {
    fn kept_as(self, outcome: KeptAs) -> KeptFact {
        KeptFact { seq: self.seq, id: self.id, outcome }
    }
}

/// Whose fact a key points to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Joins {
    Nobody,
    Others,
}

pub(super) fn keep(connection: &Connection, new: &FactToKeep, now: Millis) -> Result<KeptFact, StoreError> {
    let fact = &new.fact;
    let known = match &fact.idempotency_key {
        Some(key) => known_key(connection, &fact.scope, key)?,
        None => None,
    };
    if let (None, Some(key)) = (&known, &fact.idempotency_key) {
        // A key of a fact that is damaged becomes that of the one which is kept now.
        drop_key(connection, &fact.scope, key)?;
    }
    let kept = match (known, new.keep) {
        (Some(known), Keep::Once | Keep::Learned) => known.kept_as(KeptAs::Replayed),
        (Some(known), Keep::Upsert) => upsert(connection, known, new, now)?,
        (None, Keep::Learned) if forgotten::has(connection, &fact.scope, &fact.text)? => {
            KeptFact { seq: 0, id: fact.id.clone(), outcome: KeptAs::Forgotten }
        }
        (None, Keep::Learned) => add(connection, new, None, now)?,
        (None, Keep::Once | Keep::Upsert) => {
            forgotten::remove(connection, &fact.scope, &fact.text)?;
            add(connection, new, None, now)?
        }
    };
    fail_point!("fact.keep.before_commit");
    Ok(kept)
}

/// What a key's fact says is replaced where the fact is its alone. One that others told too stays theirs, and the key
/// gets a fact of its own.
fn upsert(
    connection: &Connection,
    known: PresentFact,
    new: &FactToKeep,
    now: Millis,
) -> Result<KeptFact, StoreError> {
    let fact = &new.fact;
    let before: String = connection
        .prepare_cached("SELECT text FROM facts WHERE seq = ?1")?
        .query_row([known.seq], |row| row.get(0))?;
    if before == fact.text || is_its_alone(connection, known.seq)? {
        if replace(connection, known.seq, &known.id, new, now)? {
            add_origin(connection, known.seq, &origin_of(fact, now))?;
        }
        return Ok(known.kept_as(KeptAs::Updated));
    }
    if let Some(key) = &fact.idempotency_key {
        drop_key(connection, &fact.scope, key)?;
    }
    add(connection, new, Some(&known.id), now)
}

fn drop_key(connection: &Connection, scope: &FactScope, key: &str) -> Result<(), StoreError> {
    connection
        .prepare_cached("DELETE FROM fact_keys WHERE scope = ?1 AND scope_key = ?2 AND idempotency_key = ?3")?
        .execute(params![scope.kind(), scope.key(), key])?;
    Ok(())
}

/// A fact of one key that made it.
fn is_its_alone(connection: &Connection, seq: i64) -> Result<bool, StoreError> {
    let mut keys = connection
        .prepare_cached("SELECT count(*) = 1 AND min(is_own) FROM fact_keys WHERE fact_seq = ?1")?;
    Ok(keys.query_row([seq], |row| row.get(0))?)
}

/// A further source of a fact that says the same, unless that is `not`, or a row of its own. What has metadata of its
/// own has a row of its own.
fn add(
    connection: &Connection,
    new: &FactToKeep,
    not: Option<&FactId>,
    now: Millis,
) -> Result<KeptFact, StoreError> {
    let fact = &new.fact;
    let origin = origin_of(fact, now);
    let same = match fact.metadata_json {
        Some(_) => None,
        None => {
            let unreviewed_in = fact.unreviewed_in.as_deref();
            says_the_same(connection, new.near_duplicate.as_ref(), &fact.scope, &fact.text, unreviewed_in)?
        }
    };
    if let Some(known) = same.filter(|known| not != Some(&known.id)) {
        merge(connection, known.seq, std::slice::from_ref(&origin), now)?;
        add_keys(connection, known.seq, &fact.scope, fact.idempotency_key.as_slice(), Joins::Others)?;
        return Ok(known.kept_as(KeptAs::Merged));
    }
    let seq = insert(connection, &as_it_will_be(fact, origin, now))?;
    index::put_fact_vector(connection, seq, new.vector.as_ref())?;
    Ok(KeptFact { seq, id: fact.id.clone(), outcome: KeptAs::Created })
}

fn origin_of(fact: &NewFact, now: Millis) -> FactOrigin {
    FactOrigin { source: fact.source.clone(), text: fact.text.clone(), at: now }
}

pub(super) fn restore(
    connection: &Connection,
    fact: &Fact,
    near_duplicate: Option<&FactId>,
    vector: Option<&StoredVector>,
) -> Result<KeptFact, StoreError> {
    let mut known = whole(connection, "WHERE id = ?1", [fact.id.as_str()])?;
    for key in &fact.idempotency_keys {
        known = match known {
            Some(found) => Some(found),
            None => known_key(connection, &fact.scope, key)?,
        };
    }
    if let Some(known) = known {
        return Ok(known.kept_as(KeptAs::Replayed));
    }
    // What is damaged here gives way to the whole copy of it, and its keys to whatever is whole.
    connection.prepare_cached("DELETE FROM facts WHERE id = ?1")?.execute([fact.id.as_str()])?;
    fact.idempotency_keys.iter().try_for_each(|key| drop_key(connection, &fact.scope, key))?;
    let unreviewed_in = fact.unreviewed_in.as_deref();
    if let Some(known) = says_the_same(connection, near_duplicate, &fact.scope, &fact.text, unreviewed_in)? {
        merge(connection, known.seq, &fact.origins, fact.updated_at)?;
        add_keys(connection, known.seq, &fact.scope, &fact.idempotency_keys, Joins::Others)?;
        return Ok(known.kept_as(KeptAs::Merged));
    }
    let pinned = fact.pinned && has_room_for_pin(connection)?;
    let seq = insert(connection, &Fact { pinned, ..fact.clone() })?;
    index::put_fact_vector(connection, seq, vector)?;
    fail_point!("fact.restore.before_commit");
    Ok(KeptFact { seq, id: fact.id.clone(), outcome: KeptAs::Created })
}

pub(super) fn edit(
    connection: &Connection,
    id: &FactId,
    edit: &FactEdit,
    now: Millis,
) -> Result<Option<i64>, StoreError> {
    // A change of one that is damaged would give it a checksum that is right.
    let Some(seq) = find(connection, id)?.map(|fact| fact.seq) else { return Ok(None) };
    if let Some(text) = &edit.text {
        set_text(connection, seq, text)?;
        index::put_fact_vector(connection, seq, edit.vector.as_ref())?;
    }
    if let Some(origin) = &edit.origin {
        add_origin(connection, seq, origin)?;
    }
    connection
        .prepare_cached(
            // Who changes a fact has looked at it.
            "UPDATE facts SET category = coalesce(?2, category), updated_at = ?3, unreviewed_in = NULL WHERE seq = ?1",
        )?
        .execute(params![seq, edit.category, now.0])?;
    fail_point!("fact.edit.before_commit");
    Ok(Some(seq))
}

fn as_it_will_be(fact: &NewFact, origin: FactOrigin, now: Millis) -> Fact {
    Fact {
        seq: 0,
        id: fact.id.clone(),
        text: fact.text.clone(),
        category: fact.category.clone(),
        scope: fact.scope.clone(),
        tier: cortex_types::FactTier::Hot,
        pinned: false,
        strength: 1.0,
        hit_count: 0,
        created_at: now,
        updated_at: now,
        last_accessed_at: now,
        archived_at: None,
        metadata_json: fact.metadata_json.clone(),
        idempotency_keys: fact.idempotency_key.iter().cloned().collect(),
        unreviewed_in: fact.unreviewed_in.clone(),
        origins: vec![origin],
    }
}

fn insert(connection: &Connection, fact: &Fact) -> Result<i64, StoreError> {
    connection
        .prepare_cached(
            "INSERT INTO facts(id, text, category, scope, scope_key, tier, pinned, strength, hit_count, created_at,
               updated_at, last_accessed_at, archived_at, metadata_json, checksum, unreviewed_in)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)",
        )?
        .execute(params![
            fact.id.as_str(),
            fact.text,
            fact.category,
            fact.scope.kind(),
            fact.scope.key(),
            fact.tier.as_str(),
            fact.pinned,
            fact.strength,
            fact.hit_count,
            fact.created_at.0,
            fact.updated_at.0,
            fact.last_accessed_at.0,
            fact.archived_at.map(|at| at.0),
            fact.metadata_json,
            fact_checksum(&fact.id, &fact.text, &fact.scope, fact.created_at),
            fact.unreviewed_in,
        ])?;
    let seq = connection.last_insert_rowid();
    fact.origins.iter().try_for_each(|origin| add_origin(connection, seq, origin))?;
    add_keys(connection, seq, &fact.scope, &fact.idempotency_keys, Joins::Nobody)?;
    Ok(seq)
}

fn known_key(
    connection: &Connection,
    scope: &FactScope,
    key: &str,
) -> Result<Option<PresentFact>, StoreError> {
    let by_key = "WHERE seq = (SELECT fact_seq FROM fact_keys
                               WHERE scope = ?1 AND scope_key = ?2 AND idempotency_key = ?3)";
    whole(connection, by_key, [scope.kind(), scope.key(), key])
}

/// The neighbour that was found by its vector, or the same words: those are found while there are no vectors, too. What
/// others wrote never takes the place of what a person said: an unreviewed fact joins only its like.
fn says_the_same(
    connection: &Connection,
    near_duplicate: Option<&FactId>,
    scope: &FactScope,
    text: &str,
    unreviewed_in: Option<&str>,
) -> Result<Option<PresentFact>, StoreError> {
    let is_alike = "(unreviewed_in IS NULL OR unreviewed_in IS ?1)";
    let near = params![unreviewed_in, near_duplicate.map(FactId::as_str)];
    let near = whole(connection, &format!("WHERE {is_alike} AND id = ?2"), near)?;
    if near.is_some() {
        return Ok(near);
    }
    let same_words = format!("WHERE scope = ?2 AND scope_key = ?3 AND text = ?4 AND {is_alike} ORDER BY seq");
    whole(connection, &same_words, params![unreviewed_in, scope.kind(), scope.key(), text])
}

fn whole(
    connection: &Connection,
    rest: &str,
    bound: impl rusqlite::Params,
) -> Result<Option<PresentFact>, StoreError> {
    let found = first_whole(connection, rest, bound)?;
    Ok(found.map(|fact| PresentFact { seq: fact.seq, id: fact.id }))
}

/// What was said again is of today: it is hot, and it has one source more.
fn merge(connection: &Connection, seq: i64, said: &[FactOrigin], now: Millis) -> Result<(), StoreError> {
    said.iter().try_for_each(|origin| add_origin(connection, seq, origin))?;
    connection
        .prepare_cached(
            "UPDATE facts SET updated_at = max(updated_at, ?2), last_accessed_at = max(last_accessed_at, ?2),
               tier = 'hot', archived_at = NULL WHERE seq = ?1",
        )?
        .execute([seq, now.0])?;
    Ok(())
}

/// False when it says so already.
fn replace(
    connection: &Connection,
    seq: i64,
    id: &FactId,
    new: &FactToKeep,
    now: Millis,
) -> Result<bool, StoreError> {
    let fact = &new.fact;
    let before: String = connection
        .prepare_cached("SELECT text FROM facts WHERE seq = ?1")?
        .query_row([seq], |row| row.get(0))?;
    let changed = before != fact.text;
    if changed {
        set_text(connection, seq, &fact.text)?;
        index::put_fact_vector(connection, seq, new.vector.as_ref())?;
    }
    connection
        .prepare_cached("UPDATE facts SET category = ?2, metadata_json = ?3, updated_at = ?4 WHERE id = ?1")?
        .execute(params![id.as_str(), fact.category, fact.metadata_json, now.0])?;
    Ok(changed)
}

fn set_text(connection: &Connection, seq: i64, text: &str) -> Result<(), StoreError> {
    let (id, scope, scope_key, created_at): (String, String, String, i64) = connection
        .prepare_cached("SELECT id, scope, scope_key, created_at FROM facts WHERE seq = ?1")?
        .query_row([seq], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?;
    let sum = checksum::of(&[&id, text, &scope, &scope_key], &[created_at]);
    connection
        .prepare_cached("UPDATE facts SET text = ?2, checksum = ?3 WHERE seq = ?1")?
        .execute(params![seq, text, sum])?;
    Ok(())
}

/// The same words of the same source are one source.
fn add_origin(connection: &Connection, seq: i64, origin: &FactOrigin) -> Result<(), StoreError> {
    let known = origins(connection, seq)?;
    if known.iter().any(|other| other.source == origin.source && other.text == origin.text) {
        return Ok(());
    }
    connection
        .prepare_cached(
            "INSERT INTO fact_sources(fact_seq, number, kind, reference, text, at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![
            seq,
            known.len(),
            origin.source.kind.as_str(),
            origin.source.reference,
            origin.text,
            origin.at.0
        ])?;
    Ok(())
}

fn add_keys(
    connection: &Connection,
    seq: i64,
    scope: &FactScope,
    keys: &[String],
    joins: Joins,
) -> Result<(), StoreError> {
    let mut add = connection.prepare_cached(
        "INSERT INTO fact_keys(scope, scope_key, idempotency_key, fact_seq, is_own) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT DO NOTHING",
    )?;
    let is_own = joins == Joins::Nobody;
    keys.iter()
        .try_for_each(|key| add.execute(params![scope.kind(), scope.key(), key, seq, is_own]).map(|_| ()))
        .map_err(StoreError::from)
}
