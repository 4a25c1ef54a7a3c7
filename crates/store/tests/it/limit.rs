//! Limits on what waits and on what the file holds: new events are refused, everything else goes on.

use cortex_store::{Full, Store, StoreConfig, StoreError, StoreLimits, StoreThread};
use cortex_testkit::{answered, eventually, memory_folder, new_event, sent_again, topic};
use cortex_types::limits::RESERVED_QUEUED_EVENTS;
use cortex_types::{AcceptedEvent, GivenAnswer, Millis, NewEvent, Standing};
use tempfile::TempDir;

const NOW: Millis = Millis(1_000);

fn open(limits: StoreLimits) -> (TempDir, Store, StoreThread) {
    let folder = memory_folder();
    let config = StoreConfig { limits, ..StoreConfig::at(folder.path().join("cortex.db")) };
    let (store, thread) = Store::open(config).unwrap();
    (folder, store, thread)
}

fn at_most(queued_events_max: u64) -> StoreLimits {
    StoreLimits { queued_events_max, ..StoreLimits::none() }
}

fn said(source: &str, number: usize) -> NewEvent {
    let event = new_event(&topic(source, &format!("chat {number}")), "hello");
    NewEvent { standing: Standing::Key, ..event }
}

async fn is_full(store: &Store, event: NewEvent) -> bool {
    match store.inbox().accept(event, NOW).await {
        Ok(AcceptedEvent::Queued(_)) => false,
        Err(StoreError::Full(_)) => true,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_full_queue_refuses_new_events_until_some_are_answered() {
    let (_folder, store, _thread) = open(at_most(3));
    let first = said("telegram", 0);
    store.inbox().accept(first.clone(), NOW).await.unwrap();
    for number in 1..3 {
        assert!(!is_full(&store, said("telegram", number)).await);
    }
    assert_eq!(store.full(), Some(Full::QueuedEvents { max: 3 }));
    assert!(is_full(&store, said("telegram", 3)).await);
    let again = store.inbox().accept(sent_again(&first), NOW).await.unwrap();
    assert!(matches!(again, AcceptedEvent::Duplicate { same_body: true, .. }), "{again:?}");

    let claimed = store.inbox().claim_next(1, NOW).await.unwrap().whole.remove(0);
    assert!(is_full(&store, said("telegram", 3)).await, "what runs counts too");
    store.turns().finish_turn(&claimed.event, answered("hi", Vec::new()), Vec::new(), NOW).await.unwrap();
    assert_eq!(store.full(), None);
    assert!(!is_full(&store, said("telegram", 3)).await);
    assert!(is_full(&store, said("telegram", 4)).await);
}

#[tokio::test]
async fn the_owner_and_answers_to_questions_have_a_reserve_that_ends() {
    let (_folder, store, _thread) = open(at_most(1));
    assert!(!is_full(&store, said("telegram", 0)).await);
    assert!(is_full(&store, said("telegram", 1)).await);
    let own = |number| NewEvent { standing: Standing::Owner, ..said("cli", number) };
    let answer = Some(GivenAnswer { token_sha256: [7; 32], decision: None });
    assert!(!is_full(&store, NewEvent { answer, ..said("telegram", 2) }).await);
    for number in 1..RESERVED_QUEUED_EVENTS as usize {
        assert!(!is_full(&store, own(number)).await, "{number}");
    }
    assert!(is_full(&store, own(0)).await);
}

#[tokio::test]
async fn what_waits_is_counted_again_at_a_start() {
    let (folder, store, thread) = open(at_most(2));
    for number in 0..2 {
        assert!(!is_full(&store, said("telegram", number)).await);
    }
    drop(store);
    thread.close();
    let config = StoreConfig { limits: at_most(2), ..StoreConfig::at(folder.path().join("cortex.db")) };
    let (store, _thread) = Store::open(config).unwrap();
    assert_eq!(store.usage().queued_events, 2);
    assert!(is_full(&store, said("telegram", 2)).await);
}

#[tokio::test]
async fn a_database_that_is_too_large_refuses_new_events_and_still_answers() {
    let limits = StoreLimits { database_bytes_max: 2 * 1024 * 1024, ..StoreLimits::none() };
    let (_folder, store, _thread) = open(limits);
    let large = |number| NewEvent { text: "x".repeat(256 * 1024), ..said("telegram", number) };
    let mut number = 0;
    eventually("the database to be full", || {
        let (store, event) = (store.clone(), large(number));
        number += 1;
        async move { is_full(&store, event).await.then_some(()) }
    })
    .await;
    assert_eq!(store.full(), Some(Full::Database { max_bytes: 2 * 1024 * 1024 }));
    let claimed = store.inbox().claim_next(1, NOW).await.unwrap().whole.remove(0);
    store.turns().finish_turn(&claimed.event, answered("hi", Vec::new()), Vec::new(), NOW).await.unwrap();
    let own = NewEvent { standing: Standing::Owner, ..said("cli", 0) };
    assert!(!is_full(&store, own).await);
}
