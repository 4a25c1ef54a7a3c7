//! The audit trail: one line for each thing an owner may want to ask about later.

use crate::{Store, StoreError};
use cortex_types::Millis;
use rusqlite::{Connection, params};

/// One line of the trail, newest first in listings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditRow {
    pub at: Millis,
    pub what: String,
    pub subject: String,
    pub detail: String,
}

pub(crate) fn record(
    connection: &Connection,
    at: Millis,
    what: &str,
    subject: &str,
    detail: &str,
) -> Result<(), StoreError> {
    connection
        .prepare_cached("INSERT INTO audit(at, what, subject, detail) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![at.0, what, subject, detail])?;
    Ok(())
}

/// The same unless a line says this of the subject already: whoever repeats it fills nothing.
pub(crate) fn record_once(
    connection: &Connection,
    at: Millis,
    what: &str,
    subject: &str,
    detail: &str,
) -> Result<(), StoreError> {
    let is_there = connection
        .prepare_cached("SELECT 1 FROM audit WHERE subject = ?1 AND what = ?2")?
        .exists([subject, what])?;
    if is_there { Ok(()) } else { record(connection, at, what, subject, detail) }
}

impl Store {
    pub async fn audit_of(&self, subject: String) -> Result<Vec<AuditRow>, StoreError> {
        self.read(move |connection| {
            let mut rows = connection.prepare_cached(
                "SELECT at, what, subject, detail FROM audit WHERE subject = ?1 ORDER BY id DESC LIMIT 100",
            )?;
            let rows = rows.query_map([subject], |row| {
                Ok(AuditRow {
                    at: Millis(row.get(0)?),
                    what: row.get(1)?,
                    subject: row.get(2)?,
                    detail: row.get(3)?,
                })
            })?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
        .await
    }
}
