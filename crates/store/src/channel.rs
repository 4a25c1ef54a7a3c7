//! Channels: their modes, checked wherever something would be sent, and a line about what goes on in each.

use crate::{Store, StoreError, outbox, topic};
use cortex_types::limits::LIST_ROWS_MAX;
use cortex_types::{
    Accounts, ChannelLayer, ChannelMode, ChannelSettings, Event, INTERNAL_CHANNELS, Millis, TopicRef,
};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, params, params_from_iter};
use std::collections::BTreeSet;

/// Transitions of channels.
pub struct Channels<'a>(pub(crate) &'a Store);

/// A channel as seed 001's `cortex_channel_states` has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelState {
    pub channel: String,
    pub last_message_at: Millis,
    /// Events that are not answered yet.
    pub unread_count: u64,
    pub summary: String,
    pub layer: ChannelLayer,
}

/// What others see of a conversation on a channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelLine {
    pub channel: String,
    pub summary: String,
    pub last_message_at: Millis,
}

impl Channels<'_> {
    /// Puts the modes in force. What waits in the outbox and may no longer leave is suppressed with them; returns how
    /// much that was. What waits in the inbox of a channel that is off stays there until it is not.
    pub async fn set_modes(&self, settings: &ChannelSettings, now: Millis) -> Result<usize, StoreError> {
        let settings = settings.clone();
        self.0.write(move |connection| set_modes(connection, &settings, now)).await
    }

    /// The newest topic of a person on a channel.
    pub async fn newest_topic(
        &self,
        channel: String,
        accounts: Accounts,
    ) -> Result<Option<TopicRef>, StoreError> {
        self.0.read(move |connection| newest_topic(connection, &channel, &accounts)).await
    }

    /// Every channel that was heard of, with what waits on it.
    pub async fn states(&self) -> Result<Vec<ChannelState>, StoreError> {
        self.0.read(states).await
    }

    /// Keeps a better line about a topic, if there is one, and how near the topic is; both stand until the next turn there.
    pub async fn summarise(
        &self,
        topic: TopicRef,
        summary: Option<String>,
        layer: ChannelLayer,
    ) -> Result<bool, StoreError> {
        self.0
            .write(move |connection| {
                let Some(topic_id) = topic::find(connection, &topic)? else { return Ok(false) };
                let changed = connection
                    .prepare_cached(
                        "UPDATE channel_states SET summary = coalesce(?2, summary), layer = ?3 WHERE topic_id = ?1",
                    )?
                    .execute(params![topic_id, summary, layer.as_str()])?;
                Ok(changed > 0)
            })
            .await
    }

    /// Topics that stand in the foreground and were last heard of before `since`, the longest idle first.
    pub async fn idle(&self, since: Millis, limit: u32) -> Result<Vec<TopicRef>, StoreError> {
        self.0
            .read(move |connection| {
                let mut statement = connection.prepare_cached(
                    "SELECT topics.source, topics.topic_key FROM channel_states
                     JOIN topics ON topics.id = channel_states.topic_id
                     WHERE last_message_at < ?1 AND layer = 'foreground' ORDER BY last_message_at LIMIT ?2",
                )?;
                let rows = statement.query_map(params![since.0, limit], |row| {
                    Ok(TopicRef { source: row.get(0)?, topic_key: row.get(1)? })
                })?;
                Ok(rows.collect::<Result<_, _>>()?)
            })
            .await
    }
}

/// Why nothing may leave for `target` on behalf of this event, if one led to it; `None` when it may (invariant 6).
pub(crate) fn refusal(
    connection: &Connection,
    event_seq: Option<i64>,
    target: &str,
) -> Result<Option<String>, StoreError> {
    let origin = match event_seq {
        Some(event_seq) => origin(connection, event_seq)?,
        None => target.to_owned(),
    };
    for (channel, role) in [(target, "target"), (origin.as_str(), "source")] {
        let mode = mode_of(connection, channel)?;
        if mode != ChannelMode::Live {
            return Ok(Some(format!("the {role} channel {channel} is {mode}")));
        }
    }
    Ok(None)
}

