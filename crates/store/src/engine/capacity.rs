//! How much the store may hold: events that wait and bytes of the database, counted by the writer and asked at every door.
//!
//! A door reads numbers in memory. The writer counts what came and went with each commit, and looks at the rows now and
//! then, because what came and went in other ways is not worth a counter of its own.

mod strangers;

pub(crate) use strangers::count_strangers;

use crate::StoreError;
use crate::flow::topic::sharer;
use cortex_types::limits::{RESERVED_DATABASE_BYTES, RESERVED_QUEUED_EVENTS};
use cortex_types::{CLI_SOURCE, LOCAL_START, NewEvent, OPENAI_SOURCE, Standing, is_local, is_owners_source};
use rusqlite::Connection;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often the rows are counted while there is room, and while there is little.
const MEASURE_EVERY: Duration = Duration::from_secs(2);
const MEASURE_OFTEN: Duration = Duration::from_millis(250);
/// Counting takes at most this part of the writer's time, however much waits.
const MEASURE_PART: u32 = 20;
/// What an event takes beside its words, roughly.
const EVENT_BYTES: usize = 1_024;
const MIB: u64 = 1024 * 1024;
/// What part of the queue one source may have, and what part of queue and database all sources without a key together.
const SOURCE_PART: u64 = 2;
const STRANGERS_PART: u64 = 10;

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

    /// The part of the queue that a sharer may have.
    fn events_max_of(&self, sharer: &str) -> u64 {
        let part = if sharer == LOCAL_START { STRANGERS_PART } else { SOURCE_PART };
        (self.queued_events_max / part).max(1)
    }

    /// What all sources without a key together may fill of the database, with what they lead to.
    pub fn strangers_bytes_max(&self) -> u64 {
        if self.database_bytes_max == u64::MAX { u64::MAX } else { self.database_bytes_max / STRANGERS_PART }
    }
}

/// The limit that is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    QueuedEvents {
        max: u64,
    },
    /// One source has its part of the queue.
    EventsOfSource {
        max: u64,
    },
    /// The sources without a key have theirs together.
    EventsOfStrangers {
        max: u64,
    },
    Database {
        max_bytes: u64,
    },
    /// The sources without a key have filled theirs together.
    DatabaseOfStrangers {
        max_bytes: u64,
    },
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const WAIT: &str = "wait until some are answered, or raise maxQueuedEvents and restart";
        match self {
            Self::QueuedEvents { max } => {
                write!(f, "{max} events wait to be answered, and maxQueuedEvents allows no more: {WAIT}")
            }
            Self::EventsOfSource { max } => write!(
                f,
                "{max} events of this source wait to be answered, and one source may have no more than half of \
                 maxQueuedEvents: {WAIT}"
            ),
            Self::EventsOfStrangers { max } => write!(
                f,
                "{max} events of connectors without a key wait to be answered, and together they may have no more \
                 than a tenth of maxQueuedEvents: use a key, {WAIT}"
            ),
            Self::Database { max_bytes } => write!(
                f,
                "the database holds {} MiB, and maxDatabaseMiB allows no more: raise maxDatabaseMiB and restart (a \
                 lower turnTtlDays drops old history; what came in and what was sent is kept)",
                max_bytes / MIB
            ),
            Self::DatabaseOfStrangers { max_bytes } => write!(
                f,
                "connectors without a key have filled {} MiB of the database, and together they may have no more than \
                 a tenth of maxDatabaseMiB: use a key, or raise maxDatabaseMiB and restart",
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
    /// What sources without a key have filled of it, roughly.
    pub strangers_bytes: u64,
    pub limits: StoreLimits,
}

/// Whose room beyond the limits an event may use, so that a person can still act when everybody else is kept out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reserve {
    None,
    /// Of answers to questions, from sources that vouch for people: any program can make up a token.
    Answers,
    /// Of the owner's terminal, or of his programs.
    Owner,
}

