//! Savepoints inside a request: a part that fails is undone by itself.

use crate::StoreError;
use rusqlite::Connection;

/// Runs a part whose failure must not undo the rest.
pub(crate) fn or_nothing<T>(
    connection: &Connection,
    part: impl FnOnce() -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    connection.execute_batch("SAVEPOINT part")?;
    let done = part();
    if done.is_err() {
        connection.execute_batch("ROLLBACK TO part")?;
    }
    connection.execute_batch("RELEASE part")?;
    done
}

/// The same for one row of many. What is wrong with the row is the inner result and stays with it; a disk or a file that
/// fails ends them all.
pub(crate) fn apart<T>(
    connection: &Connection,
    part: impl FnOnce() -> Result<T, StoreError>,
) -> Result<Result<T, StoreError>, StoreError> {
    match or_nothing(connection, part) {
        Err(error) if error.spoils_batch() => Err(error),
        done => Ok(done),
    }
}
