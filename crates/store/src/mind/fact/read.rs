//! Rows to facts: one by its id, a page, and those of every prompt.

use super::{FactFilter, HotFact, PromptScopes};
use crate::engine::listing::{Listed, Page, PageRequest, ROW_BYTES, read_page};
use crate::engine::row::readable;
use crate::{StoreError, engine::checksum};
use cortex_types::{Accounts, Fact, FactId, FactOrigin, FactScope, FactSource, Millis};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row, ToSql, params_from_iter};
use std::cmp::Reverse;

const SELECT: &str = "SELECT seq, id, text, category, scope, scope_key, tier, pinned, strength, hit_count, created_at, updated_at, \
    last_accessed_at, archived_at, metadata_json, checksum, unreviewed_in FROM facts";

/// One that cannot be read is an error: nobody may be told that it is not there while its words are on disk.
pub(super) fn find(connection: &Connection, id: &FactId) -> Result<Option<Fact>, StoreError> {
    let sql = format!("{SELECT} WHERE id = ?1");
    let found = connection.prepare_cached(&sql)?.query_row([id.as_str()], |row| Ok(fact(row))).optional()?;
    found.transpose()?.map(|fact| with_sources(connection, fact)).transpose()
}

/// What can be read of a fact, when it as a whole cannot be.
pub(super) struct Legible {
    pub(super) scope: Option<FactScope>,
    /// The words of its sources and its own.
    pub(super) texts: Vec<String>,
}

pub(super) fn legible(connection: &Connection, seq: i64) -> Result<Legible, StoreError> {
    let scope: Option<(Option<String>, Option<String>)> = connection
        .prepare_cached("SELECT scope, scope_key FROM facts WHERE seq = ?1")?
        .query_row([seq], |row| Ok((row.get(0).ok(), row.get(1).ok())))
        .optional()?;
    let scope = match scope {
        Some((Some(kind), Some(key))) => FactScope::from_parts(&kind, &key),
        Some(_) | None => None,
    };
    let mut texts = connection.prepare_cached(
        "SELECT text FROM fact_sources WHERE fact_seq = ?1 UNION ALL SELECT text FROM facts WHERE seq = ?1",
    )?;
    let texts = texts.query_map([seq], |row| Ok(row.get::<_, String>(0).ok()))?;
    Ok(Legible { scope, texts: texts.filter_map(Result::transpose).collect::<Result<_, _>>()? })
}

/// The first of these facts that can be read: only such a one may stand for what is told again.
pub(super) fn first_whole(
    connection: &Connection,
    rest: &str,
    bound: impl rusqlite::Params,
) -> Result<Option<Fact>, StoreError> {
    let mut statement = connection.prepare_cached(&format!("{SELECT} {rest}"))?;
    let mut rows = statement.query(bound)?;
    while let Some(row) = rows.next()? {
        match fact(row) {
            Ok(fact) => return Ok(Some(fact)),
            Err(StoreError::Damaged(reason)) => {
                tracing::error!(
                    reason,
                    "A stored fact is damaged; what it says is kept anew when it is told again"
                );
            }
            Err(other) => return Err(other),
        }
    }
    Ok(None)
}

pub(super) fn by_seq(connection: &Connection, seqs: &[i64]) -> Result<Vec<Fact>, StoreError> {
    let sql = format!("{SELECT} WHERE seq = ?1");
    let mut facts = Vec::with_capacity(seqs.len());
    for seq in seqs {
        facts.extend(query(connection, &sql, [seq])?);
    }
    Ok(facts)
}

pub(super) fn list(
    connection: &Connection,
    filter: &FactFilter,
    page: PageRequest,
) -> Result<Page<Fact>, StoreError> {
    let (before, limit) = page.bounds();
    let mut conditions = Conditions::of(filter);
    conditions.add("seq < ?", Value::Integer(before));
    let sql = format!("{SELECT} WHERE {} ORDER BY seq DESC LIMIT {limit}", conditions.sql());
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map(params_from_iter(conditions.values), |row| Ok(fact(row)))?;
    read_page(rows.map(|row| with_sources(connection, row??)), limit)
}

impl Listed for Fact {
    fn place(&self) -> i64 {
        self.seq
    }

    fn bytes(&self) -> usize {
        let origins: usize = self.origins.iter().map(|origin| ROW_BYTES + origin.text.len()).sum();
        let keys: usize = self.idempotency_keys.iter().map(String::len).sum();
        ROW_BYTES + self.text.len() + self.metadata_json.as_ref().map_or(0, String::len) + origins + keys
    }
}

