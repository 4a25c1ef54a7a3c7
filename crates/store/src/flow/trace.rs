//! The whole way of an event, put together from its rows and from notes about what went otherwise.

use crate::engine::savepoint::apart;
use crate::flow::outbox::{self, OutboxMessage};
use crate::{
    Store, StoreError,
    flow::{inbox, step},
};
use cortex_types::limits::{TRACE_NOTES_KEPT, TRACE_NOTES_MAX};
use cortex_types::{Event, EventId, Millis, Step};
use rusqlite::{Connection, params};

/// What a note is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoteKind {
    /// A claim that another one followed.
    Claimed,
    /// A lease that another one followed.
    Leased,
    RetryPlanned,
    Restarted,
    /// The watchdog found it in flight in no task.
    Rescued,
    Parked,
    Requeued,
    Nacked,
    LeaseExpired,
    Dead,
    Discarded,
}

impl NoteKind {
    const ALL: [Self; 11] = [
        Self::Claimed,
        Self::Leased,
        Self::RetryPlanned,
        Self::Restarted,
        Self::Rescued,
        Self::Parked,
        Self::Requeued,
        Self::Nacked,
        Self::LeaseExpired,
        Self::Dead,
        Self::Discarded,
    ];

    fn as_str(self) -> &'static str {
        match self {
            Self::Claimed => "claimed",
            Self::Leased => "leased",
            Self::RetryPlanned => "retry_planned",
            Self::Restarted => "restarted",
            Self::Rescued => "rescued",
            Self::Parked => "parked",
            Self::Requeued => "requeued",
            Self::Nacked => "nacked",
            Self::LeaseExpired => "lease_expired",
            Self::Dead => "dead",
            Self::Discarded => "discarded",
        }
    }

    /// How many notes an event may have before one of this kind is left out. Whoever takes and gives back without end fills
    /// his own places, and how a try went and how it ended is still told.
    fn notes_max(self) -> u32 {
        match self {
            Self::Claimed | Self::Leased => TRACE_NOTES_MAX,
            Self::RetryPlanned
            | Self::Restarted
            | Self::Rescued
            | Self::Parked
            | Self::Requeued
            | Self::Nacked
            | Self::LeaseExpired => TRACE_NOTES_MAX + TRACE_NOTES_KEPT,
            Self::Dead | Self::Discarded => TRACE_NOTES_MAX + 2 * TRACE_NOTES_KEPT,
        }
    }
}

/// Something that happened to an event or its replies and is not visible in a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceNote {
    pub at: Millis,
    pub kind: NoteKind,
    pub detail: String,
}

/// An event with all that is known about its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracedEvent {
    pub event: Event,
    pub claimed_at: Option<Millis>,
    pub steps: Vec<Step>,
    pub replies: Vec<OutboxMessage>,
    pub notes: Vec<TraceNote>,
}

pub(crate) fn note(
    connection: &Connection,
    event_seq: i64,
    at: Millis,
    kind: NoteKind,
    detail: &str,
) -> Result<(), StoreError> {
    connection
        .prepare_cached(
            "INSERT INTO trace_notes(event_seq, number, at, what, detail)
             SELECT ?1, count(*), ?2, ?3, ?4 FROM trace_notes WHERE event_seq = ?1 HAVING count(*) < ?5",
        )?
        .execute(params![event_seq, at.0, kind.as_str(), detail, kind.notes_max()])?;
    Ok(())
}

/// Keeps the claim that an event's row is about to forget; its first claim has none before it and costs one look.
pub(crate) fn note_earlier_claim(connection: &Connection, event_seq: i64) -> Result<(), StoreError> {
    connection
        .prepare_cached(
            "INSERT INTO trace_notes(event_seq, number, at, what, detail)
             SELECT seq, (SELECT count(*) FROM trace_notes WHERE event_seq = ?1) AS notes, claimed_at, ?2,
               'attempt ' || coalesce(attempts, 0)
             FROM inbox_messages WHERE seq = ?1 AND claimed_at IS NOT NULL AND notes < ?3",
        )?
        .execute(params![event_seq, NoteKind::Claimed.as_str(), NoteKind::Claimed.notes_max()])?;
    Ok(())
}

/// The same for the lease of a message, with the attempts that the row counts: it comes before whatever changes them.
pub(crate) fn note_earlier_lease(connection: &Connection, message_seq: i64) -> Result<(), StoreError> {
    connection
        .prepare_cached(
            "INSERT INTO trace_notes(event_seq, number, at, what, detail)
             SELECT event_seq, (SELECT count(*) FROM trace_notes n WHERE n.event_seq = m.event_seq) AS notes, leased_at, ?2,
               id || ', attempt ' || coalesce(attempts, 0)
             FROM outbox_messages m
             WHERE seq = ?1 AND typeof(leased_at) = 'integer' AND event_seq IS NOT NULL AND notes < ?3",
        )?
        .execute(params![message_seq, NoteKind::Leased.as_str(), NoteKind::Leased.notes_max()])?;
    Ok(())
}

