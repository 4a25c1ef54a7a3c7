//! Topics: who may run next. One row a topic, so that a claim looks at topics and never at a backlog.

use crate::{Store, StoreError, flow::channel};
use cortex_types::{Audience, Millis, NewEvent, Priority, TopicRef};
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::collections::BTreeMap;

mod claim;

pub use claim::Places;
pub(crate) use claim::sharer;

/// Most topics whose backoff ended that one claim looks at; the rest follow with the next claim.
const WOKEN_MAX: i64 = 256;

pub(crate) struct TopicRow {
    pub(crate) id: i64,
    is_held: bool,
    head_priority: Option<i64>,
    is_group: bool,
}

pub(crate) fn find_or_add(connection: &Connection, source: &str, key: &str) -> Result<TopicRow, StoreError> {
    let found = connection
        .prepare_cached(
            "SELECT id, in_flight IS NOT NULL, iif(head_seq IS NULL, NULL, coalesce(head_priority, -1)), is_group
             FROM topics WHERE source = ?1 AND topic_key = ?2",
        )?
        .query_row([source, key], |row| {
            let (id, is_held) = (row.get(0)?, row.get(1)?);
            // Nothing new goes before a head that cannot be read: the next claim looks up what leads the topic.
            let head_priority = row.get(2).unwrap_or(Some(i64::MIN));
            Ok(TopicRow { id, is_held, head_priority, is_group: row.get(3)? })
        })
        .optional()?;
    if let Some(found) = found {
        return Ok(found);
    }
    connection
        .prepare_cached("INSERT INTO topics(source, topic_key) VALUES (?1, ?2)")?
        .execute([source, key])?;
    let id = connection.last_insert_rowid();
    Ok(TopicRow { id, is_held: false, head_priority: None, is_group: false })
}

/// Remembers what a connector says of who reads the topic, for events that say nothing of it.
pub(crate) fn note_audience(
    connection: &Connection,
    topic: &TopicRow,
    new: &NewEvent,
) -> Result<(), StoreError> {
    let Some(said) = Audience::said(new.standing, new.metadata_json.as_deref()) else { return Ok(()) };
    let is_group = said == Audience::Group;
    if is_group != topic.is_group {
        connection
            .prepare_cached("UPDATE topics SET is_group = ?2 WHERE id = ?1")?
            .execute(params![topic.id, is_group])?;
    }
    Ok(())
}

impl Store {
    /// Who reads a topic, as its connector said last.
    pub async fn audience_of(&self, topic: TopicRef) -> Result<Audience, StoreError> {
        self.read(move |connection| {
            let is_group: Option<bool> = connection
                .prepare_cached("SELECT is_group FROM topics WHERE source = ?1 AND topic_key = ?2")?
                .query_row([&topic.source, &topic.topic_key], |row| row.get(0))
                .optional()?;
            Ok(if is_group == Some(true) { Audience::Group } else { Audience::Private })
        })
        .await
    }
}

/// The internal key of a topic that was heard of.
pub(crate) fn find(connection: &Connection, topic: &TopicRef) -> Result<Option<i64>, StoreError> {
    Ok(connection
        .prepare_cached("SELECT id FROM topics WHERE source = ?1 AND topic_key = ?2")?
        .query_row([&topic.source, &topic.topic_key], |row| row.get(0))
        .optional()?)
}

/// A new event of the topic: it becomes the head when nothing more urgent or earlier waits, and its channel is not off.
pub(crate) fn offer(
    connection: &Connection,
    topic: &TopicRow,
    seq: i64,
    new: &NewEvent,
) -> Result<(), StoreError> {
    let priority = new.priority;
    let overtakes = topic.head_priority.is_none_or(|head| priority.rank() < head);
    if topic.is_held || !overtakes || channel::is_off(connection, new.channel.as_deref(), &new.source)? {
        return Ok(());
    }
    connection
        .prepare_cached("UPDATE topics SET head_seq = ?2, head_priority = ?3, head_due_at = 0 WHERE id = ?1")?
        .execute(params![topic.id, seq, priority.rank()])?;
    Ok(())
}

/// Puts the heads of ready topics in flight, as many as have a place.
pub(crate) fn take(connection: &Connection, places: Places, now: Millis) -> Result<Vec<i64>, StoreError> {
    connection
        .prepare_cached(
            "UPDATE topics SET head_due_at = 0 WHERE id IN (
               SELECT id FROM topics
               WHERE in_flight IS NULL AND head_seq IS NOT NULL AND head_due_at > 0 AND head_due_at <= ?1
               ORDER BY head_due_at LIMIT ?2)",
        )?
        .execute([now.0, WOKEN_MAX])?;
    let heads = claim::heads(connection, places)?;
    let mut flying = connection.prepare_cached(
        "UPDATE topics SET in_flight = head_seq, head_seq = NULL, head_priority = NULL WHERE id = ?1",
    )?;
    for head in &heads {
        flying.execute([head.topic])?;
    }
    Ok(heads.into_iter().map(|head| head.seq).collect())
}

