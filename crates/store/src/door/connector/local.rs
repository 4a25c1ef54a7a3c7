//! Connectors on this machine that came without a key, and whom of them the owner trusts.

use super::Connectors;
use crate::engine::row::readable;
use crate::{StoreError, engine::audit};
use cortex_types::Millis;
use cortex_types::limits::LOCAL_CONNECTORS_MAX;
use rusqlite::{Connection, params};

/// A connector on this machine that came without a key, as it calls itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalConnector {
    pub connector_id: String,
    /// What it claimed first.
    pub source: String,
    /// What was claimed last under this name, if that was something else: perhaps by another program.
    pub other_source: Option<String>,
    pub first_seen_at: Millis,
    pub last_seen_at: Millis,
    /// The one source that the owner trusts it with.
    pub trusted_source: Option<String>,
}

/// What came of a change of trust.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trusted {
    Changed,
    /// Nobody of this name was heard of.
    Unheard,
    /// The source has a key, so nobody without it speaks for it.
    Guarded,
}

impl Connectors<'_> {
    /// Those that came without a key, by name.
    pub async fn locals(&self) -> Result<Vec<LocalConnector>, StoreError> {
        self.0
            .read(|connection| {
                let mut statement = connection.prepare_cached(
                    "SELECT connector_id, source, other_source, first_seen_at, last_seen_at, trusted_source
                     FROM local_connectors ORDER BY connector_id",
                )?;
                let rows = statement.query_map([], |row| {
                    Ok(LocalConnector {
                        connector_id: row.get(0)?,
                        source: row.get(1)?,
                        other_source: row.get(2)?,
                        first_seen_at: Millis(row.get(3)?),
                        last_seen_at: Millis(row.get(4)?),
                        trusted_source: row.get(5)?,
                    })
                })?;
                readable("connector without a key", rows.map(|row| Ok(row?)))
            })
            .await
    }

    /// From now on this connector may use this source without a key, or none when there is none. Its sessions end, so that
    /// it comes again as what it is now.
    pub async fn set_trust(
        &self,
        connector_id: String,
        source: Option<String>,
        now: Millis,
    ) -> Result<Trusted, StoreError> {
        self.0.write(move |connection| set_trust(connection, &connector_id, source.as_deref(), now)).await
    }

    /// Forgets one that came without a key, with its sessions and what it was trusted with; false when nobody has this name.
    pub async fn forget_local(&self, connector_id: String, now: Millis) -> Result<bool, StoreError> {
        self.0
            .write(move |connection| {
                let forgotten = connection
                    .prepare_cached("DELETE FROM local_connectors WHERE connector_id = ?1")?
                    .execute([&connector_id])?;
                if forgotten == 0 {
                    return Ok(false);
                }
                close_keyless_sessions(connection, &connector_id)?;
                audit::record(connection, now, "connector_forgotten", &connector_id, "")?;
                Ok(true)
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
                // The first claim stays: the owner may be looking at it, and whoever comes later may be somebody else.
                connection
                    .prepare_cached(
                        "INSERT INTO local_connectors(connector_id, source, first_seen_at, last_seen_at)
                         VALUES (?1, ?2, ?3, ?3)
                         ON CONFLICT(connector_id) DO UPDATE
                           SET other_source = iif(source = ?2, other_source, ?2), last_seen_at = max(last_seen_at, ?3)",
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

    /// One that is known already comes or goes.
    pub async fn see_local(&self, connector_id: String, now: Millis) -> Result<(), StoreError> {
        self.0
            .write(move |connection| {
                connection
                    .prepare_cached(
                        "UPDATE local_connectors SET last_seen_at = max(last_seen_at, ?2) WHERE connector_id = ?1",
                    )?
                    .execute(params![connector_id, now.0])?;
                Ok(())
            })
            .await
    }
}

fn set_trust(
    connection: &Connection,
    connector_id: &str,
    source: Option<&str>,
    now: Millis,
) -> Result<Trusted, StoreError> {
    if let Some(source) = source
        && is_guarded(connection, source)?
    {
        return Ok(Trusted::Guarded);
    }
    let changed = connection
        .prepare_cached(
            "UPDATE local_connectors SET trusted_source = ?2, trusted_at = iif(?2 IS NULL, NULL, ?3)
             WHERE connector_id = ?1",
        )?
        .execute(params![connector_id, source, now.0])?;
    if changed == 0 {
        return Ok(Trusted::Unheard);
    }
    close_keyless_sessions(connection, connector_id)?;
    let (what, detail) = match source {
        Some(source) => ("connector_trusted", format!("for source {source}")),
        None => ("connector_untrusted", String::new()),
    };
    audit::record(connection, now, what, connector_id, &detail)?;
    Ok(Trusted::Changed)
}

/// Whether a connector's key is open for this source: then nobody speaks for it without one.
pub(crate) fn is_guarded(connection: &Connection, source: &str) -> Result<bool, StoreError> {
    let mut key = connection.prepare_cached(
        "SELECT 1 FROM keys WHERE source = ?1 AND public_id IS NOT NULL AND revoked_at IS NULL",
    )?;
    Ok(key.exists([source])?)
}

/// Nobody speaks for this source without a key any more; gives those who did.
pub(crate) fn end_trust_in(
    connection: &Connection,
    source: &str,
    now: Millis,
) -> Result<Vec<String>, StoreError> {
    let ended = connection
        .prepare_cached(
            "UPDATE local_connectors SET trusted_source = NULL, trusted_at = NULL WHERE trusted_source = ?1
             RETURNING connector_id",
        )?
        .query_map([source], |row| row.get(0))?
        .collect::<Result<Vec<String>, _>>()?;
    for connector_id in &ended {
        close_keyless_sessions(connection, connector_id)?;
        let detail = format!("source {source} has a key");
        audit::record(connection, now, "connector_untrusted", connector_id, &detail)?;
    }
    Ok(ended)
}

fn close_keyless_sessions(connection: &Connection, connector_id: &str) -> Result<(), StoreError> {
    connection
        .prepare_cached("DELETE FROM connector_sessions WHERE is_keyless = 1 AND connector_id = ?1")?
        .execute([connector_id])?;
    Ok(())
}