/// What is pinned, and the best of each scope: no more rows are read than a prompt may need.
pub(crate) fn hot(
    connection: &Connection,
    scopes: &PromptScopes,
    limit: usize,
) -> Result<Vec<HotFact>, StoreError> {
    let sql = format!(
        "{SELECT} WHERE tier = 'hot' AND scope = ?1 AND scope_key = ?2
           AND (unreviewed_in IS NULL OR unreviewed_in = ?3)
         ORDER BY pinned DESC, hit_count DESC, last_accessed_at DESC, seq DESC LIMIT {limit}"
    );
    let mut facts = all_pinned(connection, scopes)?;
    let people = match &scopes.people {
        Accounts::Only(users) => users.clone(),
        Accounts::Everyone => users_with_facts(connection)?,
    };
    for scope in scopes.places.iter().cloned().chain(people.into_iter().map(FactScope::User)) {
        facts.extend(without_sources(connection, &sql, [scope.kind(), scope.key(), &scopes.topic])?);
    }
    facts.sort_by_key(|fact| Reverse((fact.pinned, fact.hit_count, fact.last_accessed_at, fact.seq)));
    facts.dedup_by_key(|fact| fact.seq);
    facts.truncate(limit);
    Ok(facts.into_iter().map(hot_fact).collect())
}

pub(crate) fn pinned(connection: &Connection, scopes: &PromptScopes) -> Result<Vec<HotFact>, StoreError> {
    Ok(all_pinned(connection, scopes)?.into_iter().map(hot_fact).collect())
}

fn all_pinned(connection: &Connection, scopes: &PromptScopes) -> Result<Vec<Fact>, StoreError> {
    let mut facts = without_sources(connection, &format!("{SELECT} WHERE pinned = 1 ORDER BY seq"), [])?;
    facts.retain(|fact| fact.unreviewed_in.as_ref().is_none_or(|topic| *topic == scopes.topic));
    facts.retain(|fact| match (&fact.scope, &scopes.people) {
        (FactScope::User(_), Accounts::Everyone) => true,
        (FactScope::User(user), Accounts::Only(users)) => users.contains(user),
        (place @ (FactScope::Global | FactScope::Channel(_) | FactScope::Topic(_)), _) => {
            scopes.places.contains(place)
        }
    });
    Ok(facts)
}

/// While everybody is one owner, what holds for any user holds for him. Most users have no facts of their own then.
fn users_with_facts(connection: &Connection) -> Result<Vec<String>, StoreError> {
    let mut next = connection.prepare_cached(
        "SELECT scope_key FROM facts WHERE tier = 'hot' AND scope = 'user' AND scope_key > ?1
         ORDER BY scope_key LIMIT 1",
    )?;
    let mut users: Vec<String> = Vec::new();
    while users.len() < OWNER_ACCOUNTS_MAX
        && let Some(user) =
            next.query_row([users.last().map_or("", String::as_str)], |row| row.get(0)).optional()?
    {
        users.push(user);
    }
    Ok(users)
}

/// Users of one owner whose facts a prompt looks at.
const OWNER_ACCOUNTS_MAX: usize = 32;

fn hot_fact(fact: Fact) -> HotFact {
    HotFact { seq: fact.seq, id: fact.id, text: fact.text, unreviewed: fact.unreviewed_in.is_some() }
}

pub(super) fn latest_accessed(
    connection: &Connection,
    filter: &FactFilter,
    limit: u32,
) -> Result<Vec<Fact>, StoreError> {
    let conditions = Conditions::of(filter);
    let sql =
        format!("{SELECT} WHERE {} ORDER BY last_accessed_at DESC, seq DESC LIMIT {limit}", conditions.sql());
    query(connection, &sql, params_from_iter(conditions.values))
}

/// Conditions on `facts` and what they are bound to.
pub(super) struct Conditions {
    parts: Vec<String>,
    pub(super) values: Vec<Value>,
}