/// Nothing of the topic is in flight any more: its next pending event becomes the head.
pub(crate) fn release(connection: &Connection, topic: i64) -> Result<(), StoreError> {
    let (seq, priority, due_at) = match next_of(connection, topic)? {
        Some(next) => (Some(next.seq), Some(next.priority), next.due_at),
        None => (None, None, 0),
    };
    connection
        .prepare_cached(
            "UPDATE topics SET in_flight = NULL, head_seq = ?2, head_priority = ?3, head_due_at = ?4
             WHERE id = ?1",
        )?
        .execute(params![topic, seq, priority, due_at])?;
    Ok(())
}

/// Holds a topic for an event of its own that says it runs, and says whether there is one.
pub(crate) fn hold_for_running(connection: &Connection, topic: i64) -> Result<bool, StoreError> {
    let running = connection
        .prepare_cached("SELECT min(seq) FROM inbox_messages WHERE topic_id = ?1 AND status = 'processing'")?
        .query_row([topic], |row| row.get::<_, Option<i64>>(0))?;
    if let Some(seq) = running {
        tracing::error!(topic, seq, "A stored topic named another event than the one that runs in it");
        hold_for(connection, topic, seq)?;
    }
    Ok(running.is_some())
}

pub(crate) fn hold_for(connection: &Connection, topic: i64, seq: i64) -> Result<(), StoreError> {
    connection.prepare_cached("UPDATE topics SET in_flight = ?2 WHERE id = ?1")?.execute([topic, seq])?;
    Ok(())
}

/// The event that leads a topic.
struct Next {
    seq: i64,
    priority: i64,
    due_at: i64,
}

/// The first pending event of a topic that may run. Those of a channel that is off wait beside it until the channel is
/// not (D18).
fn next_of(connection: &Connection, topic: i64) -> Result<Option<Next>, StoreError> {
    let mut pending = connection.prepare_cached(
        "SELECT seq, priority, due_at, channel, source FROM inbox_messages
         WHERE topic_id = ?1 AND status = 'pending' ORDER BY priority, seq",
    )?;
    let mut rows = pending.query([topic])?;
    // A topic has few channels and may have many events: each channel is asked about once.
    let mut off: BTreeMap<Option<String>, bool> = BTreeMap::new();
    while let Some(row) = rows.next()? {
        if !is_off(connection, row, &mut off)? {
            return Ok(Some(Next {
                seq: row.get(0)?,
                priority: row.get(1).unwrap_or(Priority::Normal.rank()),
                // A time before all times would be neither now nor later, and nothing would ever take the event up.
                due_at: row.get(2).unwrap_or(0).max(0),
            }));
        }
    }
    Ok(None)
}

/// One that cannot be read is not off: it leads its topic, and the claim sets it aside and tells its user. Otherwise it would
/// fail whatever ends a turn before it.
fn is_off(
    connection: &Connection,
    row: &Row<'_>,
    known: &mut BTreeMap<Option<String>, bool>,
) -> Result<bool, StoreError> {
    let Ok(channel) = row.get::<_, Option<String>>(3) else { return Ok(false) };
    if let Some(is_off) = known.get(&channel) {
        return Ok(*is_off);
    }
    let Ok(source) = row.get::<_, String>(4) else { return Ok(false) };
    let is_off = channel::is_off(connection, channel.as_deref(), &source)?;
    known.insert(channel, is_off);
    Ok(is_off)
}

/// Whether an event of the topic may run once nothing holds it.
pub(crate) fn has_next(connection: &Connection, topic: i64) -> Result<bool, StoreError> {
    Ok(next_of(connection, topic)?.is_some())
}

/// Recomputes the head of a topic whose pending events changed while nothing is in flight.
pub(crate) fn refresh(connection: &Connection, topic: i64) -> Result<(), StoreError> {
    let is_held: bool = connection
        .prepare_cached("SELECT in_flight IS NOT NULL FROM topics WHERE id = ?1")?
        .query_row([topic], |row| row.get(0))?;
    if is_held { Ok(()) } else { release(connection, topic) }
}

/// The modes changed: what may run next in each topic is looked up anew.
pub(crate) fn refresh_all(connection: &Connection) -> Result<(), StoreError> {
    let topics = connection
        .prepare("SELECT id FROM topics WHERE id IN (SELECT topic_id FROM inbox_messages WHERE status = 'pending')")?
        .query_map([], |row| row.get(0))?
        .collect::<Result<Vec<i64>, _>>()?;
    topics.into_iter().try_for_each(|topic| refresh(connection, topic))
}

/// When the next backing-off topic is due, if any is.
pub(crate) fn next_due(connection: &Connection) -> Result<Option<Millis>, StoreError> {
    let due = connection
        .prepare_cached(
            "SELECT head_due_at FROM topics
             WHERE in_flight IS NULL AND head_seq IS NOT NULL AND head_due_at > 0
             ORDER BY head_due_at LIMIT 1",
        )?
        // Numbers come first: a time that cannot be read is nobody's alarm, and the next start sets it anew.
        .query_row([], |row| Ok(row.get::<_, i64>(0).ok()))
        .optional()?;
    Ok(due.flatten().map(Millis))
}
