//! What a door needs that pushes messages instead of being polled: their causes, and leases given back unused.

use super::{OutboxMessage, bell, of_event, suppress};
use crate::{
    StoreError,
    flow::{channel, inbox, trace},
};
use cortex_types::{Event, EventId, LeaseToken, Millis, OutboxId, TopicRef, is_machine_channel};
use rusqlite::{Connection, OptionalExtension, params};

/// What a message answers, as far as its receiver can know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageCause {
    /// The event that led to it.
    pub event: Option<EventId>,
    pub external_message_id: Option<String>,
    /// The channel of that event.
    pub channel: Option<String>,
    /// Of the newest event that a person sent in the topic of the message.
    pub metadata_json: Option<String>,
    pub created_at: Millis,
}

impl MessageCause {
    /// Whether somebody sent the event; those of schedules and ops come from inside.
    fn is_of_a_person(&self) -> bool {
        self.channel.as_deref().is_some_and(|channel| !is_machine_channel(channel))
    }
}

/// A lease that its holder gives back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReturnedLease {
    pub id: OutboxId,
    pub lease: LeaseToken,
    /// Whether it was sent, and nobody said that it arrived; only then does the attempt count.
    pub was_sent: bool,
}

pub(super) fn causes(
    connection: &Connection,
    ids: &[OutboxId],
) -> Result<Vec<Option<MessageCause>>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT inbox_messages.id, external_message_id, coalesce(channel, inbox_messages.source), metadata_json,
           outbox_messages.created_at, outbox_messages.topic_id
         FROM outbox_messages LEFT JOIN inbox_messages ON inbox_messages.seq = event_seq WHERE outbox_messages.id = ?1",
    )?;
    let mut causes = Vec::with_capacity(ids.len());
    for id in ids {
        let found = statement
            .query_row([id.as_str()], |row| {
                let event: Option<String> = row.get(0)?;
                let cause = MessageCause {
                    event: event.and_then(|id| id.parse().ok()),
                    external_message_id: row.get(1)?,
                    channel: row.get(2)?,
                    metadata_json: row.get(3)?,
                    created_at: Millis(row.get(4)?),
                };
                Ok((cause, row.get::<_, i64>(5)?))
            })
            .optional()?;
        causes.push(match found {
            Some((cause, topic)) if !cause.is_of_a_person() => {
                Some(MessageCause { metadata_json: last_metadata(connection, topic)?, ..cause })
            }
            found => found.map(|(cause, _)| cause),
        });
    }
    Ok(causes)
}

/// A message that no event of a person led to still goes to the room where he last spoke.
fn last_metadata(connection: &Connection, topic: i64) -> Result<Option<String>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT metadata_json FROM turns JOIN inbox_messages ON inbox_messages.seq = turns.event_seq
         WHERE turns.topic_id = ?1 AND turns.role = 'user' AND coalesce(channel, '') NOT IN ('cron', 'router')
           AND coalesce(channel, '') NOT GLOB 'hook:*'
         ORDER BY turns.id DESC LIMIT 1",
    )?;
    Ok(statement.query_row([topic], |row| row.get(0)).optional()?.flatten())
}

pub(super) fn give_back(
    connection: &Connection,
    leases: &[ReturnedLease],
    now: Millis,
) -> Result<usize, StoreError> {
    let mut back = 0;
    for returned in leases {
        let held = connection
            .prepare_cached(
                "SELECT seq, source, topic_key, event_seq FROM outbox_messages
                 WHERE id = ?1 AND status = 'leased' AND lease_token = ?2",
            )?
            .query_row([returned.id.as_str(), returned.lease.as_str()], |row| {
                let topic = TopicRef { source: row.get(1)?, topic_key: row.get(2)? };
                Ok((row.get::<_, i64>(0)?, topic, row.get(3)?))
            })
            .optional()?;
        let Some((seq, topic, event_seq)) = held else { continue };
        // The modes may have changed meanwhile: back in the queue it would be sent.
        bell::queued_for(&topic);
        if let Some(reason) = channel::refusal_of_queued(connection, event_seq, &topic.source)? {
            suppress(connection, seq, &reason, now)?;
            continue;
        }
        // The attempts may go back to what they were before this lease, and the trace still shows it.
        trace::apart_from(connection, seq, || trace::note_earlier_lease(connection, seq))?;
        back += connection
            .prepare_cached(
                "UPDATE outbox_messages SET status = 'pending', attempts = max(attempts - ?2, 0), lease_token = NULL,
                   lease_expires_at = NULL, leased_at = NULL, updated_at = ?3 WHERE seq = ?1",
            )?
            .execute(params![seq, !returned.was_sent, now.0])?;
    }
    Ok(back)
}

/// Gives back every lease that this holder of the source has.
pub(super) fn release(
    connection: &Connection,
    source: &str,
    holder: &str,
    now: Millis,
) -> Result<usize, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT id, lease_token FROM outbox_messages WHERE source = ?1 AND status = 'leased' AND holder = ?2",
    )?;
    let held = statement.query_map([source, holder], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let held = held.collect::<Result<Vec<(String, String)>, _>>()?;
    let leases = held.into_iter().filter_map(|(id, lease)| {
        Some(ReturnedLease { id: id.parse().ok()?, lease: lease.parse().ok()?, was_sent: true })
    });
    give_back(connection, &leases.collect::<Vec<_>>(), now)
}

/// When something of this source, or of one topic of it, becomes claimable by time alone, after now.
pub(super) fn next_due(
    connection: &Connection,
    source: &str,
    topic_key: Option<&str>,
    now: Millis,
) -> Result<Option<Millis>, StoreError> {
    // What is no number sorts behind all that are and is nobody's alarm: the next poll takes it up.
    let earliest = |sql: &str| -> Result<Option<i64>, StoreError> {
        Ok(connection.prepare_cached(sql)?.query_row(params![source, now.0, topic_key], |row| row.get(0))?)
    };
    let waits = earliest(
        "SELECT CAST(min(next_attempt_at) AS INTEGER) FROM outbox_messages
         WHERE source = ?1 AND status = 'pending' AND next_attempt_at > ?2 AND next_attempt_at < '' AND (?3 IS NULL OR topic_key = ?3)",
    )?;
    let leases = earliest(
        "SELECT CAST(min(lease_expires_at) AS INTEGER) FROM outbox_messages
         WHERE source = ?1 AND status = 'leased' AND lease_expires_at > ?2 AND lease_expires_at < '' AND (?3 IS NULL OR topic_key = ?3)",
    )?;
    Ok([waits, leases].into_iter().flatten().min().map(Millis))
}

pub(super) fn replies_to(
    connection: &Connection,
    event: &EventId,
) -> Result<Option<(Event, Vec<OutboxMessage>)>, StoreError> {
    let Some(event) = inbox::find(connection, event)? else { return Ok(None) };
    let replies = of_event(connection, event.seq)?;
    Ok(Some((event, replies)))
}
