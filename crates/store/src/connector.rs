//! Sessions of connectors: durable, expiring, bound to the key that made them and to one connector (D23).

use crate::{Store, StoreError, audit};
use cortex_types::limits::LOCAL_CONNECTORS_MAX;
use cortex_types::{KeyId, Millis};
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::time::Duration;

/// A session that nobody used for so long is over.
const IDLE_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// Sessions kept at once; over it the longest idle go first. Those without a key have a number of their own, so that
/// nobody without one pushes out a session that was proven.
const SESSIONS_MAX: i64 = 10_000;
const KEYLESS_SESSIONS_MAX: i64 = 1_000;

/// Sessions of connectors.
pub struct Connectors<'a>(pub(crate) &'a Store);

/// Who a session speaks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectorBinding {
    pub connector_id: String,
    pub source: String,
}

/// A session that is open to whoever knows its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectorSession {
    /// The connector's key that made it; none for the owner and for programs on this machine.
    pub key: Option<KeyId>,
    /// Made by a program on this machine that brought no key.
    pub is_keyless: bool,
    /// None before its first event.
    pub binding: Option<ConnectorBinding>,
}

/// A connector on this machine that came without a key, as it calls itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalConnector {
    pub connector_id: String,
    /// What it claimed last.
    pub source: String,
    pub first_seen_at: Millis,
    pub last_seen_at: Millis,
    /// The one source that the owner trusts it with.
    pub trusted_source: Option<String>,
}

impl Connectors<'_> {
    /// Those that came without a key, by name.
    pub async fn locals(&self) -> Result<Vec<LocalConnector>, StoreError> {
        self.0
            .read(|connection| {
                let mut statement = connection.prepare_cached(
                    "SELECT connector_id, source, first_seen_at, last_seen_at, trusted_source FROM local_connectors
                     ORDER BY connector_id",
                )?;
                let rows = statement.query_map([], |row| {
                    Ok(LocalConnector {
                        connector_id: row.get(0)?,
                        source: row.get(1)?,
                        first_seen_at: Millis(row.get(2)?),
                        last_seen_at: Millis(row.get(3)?),
                        trusted_source: row.get(4)?,
                    })
                })?;
                Ok(rows.collect::<Result<_, _>>()?)
            })
            .await
    }

    /// From now on this connector may use this source without a key, or none when there is none. Its sessions end, so that
    /// it comes again as what it is now. `None` when nobody of this name was heard of.
    pub async fn set_trust(
        &self,
        connector_id: String,
        source: Option<String>,
        now: Millis,
    ) -> Result<bool, StoreError> {
        self.0
            .write(move |connection| {
                let changed = connection
                    .prepare_cached(
                        "UPDATE local_connectors SET trusted_source = ?2, trusted_at = iif(?2 IS NULL, NULL, ?3)
                         WHERE connector_id = ?1",
                    )?
                    .execute(params![connector_id, source, now.0])?;
                if changed == 0 {
                    return Ok(false);
                }
                connection
                    .prepare_cached("DELETE FROM connector_sessions WHERE is_keyless = 1 AND connector_id = ?1")?
                    .execute([&connector_id])?;
                let (what, detail) = match &source {
                    Some(source) => ("connector_trusted", format!("for source {source}")),
                    None => ("connector_untrusted", String::new()),
                };
                audit::record(connection, now, what, &connector_id, &detail)?;
                Ok(true)
            })
            .await
    }

    /// Whether somebody speaks or was spoken to under this name already, as a source.
    pub async fn is_source_in_use(&self, source: String) -> Result<bool, StoreError> {
        self.0
            .read(move |connection| {
                let mut found =
                    connection.prepare_cached("SELECT 1 FROM topics WHERE source = ?1 LIMIT 1")?;
                Ok(found.exists([source])?)
            })
            .await
    }

    /// One that came without a key is here; the longest silent ones that nobody trusts are forgotten over the bound.
    pub async fn hear_local(
        &self,
        connector_id: String,
        source: String,
        now: Millis,
    ) -> Result<(), StoreError> {
        self.0
            .write(move |connection| {
                connection
                    .prepare_cached(
                        "INSERT INTO local_connectors(connector_id, source, first_seen_at, last_seen_at)
                         VALUES (?1, ?2, ?3, ?3)
                         ON CONFLICT(connector_id) DO UPDATE SET source = ?2, last_seen_at = ?3",
                    )?
                    .execute(params![connector_id, source, now.0])?;
                connection
                    .prepare_cached(
                        "DELETE FROM local_connectors WHERE connector_id IN
                           (SELECT connector_id FROM local_connectors WHERE trusted_source IS NULL
                            ORDER BY last_seen_at DESC, connector_id = ?2 DESC LIMIT -1 OFFSET ?1)",
                    )?
                    .execute(params![LOCAL_CONNECTORS_MAX, connector_id])?;
                Ok(())
            })
            .await
    }

    /// Keeps a new session and lets go of those that are over.
    pub async fn open_session(
        &self,
        sha256: [u8; 32],
        session: ConnectorSession,
        now: Millis,
    ) -> Result<(), StoreError> {
        self.0.write(move |connection| open_session(connection, sha256, &session, now)).await
    }

    /// The session with this digest, used now; none when it never was or is over.
    pub async fn use_session(
        &self,
        sha256: [u8; 32],
        now: Millis,
    ) -> Result<Option<ConnectorSession>, StoreError> {
        self.0
            .write(move |connection| {
                connection
                    .prepare_cached(
                        "UPDATE connector_sessions SET seen_at = ?2 WHERE sha256 = ?1 AND seen_at > ?3
                         RETURNING key_id, connector_id, source, is_keyless",
                    )?
                    .query_row(params![sha256, now.0, now.before(IDLE_MAX).0], |row| Ok(session(row)))
                    .optional()?
                    .transpose()
            })
            .await
    }

    /// Binds the session unless it is bound already; returns what it is bound to, none when it is over.
    pub async fn bind_session(
        &self,
        sha256: [u8; 32],
        binding: ConnectorBinding,
        now: Millis,
    ) -> Result<Option<ConnectorBinding>, StoreError> {
        self.0
            .write(move |connection| {
                let bound = connection
                    .prepare_cached(
                        "UPDATE connector_sessions SET connector_id = coalesce(connector_id, ?2),
                           source = coalesce(source, ?3), seen_at = ?4 WHERE sha256 = ?1
                         RETURNING key_id, connector_id, source, is_keyless",
                    )?
                    .query_row(params![sha256, binding.connector_id, binding.source, now.0], |row| {
                        Ok(session(row))
                    })
                    .optional()?
                    .transpose()?;
                Ok(bound.and_then(|session| session.binding))
            })
            .await
    }
}

