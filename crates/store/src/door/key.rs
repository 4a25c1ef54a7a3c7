//! Bearer keys at rest: only a digest and a prefix to recognise them by.

use crate::engine::row::readable;
use crate::{Store, StoreError, door::connector, engine::audit};
use cortex_types::{KeyId, Millis};
use rusqlite::{Connection, OptionalExtension, Row, params};

/// The keys of this server.
pub struct Keys<'a>(pub(crate) &'a Store);

/// A key of the owner as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRow {
    pub name: String,
    pub prefix: String,
    pub sha256: [u8; 32],
}

/// A key that may use one source and nothing else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectorKey {
    pub id: KeyId,
    pub name: String,
    pub source: String,
    pub prefix: String,
    pub sha256: [u8; 32],
    pub created_at: Millis,
    pub revoked_at: Option<Millis>,
}

/// Another key has this name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NameTaken;

const CONNECTOR_KEY_COLUMNS: &str = "public_id, name, source, prefix, sha256, created_at, revoked_at";

impl Keys<'_> {
    /// Stores or replaces the owner's key of this name.
    pub async fn put(&self, key: KeyRow, now: Millis) -> Result<(), StoreError> {
        self.0
            .write(move |connection| {
                connection
                    .prepare_cached(
                        "INSERT INTO keys(name, prefix, sha256, created_at) VALUES (?1, ?2, ?3, ?4)
                         ON CONFLICT(name) DO UPDATE SET prefix = ?2, sha256 = ?3, created_at = ?4, revoked_at = NULL
                         WHERE sha256 <> ?3 AND public_id IS NULL",
                    )?
                    .execute(params![key.name, key.prefix, key.sha256, now.0])?;
                Ok(())
            })
            .await
    }

    pub async fn active(&self) -> Result<Vec<KeyRow>, StoreError> {
        self.0
            .read(|connection| {
                let mut statement = connection.prepare_cached(
                    "SELECT name, prefix, sha256 FROM keys WHERE revoked_at IS NULL AND source IS NULL",
                )?;
                let rows = statement.query_map([], |row| {
                    Ok(KeyRow { name: row.get(0)?, prefix: row.get(1)?, sha256: row.get(2)? })
                })?;
                readable("key", rows.map(|row| Ok(row?)))
            })
            .await
    }

    /// Keeps a new key of a connector. The name of a revoked one is free again. Nobody speaks for its source without a key
    /// any more; gives those who did.
    pub async fn create(&self, key: ConnectorKey) -> Result<Result<Vec<String>, NameTaken>, StoreError> {
        self.0.write(move |connection| create(connection, &key)).await
    }

    /// All keys of connectors, the newest first, with those that were revoked.
    pub async fn of_connectors(&self) -> Result<Vec<ConnectorKey>, StoreError> {
        self.0
            .read(|connection| {
                let mut statement = connection.prepare_cached(&format!(
                    "SELECT {CONNECTOR_KEY_COLUMNS} FROM keys WHERE public_id IS NOT NULL ORDER BY id DESC"
                ))?;
                let rows = statement.query_map([], |row| Ok(connector_key(row)))?;
                // A key that is damaged opens nothing; every other does, and the server starts.
                readable("key of a connector", rows.map(|row| row?))
            })
            .await
    }

    /// Ends a key of a connector and all its sessions; `None` when no open key has this id or name.
    pub async fn revoke(&self, id_or_name: String, now: Millis) -> Result<Option<ConnectorKey>, StoreError> {
        self.0.write(move |connection| revoke(connection, &id_or_name, now)).await
    }
}

fn create(connection: &Connection, key: &ConnectorKey) -> Result<Result<Vec<String>, NameTaken>, StoreError> {
    connection
        .prepare_cached(
            "DELETE FROM keys WHERE name = ?1 AND public_id IS NOT NULL AND revoked_at IS NOT NULL",
        )?
        .execute([&key.name])?;
    let created = connection
        .prepare_cached(
            "INSERT INTO keys(public_id, name, source, prefix, sha256, created_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
             ON CONFLICT(name) DO NOTHING",
        )?
        .execute(params![
            key.id.as_str(),
            key.name,
            key.source,
            key.prefix,
            key.sha256,
            key.created_at.0
        ])?;
    if created == 0 {
        return Ok(Err(NameTaken));
    }
    let detail = format!("{} for source {}", key.name, key.source);
    audit::record(connection, key.created_at, "key_created", key.id.as_str(), &detail)?;
    Ok(Ok(connector::end_trust_in(connection, &key.source, key.created_at)?))
}

fn revoke(
    connection: &Connection,
    id_or_name: &str,
    now: Millis,
) -> Result<Option<ConnectorKey>, StoreError> {
    let found = connection
        .prepare_cached(&format!(
            "SELECT {CONNECTOR_KEY_COLUMNS} FROM keys
             WHERE public_id IS NOT NULL AND revoked_at IS NULL AND (public_id = ?1 OR name = ?1)"
        ))?
        .query_row([id_or_name], |row| Ok(connector_key(row)))
        .optional()?
        .transpose()?;
    let Some(key) = found else { return Ok(None) };
    connection
        .prepare_cached("UPDATE keys SET revoked_at = ?2 WHERE public_id = ?1")?
        .execute(params![key.id.as_str(), now.0])?;
    connector::close_sessions_of(connection, &key.id)?;
    // What was trusted without a key before there was one is not trusted again now that it ends.
    connector::end_trust_in(connection, &key.source, now)?;
    audit::record(connection, now, "key_revoked", key.id.as_str(), &key.name)?;
    Ok(Some(ConnectorKey { revoked_at: Some(now), ..key }))
}

fn connector_key(row: &Row<'_>) -> Result<ConnectorKey, StoreError> {
    let id: String = row.get(0)?;
    Ok(ConnectorKey {
        id: id.parse().map_err(|error| StoreError::Damaged(format!("a key: {error}")))?,
        name: row.get(1)?,
        source: row.get(2)?,
        prefix: row.get(3)?,
        sha256: row.get(4)?,
        created_at: Millis(row.get(5)?),
        revoked_at: row.get::<_, Option<i64>>(6)?.map(Millis),
    })
}
