//! What the product is compared with: the same work with a part left out, or done the usual way.

mod bare_scan;
mod bare_socket;
mod echo;
mod naive;
mod raw_rows;
mod sqlite_vec;

pub(crate) use bare_scan::BareScan;
pub(crate) use bare_socket::{ECHO_SOCKET, NodeSockets, echo_socket_routes};
pub(crate) use echo::{ECHO_CONNECTOR, ECHO_INGEST, echo_routes};
pub(crate) use naive::{NAIVE_INGEST, naive_routes};
pub(crate) use raw_rows::RawRows;
pub(crate) use sqlite_vec::SqliteVec;

use crate::BenchError;
use rusqlite::Connection;

/// As durable as the store: a baseline that syncs less would be no baseline.
fn keep_like_the_store(connection: &Connection) -> Result<(), BenchError> {
    let mode: String = connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))?;
    connection.pragma_update(None, "synchronous", "full")?;
    let synchronous: i64 = connection.pragma_query_value(None, "synchronous", |row| row.get(0))?;
    connection.pragma_update(None, "wal_autocheckpoint", 4_000)?;
    if (mode.as_str(), synchronous) == ("wal", 2) {
        Ok(())
    } else {
        Err(BenchError::Broken(format!("a baseline stays at {mode} and synchronous {synchronous}")))
    }
}