/// The channel whose mode an event has.
fn origin(connection: &Connection, event_seq: i64) -> Result<String, StoreError> {
    let (channel, source): (String, String) = connection
        .prepare_cached("SELECT coalesce(channel, source), source FROM inbox_messages WHERE seq = ?1")?
        .query_row([event_seq], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let follows = INTERNAL_CHANNELS.contains(&channel.as_str()) && listed(connection, &channel)?.is_none();
    Ok(if follows { source } else { channel })
}

pub(crate) fn mode_of(connection: &Connection, channel: &str) -> Result<ChannelMode, StoreError> {
    match listed(connection, channel)? {
        Some(mode) => Ok(mode),
        None => Ok(listed(connection, UNLISTED)?.unwrap_or(ChannelMode::Live)),
    }
}

/// Whether no event of this channel is run: it is off itself, or the channel of its topic is.
pub(crate) fn is_off(
    connection: &Connection,
    channel: Option<&str>,
    source: &str,
) -> Result<bool, StoreError> {
    if mode_of(connection, source)? == ChannelMode::Off {
        return Ok(true);
    }
    let own = channel.map(|channel| listed(connection, channel)).transpose()?.flatten();
    Ok(own == Some(ChannelMode::Off))
}

/// The name of the row for all channels that have none.
const UNLISTED: &str = "";

fn listed(connection: &Connection, channel: &str) -> Result<Option<ChannelMode>, StoreError> {
    let word: Option<String> = connection
        .prepare_cached("SELECT mode FROM channel_modes WHERE channel = ?1")?
        .query_row([channel], |row| row.get(0))
        .optional()?;
    let mode = word.map(|word| word.parse()).transpose();
    mode.map_err(|error| StoreError::Damaged(format!("the mode of channel {channel:?}: {error}")))
}

fn set_modes(connection: &Connection, settings: &ChannelSettings, now: Millis) -> Result<usize, StoreError> {
    let before = all_modes(connection)?;
    connection.execute("DELETE FROM channel_modes", [])?;
    let mut insert =
        connection.prepare_cached("INSERT INTO channel_modes(channel, mode, topic) VALUES (?1, ?2, ?3)")?;
    insert.execute(params![UNLISTED, settings.default_mode.as_str(), None::<String>])?;
    for (name, setting) in &settings.channels {
        insert.execute(params![name, setting.mode.as_str(), setting.topic])?;
    }
    if all_modes(connection)? != before {
        topic::refresh_all(connection)?;
    }
    suppress_waiting(connection, now)
}

fn all_modes(connection: &Connection) -> Result<Vec<(String, String)>, StoreError> {
    let mut statement =
        connection.prepare_cached("SELECT channel, mode FROM channel_modes ORDER BY channel")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn suppress_waiting(connection: &Connection, now: Millis) -> Result<usize, StoreError> {
    let waiting = connection
        .prepare("SELECT seq, source, event_seq FROM outbox_messages WHERE status = 'pending'")?
        .query_map([], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?, row.get::<_, Option<i64>>(2)?))
        })?
        .collect::<Result<Vec<_>, _>>()?;
    let mut count = 0;
    for (seq, target, event_seq) in waiting {
        if let Some(reason) = refusal(connection, event_seq, &target)? {
            outbox::suppress(connection, seq, &reason, now)?;
            count += 1;
        }
    }
    Ok(count)
}

/// A turn ended here: its topic is the newest of its user on this channel.
pub(crate) fn spoke(
    connection: &Connection,
    event: &Event,
    topic: i64,
    summary: &str,
    now: Millis,
) -> Result<(), StoreError> {
    connection
        .prepare_cached(
            "INSERT INTO channel_states(channel, user_id, topic_id, last_message_at, summary, layer)
             VALUES (?1, ?2, ?3, ?4, ?5, 'foreground')
             ON CONFLICT(channel, user_id) DO UPDATE SET topic_id = ?3, last_message_at = ?4, summary = ?5,
               layer = 'foreground'",
        )?
        .execute(params![event.topic.source, event.user_id, topic, now.0, summary])?;
    Ok(())
}

