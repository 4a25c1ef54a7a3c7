//! What people had forgotten: a digest of its words, so that the gardener does not learn it again.

use crate::StoreError;
use cortex_types::{FactScope, Millis};
use rusqlite::{Connection, params};
use sha2::{Digest, Sha256};

pub(super) fn add(
    connection: &Connection,
    scope: &FactScope,
    text: &str,
    now: Millis,
) -> Result<(), StoreError> {
    connection
        .prepare_cached("INSERT INTO forgotten_texts(digest, at) VALUES (?1, ?2) ON CONFLICT DO NOTHING")?
        .execute(params![digest(scope, text), now.0])?;
    Ok(())
}

pub(super) fn has(connection: &Connection, scope: &FactScope, text: &str) -> Result<bool, StoreError> {
    let mut known = connection.prepare_cached("SELECT 1 FROM forgotten_texts WHERE digest = ?1")?;
    Ok(known.exists([digest(scope, text)])?)
}

/// Somebody says it again.
pub(super) fn remove(connection: &Connection, scope: &FactScope, text: &str) -> Result<(), StoreError> {
    connection
        .prepare_cached("DELETE FROM forgotten_texts WHERE digest = ?1")?
        .execute([digest(scope, text)])?;
    Ok(())
}

/// Case and the stop at the end make no other text.
fn digest(scope: &FactScope, text: &str) -> [u8; 32] {
    let plain = text.trim().trim_end_matches(['.', '!']).to_lowercase();
    Sha256::digest([scope.kind(), scope.key(), &plain].join("\0")).into()
}
