//! A store on a temporary folder that can be stopped, killed and opened again, and rows to put into it.

#![expect(clippy::expect_used, reason = "tests fail by panicking")]

use cortex_store::{FinishedTurn, OpenError, Store, StoreConfig, StoreThread, TurnEnd};
use cortex_types::{EventId, Millis, NewEvent, NewReply, OutboxId, Priority, Standing, TopicRef};
use std::fs;
use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use tempfile::TempDir;
use ulid::Ulid;

const DATABASE: &str = "cortex.db";

/// A real store in a folder that goes away with it. Reads as the `Store` it holds.
pub struct TempStore {
    folder: TempDir,
    open: Option<(Store, StoreThread)>,
}

impl TempStore {
    /// A new, empty store; in memory where the system offers that, since tests make many.
    pub fn create() -> Self {
        Self::open_in(memory_folder()).expect("a new store opens")
    }

    /// Opens the database that lies in `folder`, or creates it there.
    pub fn open_in(folder: TempDir) -> Result<Self, OpenError> {
        let open = Store::open(StoreConfig::at(folder.path().join(DATABASE)))?;
        Ok(Self { folder, open: Some(open) })
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join(DATABASE)
    }

    /// A clean stop: every write is folded into the database, the folder stays.
    pub fn stop(mut self) -> TempDir {
        self.close();
        std::mem::replace(&mut self.folder, memory_folder())
    }

    /// A clean stop and a start on the same files.
    pub fn restart(&mut self) {
        self.close();
        self.open = Some(Store::open(StoreConfig::at(self.path())).expect("a stopped store opens again"));
    }

    /// The files as a kill would leave them now, log and all, in a folder of their own.
    pub fn crash_image(&self) -> TempDir {
        let image = memory_folder();
        copy_files(self.folder.path(), image.path()).expect("the database can be copied");
        image
    }

    /// What a kill and a start do: nothing that was not committed comes along.
    pub fn crash(&mut self) {
        let image = self.crash_image();
        *self = Self::open_in(image).expect("a killed store opens again");
    }

    fn close(&mut self) {
        if let Some((store, thread)) = self.open.take() {
            drop(store);
            thread.close();
        }
    }
}

impl Deref for TempStore {
    type Target = Store;

    fn deref(&self) -> &Store {
        &self.open.as_ref().expect("a TempStore is open between its calls").0
    }
}

impl Drop for TempStore {
    fn drop(&mut self) {
        self.close();
    }
}

/// A temporary folder, in memory where the system offers that.
pub fn memory_folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    let in_memory = tempfile::Builder::new().prefix("cortex-").tempdir_in(memory);
    in_memory.or_else(|_| tempfile::tempdir()).expect("a temporary folder can be made")
}

/// Copies the database and then its log: a fold between the two only repeats what the log still holds.
fn copy_files(from: &Path, to: &Path) -> io::Result<()> {
    fs::copy(from.join(DATABASE), to.join(DATABASE))?;
    let log = format!("{DATABASE}-wal");
    match fs::copy(from.join(&log), to.join(&log)) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

pub fn topic(source: &str, key: &str) -> TopicRef {
    TopicRef { source: source.to_owned(), topic_key: key.to_owned() }
}

/// An event that was never seen before.
pub fn new_event(topic: &TopicRef, text: &str) -> NewEvent {
    let ulid = next_ulid();
    NewEvent {
        id: EventId::from_ulid(ulid),
        source: topic.source.clone(),
        external_message_id: format!("message {ulid}"),
        idempotency_key: format!("key {ulid}"),
        topic_key: topic.topic_key.clone(),
        user_id: "ada".to_owned(),
        text: text.to_owned(),
        occurred_at: Millis(1),
        metadata_json: None,
        priority: Priority::Normal,
        channel: None,
        relationship: None,
        standing: Standing::Owner,
        answer: None,
    }
}

/// The same message as a connector sends it again: all but the id we mint.
pub fn sent_again(first: &NewEvent) -> NewEvent {
    NewEvent { id: EventId::from_ulid(next_ulid()), ..first.clone() }
}

pub fn new_reply(topic: &TopicRef, text: &str) -> NewReply {
    NewReply {
        id: OutboxId::from_ulid(next_ulid()),
        topic: topic.clone(),
        text: text.to_owned(),
        payload_json: None,
    }
}

/// The end of a turn that says `text`.
pub fn answered(text: &str, replies: Vec<NewReply>) -> TurnEnd {
    TurnEnd::Answered(Box::new(FinishedTurn { content: text.to_owned(), replies, ..FinishedTurn::default() }))
}

fn next_ulid() -> Ulid {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    Ulid::from_parts(1, NEXT.fetch_add(1, Ordering::Relaxed).into())
}
