//! Bearer keys at rest: only a digest and a prefix to recognise them by.

use crate::{Store, StoreError};
use cortex_types::Millis;
use rusqlite::params;

/// The keys of this server.
pub struct Keys<'a>(pub(crate) &'a Store);

/// A key as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRow {
    pub name: String,
    pub prefix: String,
    pub sha256: [u8; 32],
}

impl Keys<'_> {
    /// Stores or replaces the key of this name.
    pub async fn put(&self, key: KeyRow, now: Millis) -> Result<(), StoreError> {
        self.0
            .write(move |connection| {
                connection
                    .prepare_cached(
                        "INSERT INTO keys(name, prefix, sha256, created_at) VALUES (?1, ?2, ?3, ?4)
                         ON CONFLICT(name) DO UPDATE SET prefix = ?2, sha256 = ?3, created_at = ?4, revoked_at = NULL
                         WHERE sha256 <> ?3",
                    )?
                    .execute(params![key.name, key.prefix, key.sha256, now.0])?;
                Ok(())
            })
            .await
    }

    pub async fn active(&self) -> Result<Vec<KeyRow>, StoreError> {
        self.0
            .read(|connection| {
                let mut statement = connection
                    .prepare_cached("SELECT name, prefix, sha256 FROM keys WHERE revoked_at IS NULL")?;
                let rows = statement.query_map([], |row| {
                    Ok(KeyRow { name: row.get(0)?, prefix: row.get(1)?, sha256: row.get(2)? })
                })?;
                Ok(rows.collect::<Result<_, _>>()?)
            })
            .await
    }
}
