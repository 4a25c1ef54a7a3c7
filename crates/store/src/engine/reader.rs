//! Read-only connections on their own threads, so that listing never waits behind a commit.

use crate::StoreError;
use crate::engine::health::HealthFlag;
use crate::engine::writer::unbroken;
use crossbeam_channel::Sender;
use rusqlite::Connection;
use tokio::sync::oneshot;

/// Enough for the routes of one server; each costs a thread and a page cache.
const READERS: usize = 2;
const WAITING_MAX: usize = 4_096;

type Query = Box<dyn FnOnce(&Connection) + Send>;

/// Handle to the reader threads; clones share them.
#[derive(Clone)]
pub(crate) struct Readers {
    queries: Sender<Query>,
    health: HealthFlag,
}

impl Readers {
    pub(crate) fn spawn(
        mut open: impl FnMut() -> Result<Connection, StoreError>,
        health: HealthFlag,
    ) -> Result<Self, StoreError> {
        let (queries, waiting) = crossbeam_channel::bounded::<Query>(WAITING_MAX);
        for number in 0..READERS {
            let connection = open()?;
            let waiting = waiting.clone();
            std::thread::Builder::new()
                .name(format!("store-reader-{number}"))
                .spawn(move || waiting.iter().for_each(|query| query(&connection)))
                .map_err(|error| StoreError::Unavailable(format!("cannot start a reader thread: {error}")))?;
        }
        Ok(Self { queries, health })
    }

    pub(crate) async fn read<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        let (asker, answer) = oneshot::channel();
        let health = self.health.clone();
        let query: Query = Box::new(move |connection| {
            let result = unbroken(|| work(connection));
            health.met(&result);
            drop(asker.send(result));
        });
        self.queries
            .try_send(query)
            .map_err(|_| StoreError::Unavailable("too many reads are waiting".to_owned()))?;
        answer.await.map_err(|_| StoreError::Closed)?
    }
}
