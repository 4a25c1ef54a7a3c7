//! Summaries: a row that stands for the turns it covers. The turns stay, so taking it back restores them whole.

use crate::flow::turn::{self, HistoryRow};
use crate::{Store, StoreError, flow::topic};
use cortex_types::{Millis, TopicRef};
use fail::fail_point;
use rusqlite::{Connection, OptionalExtension, Row, params};

/// Transitions of summaries.
pub struct Summaries<'a>(pub(crate) &'a Store);

/// What is said instead of the turns up to `last_turn`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSummary {
    pub first_turn: i64,
    pub last_turn: i64,
    pub content: String,
    /// An estimate.
    pub tokens: u32,
    /// One of the turns it covers had read what others wrote.
    pub untrusted: bool,
}

/// The words of a summary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SummaryText {
    pub content: String,
    /// An estimate.
    pub tokens: u32,
}

/// A summary as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnSummary {
    pub id: i64,
    pub first_turn: i64,
    pub last_turn: i64,
    pub content: String,
    pub tokens: u32,
    pub created_at: Millis,
    /// One of the turns it covers had read what others wrote.
    pub untrusted: bool,
}

/// What a topic can be compacted from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uncovered {
    /// What stands for everything before.
    pub summary: Option<TurnSummary>,
    /// The oldest lines that no summary covers, oldest first.
    pub lines: Vec<HistoryRow>,
}

impl Summaries<'_> {
    /// Lets a summary stand for its turns. False when another one covers them already, so that a repeated
    /// compaction doubles nothing.
    pub async fn add(&self, topic: TopicRef, new: NewSummary, now: Millis) -> Result<bool, StoreError> {
        self.0.write(move |connection| add(connection, &topic, &new, now)).await
    }

    /// Takes the newest summary of a topic back; what it covered is seen again.
    pub async fn undo(&self, topic: TopicRef, now: Millis) -> Result<Option<TurnSummary>, StoreError> {
        self.0
            .write(move |connection| {
                let Some(topic_id) = topic::find(connection, &topic)? else { return Ok(None) };
                let newest = current(connection, topic_id)?;
                if let Some(newest) = &newest {
                    connection
                        .prepare_cached("UPDATE turn_summaries SET undone_at = ?2 WHERE id = ?1")?
                        .execute([newest.id, now.0])?;
                }
                Ok(newest)
            })
            .await
    }

    /// The oldest `limit` lines that no summary covers, and the summary before them.
    pub async fn uncovered(&self, topic: TopicRef, limit: u32) -> Result<Uncovered, StoreError> {
        self.0
            .read(move |connection| {
                let summary = match topic::find(connection, &topic)? {
                    Some(topic_id) => current(connection, topic_id)?,
                    None => None,
                };
                let after = summary.as_ref().map_or(0, |summary| summary.last_turn);
                Ok(Uncovered { lines: turn::oldest_after(connection, &topic, after, limit)?, summary })
            })
            .await
    }
}

/// The summary in force: the one that reaches furthest.
pub(crate) fn current(connection: &Connection, topic: i64) -> Result<Option<TurnSummary>, StoreError> {
    Ok(connection
        .prepare_cached(
            "SELECT id, first_turn_id, last_turn_id, content, tokens, created_at, untrusted FROM turn_summaries
             WHERE topic_id = ?1 AND undone_at IS NULL ORDER BY last_turn_id DESC LIMIT 1",
        )?
        .query_row([topic], read)
        .optional()?)
}

fn read(row: &Row<'_>) -> Result<TurnSummary, rusqlite::Error> {
    Ok(TurnSummary {
        id: row.get(0)?,
        first_turn: row.get(1)?,
        last_turn: row.get(2)?,
        content: row.get(3)?,
        tokens: row.get(4)?,
        created_at: Millis(row.get(5)?),
        untrusted: row.get(6)?,
    })
}

fn add(connection: &Connection, topic: &TopicRef, new: &NewSummary, now: Millis) -> Result<bool, StoreError> {
    let Some(topic_id) = topic::find(connection, topic)? else { return Ok(false) };
    if current(connection, topic_id)?.is_some_and(|current| current.last_turn >= new.last_turn) {
        return Ok(false);
    }
    connection
        .prepare_cached(
            "INSERT INTO turn_summaries(topic_id, first_turn_id, last_turn_id, content, tokens, created_at, untrusted)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?
        .execute(params![
            topic_id,
            new.first_turn,
            new.last_turn,
            new.content,
            new.tokens,
            now.0,
            new.untrusted
        ])?;
    fail_point!("summary.add.before_commit");
    Ok(true)
}

/// Replaces what summaries and the lines of channels say, where `rewrite` has something else for it.
pub(crate) fn rewrite_all(
    connection: &Connection,
    rewrite: &dyn Fn(&str) -> Option<SummaryText>,
) -> Result<(), StoreError> {
    let mut summaries = connection.prepare_cached("SELECT id, content FROM turn_summaries")?;
    let rows = summaries.query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)))?;
    for row in rows.collect::<Result<Vec<_>, _>>()? {
        if let Some(SummaryText { content, tokens }) = rewrite(&row.1) {
            connection
                .prepare_cached("UPDATE turn_summaries SET content = ?2, tokens = ?3 WHERE id = ?1")?
                .execute(params![row.0, content, tokens])?;
        }
    }
    let mut channels = connection.prepare_cached("SELECT topic_id, user_id, summary FROM channel_states")?;
    let rows = channels.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    for (topic, person, summary) in rows.collect::<Result<Vec<(i64, String, String)>, _>>()? {
        if let Some(SummaryText { content: summary, .. }) = rewrite(&summary) {
            connection
                .prepare_cached(
                    "UPDATE channel_states SET summary = ?3 WHERE topic_id = ?1 AND user_id = ?2",
                )?
                .execute(params![topic, person, summary])?;
        }
    }
    Ok(())
}
