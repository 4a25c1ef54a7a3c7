//! sqlite-vec: what most programs with SQLite use for vectors.

use crate::BenchError;
use rusqlite::{Connection, params};

/// A `vec0` table in memory.
pub(crate) struct SqliteVec {
    connection: Connection,
}

impl SqliteVec {
    pub(crate) fn create(dims: usize) -> Result<Self, BenchError> {
        register();
        let connection = Connection::open_in_memory()?;
        connection.execute_batch(&format!(
            "CREATE VIRTUAL TABLE vectors USING vec0(embedding float[{dims}] distance_metric=cosine)"
        ))?;
        Ok(Self { connection })
    }

    pub(crate) fn fill(&self, rows: impl Iterator<Item = (i64, Vec<f32>)>) -> Result<(), BenchError> {
        self.connection.execute_batch("BEGIN")?;
        let mut insert = self.connection.prepare("INSERT INTO vectors(rowid, embedding) VALUES (?1, ?2)")?;
        for (row, vector) in rows {
            insert.execute(params![row, bytes(&vector)])?;
        }
        drop(insert);
        Ok(self.connection.execute_batch("COMMIT")?)
    }

    pub(crate) fn nearest(&self, query: &[f32], limit: usize) -> Result<Vec<i64>, BenchError> {
        let mut statement = self.connection.prepare_cached(
            "SELECT rowid FROM vectors WHERE embedding MATCH ?1 AND k = ?2 ORDER BY distance",
        )?;
        let rows = statement.query_map(params![bytes(query), limit as u64], |row| row.get(0))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}

fn bytes(vector: &[f32]) -> Vec<u8> {
    vector.iter().flat_map(|part| part.to_le_bytes()).collect()
}

/// Makes the extension known to the connections that are opened from now on.
#[expect(
    unsafe_code,
    reason = "an extension of SQLite is a C function; this is the one place that hands it over"
)]
fn register() {
    use std::sync::Once;
    static REGISTER: Once = Once::new();
    type Entry = unsafe extern "C" fn(
        *mut rusqlite::ffi::sqlite3,
        *mut *mut std::os::raw::c_char,
        *const rusqlite::ffi::sqlite3_api_routines,
    ) -> std::os::raw::c_int;
    REGISTER.call_once(|| {
        // SAFETY: sqlite3_vec_init has this signature in C; its Rust declaration leaves the arguments out.
        let entry =
            unsafe { std::mem::transmute::<*const (), Entry>(sqlite_vec::sqlite3_vec_init as *const ()) };
        // SAFETY: the function stays where it is as long as the process lives.
        unsafe { rusqlite::ffi::sqlite3_auto_extension(Some(entry)) };
    });
}
