//! Full text over facts: BM25 on stems, best first.

use super::FactFilter;
use super::read::Conditions;
use crate::StoreError;
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

pub(super) fn facts(
    connection: &Connection,
    query: &str,
    filter: &FactFilter,
    limit: u32,
) -> Result<Vec<i64>, StoreError> {
    if query.is_empty() {
        return Ok(Vec::new());
    }
    let is_open = *filter == FactFilter::default();
    let conditions = Conditions::of(filter);
    // Without a filter the rows themselves need not be looked at.
    let sql = if is_open {
        format!("SELECT rowid FROM facts_fts WHERE facts_fts MATCH ? ORDER BY rank LIMIT {limit}")
    } else {
        format!(
            "SELECT facts_fts.rowid FROM facts_fts JOIN facts ON facts.seq = facts_fts.rowid
             WHERE facts_fts MATCH ? AND {} ORDER BY facts_fts.rank LIMIT {limit}",
            conditions.sql()
        )
    };
    let bound = std::iter::once(Value::Text(query.to_owned())).chain(conditions.values);
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map(params_from_iter(bound), |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}
