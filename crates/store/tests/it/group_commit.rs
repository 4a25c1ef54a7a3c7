//! Many requests share one commit: none harms another, and nobody is answered before it.

use cortex_store::{StoreError, StoreHealth, TurnEnd};
use cortex_testkit::{TempStore, answered, new_event, topic};
use cortex_types::{AcceptedEvent, EventId, Millis};
use rusqlite::{Connection, OptionalExtension};
use std::collections::BTreeSet;
use std::path::Path;
use tokio::task::JoinSet;

const NOW: Millis = Millis(1_000);

/// Another process's write lock, held until dropped.
pub(crate) struct ForeignLock(Connection);

impl ForeignLock {
    pub(crate) fn take(database: &Path) -> Self {
        let connection = Connection::open(database).unwrap();
        connection.execute_batch("BEGIN IMMEDIATE").unwrap();
        Self(connection)
    }
}

impl Drop for ForeignLock {
    fn drop(&mut self) {
        self.0.execute_batch("ROLLBACK").unwrap();
    }
}

pub(crate) fn event_rows(connection: &Connection) -> i64 {
    connection.query_row("SELECT count(*) FROM inbox_messages", [], |row| row.get(0)).unwrap()
}

fn is_visible(connection: &Connection, id: &EventId) -> bool {
    let found = connection.query_row("SELECT 1 FROM inbox_messages WHERE id = ?1", [id.as_str()], |_| Ok(()));
    found.optional().unwrap().is_some()
}

#[tokio::test]
async fn a_failing_request_harms_no_other_of_its_batch() {
    let store = TempStore::create();
    let chat = topic("telegram", "chat");
    store.inbox().accept(new_event(&chat, "hello"), NOW).await.unwrap();
    let claimed = store.inbox().claim_next(1, NOW).await.unwrap().whole.remove(0);
    store.turns().finish_turn(&claimed.event, answered("hi", Vec::new()), Vec::new(), NOW).await.unwrap();

    // While a foreign lock holds the writer in its first batch, the rest piles up into one.
    let lock = ForeignLock::take(&store.path());
    let mut good = JoinSet::new();
    let mut bad = JoinSet::new();
    for number in 0..60 {
        let (writer, event) = (store.clone(), new_event(&topic("telegram", &format!("chat {number}")), "x"));
        good.spawn(async move { writer.inbox().accept(event, NOW).await });
        if number % 3 == 0 {
            let (writer, done) = (store.clone(), claimed.event.clone());
            bad.spawn(
                async move { writer.turns().finish_turn(&done, TurnEnd::Parked, Vec::new(), NOW).await },
            );
        }
    }
    tokio::task::yield_now().await;
    drop(lock);
    for answer in bad.join_all().await {
        assert!(matches!(answer, Err(StoreError::Fault(_))), "{answer:?}");
    }
    for answer in good.join_all().await {
        assert!(matches!(answer, Ok(AcceptedEvent::Queued(_))), "{answer:?}");
    }
    assert_eq!(store.inbox().counts().await.unwrap().pending, 60);
    assert_eq!(store.health(), StoreHealth::Healthy);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn five_hundred_events_at_once_are_all_kept() {
    let mut store = TempStore::create();
    let mut posts = JoinSet::new();
    for number in 0..500 {
        let chat = topic("telegram", &format!("chat {}", number % 7));
        let (writer, event) = (store.clone(), new_event(&chat, &number.to_string()));
        posts.spawn(async move { writer.inbox().accept(event, NOW).await.unwrap() });
    }
    let acked: BTreeSet<EventId> = posts
        .join_all()
        .await
        .into_iter()
        .map(|answer| match answer {
            AcceptedEvent::Queued(id) => id,
            AcceptedEvent::Duplicate { first, .. } => panic!("{first} was never sent before"),
            AcceptedEvent::ChannelOff | AcceptedEvent::NameRefused(_) => {
                panic!("the store knows no such answer")
            }
        })
        .collect();
    assert_eq!(acked.len(), 500);
    store.crash();
    let kept = store.inbox().list(None, cortex_store::PageRequest::newest(500)).await.unwrap().rows;
    assert_eq!(kept.into_iter().map(|event| event.id).collect::<BTreeSet<_>>(), acked);
}

#[tokio::test]
async fn an_answer_comes_only_after_others_can_see_the_commit() {
    let store = TempStore::create();
    let witness = Connection::open(store.path()).unwrap();
    for number in 0..100 {
        let event = new_event(&topic("telegram", &format!("chat {}", number % 5)), "hello");
        assert!(!is_visible(&witness, &event.id));
        store.inbox().accept(event.clone(), NOW).await.unwrap();
        assert!(is_visible(&witness, &event.id), "event {number} was answered before its commit");
    }
}

#[tokio::test]
async fn an_asker_that_goes_away_does_not_undo_the_commit() {
    let store = TempStore::create();
    let lock = ForeignLock::take(&store.path());
    let event = new_event(&topic("telegram", "chat"), "hello");
    let (writer, sent) = (store.clone(), event.clone());
    let asker = tokio::spawn(async move { writer.inbox().accept(sent, NOW).await });
    tokio::task::yield_now().await;
    asker.abort();
    drop(lock);
    store.probe().await.unwrap();
    let witness = Connection::open(store.path()).unwrap();
    assert!(is_visible(&witness, &event.id));
}

#[tokio::test]
async fn a_foreign_writer_makes_the_store_unavailable_until_it_lets_go() {
    let store = TempStore::create();
    let event = new_event(&topic("telegram", "chat"), "hello");
    let lock = ForeignLock::take(&store.path());
    let refused = store.inbox().accept(event.clone(), NOW).await;
    assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
    assert!(matches!(store.health(), StoreHealth::Degraded(_)));
    assert_eq!(store.inbox().counts().await.unwrap().pending, 0, "reads go on");

    drop(lock);
    assert_eq!(event_rows(&Connection::open(store.path()).unwrap()), 0, "no partial row");
    assert_eq!(store.inbox().accept(event.clone(), NOW).await, Ok(AcceptedEvent::Queued(event.id)));
    assert_eq!(store.health(), StoreHealth::Healthy);
}
