//! The handle every other crate holds: one writer, a few readers, one door per noun.

use crate::approval::Approvals;
use crate::channel::Channels;
use crate::connector::Connectors;
use crate::fact::Facts;
use crate::gardener::GardenerDiary;
use crate::health::{HealthFlag, StoreHealth};
use crate::history::History;
use crate::inbox::Inbox;
use crate::key::Keys;
use crate::memory_index::MemoryIndex;
use crate::op::Ops;
use crate::open::{self, OpenError, StoreConfig};
use crate::outbox::Outbox;
use crate::outbox::bell::OutboxBell;
use crate::reader::Readers;
use crate::schedule::Schedules;
use crate::summary::Summaries;
use crate::tool_pin::ToolPins;
use crate::turn::Turns;
use crate::watchdog::Watchdog;
use crate::writer::Writer;
use crate::{OpenError as Refusal, StoreError};
use rusqlite::Connection;
use std::sync::Arc;
use std::thread::JoinHandle;

/// The database of one home. Clones share it.
#[derive(Clone)]
pub struct Store {
    writer: Writer,
    readers: Readers,
    health: HealthFlag,
    bell: OutboxBell,
    config: Arc<StoreConfig>,
}

/// Ends the store: wait for it to know that every accepted write is folded into the database.
pub struct StoreThread {
    writer: Writer,
    thread: JoinHandle<()>,
}

impl StoreThread {
    /// Closes the writer and blocks until it is done; whoever still holds a `Store` gets `Closed`.
    pub fn close(self) {
        self.writer.close();
        if self.thread.join().is_err() {
            tracing::error!("The store's writer ended by a panic");
        }
    }
}

impl Store {
    /// Opens or creates the database, migrates it and starts its threads.
    pub fn open(config: StoreConfig) -> Result<(Self, StoreThread), OpenError> {
        let connection = open::open_for_writing(&config)?;
        let unusable =
            |error: StoreError| Refusal::Unusable { path: config.path.clone(), reason: error.to_string() };
        let readers = Readers::spawn(|| open::open_for_reading(&config.path)).map_err(unusable)?;
        let health = HealthFlag::healthy();
        let reopened = config.clone();
        let reopen = Box::new(move || open::connect_again(&reopened));
        let bell = OutboxBell::default();
        let (writer, thread) =
            Writer::spawn(connection, reopen, health.clone(), bell.clone()).map_err(unusable)?;
        let closer = StoreThread { writer: writer.clone(), thread };
        let store = Self { writer, readers, health, bell, config: Arc::new(config) };
        Ok((store, closer))
    }

    pub fn inbox(&self) -> Inbox<'_> {
        Inbox(self)
    }

    pub fn turns(&self) -> Turns<'_> {
        Turns(self)
    }

    pub fn outbox(&self) -> Outbox<'_> {
        Outbox(self)
    }

    pub fn approvals(&self) -> Approvals<'_> {
        Approvals(self)
    }

    pub fn schedules(&self) -> Schedules<'_> {
        Schedules(self)
    }

    pub fn ops(&self) -> Ops<'_> {
        Ops(self)
    }

    pub fn gardener(&self) -> GardenerDiary<'_> {
        GardenerDiary(self)
    }

    pub fn facts(&self) -> Facts<'_> {
        Facts(self)
    }

    pub fn history(&self) -> History<'_> {
        History(self)
    }

    pub fn memory_index(&self) -> MemoryIndex<'_> {
        MemoryIndex(self)
    }

    pub fn connectors(&self) -> Connectors<'_> {
        Connectors(self)
    }

    pub fn channels(&self) -> Channels<'_> {
        Channels(self)
    }

    pub fn summaries(&self) -> Summaries<'_> {
        Summaries(self)
    }

    pub fn tool_pins(&self) -> ToolPins<'_> {
        ToolPins(self)
    }

    pub fn keys(&self) -> Keys<'_> {
        Keys(self)
    }

    pub fn watchdog(&self) -> Watchdog<'_> {
        Watchdog(self)
    }

    pub(crate) fn bell(&self) -> &OutboxBell {
        &self.bell
    }

    pub fn health(&self) -> StoreHealth {
        self.health.current()
    }

    /// Proves that a commit reaches the disk now; what readiness asks after a fault.
    pub async fn probe(&self) -> Result<(), StoreError> {
        self.write(|connection| {
            let version: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
            connection.pragma_update(None, "user_version", version)?;
            Ok(())
        })
        .await
    }

    /// Compares the whole file with itself. Slow on a large one, so it has a connection and thread of its own.
    pub async fn check_integrity(&self) -> Result<(), StoreError> {
        let path = self.config.path.clone();
        let (asker, answer) = tokio::sync::oneshot::channel();
        let check = move || {
            let verdict = open::open_for_reading(&path).and_then(|connection| {
                Ok(connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get::<_, String>(0))?)
            });
            drop(asker.send(verdict));
        };
        std::thread::Builder::new()
            .name("store-check".to_owned())
            .spawn(check)
            .map_err(|error| StoreError::Unavailable(format!("cannot start a thread: {error}")))?;
        let verdict = answer.await.map_err(|_| StoreError::Closed)?;
        let reason = match verdict {
            Ok(word) if word == "ok" => return Ok(()),
            Ok(finding) | Err(StoreError::Damaged(finding)) => {
                format!("{}: {finding}", self.config.path.display())
            }
            Err(other) => return Err(other),
        };
        self.health.set(StoreHealth::Degraded(format!("the database is damaged: {reason}")));
        Err(StoreError::Damaged(reason))
    }

    pub(crate) async fn write<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        self.writer.write(work).await
    }

    pub(crate) async fn read<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        self.readers.read(work).await
    }
}
