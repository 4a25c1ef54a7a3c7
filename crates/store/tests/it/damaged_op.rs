//! An op whose row cannot be read: its end is kept whole or not at all, and the start leaves none of them pending for ever.

use crate::op::{completed, new_op, told};
use crate::recovery::damage;
use cortex_store::{Settled, StoreError};
use cortex_testkit::TempStore;
use cortex_types::{Millis, OpStatus};
use rusqlite::Connection;

const NOW: Millis = Millis(1_000);
const UNREADABLE: [&str; 3] =
    ["description = CAST(x'ff' AS TEXT)", "topic_key = CAST(x'00' AS BLOB)", "dispatched_at = 'then'"];

fn statuses(store: &TempStore) -> Vec<String> {
    let look = Connection::open(store.path()).unwrap();
    let mut statement = look.prepare("SELECT status FROM ops ORDER BY rowid").unwrap();
    statement.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
}

#[tokio::test]
async fn the_end_of_an_op_that_cannot_be_read_is_refused_and_nothing_of_it_is_kept() {
    for change in UNREADABLE {
        let store = TempStore::create();
        for number in [1, 2] {
            store.ops().add(new_op(number, Some("run_7")), NOW).await.unwrap();
        }
        damage(&store, &format!("UPDATE ops SET {change} WHERE rowid = 1"));
        let id = |number| new_op(number, None).id;
        let settled = store.ops().settle(id(1), completed("42"), NOW, told).await;
        assert!(matches!(settled, Err(StoreError::Damaged(_))), "{change}: {settled:?}");
        assert_eq!(statuses(&store), ["pending", "pending"], "{change}");
        let found = store.ops().find(id(1)).await;
        assert!(matches!(found, Err(StoreError::Damaged(_))), "{change}: {found:?}");
        let whole = store.ops().settle(id(2), completed("42"), NOW, told).await.unwrap();
        assert!(matches!(whole, Settled::Now(_)), "{whole:?}");
    }
}

#[tokio::test]
async fn a_start_ends_an_orphan_that_cannot_be_read_and_tells_of_the_others() {
    for change in UNREADABLE {
        let store = TempStore::create();
        for number in [1, 2] {
            store.ops().add(new_op(number, None), NOW).await.unwrap();
        }
        damage(&store, &format!("UPDATE ops SET {change} WHERE rowid = 1"));
        assert_eq!(store.ops().fail_orphans("orphaned", NOW, told).await, Ok(2), "{change}");
        assert_eq!(statuses(&store), ["failed", "failed"], "{change}");
        assert_eq!(store.inbox().counts().await.unwrap().pending, 1, "{change}");
        assert_eq!(store.ops().find(new_op(2, None).id).await.unwrap().unwrap().status, OpStatus::Failed);
        assert_eq!(store.ops().fail_orphans("orphaned", NOW, told).await, Ok(0), "{change}");
    }
}
