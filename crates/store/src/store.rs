//! The handle every other crate holds: one writer, a few readers, one door per noun.

use crate::health::{Health, HealthFlag};
use crate::inbox::Inbox;
use crate::key::Keys;
use crate::open::{self, OpenError, StoreConfig};
use crate::outbox::Outbox;
use crate::reader::Readers;
use crate::turn::Turns;
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
    config: Arc<StoreConfig>,
}

/// Ends the store: wait for it to know that every accepted write is folded into the database.
pub struct StoreThread(JoinHandle<()>);

impl StoreThread {
    /// Blocks until the writer is done; call it after the last `Store` is dropped.
    pub fn join(self) {
        if self.0.join().is_err() {
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
        let reopen = Box::new(move || open::connect(&reopened));
        let (writer, thread) = Writer::spawn(connection, reopen, health.clone()).map_err(unusable)?;
        let store = Self { writer, readers, health, config: Arc::new(config) };
        Ok((store, StoreThread(thread)))
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

    pub fn keys(&self) -> Keys<'_> {
        Keys(self)
    }

    pub fn health(&self) -> Health {
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

    /// Compares the whole file with itself; slow on a large one, so it runs beside the work.
    pub async fn check_integrity(&self) -> Result<(), StoreError> {
        let verdict = self
            .read(|connection| {
                Ok(connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get::<_, String>(0))?)
            })
            .await?;
        if verdict == "ok" {
            return Ok(());
        }
        let reason = format!("{}: {verdict}", self.config.path.display());
        self.health.set(Health::Degraded(format!("the database is damaged: {reason}")));
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