impl Reserve {
    fn of(new: &NewEvent) -> Self {
        if new.standing == Standing::Owner && is_owners_source(&new.source) {
            Self::Owner
        } else if new.answer.is_some() && new.standing.vouches_for_people() {
            Self::Answers
        } else {
            Self::None
        }
    }

    fn bytes(self) -> u64 {
        match self {
            Self::None => 0,
            Self::Answers => RESERVED_DATABASE_BYTES / 2,
            Self::Owner => RESERVED_DATABASE_BYTES,
        }
    }
}

/// Events that wait or run, in all and by who shares the queue.
#[derive(Default)]
struct QueuedBySharer {
    all: u64,
    by_sharer: BTreeMap<String, u64>,
}

impl QueuedBySharer {
    fn of(&self, sharer: &str) -> u64 {
        self.by_sharer.get(sharer).copied().unwrap_or_default()
    }

    fn add(&mut self, sharer: String, events: u64) {
        self.all += events;
        *self.by_sharer.entry(sharer).or_default() += events;
    }

    fn drop_one(&mut self, sharer: &str) {
        self.all = self.all.saturating_sub(1);
        if let Some(events) = self.by_sharer.get_mut(sharer) {
            *events = events.saturating_sub(1);
        }
    }

    /// The limit that keeps this event out of the queue, beside what a transaction has changed and not committed yet.
    fn full_for(&self, new: &NewEvent, limits: &StoreLimits, staged: &[QueueChange]) -> Option<Full> {
        let sharer = sharer(&new.source);
        let own = self.of(&sharer) + arrivals(staged, |by| by == sharer);
        let (all, beyond) = match Reserve::of(new) {
            Reserve::Owner if own < RESERVED_QUEUED_EVENTS => return None,
            Reserve::Owner | Reserve::None => (self.all + arrivals(staged, |_| true), 0),
            // What the owner has beyond the limit takes no room from them.
            Reserve::Answers => (
                self.all.saturating_sub(self.of(CLI_SOURCE) + self.of(OPENAI_SOURCE))
                    + arrivals(staged, |by| by != CLI_SOURCE && by != OPENAI_SOURCE),
                RESERVED_QUEUED_EVENTS,
            ),
        };
        let max = limits.queued_events_max;
        if all >= max.saturating_add(beyond) {
            return Some(Full::QueuedEvents { max });
        }
        let max = limits.events_max_of(&sharer);
        let is_stranger = sharer == LOCAL_START;
        (own >= max.saturating_add(beyond)).then_some(if is_stranger {
            Full::EventsOfStrangers { max }
        } else {
            Full::EventsOfSource { max }
        })
    }
}

/// How many events of these sharers came with a transaction. What left with it counts once it is committed.
fn arrivals(staged: &[QueueChange], is_counted: impl Fn(&str) -> bool) -> u64 {
    let is_arrival =
        |change: &&QueueChange| matches!(change, QueueChange::Arrived { sharer, .. } if is_counted(sharer));
    staged.iter().filter(is_arrival).count() as u64
}

/// What a transaction does to the queue.
enum QueueChange {
    Arrived { sharer: String, bytes: u64 },
    Left { sharer: String },
}

thread_local! {
    /// The changes of the transaction at hand. There is one writer thread, so they are that one's.
    static CHANGES: RefCell<Vec<QueueChange>> = const { RefCell::new(Vec::new()) };
}

/// An event was accepted. What it takes is estimated until the pages are counted again, so that a flood of large ones
/// meets its limit between two counts.
pub(crate) fn arrived(new: &NewEvent) {
    let bytes = EVENT_BYTES + new.text.len() + new.metadata_json.as_ref().map_or(0, String::len);
    let change = QueueChange::Arrived { sharer: sharer(&new.source), bytes: bytes as u64 };
    CHANGES.with_borrow_mut(|changes| changes.push(change));
}

