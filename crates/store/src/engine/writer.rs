//! The one writer: drains what waits, gives each request a savepoint, commits once, then answers.
//!
//! Throughput comes from sharing the fsync, durability from answering only after it. No timer: an idle
//! writer commits a lone request at once, a busy one finds the next batch already waiting.

use crate::StoreError;
use crate::engine::capacity::Capacity;
use crate::engine::health::HealthFlag;
use crate::engine::open::BUSY_TIMEOUT;
use crate::engine::savepoint;
use crate::flow::outbox::bell::OutboxBell;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TrySendError};
use fail::fail_point;
use rusqlite::Connection;
use rusqlite::config::DbConfig;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Most requests one transaction carries; bounds the time the first of them waits.
const BATCH_MAX: usize = 512;
/// Most requests that wait: more than all callers together can have in hand, so that none is refused for another's sake.
const WAITING_MAX: usize = BATCH_MAX * 16;
/// How long nothing was written before the log is folded into the database: short enough that a copy of the folder or a
/// kill finds little in it, long enough that nobody who talks waits for it.
const FOLD_AFTER_IDLE: Duration = Duration::from_secs(2);
/// How often a broken database is opened anew.
const REOPEN_EVERY: Duration = Duration::from_millis(250);

/// A request that ran: its error, if it had one, and who waits for the answer.
struct Ran {
    failed: Option<StoreError>,
    answer: Box<dyn FnOnce(Result<(), StoreError>) + Send>,
}

trait Job: Send {
    fn run(self: Box<Self>, connection: &Connection) -> Ran;
    fn refuse(self: Box<Self>, error: StoreError);
}

struct Request<T, F> {
    work: F,
    asker: oneshot::Sender<Result<T, StoreError>>,
}

impl<T, F> Job for Request<T, F>
where
    T: Send + 'static,
    F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
{
    fn run(self: Box<Self>, connection: &Connection) -> Ran {
        let Self { work, asker } = *self;
        let result = unbroken(|| work(connection));
        let failed = result.as_ref().err().cloned();
        // The asker may have gone away meanwhile; the commit stands either way.
        let answer =
            Box::new(move |committed: Result<(), StoreError>| drop(asker.send(committed.and(result))));
        Ran { failed, answer }
    }

    fn refuse(self: Box<Self>, error: StoreError) {
        drop(self.asker.send(Err(error)));
    }
}

pub(crate) type Reopen = Box<dyn FnMut() -> Result<Connection, StoreError> + Send>;

enum Message {
    Run(Box<dyn Job>),
    /// Finish what was sent before, fold the log in and end.
    Close,
}

/// Handle to the writer thread; clones share it.
#[derive(Clone)]
pub(crate) struct Writer {
    messages: Sender<Message>,
}

impl Writer {
    pub(crate) fn spawn(
        connection: Connection,
        reopen: Reopen,
        health: HealthFlag,
        bell: OutboxBell,
        capacity: Capacity,
    ) -> Result<(Self, JoinHandle<()>), StoreError> {
        let (messages, waiting) = crossbeam_channel::bounded(WAITING_MAX);
        let thread = std::thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || {
                let log = Log::HasFrames;
                let connection = Some(connection);
                Loop { connection, reopen, health, bell, capacity, last_reopen: None, log }.run(&waiting)
            })
            .map_err(|error| StoreError::Unavailable(format!("cannot start the writer thread: {error}")))?;
        Ok((Self { messages }, thread))
    }

    /// Runs `work` in the next group commit and returns its value once that commit is on disk.
    pub(crate) async fn write<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        let (asker, answer) = oneshot::channel();
        self.messages.try_send(Message::Run(Box::new(Request { work, asker }))).map_err(|refused| {
            match refused {
                TrySendError::Full(_) => StoreError::Unavailable("too many writes are waiting".to_owned()),
                TrySendError::Disconnected(_) => StoreError::Closed,
            }
        })?;
        answer.await.map_err(|_| StoreError::Closed)?
    }

    /// Ends the writer after everything sent before; later writes are `Closed`.
    pub(crate) fn close(&self) {
        // A writer that is gone already needs no telling.
        drop(self.messages.send(Message::Close));
    }
}

