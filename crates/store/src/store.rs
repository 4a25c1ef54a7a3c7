//! The handle every other crate holds: one writer, a few readers, one door per noun.

use crate::door::connector::Connectors;
use crate::door::key::Keys;
use crate::engine::capacity::{Capacity, Full, StoreUse};
use crate::engine::health::{HealthFlag, StoreHealth};
use crate::engine::integrity::{self, Look};
use crate::engine::open::{self, OpenError, StoreConfig};
use crate::engine::reader::Readers;
use crate::engine::writer::Writer;
use crate::flow::approval::Approvals;
use crate::flow::channel::Channels;
use crate::flow::inbox::Inbox;
use crate::flow::outbox::Outbox;
use crate::flow::outbox::bell::OutboxBell;
use crate::flow::turn::Turns;
use crate::flow::watchdog::Watchdog;
use crate::mind::fact::Facts;
use crate::mind::gardener::GardenerDiary;
use crate::mind::history::History;
use crate::mind::index::MemoryIndex;
use crate::mind::summary::Summaries;
use crate::work::op::Ops;
use crate::work::schedule::Schedules;
use crate::work::tool_pin::ToolPins;
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
    capacity: Capacity,
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
        let health = HealthFlag::healthy();
        let readers =
            Readers::spawn(|| open::open_for_reading(&config.path), health.clone()).map_err(unusable)?;
        let capacity = Capacity::new(config.limits);
        capacity.measure(&connection);
        let reopened = config.clone();
        let reopen = Box::new(move || open::connect_again(&reopened));
        let bell = OutboxBell::default();
        let (writer, thread) =
            Writer::spawn(connection, reopen, health.clone(), bell.clone(), capacity.clone())
                .map_err(unusable)?;
        let closer = StoreThread { writer: writer.clone(), thread };
        let store = Self { writer, readers, health, bell, capacity, config: Arc::new(config) };
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

    pub(crate) fn capacity(&self) -> &Capacity {
        &self.capacity
    }

    /// How much of its limits the store uses, as the writer counted it last.
    pub fn usage(&self) -> StoreUse {
        self.capacity.usage()
    }

    /// The limit that keeps new events out, if one is reached.
    pub fn full(&self) -> Option<Full> {
        self.capacity.full()
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
        self.look(integrity::compare).await?;
        self.health.found_whole();
        Ok(())
    }

    /// Walks every page and compares nothing: a cheaper look, table by table, so that it never holds a snapshot for long.
    pub async fn check_structure(&self) -> Result<(), StoreError> {
        self.look(integrity::walk_by_table).await
    }

    async fn look(&self, look: fn(&mut Connection) -> Result<Look, StoreError>) -> Result<(), StoreError> {
        let path = self.config.path.clone();
        let (asker, answer) = tokio::sync::oneshot::channel();
        let check = move || {
            drop(asker.send(open::open_for_reading(&path).and_then(|mut connection| look(&mut connection))))
        };
        std::thread::Builder::new()
            .name("store-check".to_owned())
            .spawn(check)
            .map_err(|error| StoreError::Unavailable(format!("cannot start a thread: {error}")))?;
        let found = answer.await.map_err(|_| StoreError::Closed)?;
        let reason = match found {
            Ok(Look::Whole | Look::Unfinished) => return Ok(()),
            Ok(Look::Damaged(finding)) | Err(StoreError::FileDamaged(finding)) => {
                format!("{}: {finding}", self.config.path.display())
            }
            Err(other) => return Err(other),
        };
        self.health.damaged(&reason);
        Err(StoreError::FileDamaged(reason))
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