/// An event of this source waits no more.
pub(crate) fn left(source: &str) {
    CHANGES.with_borrow_mut(|changes| changes.push(QueueChange::Left { sharer: sharer(source) }));
}

/// The counters; clones share them.
#[derive(Clone)]
pub(crate) struct Capacity(Arc<Counters>);

struct Counters {
    limits: StoreLimits,
    queued: Mutex<QueuedBySharer>,
    database_bytes: AtomicU64,
    strangers_bytes: AtomicU64,
    started: Instant,
    /// When the rows may be counted next while there is room, and while there is little, in milliseconds since `started`.
    due_ms: AtomicU64,
    due_soon_ms: AtomicU64,
}

impl Capacity {
    pub(crate) fn new(limits: StoreLimits) -> Self {
        Self(Arc::new(Counters {
            limits,
            queued: Mutex::default(),
            database_bytes: AtomicU64::new(0),
            strangers_bytes: AtomicU64::new(0),
            started: Instant::now(),
            due_ms: AtomicU64::new(0),
            due_soon_ms: AtomicU64::new(0),
        }))
    }

    fn queued(&self) -> MutexGuard<'_, QueuedBySharer> {
        self.0.queued.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is room for this event, as far as commits tell: whoever finds none need not wait for the writer.
    pub(crate) fn admit(&self, new: &NewEvent) -> Result<(), Full> {
        if let Some(full) = self.queued().full_for(new, &self.0.limits, &[]) {
            return Err(full);
        }
        let full = self.full_of_bytes(Reserve::of(new).bytes());
        full.or_else(|| self.full_of_strangers(new, self.usage().strangers_bytes)).map_or(Ok(()), Err)
    }

    /// The limit that an event meets inside the transaction that keeps it: of many that came at once, each finds what the
    /// others took.
    pub(crate) fn full_beside_staged(
        &self,
        connection: &Connection,
        new: &NewEvent,
    ) -> Result<Option<Full>, StoreError> {
        let full = CHANGES.with_borrow(|staged| {
            let queued = self.queued();
            // Counting them one by one is for the few moments in which it could matter.
            let is_far =
                queued.all + (staged.len() as u64) < self.0.limits.queued_events_max / STRANGERS_PART;
            if is_far { None } else { queued.full_for(new, &self.0.limits, staged) }
        });
        if full.is_some() || !is_local(&new.source) {
            return Ok(full);
        }
        Ok(self.full_of_strangers(new, strangers::bytes_mended(connection)?))
    }

    /// The limit that keeps out everybody who has no reserve.
    pub(crate) fn full(&self) -> Option<Full> {
        let StoreUse { queued_events, limits, .. } = self.usage();
        if queued_events >= limits.queued_events_max {
            return Some(Full::QueuedEvents { max: limits.queued_events_max });
        }
        self.full_of_bytes(0)
    }

    fn full_of_bytes(&self, beyond: u64) -> Option<Full> {
        let StoreUse { database_bytes, limits, .. } = self.usage();
        (database_bytes >= limits.database_bytes_max.saturating_add(beyond))
            .then_some(Full::Database { max_bytes: limits.database_bytes_max })
    }

    fn full_of_strangers(&self, new: &NewEvent, used: u64) -> Option<Full> {
        let max_bytes = self.0.limits.strangers_bytes_max();
        (is_local(&new.source) && used >= max_bytes).then_some(Full::DatabaseOfStrangers { max_bytes })
    }

    pub(crate) fn usage(&self) -> StoreUse {
        StoreUse {
            queued_events: self.queued().all,
            database_bytes: self.0.database_bytes.load(Ordering::Relaxed),
            strangers_bytes: self.0.strangers_bytes.load(Ordering::Relaxed),
            limits: self.0.limits,
        }
    }