struct Loop {
    connection: Option<Connection>,
    reopen: Reopen,
    health: HealthFlag,
    bell: OutboxBell,
    capacity: Capacity,
    last_reopen: Option<Instant>,
    log: Log,
}

/// Whether the write-ahead log may hold anything.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Log {
    Folded,
    HasFrames,
}

impl Loop {
    fn run(mut self, waiting: &Receiver<Message>) {
        let mut closing = false;
        while !closing {
            let next = match self.log {
                Log::Folded => waiting.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Log::HasFrames => waiting.recv_timeout(FOLD_AFTER_IDLE),
            };
            let first = match next {
                Ok(first) => first,
                Err(RecvTimeoutError::Timeout) => {
                    self.fold();
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => break,
            };
            let mut batch = Vec::new();
            for message in std::iter::once(first).chain(waiting.try_iter().take(BATCH_MAX - 1)) {
                match message {
                    Message::Run(job) => batch.push(job),
                    Message::Close => closing = true,
                }
            }
            if !batch.is_empty() {
                self.log = Log::HasFrames;
                self.commit_together(batch);
            }
        }
        if self.health.damage().is_some() {
            self.leave_untouched();
        }
        if let Some(connection) = self.connection.take() {
            // A clean stop leaves no log behind to replay; failing to do so loses nothing.
            if let Err(error) = connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)") {
                tracing::warn!(%error, "The write-ahead log could not be folded in at the stop");
            }
        }
    }

    /// Empties the log while nobody writes. Whoever reads just now makes it wait for the next idle moment, never a write.
    fn fold(&mut self) {
        // The log may hold the last good copy of a page, and whoever saves the file saves both.
        if self.health.damage().is_some() {
            self.log = Log::Folded;
            return;
        }
        let Some(connection) = &self.connection else {
            // What comes next opens the database again, and that empties the log.
            self.log = Log::Folded;
            return;
        };
        self.capacity.measure(connection);
        match fold_now(connection) {
            Ok(log) => self.log = log,
            Err(error) => {
                // It is tried again after the next write, which finds out whether the disk is well.
                tracing::warn!(%error, "The write-ahead log could not be folded in");
                self.log = Log::Folded;
            }
        }
    }

    fn commit_together(&mut self, batch: Vec<Box<dyn Job>>) {
        // A write finds its way by the pages that are there: in a damaged file it could destroy what can still be read.
        if let Some(reason) = self.health.damage() {
            return refuse_all(batch, &StoreError::FileDamaged(reason));
        }
        let connection = match self.healthy_connection() {
            Ok(connection) => connection,
            Err(error) => return refuse_all(batch, &error),
        };
        if let Err(error) = execute(connection, "BEGIN IMMEDIATE") {
            // Nothing was written, so the connection is still good: another process holds the lock.
            self.health.unwell(&error);
            return refuse_all(batch, &error);
        }
        let mut answers = Vec::with_capacity(batch.len());
        let mut spoiled = None;
        let mut jobs = batch.into_iter();
        for job in jobs.by_ref() {
            let ran = run_in_savepoint(connection, job);
            let error = ran.failed.clone();
            answers.push(ran.answer);
            spoiled = error.filter(|error| error.spoils_batch() || connection.is_autocommit());
            if spoiled.is_some() {
                break;
            }
        }
        let outcome = match spoiled {
            Some(error) => Err(error),
            None => {
                fail_point!("store.before_commit");
                execute(connection, "COMMIT")
            }
        };
        if let Err(error) = &outcome {
            self.bell.forget();
            self.capacity.forget();
            self.give_up_transaction(error);
        } else {
            fail_point!("store.after_commit");
            self.health.well();
            self.capacity.settle();
            self.bell.ring();
        }
        for answer in answers {
            answer(outcome.clone());
        }
        match outcome {
            Ok(()) => self.measure_when_due(),
            Err(error) => refuse_all(jobs, &error),
        }
    }

    /// After the answers, so that nobody who writes waits for it.
    fn measure_when_due(&self) {
        if let Some(connection) = self.connection.as_ref().filter(|_| self.capacity.is_due()) {
            self.capacity.measure(connection);
        }
    }

    /// Closes the connection of a damaged database without the checkpoint that closing the last one makes.
    fn leave_untouched(&mut self) {
        let Some(connection) = self.connection.take() else { return };
        if let Err(error) = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true) {
            tracing::warn!(%error, "The log of the damaged database may be folded in at the stop");
        }
    }

    fn give_up_transaction(&mut self, error: &StoreError) {
        self.health.unwell(error);
        if self.health.damage().is_some() {
            self.leave_untouched();
        }
        tracing::error!(%error, "A group of writes was given up; nothing of it was acknowledged");
        // After a failed fsync the kernel may drop the dirty pages, so the same connection must not go on
        // as if a retry could help: it is closed and the file is opened and checked anew.
        self.connection = None;
    }

    fn healthy_connection(&mut self) -> Result<&Connection, StoreError> {
        if self.connection.is_none() {
            if self.last_reopen.is_some_and(|at| at.elapsed() < REOPEN_EVERY) {
                return Err(StoreError::Unavailable("the database is being opened again".to_owned()));
            }
            self.last_reopen = Some(Instant::now());
            self.connection = Some((self.reopen)().inspect_err(|error| self.health.unwell(error))?);
        }
        self.connection.as_ref().ok_or(StoreError::Closed)
    }
}

