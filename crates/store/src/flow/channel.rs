//! Channels: their modes, checked wherever something would be sent, and a line about what goes on in each.

use crate::engine::row::readable;
use crate::engine::savepoint::apart;
use crate::{
    Store, StoreError,
    flow::{outbox, topic},
};
use cortex_types::limits::LIST_ROWS_MAX;
use cortex_types::{Accounts, ChannelLayer, ChannelSettings, Event, Millis, NameRefusal, TopicRef};
use rusqlite::{Connection, OptionalExtension, params};
use std::cmp::Reverse;
use std::collections::BTreeMap;

mod mode;
mod name;

use mode::UNLISTED;
pub(crate) use mode::{is_off, mode_of, refusal, refusal_of_queued};
pub(crate) use name::learn_of_event;
use name::{check_name, learn_source};

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

/// A source whose channel was forgotten.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forgotten {
    /// The channel that it was.
    pub channel: String,
    /// Messages that still wait for a connector of it.
    pub waiting: u64,
    /// Messages that may no longer leave.
    pub suppressed: u64,
}

/// A topic in which nothing was said for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdleTopic {
    pub topic: TopicRef,
    pub last_message_at: Millis,
}

impl Channels<'_> {
    /// Puts the modes in force. What waits in the outbox and may no longer leave is suppressed with them; returns how
    /// much that was. What waits in the inbox of a channel that is off stays there until it is not.
    pub async fn set_modes(&self, settings: &ChannelSettings, now: Millis) -> Result<usize, StoreError> {
        let settings = settings.clone();
        self.0.write(move |connection| set_modes(connection, &settings, now)).await
    }

    /// From now on what comes from `source` is on `channel`, and has its mode; what was learned before stands, and a name
    /// that another source has stays with it (D18, D23).
    pub async fn learn_source(
        &self,
        source: String,
        channel: String,
    ) -> Result<Result<(), NameRefusal>, StoreError> {
        self.0.write(move |connection| learn_source(connection, &source, &channel)).await
    }

    /// Whether a source may be on this channel, as far as the names of others go; nothing is learned.
    pub async fn check_name(
        &self,
        source: String,
        channel: String,
    ) -> Result<Result<(), NameRefusal>, StoreError> {
        self.0.read(move |connection| check_name(connection, &source, &channel)).await
    }

    /// Forgets which channel a source is. What waits for it and may no longer leave is suppressed with it, as when modes
    /// change; the rest waits for the next connector of the source.
    pub async fn forget_source(&self, source: String, now: Millis) -> Result<Option<Forgotten>, StoreError> {
        self.0.write(move |connection| forget_source(connection, &source, now)).await
    }

    /// The channel of each source that was learned.
    pub async fn sources(&self) -> Result<BTreeMap<String, String>, StoreError> {
        self.0
            .read(|connection| {
                let mut statement =
                    connection.prepare_cached("SELECT source, channel FROM channel_sources")?;
                let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
                Ok(readable("channel of a source", rows.map(|row| Ok(row?)))?.into_iter().collect())
            })
            .await
    }

    /// The newest topic of a person on a channel, which is that of this source.
    pub async fn newest_topic(
        &self,
        channel: String,
        source: String,
        accounts: Accounts,
    ) -> Result<Option<TopicRef>, StoreError> {
        self.0.read(move |connection| newest_topic(connection, &channel, &source, &accounts)).await
    }

    /// Whether a topic was heard of.
    pub async fn has_topic(&self, topic: TopicRef) -> Result<bool, StoreError> {
        self.0.read(move |connection| Ok(topic::find(connection, &topic)?.is_some())).await
    }

    /// Every channel that was heard of, with what waits on it.
    pub async fn states(&self) -> Result<Vec<ChannelState>, StoreError> {
        self.0.read(states).await
    }

    /// Topics that stand in the foreground and were last heard of before `since`, the longest idle first.
    pub async fn idle(&self, since: Millis, limit: u32) -> Result<Vec<IdleTopic>, StoreError> {
        self.0.read(move |connection| idle(connection, since, limit)).await
    }

    /// Lets a topic that was idle step back from the foreground, with a better line about it if there is one. False when
    /// something was said there meanwhile: then everything stays as that turn left it.
    pub async fn step_back(&self, idle: IdleTopic, summary: Option<String>) -> Result<bool, StoreError> {
        self.0.write(move |connection| step_back(connection, &idle, summary.as_deref())).await
    }

    /// Puts topics away that stepped back and were last heard of before `since`; prompts no longer see them. The next
    /// turn there brings one back.
    pub async fn archive(&self, since: Millis) -> Result<usize, StoreError> {
        self.0
            .write(move |connection| {
                let mut statement = connection.prepare_cached(
                    "UPDATE channel_states SET layer = 'archived'
                     WHERE layer <> 'archived' AND layer = 'background' AND last_message_at < ?1",
                )?;
                Ok(statement.execute([since.0])?)
            })
            .await
    }
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

