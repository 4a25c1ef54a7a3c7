//! Limits on what waits and on what the file holds: new events are refused, everything else goes on.

use cortex_store::{Full, Store, StoreConfig, StoreError, StoreLimits, StoreThread};
use cortex_testkit::{answered, eventually, memory_folder, new_event, new_reply, sent_again, topic};
use cortex_types::limits::RESERVED_QUEUED_EVENTS;
use cortex_types::{AcceptedEvent, CLI_SOURCE, GivenAnswer, Millis, NewEvent, OPENAI_SOURCE, Standing};
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

/// The limit that an event meets, if it meets one.
async fn limit_of(store: &Store, event: NewEvent) -> Option<Full> {
    match store.inbox().accept(event, NOW).await {
        Ok(AcceptedEvent::Queued(_)) => None,
        Err(StoreError::Full(full)) => Some(full),
        other => panic!("{other:?}"),
    }
}

fn own(source: &str, number: usize) -> NewEvent {
    NewEvent { standing: Standing::Owner, ..said(source, number) }
}

fn stranger(name: &str, number: usize) -> NewEvent {
    NewEvent { standing: Standing::Local, ..said(&format!("local:{name}"), number) }
}

fn answering(event: NewEvent) -> NewEvent {
    NewEvent { answer: Some(GivenAnswer { token_sha256: [7; 32], decision: None }), ..event }
}

#[tokio::test]
async fn a_full_queue_refuses_new_events_until_some_are_answered() {
    let (_folder, store, _thread) = open(at_most(3));
    let first = said("telegram", 0);
    store.inbox().accept(first.clone(), NOW).await.unwrap();
    for source in ["slack", "signal"] {
        assert!(!is_full(&store, said(source, 1)).await);
    }
    assert_eq!(store.full(), Some(Full::QueuedEvents { max: 3 }));
    assert!(is_full(&store, said("telegram", 3)).await);
    let again = store.inbox().accept(sent_again(&first), NOW).await.unwrap();
    assert!(matches!(again, AcceptedEvent::Duplicate { same_body: true, .. }), "{again:?}");

    let claimed = store.inbox().claim_next(1, NOW).await.unwrap().whole.remove(0);
    assert!(is_full(&store, said("telegram", 3)).await, "what runs counts too");
    store.turns().finish_turn(&claimed.event, answered("hi", Vec::new()), Vec::new(), NOW).await.unwrap();
    assert_eq!(store.full(), None);
    assert!(!is_full(&store, said("matrix", 3)).await);
    assert!(is_full(&store, said("matrix", 4)).await);
}

#[tokio::test]
async fn the_terminal_programs_and_answers_each_have_a_reserve_that_ends() {
    let (_folder, store, _thread) = open(at_most(2));
    let full = Some(Full::QueuedEvents { max: 2 });
    for source in ["telegram", "slack"] {
        assert_eq!(limit_of(&store, said(source, 0)).await, None);
    }
    assert_eq!(limit_of(&store, said("matrix", 0)).await, full);
    for event in [stranger("x", 1), said("hook:ci", 1)] {
        let made_up = answering(NewEvent { standing: Standing::of_source(&event.source), ..event });
        assert_eq!(limit_of(&store, made_up).await, full, "anybody can make up a token");
    }
    let most = RESERVED_QUEUED_EVENTS as usize;
    for number in 0..most {
        assert_eq!(limit_of(&store, answering(said("telegram", number + 1))).await, None, "answer {number}");
    }
    assert_eq!(limit_of(&store, answering(said("telegram", 0))).await, full);
    for source in [CLI_SOURCE, OPENAI_SOURCE] {
        for number in 0..most {
            assert_eq!(limit_of(&store, own(source, number)).await, None, "{source} {number}");
        }
        assert_eq!(limit_of(&store, own(source, most)).await, full);
    }
    let claimed = store.inbox().claim_next(1, NOW).await.unwrap().whole.remove(0);
    assert_eq!(claimed.event.topic.source, "telegram");
    store.turns().finish_turn(&claimed.event, answered("hi", Vec::new()), Vec::new(), NOW).await.unwrap();
    assert_eq!(
        limit_of(&store, answering(said("slack", 1))).await,
        None,
        "the owner's leave the place of answers"
    );
}