fn fold_now(connection: &Connection) -> Result<Log, StoreError> {
    connection.busy_timeout(Duration::ZERO)?;
    let folded = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, bool>(0));
    connection.busy_timeout(BUSY_TIMEOUT)?;
    Ok(if folded? { Log::HasFrames } else { Log::Folded })
}

fn run_in_savepoint(connection: &Connection, job: Box<dyn Job>) -> Ran {
    if let Err(error) = execute(connection, "SAVEPOINT request") {
        let refusal = error.clone();
        return Ran { failed: Some(error), answer: Box::new(move |_| job.refuse(refusal)) };
    }
    let mut ran = job.run(connection);
    // After a full disk SQLite may have rolled everything back already; then there is no savepoint to close, and what the
    // request thinks it wrote is gone.
    if connection.is_autocommit() {
        // All of the batch are told what failed, and what is wrong with the row of one is not it.
        ran.failed = Some(ran.failed.filter(StoreError::spoils_batch).unwrap_or_else(savepoint::lost));
        return ran;
    }
    let undone = if ran.failed.is_some() { execute(connection, "ROLLBACK TO request") } else { Ok(()) };
    if let Err(error) = undone.and_then(|()| execute(connection, "RELEASE request")) {
        ran.failed = Some(error);
    }
    ran
}

/// A request that panics is a fault of its own: the writer goes on, and what it changed is undone.
pub(crate) fn unbroken<T>(work: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let words = panic.downcast_ref::<String>().map(String::as_str);
        let words = words.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no reason given");
        Err(StoreError::Fault(format!("a request panicked: {words}")))
    })
}

fn refuse_all(batch: impl IntoIterator<Item = Box<dyn Job>>, error: &StoreError) {
    for job in batch {
        job.refuse(error.clone());
    }
}

fn execute(connection: &Connection, sql: &str) -> Result<(), StoreError> {
    connection.prepare_cached(sql)?.execute([])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_whose_transaction_is_gone_never_tells_the_others_of_its_own_damaged_row() {
        let damaged = || StoreError::Damaged("a row".to_owned());
        let full = || StoreError::Unavailable("disk I/O error".to_owned());
        for (said, told) in [(damaged(), savepoint::lost()), (full(), full())] {
            let connection = Connection::open_in_memory().unwrap();
            connection.execute_batch("BEGIN").unwrap();
            let (asker, _answer) = oneshot::channel::<Result<(), StoreError>>();
            // What SQLite does by itself when a statement meets a disk that fails.
            let work = move |connection: &Connection| {
                connection.execute_batch("ROLLBACK")?;
                Err(said)
            };
            let ran = run_in_savepoint(&connection, Box::new(Request { work, asker }));
            assert_eq!(ran.failed, Some(told));
        }
    }
}