fn forget_source(
    connection: &Connection,
    source: &str,
    now: Millis,
) -> Result<Option<Forgotten>, StoreError> {
    let channel = connection
        .prepare_cached("DELETE FROM channel_sources WHERE source = ?1 RETURNING channel")?
        .query_row([source], |row| Ok(row.get(0).unwrap_or_else(|_| source.to_owned())))
        .optional()?;
    let Some(channel) = channel else { return Ok(None) };
    topic::refresh_all(connection)?;
    let suppressed = suppress_waiting(connection, now)? as u64;
    let waiting = connection
        .prepare_cached(
            "SELECT count(*) FROM outbox_messages WHERE source = ?1 AND status IN ('pending', 'leased')",
        )?
        .query_row([source], |row| row.get(0))?;
    Ok(Some(Forgotten { channel, waiting, suppressed }))
}

fn all_modes(connection: &Connection) -> Result<Vec<(String, String)>, StoreError> {
    let mut statement =
        connection.prepare_cached("SELECT channel, mode FROM channel_modes ORDER BY channel")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    readable("mode of a channel", rows.map(|row| Ok(row?)))
}

fn suppress_waiting(connection: &Connection, now: Millis) -> Result<usize, StoreError> {
    let mut waiting =
        connection.prepare("SELECT seq, source, event_seq FROM outbox_messages WHERE status = 'pending'")?;
    let waiting = waiting.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    // One that is left out is not sent either: its claim finds the same damage.
    let waiting: Vec<(i64, String, Option<i64>)> = readable("message", waiting.map(|row| Ok(row?)))?;
    let mut count = 0;
    for (seq, target, event_seq) in waiting {
        match apart(connection, || refusal_of_queued(connection, event_seq, &target))? {
            Ok(Some(reason)) => {
                outbox::suppress(connection, seq, &reason, now)?;
                count += 1;
            }
            Ok(None) => {}
            // No poll of this source gets anything until its channel is known again.
            Err(StoreError::Damaged(reason)) => {
                tracing::error!(seq, reason, "The channel of a message cannot be read; it waits");
            }
            Err(other) => return Err(other),
        }
    }
    Ok(count)
}

/// A turn ended here: its topic is in the foreground.
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
             VALUES (coalesce((SELECT channel FROM channel_sources WHERE source = ?1), ?1), ?2, ?3, ?4, ?5,
               'foreground')
             ON CONFLICT(topic_id, user_id) DO UPDATE SET last_message_at = ?4, summary = ?5, layer = 'foreground'",
        )?
        .execute(params![event.topic.source, event.user_id, topic, now.0, summary])?;
    Ok(())
}

/// Something was said in a topic from elsewhere.
pub(crate) fn spoken_to(
    connection: &Connection,
    topic: i64,
    summary: &str,
    now: Millis,
) -> Result<(), StoreError> {
    connection
        .prepare_cached(
            "UPDATE channel_states SET last_message_at = ?2, summary = ?3, layer = 'foreground' WHERE topic_id = ?1",
        )?
        .execute(params![topic, now.0, summary])?;
    Ok(())
}

fn idle(connection: &Connection, since: Millis, limit: u32) -> Result<Vec<IdleTopic>, StoreError> {
    // Several people may speak in one topic: it is idle when none of them does.
    let mut statement = connection.prepare_cached(
        "SELECT topics.source, topics.topic_key, max(idle.last_message_at) AS heard
         FROM channel_states AS idle JOIN topics ON topics.id = idle.topic_id
         WHERE idle.layer <> 'archived' AND idle.layer = 'foreground' AND idle.last_message_at < ?1
           AND NOT EXISTS (SELECT 1 FROM channel_states AS other
                           WHERE other.topic_id = idle.topic_id AND other.last_message_at >= ?1)
         GROUP BY idle.topic_id ORDER BY heard LIMIT ?2",
    )?;
    let rows = statement.query_map(params![since.0, limit], |row| {
        let topic = TopicRef { source: row.get(0)?, topic_key: row.get(1)? };
        Ok(IdleTopic { topic, last_message_at: Millis(row.get(2)?) })
    })?;
    readable("idle topic", rows.map(|row| Ok(row?)))
}

fn step_back(connection: &Connection, idle: &IdleTopic, summary: Option<&str>) -> Result<bool, StoreError> {
    let Some(topic_id) = topic::find(connection, &idle.topic)? else { return Ok(false) };
    let heard: Option<i64> = connection
        .prepare_cached("SELECT max(last_message_at) FROM channel_states WHERE topic_id = ?1")?
        .query_row([topic_id], |row| row.get(0))?;
    if heard.is_none_or(|heard| heard > idle.last_message_at.0) {
        return Ok(false);
    }
    connection
        .prepare_cached(
            "UPDATE channel_states SET summary = coalesce(?2, summary), layer = 'background' WHERE topic_id = ?1",
        )?
        .execute(params![topic_id, summary])?;
    Ok(true)
}

