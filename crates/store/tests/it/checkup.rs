//! A look at a home: what its rows come to, whoever serves it, without a trace.

use cortex_store::{Checkup, HomeCounts, Store, StoreConfig, VectorCounts, check_up};
use cortex_testkit::{TempStore, answered, new_event, topic};
use cortex_types::{Millis, NewEvent};

const NOW: Millis = Millis(1_000);

async fn talk(store: &TempStore, user: &str) {
    let chat = topic("web", user);
    let event = NewEvent { user_id: user.to_owned(), ..new_event(&chat, "hello") };
    store.inbox().accept(event, NOW).await.unwrap();
    let event = store.inbox().claim_next(1, NOW).await.unwrap().whole.remove(0).event;
    store.turns().finish_turn(&event, answered("hi", Vec::new()), Vec::new(), NOW).await.unwrap();
}

#[tokio::test]
async fn the_counts_are_those_of_a_store_at_work() {
    let store = TempStore::create();
    for user in ["ada", "eve", "ada"] {
        talk(&store, user).await;
    }
    let Checkup::Current { counts, .. } = check_up(&store.path(), "any").unwrap() else {
        panic!("not current")
    };
    let users = vec!["ada".to_owned(), "eve".to_owned()];
    let vectors = VectorCounts { texts: 0, embedded: 0 };
    let used = store.usage();
    assert!(counts.database_bytes > 0 && used.queued_events == 0, "{counts:?}, {used:?}");
    let database_bytes = counts.database_bytes;
    let expected = HomeCounts {
        users,
        dead_messages: 0,
        failed_events: 0,
        queued_events: 0,
        database_bytes,
        strangers_bytes: 0,
        vectors,
    };
    assert_eq!(counts, expected);
}

#[test]
fn a_look_at_a_database_that_rests_makes_no_log_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a #1? 100%.db");
    let names = || std::fs::read_dir(folder.path()).unwrap().count();
    let (_, closing) = Store::open(StoreConfig::at(&path)).unwrap();
    closing.close();
    let rested = names();
    let seen = check_up(&path, "any").unwrap();
    assert!(matches!(seen, Checkup::Current { .. }), "{seen:?}");
    assert_eq!(names(), rested);
}
