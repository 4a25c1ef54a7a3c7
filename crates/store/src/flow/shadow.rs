//! The shadow report: for each event what would have been sent, beside what was.

use crate::flow::outbox::{self, OutboxMessage};
use crate::{Store, StoreError, flow::inbox};
use cortex_types::Event;
use rusqlite::Connection;

/// An event with something that a mode kept back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShadowedEvent {
    pub event: Event,
    /// All it led to: suppressed and sent.
    pub messages: Vec<OutboxMessage>,
}

impl Store {
    /// The newest events of which something was suppressed.
    pub async fn shadow_report(&self, limit: u32) -> Result<Vec<ShadowedEvent>, StoreError> {
        self.read(move |connection| report(connection, limit)).await
    }
}

fn report(connection: &Connection, limit: u32) -> Result<Vec<ShadowedEvent>, StoreError> {
    let events = connection
        .prepare_cached(
            "SELECT DISTINCT event_seq FROM outbox_messages
             WHERE status = 'suppressed' AND event_seq IS NOT NULL ORDER BY seq DESC LIMIT ?1",
        )?
        .query_map([limit], |row| row.get::<_, i64>(0))?
        .collect::<Result<Vec<_>, _>>()?;
    let load = |seq| {
        Ok(ShadowedEvent {
            event: inbox::by_seq(connection, seq)?,
            messages: outbox::of_event(connection, seq)?,
        })
    };
    events.into_iter().map(load).collect()
}
