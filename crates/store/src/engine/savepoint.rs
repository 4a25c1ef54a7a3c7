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
    // A disk that fails makes SQLite undo the whole transaction, and then there is no savepoint to go back to.
    if connection.is_autocommit() {
        return Err(done.err().filter(StoreError::spoils_batch).unwrap_or_else(lost));
    }
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

/// The transaction at hand is gone: whatever came after it would be written by itself.
pub(crate) fn lost() -> StoreError {
    StoreError::Unavailable("the database undid the transaction".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun() -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE t(n); BEGIN").unwrap();
        connection
    }

    fn count(connection: &Connection) -> i64 {
        connection.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn a_part_that_fails_is_undone_and_the_rest_stays() {
        let connection = begun();
        connection.execute_batch("INSERT INTO t VALUES (1)").unwrap();
        let done = apart(&connection, || {
            connection.execute_batch("INSERT INTO t VALUES (2)")?;
            Err::<(), _>(StoreError::Damaged("a row".to_owned()))
        });
        assert_eq!(done, Ok(Err(StoreError::Damaged("a row".to_owned()))));
        assert_eq!(count(&connection), 1);
    }

    #[test]
    fn a_transaction_that_the_disk_undid_is_never_a_damaged_row() {
        let full = || StoreError::Unavailable("disk I/O error".to_owned());
        for (said, told) in [
            (full(), full()),
            (StoreError::Damaged("a row".to_owned()), lost()),
            (StoreError::Fault("no such savepoint".to_owned()), lost()),
        ] {
            let connection = begun();
            // What SQLite does by itself when a statement meets a disk that fails.
            let done = apart(&connection, || {
                connection.execute_batch("ROLLBACK")?;
                Err::<(), _>(said)
            });
            assert_eq!(done, Err(told));
        }
        let connection = begun();
        assert_eq!(or_nothing(&connection, || Ok(connection.execute_batch("ROLLBACK")?)), Err(lost()));
    }
}
