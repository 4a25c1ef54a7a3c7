//! How much the store may hold: events that wait and bytes of the database, counted by the writer and asked at every door.
//!
//! A door reads two numbers in memory. The writer counts what came and went as it goes, and looks at the rows now and
//! then, because what came and went in other ways is not worth a counter of its own.

use crate::StoreError;
use cortex_types::limits::{RESERVED_DATABASE_BYTES, RESERVED_QUEUED_EVENTS};
use cortex_types::{CLI_SOURCE, NewEvent, Standing};
use rusqlite::Connection;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How often the rows are counted while there is room, and while there is little.
const MEASURE_EVERY: Duration = Duration::from_secs(2);
const MEASURE_OFTEN: Duration = Duration::from_millis(250);
/// What an event takes beside its words, roughly.
const EVENT_BYTES: usize = 1_024;
const MIB: u64 = 1024 * 1024;

/// What the settings allow; `u64::MAX` is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreLimits {
    /// Events that wait for their turn or are in it.
    pub queued_events_max: u64,
    pub database_bytes_max: u64,
}

impl StoreLimits {
    pub fn none() -> Self {
        Self { queued_events_max: u64::MAX, database_bytes_max: u64::MAX }
    }
}

/// The limit that is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    QueuedEvents { max: u64 },
    Database { max_bytes: u64 },
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::QueuedEvents { max } => write!(
                f,
                "{max} events wait to be answered, and maxQueuedEvents allows no more: wait until some are \
                 answered, or raise maxQueuedEvents and restart"
            ),
            Self::Database { max_bytes } => write!(
                f,
                "the database holds {} MiB, and maxDatabaseMiB allows no more: raise maxDatabaseMiB, or lower \
                 turnTtlDays so that old conversations are dropped, and restart",
                max_bytes / MIB
            ),
        }
    }
}

/// How much of the limits is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreUse {
    pub queued_events: u64,
    pub database_bytes: u64,
    pub limits: StoreLimits,
}

/// The counters; clones share them.
#[derive(Clone)]
pub(crate) struct Capacity(Arc<Counters>);

struct Counters {
    limits: StoreLimits,
    queued_events: AtomicU64,
    database_bytes: AtomicU64,
    started: Instant,
    /// When the rows were last counted, in milliseconds since `started`.
    measured_ms: AtomicU64,
}

impl Capacity {
    pub(crate) fn new(limits: StoreLimits) -> Self {
        Self(Arc::new(Counters {
            limits,
            queued_events: AtomicU64::new(0),
            database_bytes: AtomicU64::new(0),
            started: Instant::now(),
            measured_ms: AtomicU64::new(0),
        }))
    }

    /// Whether there is room for this event. The owner's own events and answers to questions may use a reserve, so that a
    /// person can still act when everybody else is kept out.
    pub(crate) fn admit(&self, new: &NewEvent) -> Result<(), Full> {
        let is_own = new.standing == Standing::Owner && new.source == CLI_SOURCE;
        let may_use_reserve = is_own || new.answer.is_some();
        let (events, bytes) =
            if may_use_reserve { (RESERVED_QUEUED_EVENTS, RESERVED_DATABASE_BYTES) } else { (0, 0) };
        self.full_beyond(events, bytes).map_or(Ok(()), Err)
    }

    pub(crate) fn full(&self) -> Option<Full> {
        self.full_beyond(0, 0)
    }

    fn full_beyond(&self, events: u64, bytes: u64) -> Option<Full> {
        let StoreUse { queued_events, database_bytes, limits } = self.usage();
        if queued_events >= limits.queued_events_max.saturating_add(events) {
            return Some(Full::QueuedEvents { max: limits.queued_events_max });
        }
        (database_bytes >= limits.database_bytes_max.saturating_add(bytes))
            .then_some(Full::Database { max_bytes: limits.database_bytes_max })
    }

    pub(crate) fn usage(&self) -> StoreUse {
        StoreUse {
            queued_events: self.0.queued_events.load(Ordering::Relaxed),
            database_bytes: self.0.database_bytes.load(Ordering::Relaxed),
            limits: self.0.limits,
        }
    }

    /// An event was accepted. What it takes is estimated until the pages are counted again, so that a flood of large ones
    /// meets its limit between two counts.
    pub(crate) fn arrived(&self, new: &NewEvent) {
        let bytes = EVENT_BYTES + new.text.len() + new.metadata_json.as_ref().map_or(0, String::len);
        self.0.queued_events.fetch_add(1, Ordering::Relaxed);
        self.0.database_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// An event waits no more.
    pub(crate) fn left(&self) {
        // A commit that fails afterwards makes it one too few: the next count mends it.
        let queued = &self.0.queued_events;
        let mut seen = queued.load(Ordering::Relaxed);
        while let Err(now) =
            queued.compare_exchange_weak(seen, seen.saturating_sub(1), Ordering::Relaxed, Ordering::Relaxed)
        {
            seen = now;
        }
    }

    /// Whether the rows should be counted again.
    pub(crate) fn is_due(&self) -> bool {
        let StoreUse { queued_events, database_bytes, limits } = self.usage();
        let nearly = |limit: u64| limit - limit / 8;
        let is_close = queued_events >= nearly(limits.queued_events_max)
            || database_bytes >= nearly(limits.database_bytes_max);
        let every = if is_close { MEASURE_OFTEN } else { MEASURE_EVERY };
        let measured = Duration::from_millis(self.0.measured_ms.load(Ordering::Relaxed));
        self.0.started.elapsed().saturating_sub(measured) >= every
    }

    /// Counts the rows and pages, on the writer's connection between two commits.
    pub(crate) fn measure(&self, connection: &Connection) {
        match measured(connection) {
            Ok((queued_events, database_bytes)) => {
                self.0.queued_events.store(queued_events, Ordering::Relaxed);
                self.0.database_bytes.store(database_bytes, Ordering::Relaxed);
            }
            // The numbers before stand; whoever writes next finds out what is wrong.
            Err(error) => tracing::debug!(%error, "How full the store is cannot be counted now"),
        }
        let now = u64::try_from(self.0.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.0.measured_ms.store(now, Ordering::Relaxed);
    }
}

/// Events that wait or run, and bytes of pages in use: those that were freed are used again before the file grows.
pub(crate) fn measured(connection: &Connection) -> Result<(u64, u64), StoreError> {
    let number = |sql: &str| -> Result<u64, StoreError> {
        Ok(connection.prepare_cached(sql)?.query_row([], |row| row.get(0))?)
    };
    let queued = number(
        "SELECT (SELECT count(*) FROM inbox_messages WHERE status = 'pending')
              + (SELECT count(*) FROM topics WHERE in_flight IS NOT NULL)",
    )?;
    let pages = number("PRAGMA page_count")?.saturating_sub(number("PRAGMA freelist_count")?);
    Ok((queued, pages.saturating_mul(number("PRAGMA page_size")?)))
}
