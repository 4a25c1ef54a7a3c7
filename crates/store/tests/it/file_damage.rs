//! A damaged page that a request meets: it is never forgotten, nothing more is written, and what can be read is read.

use cortex_store::{Checkup, PageRequest, Store, StoreError, StoreHealth, check_up};
use cortex_testkit::{TempStore, answered, damage_first_page, new_event, new_reply, topic};
use cortex_types::{AcceptedEvent, EventId, InboxStatus, Millis};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

const NOW: Millis = Millis(1_000);

/// A store with one event that was answered and one that waits, and the damaged page of a table or index.
async fn damaged(name: &str) -> (TempStore, EventId, EventId, u64) {
    let store = TempStore::create();
    let chat = topic("telegram", "chat");
    let first = accept(&store, "first").await;
    let claimed = store.inbox().claim_next(1, NOW).await.unwrap().whole.remove(0);
    let end = answered("hi", vec![new_reply(&chat, "hi")]);
    store.turns().finish_turn(&claimed.event, end, Vec::new(), NOW).await.unwrap();
    let second = accept(&store, "second").await;
    let folder = store.stop();
    let page = damage_first_page(&folder.path().join("cortex.db"), name);
    (TempStore::open_in(folder).unwrap(), first, second, page)
}

async fn accept(store: &Store, text: &str) -> EventId {
    let accepted = store.inbox().accept(new_event(&topic("telegram", "chat"), text), NOW).await.unwrap();
    let AcceptedEvent::Queued(id) = accepted else { panic!("{accepted:?}") };
    id
}

fn is_damage<T>(result: &Result<T, StoreError>) -> bool {
    matches!(result, Err(StoreError::FileDamaged(_)))
}

#[tokio::test]
async fn damage_that_a_reader_meets_stops_every_write_and_stays() {
    let (store, first, second, _) = damaged("ops").await;
    assert_eq!(store.health(), StoreHealth::Healthy, "nobody has met it");
    assert!(is_damage(&store.ops().list(None, PageRequest::newest(10)).await));
    assert!(matches!(store.health(), StoreHealth::Damaged(_)), "{:?}", store.health());

    let refused = store.inbox().accept(new_event(&topic("telegram", "chat"), "third"), NOW).await;
    assert!(is_damage(&refused), "{refused:?}");
    assert!(is_damage(&store.inbox().claim_next(1, NOW).await));
    assert!(is_damage(&store.probe().await));
    for (id, text, status) in [(first, "first", InboxStatus::Done), (second, "second", InboxStatus::Pending)]
    {
        let event = store.inbox().find(id).await.unwrap().unwrap();
        assert_eq!((event.text.as_str(), event.status), (text, status), "what can be read is read");
    }
    assert!(matches!(store.health(), StoreHealth::Damaged(_)), "{:?}", store.health());
}

#[tokio::test]
async fn damage_that_the_writer_meets_fails_no_event() {
    let (store, _, second, _) = damaged("inbox_pending").await;
    assert!(is_damage(&store.inbox().claim_next(1, NOW).await));
    assert!(matches!(store.health(), StoreHealth::Damaged(_)), "{:?}", store.health());
    let event = store.inbox().find(second).await.unwrap().unwrap();
    assert_eq!(event.status, InboxStatus::Pending);
}

/// Longer than the writer waits before it folds its log in.
const LONGER_THAN_IDLE: Duration = Duration::from_secs(3);

/// What the database and its log hold, and when they were last written.
fn files(database: &Path) -> [(Vec<u8>, SystemTime); 2] {
    let log = database.with_extension("db-wal");
    [database, &log].map(|file| (fs::read(file).unwrap(), fs::metadata(file).unwrap().modified().unwrap()))
}

#[tokio::test]
async fn not_a_byte_of_a_damaged_database_or_its_log_is_written_until_the_next_start() {
    let (store, ..) = damaged("ops").await;
    accept(&store, "third").await;
    assert!(is_damage(&store.ops().list(None, PageRequest::newest(10)).await));
    let database = store.path();
    let before = files(&database);
    assert!(before[1].0.len() > 4_096, "the log holds what was accepted last");
    for _ in 0..2 {
        let refused = store.inbox().accept(new_event(&topic("telegram", "chat"), "fourth"), NOW).await;
        assert!(is_damage(&refused), "{refused:?}");
        tokio::time::sleep(LONGER_THAN_IDLE).await;
        assert!(files(&database) == before, "while it runs");
    }
    let _folder = store.stop();
    assert!(files(&database) == before, "at the stop");
}

#[tokio::test]
async fn a_writer_that_meets_damage_leaves_the_files_as_they_are() {
    let (store, ..) = damaged("inbox_pending").await;
    assert!(is_damage(&store.inbox().claim_next(1, NOW).await));
    let database = store.path();
    let before = fs::read(&database).unwrap();
    let _folder = store.stop();
    assert!(fs::read(&database).unwrap() == before);
}

#[tokio::test]
async fn a_look_that_finds_the_file_whole_says_so_and_opens_no_door() {
    let (store, _, _, page) = damaged("ops").await;
    assert!(is_damage(&store.ops().list(None, PageRequest::newest(10)).await));
    // An empty table is the same page in every database.
    let whole = TempStore::create().stop();
    let mut first_bytes = [0; 64];
    fs::File::open(whole.path().join("cortex.db"))
        .unwrap()
        .read_exact_at(&mut first_bytes, (page - 1) * 4_096)
        .unwrap();
    let file = fs::OpenOptions::new().write(true).open(store.path()).unwrap();
    file.write_all_at(&first_bytes, (page - 1) * 4_096).unwrap();
    store.check_integrity().await.unwrap();
    let StoreHealth::Damaged(reason) = store.health() else { panic!("{:?}", store.health()) };
    assert!(reason.contains("a look at the whole file found nothing wrong: restart the server"), "{reason}");
    assert!(is_damage(&store.probe().await), "a person decides");
}

#[tokio::test]
async fn a_look_finds_damage_that_nobody_has_met_and_names_it() {
    for name in ["usage", "outbox_event"] {
        let (store, _, _, page) = damaged(name).await;
        let place = format!("{name}, page {page}");
        for found in [store.check_structure().await, store.check_integrity().await] {
            let Err(StoreError::FileDamaged(reason)) = found else { panic!("{found:?}") };
            assert!(reason.contains(&place), "{place} is not in {reason:?}");
        }
        let StoreHealth::Damaged(reason) = store.health() else { panic!("{:?}", store.health()) };
        assert!(reason.contains(&place), "{place} is not in {reason:?}");
        let Checkup::Damaged { place: seen } = check_up(&store.path(), "any").unwrap() else {
            panic!("the damage was not seen beside the running store")
        };
        assert!(seen.contains(&place), "{place} is not in {seen:?}");
        let folder = store.stop();
        let Checkup::Damaged { place: seen } = check_up(&folder.path().join("cortex.db"), "any").unwrap()
        else {
            panic!("the damage was not seen at rest")
        };
        assert!(seen.contains(&place), "{place} is not in {seen:?}");
    }
}

#[tokio::test]
async fn a_whole_file_is_called_whole() {
    let store = TempStore::create();
    accept(&store, "first").await;
    store.check_structure().await.unwrap();
    store.check_integrity().await.unwrap();
    assert_eq!(store.health(), StoreHealth::Healthy);
    assert!(matches!(
        check_up(&store.path(), "any").unwrap(),
        Checkup::Current { is_half_checked: false, .. }
    ));
}