impl Conditions {
    pub(super) fn of(filter: &FactFilter) -> Self {
        let mut all = Self { parts: vec!["1".to_owned()], values: Vec::new() };
        if let Some(scopes) = &filter.scopes {
            let one = "(facts.scope = ? AND facts.scope_key = ?)";
            all.parts.push(match scopes.len() {
                0 => "0".to_owned(),
                count => format!("({})", vec![one; count].join(" OR ")),
            });
            for scope in scopes {
                let parts = [scope.kind(), scope.key()];
                all.values.extend(parts.map(|part| Value::Text(part.to_owned())));
            }
        }
        if let Some(category) = &filter.category {
            all.add("facts.category = ?", Value::Text(category.clone()));
        }
        if let Some(tier) = filter.tier {
            all.add("facts.tier = ?", Value::Text(tier.as_str().to_owned()));
        }
        if filter.pinned {
            all.parts.push("facts.pinned = 1".to_owned());
        }
        if filter.unreviewed {
            all.parts.push("facts.unreviewed_in IS NOT NULL".to_owned());
        }
        all
    }

    pub(super) fn add(&mut self, condition: &str, value: Value) {
        self.parts.push(condition.to_owned());
        self.values.push(value);
    }

    pub(super) fn sql(&self) -> String {
        self.parts.join(" AND ")
    }
}

/// What a damaged page must not change unseen.
pub(super) fn fact_checksum(id: &FactId, text: &str, scope: &FactScope, created_at: Millis) -> u32 {
    checksum::of(&[id.as_str(), text, scope.kind(), scope.key()], &[created_at.0])
}

fn without_sources(
    connection: &Connection,
    sql: &str,
    bound: impl rusqlite::Params,
) -> Result<Vec<Fact>, StoreError> {
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map(bound, |row| Ok(fact(row)))?;
    // Every prompt reads facts: one that is damaged must not fail them all.
    readable("fact", rows.map(|row| row?))
}

fn query(connection: &Connection, sql: &str, bound: impl rusqlite::Params) -> Result<Vec<Fact>, StoreError> {
    let facts = without_sources(connection, sql, bound)?;
    facts.into_iter().map(|fact| with_sources(connection, fact)).collect()
}

/// A fact with what it was learned from.
fn with_sources(connection: &Connection, fact: Fact) -> Result<Fact, StoreError> {
    let (idempotency_keys, origins) = (keys(connection, fact.seq)?, origins(connection, fact.seq)?);
    Ok(Fact { idempotency_keys, origins, ..fact })
}

fn fact(row: &Row<'_>) -> Result<Fact, StoreError> {
    let id: String = row.get(1)?;
    let damaged = |what: &str| StoreError::Damaged(format!("fact {id}: {what}"));
    let (scope, scope_key): (String, String) = (row.get(4)?, row.get(5)?);
    let tier: String = row.get(6)?;
    let fact = Fact {
        seq: row.get(0)?,
        id: id.parse().map_err(|_| damaged("its id is no id"))?,
        text: row.get(2)?,
        category: row.get(3)?,
        scope: FactScope::from_parts(&scope, &scope_key).ok_or_else(|| damaged("its scope is unknown"))?,
        tier: tier.parse().map_err(|_| damaged("its tier is unknown"))?,
        pinned: row.get(7)?,
        strength: row.get(8)?,
        hit_count: row.get(9)?,
        created_at: Millis(row.get(10)?),
        updated_at: Millis(row.get(11)?),
        last_accessed_at: Millis(row.get(12)?),
        archived_at: row.get::<_, Option<i64>>(13)?.map(Millis),
        metadata_json: row.get(14)?,
        idempotency_keys: Vec::new(),
        unreviewed_in: row.get(16)?,
        origins: Vec::new(),
    };
    if fact_checksum(&fact.id, &fact.text, &fact.scope, fact.created_at) != row.get::<_, u32>(15)? {
        return Err(damaged("it does not match its checksum"));
    }
    Ok(fact)
}

fn keys(connection: &Connection, seq: i64) -> Result<Vec<String>, StoreError> {
    let mut statement =
        connection.prepare_cached("SELECT idempotency_key FROM fact_keys WHERE fact_seq = ?1 ORDER BY 1")?;
    let rows = statement.query_map([seq], |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(super) fn origins(connection: &Connection, seq: i64) -> Result<Vec<FactOrigin>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT kind, reference, text, at FROM fact_sources WHERE fact_seq = ?1 ORDER BY number",
    )?;
    let rows = statement.query_map([&seq as &dyn ToSql], |row| {
        Ok((row.get::<_, String>(0)?, row.get(1)?, row.get(2)?, Millis(row.get(3)?)))
    })?;
    rows.map(|row| {
        let (kind, reference, text, at) = row?;
        let kind = kind.parse().map_err(|error| StoreError::Damaged(format!("fact {seq}: {error}")))?;
        Ok(FactOrigin { source: FactSource { kind, reference }, text, at })
    })
    .collect()
}