fn newest_topic(
    connection: &Connection,
    channel: &str,
    source: &str,
    accounts: &Accounts,
) -> Result<Option<TopicRef>, StoreError> {
    let mut newest: Option<(i64, TopicRef)> = None;
    for (filter, user) in of_accounts(accounts) {
        let sql = format!(
            "SELECT last_message_at, topics.source, topics.topic_key FROM channel_states
             JOIN topics ON topics.id = topic_id
             WHERE {filter} channel = ?2 AND topics.source = ?3
             ORDER BY last_message_at DESC, topic_id DESC LIMIT 1"
        );
        let found = connection
            .prepare_cached(&sql)?
            .query_row(params![user, channel, source], |row| {
                Ok((row.get(0)?, TopicRef { source: row.get(1)?, topic_key: row.get(2)? }))
            })
            .optional()?;
        newest = [newest, found].into_iter().flatten().max_by_key(|(at, _)| *at);
    }
    Ok(newest.map(|(_, topic)| topic))
}

/// The lines of a person's other topics, one for each channel: the newest that is not this one. Newest first, none older
/// than `since`, none that is archived.
pub(crate) fn lines(
    connection: &Connection,
    accounts: &Accounts,
    this_topic: Option<i64>,
    since: Millis,
    limit: usize,
) -> Result<Vec<ChannelLine>, StoreError> {
    let mut newest: BTreeMap<String, ChannelLine> = BTreeMap::new();
    for (filter, user) in of_accounts(accounts) {
        for line in lines_of(connection, filter, user, this_topic)? {
            match newest.get(&line.channel) {
                Some(other) if other.last_message_at >= line.last_message_at => {}
                Some(_) | None => drop(newest.insert(line.channel.clone(), line)),
            }
        }
    }
    let mut lines: Vec<ChannelLine> =
        newest.into_values().filter(|line| line.last_message_at >= since).collect();
    lines.sort_by_key(|line| Reverse(line.last_message_at));
    lines.truncate(limit);
    Ok(lines)
}

/// Steps from channel to channel: two looks into an index for each, whatever was said there.
fn lines_of(
    connection: &Connection,
    filter: &str,
    user: &str,
    this_topic: Option<i64>,
) -> Result<Vec<ChannelLine>, StoreError> {
    let mut next = connection.prepare_cached(&format!(
        "SELECT channel FROM channel_states WHERE {filter} channel > ?2 ORDER BY channel LIMIT 1"
    ))?;
    // What is archived is older than what is not, so the newest topic says it for all of them.
    let mut newest = connection.prepare_cached(&format!(
        "SELECT summary, last_message_at, layer FROM channel_states
         WHERE {filter} channel = ?2 AND topic_id <> ?3 ORDER BY last_message_at DESC LIMIT 1"
    ))?;
    let mut lines = Vec::new();
    let mut channel = String::new();
    for _ in 0..LIST_ROWS_MAX {
        let Some(found) = next.query_row(params![user, channel], |row| row.get(0)).optional()? else { break };
        channel = found;
        let line = newest
            .query_row(params![user, channel, this_topic.unwrap_or_default()], |row| {
                Ok((row.get(0)?, Millis(row.get(1)?), row.get::<_, String>(2)?))
            })
            .optional()?;
        if let Some((summary, last_message_at, layer)) = line
            && layer != ChannelLayer::Archived.as_str()
        {
            lines.push(ChannelLine { channel: channel.clone(), summary, last_message_at });
        }
    }
    Ok(lines)
}

/// A condition on `user_id`, bound to `?1`, for each account; none while everybody is one owner.
fn of_accounts(accounts: &Accounts) -> Vec<(&'static str, &str)> {
    match accounts {
        // Programs without a key are not among everybody (D17).
        Accounts::Everyone => vec![("?1 = '' AND channel NOT GLOB 'local:*' AND", "")],
        Accounts::Only(users) => users.iter().map(|user| ("user_id = ?1 AND", user.as_str())).collect(),
    }
}

fn states(connection: &Connection) -> Result<Vec<ChannelState>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT channel, last_message_at, unread_count, summary, layer FROM cortex_channel_states ORDER BY channel
         LIMIT 500",
    )?;
    let rows = statement.query_map([], |row| {
        Ok((row.get(0)?, Millis(row.get(1)?), row.get(2)?, row.get(3)?, row.get::<_, String>(4)?))
    })?;
    let states = rows.map(|row| {
        let (channel, last_message_at, unread_count, summary, layer) = row?;
        let layer =
            layer.parse().map_err(|error| StoreError::Damaged(format!("channel {channel}: {error}")))?;
        Ok(ChannelState { channel, last_message_at, unread_count, summary, layer })
    });
    readable("state of a channel", states)
}
