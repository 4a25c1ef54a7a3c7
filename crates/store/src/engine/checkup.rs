//! A look at the database of a home, whether its server runs or not: nothing is changed, migrated or locked.

use crate::engine::integrity::{self, Look};
use crate::mind::index::{self, VectorCounts, VectorsOf};
use crate::{
    StoreError, StoreUse,
    engine::{capacity, migrate, open},
};
use rusqlite::Connection;
use std::path::Path;

/// Users that are named; one more than a reader shows, so that it can say that there are more.
const USERS_MAX: u32 = 6;

/// What the look found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Checkup {
    /// The file is damaged: where, as far as it can be told.
    Damaged { place: String },
    /// The next start brings its schema up to date.
    Older { found: usize, known: usize },
    /// This program is too old for it.
    Newer { found: usize, known: usize },
    Current {
        schema: usize,
        counts: HomeCounts,
        /// The file is so large that a look at all of its pages was given up.
        is_half_checked: bool,
    },
}

/// What a person should know of the rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HomeCounts {
    /// Some of the users that talked, by name.
    pub users: Vec<String>,
    pub dead_messages: u64,
    pub failed_events: u64,
    /// Events that wait for their turn or were in it, and bytes of the database in use, as a running server counts them.
    pub queued_events: u64,
    pub database_bytes: u64,
    /// What connectors without a key have filled of it, roughly.
    pub strangers_bytes: u64,
    /// Texts of facts and of the history, and how many have a vector of the asked model.
    pub vectors: VectorCounts,
}

/// Looks at the database at `path`; `embedder` is the model whose vectors are in use.
pub fn check_up(path: &Path, embedder: &str) -> Result<Checkup, StoreError> {
    match look(path, embedder) {
        Err(StoreError::FileDamaged(place)) => Ok(Checkup::Damaged { place }),
        looked => looked,
    }
}

fn look(path: &Path, embedder: &str) -> Result<Checkup, StoreError> {
    let mut connection = open::open_for_a_look(path)?;
    let is_half_checked = match integrity::walk(&mut connection)? {
        Look::Whole => false,
        Look::Unfinished => true,
        Look::Damaged(place) => return Ok(Checkup::Damaged { place }),
    };
    let (found, known) = migrate::versions(&connection)?;
    if found > known {
        return Ok(Checkup::Newer { found, known });
    }
    if found < known {
        return Ok(Checkup::Older { found, known });
    }
    Ok(Checkup::Current { schema: found, counts: counts(&connection, embedder)?, is_half_checked })
}

fn counts(connection: &Connection, embedder: &str) -> Result<HomeCounts, StoreError> {
    let count = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, u64>(0));
    let users = connection
        .prepare(
            "SELECT DISTINCT user_id FROM channel_states WHERE user_id NOT GLOB 'hook:*'
           AND user_id NOT GLOB 'local:*' ORDER BY user_id LIMIT ?1",
        )?
        .query_map([USERS_MAX], |row| row.get(0))?
        .collect::<Result<Vec<String>, _>>()?;
    let facts = index::counts(connection, VectorsOf::Facts, embedder)?;
    let turns = index::counts(connection, VectorsOf::Turns, embedder)?;
    let StoreUse { queued_events, database_bytes, strangers_bytes, limits: _ } =
        capacity::measured(connection)?;
    Ok(HomeCounts {
        users,
        queued_events,
        database_bytes,
        strangers_bytes,
        dead_messages: count("SELECT count(*) FROM outbox_messages WHERE status = 'dead'")?,
        failed_events: count("SELECT count(*) FROM inbox_messages WHERE status = 'failed'")?,
        vectors: VectorCounts { texts: facts.texts + turns.texts, embedded: facts.embedded + turns.embedded },
    })
}