pub(crate) fn close_sessions_of(connection: &Connection, key: &KeyId) -> Result<(), StoreError> {
    connection.prepare_cached("DELETE FROM connector_sessions WHERE key_id = ?1")?.execute([key.as_str()])?;
    Ok(())
}

fn open_session(
    connection: &Connection,
    sha256: [u8; 32],
    session: &ConnectorSession,
    now: Millis,
) -> Result<(), StoreError> {
    let most = if session.is_keyless { KEYLESS_SESSIONS_MAX } else { SESSIONS_MAX };
    connection
        .prepare_cached("DELETE FROM connector_sessions WHERE seen_at <= ?1")?
        .execute([now.before(IDLE_MAX).0])?;
    connection
        .prepare_cached(
            "DELETE FROM connector_sessions WHERE sha256 IN
               (SELECT sha256 FROM connector_sessions WHERE is_keyless = ?2 ORDER BY seen_at DESC LIMIT -1 OFFSET ?1)",
        )?
        .execute(params![most - 1, session.is_keyless])?;
    let binding = session.binding.as_ref();
    connection
        .prepare_cached(
            "INSERT INTO connector_sessions(sha256, key_id, connector_id, source, created_at, seen_at, is_keyless)
             VALUES (?1, ?2, ?3, ?4, ?5, ?5, ?6)",
        )?
        .execute(params![
            sha256,
            session.key.as_ref().map(KeyId::as_str),
            binding.map(|binding| &binding.connector_id),
            binding.map(|binding| &binding.source),
            now.0,
            session.is_keyless
        ])?;
    Ok(())
}

fn session(row: &Row<'_>) -> Result<ConnectorSession, StoreError> {
    let key: Option<String> = row.get(0)?;
    let key = key.map(|id| id.parse()).transpose();
    let (connector_id, source): (Option<String>, Option<String>) = (row.get(1)?, row.get(2)?);
    let binding = connector_id.zip(source);
    Ok(ConnectorSession {
        key: key.map_err(|error| StoreError::Damaged(format!("a connector's session: {error}")))?,
        is_keyless: row.get(3)?,
        binding: binding.map(|(connector_id, source)| ConnectorBinding { connector_id, source }),
    })
}