#[tokio::test]
async fn one_source_has_half_of_the_queue_and_strangers_together_a_tenth() {
    let (folder, store, thread) = open(at_most(40));
    for (number, name) in ["a", "a", "b", "c"].into_iter().enumerate() {
        assert_eq!(limit_of(&store, stranger(name, number)).await, None);
    }
    let strangers = Some(Full::EventsOfStrangers { max: 4 });
    for event in [stranger("a", 9), stranger("d", 0), answering(stranger("d", 1))] {
        assert_eq!(limit_of(&store, event).await, strangers);
    }
    for number in 0..20 {
        assert_eq!(limit_of(&store, said("telegram", number)).await, None, "{number}");
    }
    let source = Some(Full::EventsOfSource { max: 20 });
    assert_eq!(limit_of(&store, said("telegram", 20)).await, source);
    assert_eq!(limit_of(&store, answering(said("telegram", 20))).await, None, "its people can still answer");
    assert_eq!(limit_of(&store, said("slack", 0)).await, None);
    assert_eq!(store.full(), None, "the others have room");

    drop(store);
    thread.close();
    let config = StoreConfig { limits: at_most(40), ..StoreConfig::at(folder.path().join("cortex.db")) };
    let (store, _thread) = Store::open(config).unwrap();
    assert_eq!(store.usage().queued_events, 26);
    assert_eq!(limit_of(&store, said("telegram", 21)).await, source, "counted again at a start");
    assert_eq!(limit_of(&store, stranger("e", 0)).await, strangers);
    assert_eq!(limit_of(&store, said("slack", 1)).await, None);
}

#[tokio::test]
async fn of_many_events_that_come_at_once_no_more_are_taken_than_have_room() {
    let (_folder, store, _thread) = open(at_most(50));
    let come = |event: NewEvent| {
        let store = store.clone();
        tokio::spawn(async move { limit_of(&store, event).await })
    };
    let strangers: Vec<_> = (0..40).map(|number| come(stranger("a", number))).collect();
    let others: Vec<_> = (0..80).map(|number| come(said("telegram", number))).collect();
    let mut taken = (0, 0);
    for one in strangers {
        taken.0 += usize::from(one.await.unwrap().is_none());
    }
    for one in others {
        taken.1 += usize::from(one.await.unwrap().is_none());
    }
    assert_eq!(taken, (5, 25), "a tenth, and half");
    assert_eq!(store.usage().queued_events, 30);
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
    assert!(!is_full(&store, own(CLI_SOURCE, 0)).await);
}

const MIB: u64 = 1024 * 1024;

fn at_most_bytes(database_bytes_max: u64) -> StoreLimits {
    StoreLimits { database_bytes_max, ..StoreLimits::none() }
}

fn large(event: NewEvent) -> NewEvent {
    NewEvent { text: "x".repeat(MIB as usize / 4), ..event }
}

/// What keeps strangers out once they have sent so many large events, as they read it.
async fn strangers_reason(store: &Store) -> String {
    for number in 0..200 {
        let name = ["a", "b", "c"][number % 3];
        if let Some(full) = limit_of(store, large(stranger(name, number))).await {
            return full.to_string();
        }
    }
    panic!("50 MiB of strangers' events were taken");
}

#[tokio::test]
async fn strangers_fill_a_tenth_of_the_database_and_nobody_elses() {
    let limits = at_most_bytes(20 * MIB);
    let (folder, store, thread) = open(limits);
    let reason = strangers_reason(&store).await;
    for word in ["2 MiB", "without a key", "a tenth of maxDatabaseMiB", "use a key", "raise maxDatabaseMiB"] {
        assert!(reason.contains(word), "no {word:?} in {reason:?}");
    }
    assert!(is_full(&store, stranger("d", 0)).await, "a small one of another name, too");
    assert_eq!(store.full(), None);
    for event in [large(said("telegram", 0)), large(own(CLI_SOURCE, 0)), answering(said("telegram", 1))] {
        assert_eq!(limit_of(&store, event).await, None);
    }

    drop(store);
    thread.close();
    let config = StoreConfig { limits, ..StoreConfig::at(folder.path().join("cortex.db")) };
    let (store, _thread) = Store::open(config).unwrap();
    assert_eq!(limit_of(&store, stranger("a", 900)).await.map(|full| full.to_string()), Some(reason));
    assert_eq!(limit_of(&store, large(said("telegram", 2))).await, None);
    assert_eq!(limit_of(&store, own(CLI_SOURCE, 1)).await, None);
}

