//! Whose topics run next: each source has its share of the turns, and its own word only about what of its own goes first.

use crate::StoreError;
use cortex_types::{CLI_SOURCE, LOCAL_START, Priority, is_local};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, params};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Once;

/// Most sources that one claim looks at, beside the terminal; the rest follow when those have nothing ready.
const SOURCES_MAX: usize = 256;

/// Most sources without a key that one claim looks at.
const STRANGERS_MAX: usize = 16;
/// Sorts right behind every source without a key.
const BEHIND_STRANGERS: &str = "local;";

/// How many turns may be begun, and by whom: a turn may take minutes, and however many others talk, one place is kept for
/// the owner's terminal. His programs (`openai`) are among the others: one of them alone could use up every place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Places {
    /// Those that are free now.
    pub free: u32,
    /// Most turns of all sources together but the terminal.
    pub others: u32,
    /// Most of these that nobody's key stands for.
    pub strangers: u32,
}

impl Places {
    /// Of so many in all: one is kept for the terminal, and strangers have at most half. A single one is everybody's.
    pub fn of(all: u32, free: u32) -> Self {
        Self { free, others: all.saturating_sub(1).max(1), strangers: (all / 2).max(1) }
    }
}

impl From<u32> for Places {
    /// So many for whoever comes.
    fn from(free: u32) -> Self {
        Self { free, others: u32::MAX, strangers: u32::MAX }
    }
}

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
    fn place(&self, running: &Running) -> Option<(bool, u32, i64)> {
        let head = self.heads.front()?;
        Some((head.priority == Priority::Background.rank(), running.of(&self.sharer), head.seq))
    }
}

/// How many turns of each sharer run.
#[derive(Default)]
struct Running(BTreeMap<String, u32>);

impl Running {
    fn add(&mut self, sharer: String) {
        *self.0.entry(sharer).or_default() += 1;
    }

    fn of(&self, sharer: &str) -> u32 {
        self.0.get(sharer).copied().unwrap_or_default()
    }

    /// Whether one more turn of this sharer leaves the others what is theirs.
    fn has_place(&self, sharer: &str, places: Places) -> bool {
        let others = || self.0.iter().filter(|(sharer, _)| *sharer != CLI_SOURCE).map(|(_, turns)| turns);
        sharer == CLI_SOURCE
            || others().sum::<u32>() < places.others
                && (sharer != LOCAL_START || self.of(sharer) < places.strangers)
    }
}

/// Who has a share of the turns and of the queue: a source, or all that came without a key together, since a name costs them nothing.
pub(crate) fn sharer(source: &str) -> String {
    if is_local(source) { LOCAL_START.to_owned() } else { source.to_owned() }
}

/// The heads of ready topics, as many as have a place, in the order in which they may run.
pub(super) fn heads(connection: &Connection, places: Places) -> Result<Vec<Head>, StoreError> {
    let limit = places.free;
    let sources = ready_sources(connection)?;
    if let [source] = &sources[..]
        && source == CLI_SOURCE
    {
        return heads_of(connection, source, limit);
    }
    let mut running = if sources.is_empty() { Running::default() } else { running(connection)? };
    let mut queues = Vec::with_capacity(sources.len());
    for source in sources {
        queues.push(Queue { heads: heads_of(connection, &source, limit)?.into(), sharer: sharer(&source) });
    }
    let mut heads = Vec::new();
    while heads.len() < limit as usize {
        let ready = |queue: &&mut Queue| !queue.heads.is_empty() && running.has_place(&queue.sharer, places);
        let ready = queues.iter_mut().filter(ready);
        let Some(queue) = ready.min_by_key(|queue| queue.place(&running)) else { break };
        running.add(queue.sharer.clone());
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
    let mut after: Vec<u8> = Vec::new();
    while sources.len() < SOURCES_MAX {
        let mut rows = next.query([ToSqlOutput::Borrowed(ValueRef::Text(&after))])?;
        let Some(row) = rows.next()? else { break };
        let ValueRef::Text(found) = row.get_ref(0)? else {
            // It sorts behind every text.
            pass_over();
            break;
        };
        after = found.to_vec();
        let Ok(source) = str::from_utf8(found) else {
            pass_over();
            continue;
        };
        strangers += usize::from(is_local(source));
        // However many names they give themselves, they keep no other source from being looked at.
        if is_local(source) && strangers >= STRANGERS_MAX {
            after = BEHIND_STRANGERS.into();
        }
        sources.push(source.to_owned());
    }
    // However many others sort before it: a place is kept for it.
    if sources.len() == SOURCES_MAX && !sources.iter().any(|source| source == CLI_SOURCE) {
        sources.push(CLI_SOURCE.to_owned());
    }
    Ok(sources)
}

/// A topic whose source cannot be read has no share of the turns; the others run. A claim comes many times a second.
fn pass_over() {
    static SAID: Once = Once::new();
    SAID.call_once(|| {
        tracing::error!("The source of a stored topic is damaged; what waits there is not answered");
    });
}

/// Its most urgent and oldest first. What leads a topic is looked up anew where it cannot be read.
fn heads_of(connection: &Connection, source: &str, limit: u32) -> Result<Vec<Head>, StoreError> {
    let (heads, damaged) = readable_heads_of(connection, source, limit)?;
    if damaged.is_empty() {
        return Ok(heads);
    }
    for topic in damaged {
        tracing::error!(topic, "What leads a stored topic is damaged; it is looked up anew");
        super::refresh(connection, topic)?;
    }
    Ok(readable_heads_of(connection, source, limit)?.0)
}

/// The heads, and the topics whose head cannot be read.
fn readable_heads_of(
    connection: &Connection,
    source: &str,
    limit: u32,
) -> Result<(Vec<Head>, Vec<i64>), StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT id, head_seq, head_priority FROM topics
         WHERE in_flight IS NULL AND head_seq IS NOT NULL AND head_due_at = 0 AND source = ?1
         ORDER BY head_priority, head_seq LIMIT ?2",
    )?;
    let mut rows = statement.query(params![source, limit])?;
    let (mut heads, mut damaged) = (Vec::new(), Vec::new());
    while let Some(row) = rows.next()? {
        let topic = row.get(0)?;
        match (row.get(1), row.get(2)) {
            (Ok(seq), Ok(priority)) => heads.push(Head { topic, seq, priority }),
            (Err(_), _) | (_, Err(_)) => damaged.push(topic),
        }
    }
    Ok((heads, damaged))
}

/// How many turns of each sharer run; all of them together are few.
fn running(connection: &Connection) -> Result<Running, StoreError> {
    let mut flying = connection.prepare_cached("SELECT source FROM topics WHERE in_flight IS NOT NULL")?;
    let mut rows = flying.query([])?;
    let mut running = Running::default();
    while let Some(row) = rows.next()? {
        // A turn of a source that cannot be read is one of the others'.
        running.add(sharer(&row.get::<_, String>(0).unwrap_or_default()));
    }
    Ok(running)
}