/// Something was said in a topic from elsewhere.
pub(crate) fn spoken_to(
    connection: &Connection,
    channel: &str,
    topic: i64,
    summary: &str,
    now: Millis,
) -> Result<(), StoreError> {
    connection
        .prepare_cached(
            "UPDATE channel_states SET last_message_at = ?3, summary = ?4, layer = 'foreground'
             WHERE channel = ?1 AND topic_id = ?2",
        )?
        .execute(params![channel, topic, now.0, summary])?;
    Ok(())
}

fn newest_topic(
    connection: &Connection,
    channel: &str,
    accounts: &Accounts,
) -> Result<Option<TopicRef>, StoreError> {
    let (filter, users) = of_accounts(accounts);
    let sql = format!(
        "SELECT topics.source, topics.topic_key FROM channel_states JOIN topics ON topics.id = topic_id
         WHERE channel = ? {filter} ORDER BY last_message_at DESC, topic_id DESC LIMIT 1"
    );
    let values = std::iter::once(Value::from(channel.to_owned())).chain(users);
    Ok(connection
        .prepare_cached(&sql)?
        .query_row(params_from_iter(values), |row| {
            Ok(TopicRef { source: row.get(0)?, topic_key: row.get(1)? })
        })
        .optional()?)
}

/// The lines of a person's other topics, one for each channel: its newest topic, unless that is this one. Newest
/// first, none older than `since`, none that is archived.
pub(crate) fn lines(
    connection: &Connection,
    accounts: &Accounts,
    this_topic: Option<i64>,
    since: Millis,
    limit: usize,
) -> Result<Vec<ChannelLine>, StoreError> {
    let (filter, users) = of_accounts(accounts);
    let sql = format!(
        "SELECT channel, topic_id, summary, last_message_at, layer FROM channel_states
         WHERE last_message_at >= ? {filter} ORDER BY last_message_at DESC LIMIT {LIST_ROWS_MAX}"
    );
    let values = std::iter::once(Value::from(since.0)).chain(users);
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(params_from_iter(values))?;
    let mut seen = BTreeSet::new();
    let mut lines = Vec::new();
    while let Some(row) = rows.next()?
        && lines.len() < limit
    {
        let (channel, topic): (String, i64) = (row.get(0)?, row.get(1)?);
        let layer: String = row.get(4)?;
        let is_shown = Some(topic) != this_topic && layer != ChannelLayer::Archived.as_str();
        if seen.insert(channel.clone()) && is_shown {
            lines.push(ChannelLine { channel, summary: row.get(2)?, last_message_at: Millis(row.get(3)?) });
        }
    }
    Ok(lines)
}

fn of_accounts(accounts: &Accounts) -> (String, impl Iterator<Item = Value>) {
    let (filter, users) = match accounts {
        Accounts::Everyone => (String::new(), Vec::new()),
        Accounts::Only(users) => {
            let marks = vec!["?"; users.len()].join(", ");
            (format!("AND user_id IN ({marks})"), users.clone())
        }
    };
    (filter, users.into_iter().map(Value::from))
}

fn states(connection: &Connection) -> Result<Vec<ChannelState>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT channel, last_message_at, unread_count, summary, layer FROM cortex_channel_states ORDER BY channel
         LIMIT 500",
    )?;
    let rows = statement.query_map([], |row| {
        Ok((row.get(0)?, Millis(row.get(1)?), row.get(2)?, row.get(3)?, row.get::<_, String>(4)?))
    })?;
    rows.map(|row| {
        let (channel, last_message_at, unread_count, summary, layer) = row?;
        let layer =
            layer.parse().map_err(|error| StoreError::Damaged(format!("channel {channel}: {error}")))?;
        Ok(ChannelState { channel, last_message_at, unread_count, summary, layer })
    })
    .collect()
}
