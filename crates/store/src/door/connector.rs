//! Sessions of connectors: durable, expiring, bound to the key that made them and to one connector (D23).

mod local;

pub use local::{LocalConnector, Trusted};
pub(crate) use local::{end_trust_in, is_guarded};

use crate::{Store, StoreError};
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
    pub opener: SessionOpener,
    /// None before its first event.
    pub binding: Option<ConnectorBinding>,
}

/// Who opened a session. It lasts no longer than what opened it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionOpener {
    /// The owner, by the key with this digest.
    Owner([u8; 32]),
    /// A connector's key.
    Key(KeyId),
    /// A program on this machine that brought no key.
    Nobody,
}

impl SessionOpener {
    pub fn is_keyless(&self) -> bool {
        match self {
            Self::Nobody => true,
            Self::Owner(_) | Self::Key(_) => false,
        }
    }

    pub fn key(&self) -> Option<&KeyId> {
        match self {
            Self::Key(key) => Some(key),
            Self::Owner(_) | Self::Nobody => None,
        }
    }

    fn owner(&self) -> Option<[u8; 32]> {
        match self {
            Self::Owner(sha256) => Some(*sha256),
            Self::Key(_) | Self::Nobody => None,
        }
    }
}

impl Connectors<'_> {
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

    /// Keeps a new session and lets go of those that are over.
    pub async fn open_session(
        &self,
        sha256: [u8; 32],
        session: ConnectorSession,
        now: Millis,
    ) -> Result<(), StoreError> {
        self.0.write(move |connection| open_session(connection, sha256, &session, now)).await
    }

    /// Ends the sessions that the owner opened with a key that is none of these.
    pub async fn close_sessions_of_other_owners(&self, owners: Vec<[u8; 32]>) -> Result<usize, StoreError> {
        self.0
            .write(move |connection| {
                let mut opened = connection.prepare_cached(
                    "SELECT DISTINCT owner_sha256 FROM connector_sessions WHERE owner_sha256 IS NOT NULL",
                )?;
                let opened = opened.query_map([], |row| Ok(row.get::<_, [u8; 32]>(0).ok()))?;
                let opened = opened.collect::<Result<Vec<_>, _>>()?;
                // A digest that cannot be read is nobody's.
                let mut closed = connection.execute(
                    "DELETE FROM connector_sessions WHERE owner_sha256 IS NOT NULL
                       AND (typeof(owner_sha256) <> 'blob' OR length(owner_sha256) <> 32)",
                    [],
                )?;
                for gone in opened.into_iter().flatten().filter(|digest| !owners.contains(digest)) {
                    closed += connection
                        .prepare_cached("DELETE FROM connector_sessions WHERE owner_sha256 = ?1")?
                        .execute([gone])?;
                }
                Ok(closed)
            })
            .await
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
                         RETURNING key_id, connector_id, source, is_keyless, owner_sha256",
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
                         RETURNING key_id, connector_id, source, is_keyless, owner_sha256",
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
    let is_keyless = session.opener.is_keyless();
    let most = if is_keyless { KEYLESS_SESSIONS_MAX } else { SESSIONS_MAX };
    connection
        .prepare_cached("DELETE FROM connector_sessions WHERE seen_at <= ?1")?
        .execute([now.before(IDLE_MAX).0])?;
    connection
        .prepare_cached(
            "DELETE FROM connector_sessions WHERE sha256 IN
               (SELECT sha256 FROM connector_sessions WHERE is_keyless = ?2 ORDER BY seen_at DESC LIMIT -1 OFFSET ?1)",
        )?
        .execute(params![most - 1, is_keyless])?;
    let binding = session.binding.as_ref();
    connection
        .prepare_cached(
            "INSERT INTO connector_sessions
               (sha256, key_id, connector_id, source, created_at, seen_at, is_keyless, owner_sha256)
             VALUES (?1, ?2, ?3, ?4, ?5, ?5, ?6, ?7)",
        )?
        .execute(params![
            sha256,
            session.opener.key().map(KeyId::as_str),
            binding.map(|binding| &binding.connector_id),
            binding.map(|binding| &binding.source),
            now.0,
            is_keyless,
            session.opener.owner()
        ])?;
    Ok(())
}

fn session(row: &Row<'_>) -> Result<ConnectorSession, StoreError> {
    let damaged = |what: &str| StoreError::Damaged(format!("a connector's session: {what}"));
    let (key, owner): (Option<String>, Option<[u8; 32]>) = (row.get(0)?, row.get(4)?);
    let key = key.map(|id| id.parse::<KeyId>()).transpose().map_err(|error| damaged(&format!("{error}")))?;
    let opener = match (key, owner, row.get(3)?) {
        (Some(key), None, false) => SessionOpener::Key(key),
        (None, Some(owner), false) => SessionOpener::Owner(owner),
        (None, None, true) => SessionOpener::Nobody,
        _ => return Err(damaged("nobody, or more than one, opened it")),
    };
    let (connector_id, source): (Option<String>, Option<String>) = (row.get(1)?, row.get(2)?);
    let binding = connector_id.zip(source);
    Ok(ConnectorSession {
        opener,
        binding: binding.map(|(connector_id, source)| ConnectorBinding { connector_id, source }),
    })
}