#[tokio::test]
async fn what_strangers_events_lead_to_counts_as_theirs() {
    let (_folder, store, _thread) = open(at_most_bytes(10 * MIB));
    assert_eq!(limit_of(&store, stranger("a", 0)).await, None);
    let claimed = store.inbox().claim_next(1, NOW).await.unwrap().whole.remove(0);
    let replies = vec![new_reply(&claimed.event.topic, &"y".repeat(MIB as usize))];
    store.turns().finish_turn(&claimed.event, answered("hi", replies), Vec::new(), NOW).await.unwrap();
    assert!(is_full(&store, stranger("b", 1)).await, "an answer of one MiB is all that they may have");
    assert_eq!(limit_of(&store, said("telegram", 0)).await, None);
}

#[tokio::test]
async fn of_strangers_events_that_come_at_once_no_more_bytes_are_taken_than_have_room() {
    let (_folder, store, _thread) = open(at_most_bytes(20 * MIB));
    let come = |number| {
        let store = store.clone();
        tokio::spawn(async move { limit_of(&store, large(stranger("a", number))).await })
    };
    let mut taken = 0;
    for one in (0..64).map(come).collect::<Vec<_>>() {
        taken += usize::from(one.await.unwrap().is_none());
    }
    assert!(
        (1..=8).contains(&taken),
        "{taken} events of a quarter of a MiB were taken, and 2 MiB are theirs"
    );
}

fn pages(store: &Store) -> u64 {
    store.usage().database_bytes
}

#[tokio::test]
async fn an_event_that_comes_again_and_again_with_other_words_takes_no_room() {
    let (folder, store, thread) = open(StoreLimits::none());
    let first = stranger(&"n".repeat(100), 0);
    let first = NewEvent { external_message_id: "m".repeat(500), ..first };
    store.inbox().accept(first.clone(), NOW).await.unwrap();
    for number in 0..500 {
        let other = NewEvent { text: format!("other {number}"), ..sent_again(&first) };
        // A topic of its own each time makes no topic either.
        let other = NewEvent { topic_key: format!("room {number} {}", "k".repeat(400)), ..other };
        let again = store.inbox().accept(other, NOW).await.unwrap();
        assert!(matches!(again, AcceptedEvent::Duplicate { same_body: false, .. }), "{again:?}");
    }
    assert_eq!(store.audit_of(first.id.to_string()).await.unwrap().len(), 1);
    let topic = topic(&first.source, &format!("room 7 {}", "k".repeat(400)));
    assert!(!store.channels().has_topic(topic).await.unwrap());

    drop(store);
    thread.close();
    let (store, _thread) = Store::open(StoreConfig::at(folder.path().join("cortex.db"))).unwrap();
    let before = pages(&store);
    assert!(before < MIB, "{before} bytes for one event");
}

#[tokio::test]
async fn while_the_database_is_full_an_event_with_other_words_leaves_no_line() {
    let folder = memory_folder();
    let path = folder.path().join("cortex.db");
    let (store, thread) = Store::open(StoreConfig::at(path.clone())).unwrap();
    let first = said("telegram", 0);
    store.inbox().accept(first.clone(), NOW).await.unwrap();
    drop(store);
    thread.close();
    let (store, _thread) =
        Store::open(StoreConfig { limits: at_most_bytes(1), ..StoreConfig::at(path) }).unwrap();
    let other = NewEvent { text: "other".to_owned(), ..sent_again(&first) };
    let again = store.inbox().accept(other, NOW).await.unwrap();
    assert!(matches!(again, AcceptedEvent::Duplicate { same_body: false, .. }), "{again:?}");
    assert_eq!(store.audit_of(first.id.to_string()).await, Ok(Vec::new()));
}
