//! Raw rows: the same kind of group commit as the store's, over a table of a number and a text, and nothing else.

use super::keep_like_the_store;
use crate::BenchError;
use rusqlite::Connection;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use tokio::sync::oneshot;

/// Most requests one commit carries, as in the store.
const BATCH_MAX: usize = 512;
const BODY_BYTES: usize = 200;

struct Request {
    rows: usize,
    asker: oneshot::Sender<rusqlite::Result<()>>,
}

/// A writer thread that drains what waits, commits once with `synchronous=FULL` and then answers.
pub(crate) struct RawRows {
    requests: Sender<Request>,
    thread: JoinHandle<()>,
}

impl RawRows {
    pub(crate) fn open(path: &Path) -> Result<Self, BenchError> {
        let connection = Connection::open(path)?;
        keep_like_the_store(&connection)?;
        connection.execute_batch("CREATE TABLE raw_rows (seq INTEGER PRIMARY KEY, body TEXT NOT NULL)")?;
        let (requests, waiting) = channel();
        let thread = std::thread::Builder::new()
            .name("raw-rows".to_owned())
            .spawn(move || commit_together(&connection, &waiting))?;
        Ok(Self { requests, thread })
    }

    /// Returns once `rows` rows are on disk.
    pub(crate) async fn write(&self, rows: usize) -> Result<(), BenchError> {
        let gone = || BenchError::Broken("the raw rows' writer is gone".to_owned());
        let (asker, answer) = oneshot::channel();
        self.requests.send(Request { rows, asker }).map_err(|_| gone())?;
        Ok(answer.await.map_err(|_| gone())??)
    }

    pub(crate) fn close(self) -> Result<(), BenchError> {
        drop(self.requests);
        self.thread.join().map_err(|_| BenchError::Broken("the raw rows' writer panicked".to_owned()))
    }
}

fn commit_together(connection: &Connection, waiting: &Receiver<Request>) {
    let body = "x".repeat(BODY_BYTES);
    while let Ok(first) = waiting.recv() {
        let mut batch = vec![first];
        batch.extend(waiting.try_iter().take(BATCH_MAX - 1));
        let rows = batch.iter().map(|request| request.rows).sum();
        let mut failed = commit(connection, rows, &body).err();
        for request in batch {
            // An error cannot be cloned: the first asker gets it and ends the run for all.
            let answer = failed.take().map_or(Ok(()), Err);
            // Whoever went away meanwhile wanted no answer.
            drop(request.asker.send(answer));
        }
    }
}

fn commit(connection: &Connection, rows: usize, body: &str) -> rusqlite::Result<()> {
    connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
    let mut insert = connection.prepare_cached("INSERT INTO raw_rows(body) VALUES (?1)")?;
    for _ in 0..rows {
        insert.execute([body])?;
    }
    connection.prepare_cached("COMMIT")?.execute([])?;
    Ok(())
}
