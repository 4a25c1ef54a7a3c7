//! Copies of a store at work, and its log while it rests.

use cortex_store::{Store, StoreConfig, check_copy, check_whole, copy_database};
use cortex_testkit::{TempStore, eventually, new_event, topic};
use cortex_types::Millis;
use std::path::PathBuf;

const NOW: Millis = Millis(1_000);

fn log_of(store: &TempStore) -> PathBuf {
    store.path().with_extension("db-wal")
}

#[tokio::test]
async fn a_copy_has_everything_that_was_acknowledged_before_it_began() {
    let store = TempStore::create();
    let mut acknowledged = Vec::new();
    for number in 0..50 {
        let event = new_event(&topic("web", &format!("chat {number}")), "hello");
        acknowledged.push(store.inbox().accept(event, NOW).await.unwrap());
    }
    let copy = store.path().with_file_name("copy.db");
    let mut reports = Vec::new();
    copy_database(&store.path(), &copy, |progress| reports.push(progress)).unwrap();
    assert!(reports.last().is_some_and(|last| last.pages == last.of && last.of > 0), "{reports:?}");
    check_copy(&copy).unwrap();
    let (copied, thread) = Store::open(StoreConfig::at(&copy)).unwrap();
    assert_eq!(copied.inbox().claim_next(100, NOW).await.unwrap().whole.len(), acknowledged.len());
    thread.close();
}

#[tokio::test]
async fn a_copy_never_replaces_a_file() {
    let store = TempStore::create();
    let copy = store.path().with_file_name("copy.db");
    std::fs::write(&copy, "precious").unwrap();
    assert!(copy_database(&store.path(), &copy, |_| {}).is_err());
    assert_eq!(std::fs::read(&copy).unwrap(), b"precious");
}

#[test]
fn a_foreign_or_broken_database_is_no_copy_of_ours() {
    let folder = tempfile::tempdir().unwrap();
    let foreign = folder.path().join("foreign.db");
    rusqlite::Connection::open(&foreign).unwrap().execute_batch("CREATE TABLE notes(text)").unwrap();
    check_whole(&foreign).unwrap();
    let told = check_copy(&foreign).unwrap_err().to_string();
    assert!(told.contains("not a Cortex database"), "{told}");
    let broken = folder.path().join("broken.db");
    std::fs::write(&broken, vec![7; 8_192]).unwrap();
    assert!(check_whole(&broken).is_err());
}

#[tokio::test]
async fn the_log_is_folded_in_while_nobody_writes() {
    let store = TempStore::create();
    for round in 0..2 {
        store.inbox().accept(new_event(&topic("web", "chat"), "hello"), NOW).await.unwrap();
        assert!(std::fs::metadata(log_of(&store)).unwrap().len() > 0, "round {round}");
        eventually("an empty log", || async {
            std::fs::metadata(log_of(&store)).is_ok_and(|log| log.len() == 0).then_some(())
        })
        .await;
    }
}
