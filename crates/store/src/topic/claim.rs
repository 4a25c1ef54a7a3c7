//! Whose topics run next: each source has its share of the turns, and its own word only about what of its own goes first.

use crate::StoreError;
use cortex_types::Priority;
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::{BTreeMap, VecDeque};

/// Most sources that one claim looks at; the rest follow when those have nothing ready.
const SOURCES_MAX: usize = 256;

/// A topic that is ready, with the event that leads it.
pub(super) struct Head {
    pub(super) topic: i64,
    pub(super) seq: i64,
    priority: i64,
}

/// The ready topics of one source, and how many of its turns run.
struct Queue {
    heads: VecDeque<Head>,
    running: usize,
}

impl Queue {
    /// What is in the background waits for everything that is not. Else the source with the fewest turns goes first: by
    /// calling its events urgent, or by having many, it keeps no other source waiting. Then arrival decides.
    fn place(&self) -> Option<(bool, usize, i64)> {
        let head = self.heads.front()?;
        Some((head.priority == Priority::Background.rank(), self.running, head.seq))
    }
}

/// The heads of up to `limit` ready topics in the order in which they may run.
pub(super) fn heads(connection: &Connection, limit: u32) -> Result<Vec<Head>, StoreError> {
    let sources = ready_sources(connection)?;
    if let [source] = &sources[..] {
        return heads_of(connection, source, limit);
    }
    let running = if sources.is_empty() { BTreeMap::new() } else { running(connection)? };
    let mut queues = Vec::with_capacity(sources.len());
    for source in sources {
        let running = running.get(&source).copied().unwrap_or_default();
        queues.push(Queue { heads: heads_of(connection, &source, limit)?.into(), running });
    }
    let mut heads = Vec::new();
    while heads.len() < limit as usize {
        let ready = queues.iter_mut().filter(|queue| !queue.heads.is_empty());
        let Some(queue) = ready.min_by_key(|queue| queue.place()) else { break };
        queue.running += 1;
        heads.extend(queue.heads.pop_front());
    }
    Ok(heads)
}

/// The sources that have a ready topic; each is one step in the index, however many topics it has.
fn ready_sources(connection: &Connection) -> Result<Vec<String>, StoreError> {
    let mut next = connection.prepare_cached(
        "SELECT source FROM topics
         WHERE in_flight IS NULL AND head_seq IS NOT NULL AND head_due_at = 0 AND source > ?1
         ORDER BY source LIMIT 1",
    )?;
    let mut sources: Vec<String> = Vec::new();
    while sources.len() < SOURCES_MAX {
        let last = sources.last().map_or("", String::as_str);
        match next.query_row([last], |row| row.get(0)).optional()? {
            Some(source) => sources.push(source),
            None => break,
        }
    }
    Ok(sources)
}

/// Its most urgent and oldest first.
fn heads_of(connection: &Connection, source: &str, limit: u32) -> Result<Vec<Head>, StoreError> {
    let heads = connection
        .prepare_cached(
            "SELECT id, head_seq, head_priority FROM topics
             WHERE in_flight IS NULL AND head_seq IS NOT NULL AND head_due_at = 0 AND source = ?1
             ORDER BY head_priority, head_seq LIMIT ?2",
        )?
        .query_map(params![source, limit], |row| {
            Ok(Head { topic: row.get(0)?, seq: row.get(1)?, priority: row.get(2)? })
        })?
        .collect::<Result<Vec<_>, _>>()?;
    Ok(heads)
}

/// How many turns of each source run; all of them together are few.
fn running(connection: &Connection) -> Result<BTreeMap<String, usize>, StoreError> {
    let mut flying = connection.prepare_cached("SELECT source FROM topics WHERE in_flight IS NOT NULL")?;
    let mut rows = flying.query([])?;
    let mut running = BTreeMap::new();
    while let Some(row) = rows.next()? {
        *running.entry(row.get(0)?).or_default() += 1;
    }
    Ok(running)
}
