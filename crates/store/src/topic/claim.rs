//! Whose topics run next: each source has its share of the turns, and its own word only about what of its own goes first.

use crate::StoreError;
use cortex_types::{LOCAL_START, Priority, is_local};
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::{BTreeMap, VecDeque};

/// Most sources that one claim looks at; the rest follow when those have nothing ready.
const SOURCES_MAX: usize = 256;

/// Most sources without a key that one claim looks at.
const STRANGERS_MAX: usize = 16;
/// Sorts right behind every source without a key.
const BEHIND_STRANGERS: &str = "local;";

/// A topic that is ready, with the event that leads it.
pub(super) struct Head {
    pub(super) topic: i64,
    pub(super) seq: i64,
    priority: i64,
}

/// The ready topics of one source, and who shares its turns.
struct Queue {
    heads: VecDeque<Head>,
    sharer: String,
}

impl Queue {
    /// What is in the background waits for everything that is not. Else the source with the fewest turns goes first: by
    /// calling its events urgent, or by having many, it keeps no other source waiting. Then arrival decides.
    fn place(&self, running: &BTreeMap<String, usize>) -> Option<(bool, usize, i64)> {
        let head = self.heads.front()?;
        let running = running.get(&self.sharer).copied().unwrap_or_default();
        Some((head.priority == Priority::Background.rank(), running, head.seq))
    }
}

/// Who has a share of the turns: a source, or all that came without a key together, since a name costs them nothing.
fn sharer(source: &str) -> String {
    if is_local(source) { LOCAL_START.to_owned() } else { source.to_owned() }
}

/// The heads of up to `limit` ready topics in the order in which they may run.
pub(super) fn heads(connection: &Connection, limit: u32) -> Result<Vec<Head>, StoreError> {
    let sources = ready_sources(connection)?;
    if let [source] = &sources[..] {
        return heads_of(connection, source, limit);
    }
    let mut running = if sources.is_empty() { BTreeMap::new() } else { running(connection)? };
    let mut queues = Vec::with_capacity(sources.len());
    for source in sources {
        queues.push(Queue { heads: heads_of(connection, &source, limit)?.into(), sharer: sharer(&source) });
    }
    let mut heads = Vec::new();
    while heads.len() < limit as usize {
        let ready = queues.iter_mut().filter(|queue| !queue.heads.is_empty());
        let Some(queue) = ready.min_by_key(|queue| queue.place(&running)) else { break };
        *running.entry(queue.sharer.clone()).or_default() += 1;
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
    let mut strangers = 0;
    while sources.len() < SOURCES_MAX {
        let last = match sources.last() {
            // However many names they give themselves, they keep no other source from being looked at.
            Some(last) if is_local(last) && strangers >= STRANGERS_MAX => BEHIND_STRANGERS,
            Some(last) => last,
            None => "",
        };
        match next.query_row([last], |row| row.get::<_, String>(0)).optional()? {
            Some(source) => {
                strangers += usize::from(is_local(&source));
                sources.push(source);
            }
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

/// How many turns of each sharer run; all of them together are few.
fn running(connection: &Connection) -> Result<BTreeMap<String, usize>, StoreError> {
    let mut flying = connection.prepare_cached("SELECT source FROM topics WHERE in_flight IS NOT NULL")?;
    let mut rows = flying.query([])?;
    let mut running = BTreeMap::new();
    while let Some(row) = rows.next()? {
        *running.entry(sharer(&row.get::<_, String>(0)?)).or_default() += 1;
    }
    Ok(running)
}