    /// Called by the writer after a commit.
    pub(crate) fn settle(&self) {
        let changes = CHANGES.take();
        if changes.is_empty() {
            return;
        }
        let mut queued = self.queued();
        for change in changes {
            match change {
                QueueChange::Arrived { sharer, bytes } => {
                    queued.add(sharer, 1);
                    self.0.database_bytes.fetch_add(bytes, Ordering::Relaxed);
                }
                QueueChange::Left { sharer } => queued.drop_one(&sharer),
            }
        }
    }

    /// Called by the writer after a transaction that was given up.
    pub(crate) fn forget(&self) {
        drop(CHANGES.take());
    }

    /// Whether the rows should be counted again.
    pub(crate) fn is_due(&self) -> bool {
        let StoreUse { queued_events, database_bytes, strangers_bytes: _, limits } = self.usage();
        let nearly = |limit: u64| limit - limit / 8;
        let is_close = queued_events >= nearly(limits.queued_events_max)
            || database_bytes >= nearly(limits.database_bytes_max);
        let due = if is_close { &self.0.due_soon_ms } else { &self.0.due_ms };
        millis(self.0.started.elapsed()) >= due.load(Ordering::Relaxed)
    }

    /// Counts the rows and pages, on the writer's connection between two commits.
    pub(crate) fn measure(&self, connection: &Connection) {
        let began = Instant::now();
        match counted(connection) {
            Ok(found) => {
                *self.queued() = found.queued;
                self.0.database_bytes.store(found.database_bytes, Ordering::Relaxed);
            }
            // The numbers before stand; whoever writes next finds out what is wrong.
            Err(error) => tracing::debug!(%error, "How full the store is cannot be counted now"),
        }
        // By itself: the limits of everybody must not hang on one row.
        match strangers::bytes_mended(connection) {
            Ok(bytes) => self.0.strangers_bytes.store(bytes, Ordering::Relaxed),
            Err(error) => {
                tracing::error!(%error, "What connectors without a key have filled cannot be counted now");
            }
        }
        let (now, pause) = (self.0.started.elapsed(), began.elapsed() * MEASURE_PART);
        for (due, every) in [(&self.0.due_ms, MEASURE_EVERY), (&self.0.due_soon_ms, MEASURE_OFTEN)] {
            due.store(millis(now + every.max(pause)), Ordering::Relaxed);
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// What the rows and pages say.
struct Counted {
    queued: QueuedBySharer,
    database_bytes: u64,
}

/// How much of its limits a database uses, whoever serves it.
pub(crate) fn measured(connection: &Connection) -> Result<StoreUse, StoreError> {
    let Counted { queued, database_bytes } = counted(connection)?;
    let strangers_bytes = strangers::bytes(connection)?;
    let limits = StoreLimits::none();
    Ok(StoreUse { queued_events: queued.all, database_bytes, strangers_bytes, limits })
}

fn counted(connection: &Connection) -> Result<Counted, StoreError> {
    let number = |sql: &str| -> Result<u64, StoreError> {
        Ok(connection.prepare_cached(sql)?.query_row([], |row| row.get(0))?)
    };
    let mut queued = QueuedBySharer::default();
    // Pending events are counted in their index alone; a topic says whose they are.
    let mut waiting = connection.prepare_cached(
        "SELECT t.source, sum(p.events)
         FROM (SELECT topic_id, count(*) AS events FROM inbox_messages WHERE status = 'pending' GROUP BY topic_id) p
         JOIN topics t ON t.id = p.topic_id GROUP BY t.source
         UNION ALL
         SELECT source, count(*) FROM topics WHERE in_flight IS NOT NULL GROUP BY source",
    )?;
    let mut rows = waiting.query([])?;
    while let Some(row) = rows.next()? {
        queued.add(sharer(row.get_ref(0)?.as_str().unwrap_or_default()), row.get(1)?);
    }
    // Pages that were freed are used again before the file grows.
    let pages = number("PRAGMA page_count")?.saturating_sub(number("PRAGMA freelist_count")?);
    Ok(Counted { queued, database_bytes: pages.saturating_mul(number("PRAGMA page_size")?) })
}
