//! The number of what strangers have filled: one row, and no limit of anybody else hangs on it.

use crate::recovery::damage;
use cortex_store::{Checkup, Full, Store, StoreConfig, StoreError, StoreLimits, check_up};
use cortex_testkit::{TempStore, memory_folder, new_event, topic};
use cortex_types::{AcceptedEvent, Millis, NewEvent, Standing};
use rusqlite::Connection;

const NOW: Millis = Millis(1_000);
const MIB: u64 = 1024 * 1024;
const DAMAGES: [&str; 4] = [
    "DELETE FROM strangers_room",
    "UPDATE strangers_room SET bytes = -5",
    "UPDATE strangers_room SET bytes = CAST(x'00' AS BLOB)",
    "UPDATE strangers_room SET bytes = 'many'",
];

fn large(source: &str, standing: Standing) -> NewEvent {
    NewEvent { standing, ..new_event(&topic(source, "chat"), &"x".repeat(MIB as usize / 4)) }
}

fn bytes_kept(store: &TempStore) -> i64 {
    let look = Connection::open(store.path()).unwrap();
    look.query_row("SELECT bytes FROM strangers_room", [], |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn a_number_of_strangers_that_cannot_be_read_is_counted_anew_and_the_other_limits_hold() {
    for sql in DAMAGES {
        let mut store = TempStore::create();
        for source in ["local:m", "telegram"] {
            store.inbox().accept(large(source, Standing::of_source(source)), NOW).await.unwrap();
        }
        let before = bytes_kept(&store);
        assert!(before > MIB as i64 / 4, "{before}");
        damage(&store, sql);
        let Checkup::Current { counts, .. } = check_up(&store.path(), "none").unwrap() else {
            panic!("{sql}")
        };
        assert_eq!((counts.strangers_bytes, counts.queued_events), (before as u64, 2), "{sql}");
        store.crash();
        let used = store.usage();
        assert_eq!((used.strangers_bytes, used.queued_events), (before as u64, 2), "{sql}");
        assert!(used.database_bytes > MIB / 2, "{sql}: {used:?}");
        assert_eq!(bytes_kept(&store), before, "{sql}");
    }
}

#[tokio::test]
async fn strangers_are_served_and_bounded_though_their_number_is_lost_while_the_server_runs() {
    for sql in DAMAGES {
        let limits = StoreLimits { database_bytes_max: 10 * MIB, ..StoreLimits::none() };
        let folder = memory_folder();
        let path = folder.path().join("cortex.db");
        let (store, _thread) = Store::open(StoreConfig { limits, ..StoreConfig::at(path.clone()) }).unwrap();
        let mut taken = 0;
        for number in 0..20 {
            if number == 2 {
                assert_eq!(Connection::open(&path).unwrap().execute(sql, []), Ok(1), "{sql}");
            }
            match store.inbox().accept(large("local:m", Standing::Local), NOW).await {
                Ok(AcceptedEvent::Queued(_)) => taken += 1,
                Err(StoreError::Full(Full::DatabaseOfStrangers { .. })) => break,
                other => panic!("{sql}: {other:?}"),
            }
        }
        assert_eq!(taken, 4, "{sql}: a quarter of a MiB each, and one MiB is theirs");
    }
}

#[tokio::test]
async fn a_line_that_says_something_else_later_takes_its_new_room() {
    let store = TempStore::create();
    store.inbox().accept(large("local:m", Standing::Local), NOW).await.unwrap();
    store.inbox().claim_next(1, NOW).await.unwrap();
    let change =
        |sql: &str| assert_eq!(Connection::open(store.path()).unwrap().execute(sql, []), Ok(1), "{sql}");
    let before = bytes_kept(&store);
    change(
        "INSERT INTO turns(topic_key, role, content, timestamp, topic_id, event_seq, checksum)
         VALUES ('chat', 'user', 'short', 1, 1, 1, 0)",
    );
    assert_eq!(bytes_kept(&store) - before, 10);
    change("UPDATE turns SET content = 'much longer'");
    assert_eq!(bytes_kept(&store) - before, 22);
    change("UPDATE turns SET content = 'x'");
    assert_eq!(bytes_kept(&store) - before, 2);
    change("DELETE FROM turns");
    assert_eq!(bytes_kept(&store), before);
}
