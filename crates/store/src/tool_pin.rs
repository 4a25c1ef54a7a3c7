//! Pinned tool definitions: what was trusted once is recognised, what changed is not offered (SECURITY 32).

use crate::{Store, StoreError, audit};
use cortex_types::Millis;
use rusqlite::params;
use std::collections::HashMap;

/// The definitions this home trusts.
pub struct ToolPins<'a>(pub(crate) &'a Store);

impl ToolPins<'_> {
    /// Every pin by tool name.
    pub async fn all(&self) -> Result<HashMap<String, [u8; 32]>, StoreError> {
        self.0
            .read(|connection| {
                let mut statement =
                    connection.prepare_cached("SELECT tool_name, definition_sha256 FROM tool_pins")?;
                let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
                Ok(rows.collect::<Result<_, _>>()?)
            })
            .await
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