/// A note that cannot be kept holds no message up: where that is damaged, its event may be one that is not there.
pub(crate) fn apart_from(
    connection: &Connection,
    message_seq: i64,
    note: impl FnOnce() -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    if let Err(error) = apart(connection, note)? {
        tracing::error!(seq = message_seq, %error, "What became of a message is not noted at its event");
    }
    Ok(())
}

impl Store {
    pub async fn trace(&self, id: EventId) -> Result<Option<TracedEvent>, StoreError> {
        self.read(move |connection| {
            let Some(event) = inbox::find(connection, &id)? else { return Ok(None) };
            let claimed_at: Option<i64> = connection
                .prepare_cached("SELECT claimed_at FROM inbox_messages WHERE seq = ?1")?
                .query_row([event.seq], |row| row.get(0))?;
            Ok(Some(TracedEvent {
                claimed_at: claimed_at.map(Millis),
                steps: step::load(connection, event.seq)?,
                replies: outbox::of_event(connection, event.seq)?,
                notes: notes(connection, event.seq)?,
                event,
            }))
        })
        .await
    }
}

fn notes(connection: &Connection, event_seq: i64) -> Result<Vec<TraceNote>, StoreError> {
    let mut statement = connection
        .prepare_cached("SELECT at, what, detail FROM trace_notes WHERE event_seq = ?1 ORDER BY number")?;
    let rows = statement
        .query_map([event_seq], |row| Ok((Millis(row.get(0)?), row.get::<_, String>(1)?, row.get(2)?)))?;
    rows.map(|row| {
        let (at, word, detail) = row?;
        let kind = NoteKind::ALL.into_iter().find(|kind| kind.as_str() == word);
        let kind =
            kind.ok_or_else(|| StoreError::Damaged(format!("trace note {word:?} of event {event_seq}")))?;
        Ok(TraceNote { at, kind, detail })
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_tables() -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        let tables =
            "CREATE TABLE trace_notes(event_seq, number, at, what, detail, PRIMARY KEY (event_seq, number));
            CREATE TABLE inbox_messages(seq, claimed_at, attempts);
            CREATE TABLE outbox_messages(seq, event_seq, leased_at, id, attempts);
            INSERT INTO inbox_messages VALUES (1, 5, 1), (2, NULL, 0);
            INSERT INTO outbox_messages VALUES (1, 1, 5, 'out', 1), (2, 2, 5, 'out', 1)";
        connection.execute_batch(tables).unwrap();
        connection
    }

    fn notes_of(connection: &Connection, event: i64, kind: NoteKind) -> u32 {
        let sql = "SELECT count(*) FROM trace_notes WHERE event_seq = ?1 AND what = ?2";
        connection.query_row(sql, params![event, kind.as_str()], |row| row.get(0)).unwrap()
    }

    #[test]
    fn an_event_has_so_many_notes_and_no_more_whatever_writes_them() {
        let connection = with_tables();
        let notes = |event: i64| -> u32 {
            NoteKind::ALL.into_iter().map(|kind| notes_of(&connection, event, kind)).sum()
        };
        let write_each = |event: i64| {
            note(&connection, event, Millis(1), NoteKind::Nacked, "no").unwrap();
            note_earlier_claim(&connection, event).unwrap();
            note_earlier_lease(&connection, event).unwrap();
        };
        write_each(1);
        assert_eq!(notes(1), 3);
        (0..TRACE_NOTES_MAX).for_each(|_| write_each(1));
        assert_eq!(notes(1), TRACE_NOTES_MAX + TRACE_NOTES_KEPT);
        (0..TRACE_NOTES_MAX).for_each(|_| note(&connection, 1, Millis(1), NoteKind::Dead, "no").unwrap());
        assert_eq!(notes(1), TRACE_NOTES_MAX + 2 * TRACE_NOTES_KEPT);
        write_each(2);
        assert_eq!(notes(2), 2, "another event has its own, and was not claimed before");
    }

    #[test]
    fn however_often_a_message_was_leased_it_is_noted_how_it_went_and_how_it_ended() {
        let connection = with_tables();
        let has = |kind: NoteKind| notes_of(&connection, 1, kind) > 0;
        (0..TRACE_NOTES_MAX + 5).for_each(|_| note_earlier_lease(&connection, 1).unwrap());
        for kind in NoteKind::ALL {
            note(&connection, 1, Millis(1), kind, "so it was").unwrap();
            assert!(has(kind) || kind == NoteKind::Claimed, "{kind:?}");
        }
        for kind in [NoteKind::Nacked, NoteKind::Requeued] {
            (0..TRACE_NOTES_MAX).for_each(|_| note(&connection, 2, Millis(1), kind, "again").unwrap());
        }
        for kind in [NoteKind::Dead, NoteKind::Discarded] {
            note(&connection, 2, Millis(1), kind, "the end").unwrap();
            assert_eq!(notes_of(&connection, 2, kind), 1, "{kind:?}");
        }
    }
}
