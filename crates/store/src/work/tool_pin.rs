//! Pinned tool definitions: what was trusted once is recognised, what changed is not offered (SECURITY 32).

use crate::{
    Store, StoreError,
    engine::{audit, open},
};
use cortex_types::Millis;
use rusqlite::{Connection, params};
use std::collections::HashMap;
use std::path::Path;

/// Every pin of a database that nobody may be serving; nothing is changed.
pub fn look_at_pins(path: &Path) -> Result<HashMap<String, [u8; 32]>, StoreError> {
    pinned(&open::open_for_a_look(path)?)
}

/// The definitions this home trusts.
pub struct ToolPins<'a>(pub(crate) &'a Store);

impl ToolPins<'_> {
    /// Every pin by tool name.
    pub async fn all(&self) -> Result<HashMap<String, [u8; 32]>, StoreError> {
        self.0.read(pinned).await
    }

    /// Trusts these definitions from now on.
    pub async fn pin(&self, definitions: Vec<(String, [u8; 32])>, now: Millis) -> Result<(), StoreError> {
        self.0
            .write(move |connection| {
                for (name, digest) in &definitions {
                    let changed = connection
                        .prepare_cached(
                            "INSERT INTO tool_pins(tool_name, definition_sha256, pinned_at) VALUES (?1, ?2, ?3)
                             ON CONFLICT(tool_name) DO UPDATE SET definition_sha256 = ?2, pinned_at = ?3
                             WHERE definition_sha256 <> ?2",
                        )?
                        .execute(params![name, digest, now.0])?;
                    if changed == 1 {
                        audit::record(connection, now, "tool_trusted", name, "")?;
                    }
                }
                Ok(())
            })
            .await
    }
}

fn pinned(connection: &Connection) -> Result<HashMap<String, [u8; 32]>, StoreError> {
    let mut statement = connection.prepare_cached("SELECT tool_name, definition_sha256 FROM tool_pins")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}
