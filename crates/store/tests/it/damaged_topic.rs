//! A topic that is damaged on disk: its events wait at most for themselves, and those of all others are claimed.

use crate::damaged_row::lose;
use crate::recovery::{claim_one, damage};
use cortex_testkit::{TempStore, answered, new_event, topic};
use cortex_types::{Millis, NewEvent, Priority};

const NOW: Millis = Millis(1_000);

async fn accept(store: &TempStore, source: &str, key: &str, text: &str) {
    store.inbox().accept(new_event(&topic(source, key), text), NOW).await.unwrap();
}

async fn claimed(store: &TempStore) -> Vec<String> {
    let claims = store.inbox().claim_next(10, NOW).await.unwrap();
    claims.whole.into_iter().map(|claimed| claimed.event.text).collect()
}

#[tokio::test]
async fn a_head_that_cannot_be_read_is_looked_up_anew() {
    let changes = [
        "head_priority = 'soon'",
        "head_priority = CAST(x'ff' AS TEXT)",
        "head_priority = NULL",
        "head_seq = 'none'",
    ];
    for change in changes {
        let store = TempStore::create();
        accept(&store, "telegram", "damaged", "first").await;
        accept(&store, "telegram", "whole", "beside it").await;
        damage(&store, &format!("UPDATE topics SET {change} WHERE topic_key = 'damaged'"));
        accept(&store, "telegram", "damaged", "second").await;
        let mut texts = claimed(&store).await;
        texts.sort();
        assert_eq!(texts, ["beside it", "first"], "{change}");
    }
}

#[tokio::test]
async fn a_damaged_head_takes_no_other_event_of_its_source_behind_everything() {
    let store = TempStore::create();
    let background =
        NewEvent { priority: Priority::Background, ..new_event(&topic("telegram", "damaged"), "later") };
    store.inbox().accept(background, NOW).await.unwrap();
    accept(&store, "slack", "chat", "of others").await;
    accept(&store, "telegram", "whole", "now").await;
    damage(&store, "UPDATE topics SET head_priority = NULL WHERE topic_key = 'damaged'");
    assert_eq!(claimed(&store).await, ["of others", "now", "later"]);
}

#[tokio::test]
async fn a_topic_whose_source_cannot_be_read_is_passed_over() {
    for change in ["source = CAST(x'61ff' AS TEXT)", "source = x'6161'"] {
        let store = TempStore::create();
        for source in ["aa", "ab", "zz"] {
            accept(&store, source, "chat", source).await;
        }
        damage(&store, &format!("UPDATE topics SET {change} WHERE source = 'ab'"));
        for _ in 0..2 {
            accept(&store, "ab", "chat", "anew").await;
        }
        assert_eq!(claimed(&store).await, ["aa", "zz", "anew"], "{change}");
    }
}

#[tokio::test]
async fn a_turn_in_a_topic_whose_source_cannot_be_read_keeps_no_other_from_beginning() {
    for change in ["source = CAST(x'ff' AS TEXT)", "source = x'00'"] {
        let store = TempStore::create();
        accept(&store, "telegram", "damaged", "runs").await;
        let running = claim_one(&store, NOW).await;
        damage(&store, &format!("UPDATE topics SET {change}"));
        accept(&store, "telegram", "whole", "begins").await;
        assert_eq!(claimed(&store).await, ["begins"], "{change}");
        drop(running);
    }
}

#[tokio::test]
async fn a_topic_that_lost_its_time_is_claimed_again_after_a_turn() {
    let store = TempStore::create();
    accept(&store, "telegram", "damaged", "first").await;
    let first = claim_one(&store, NOW).await;
    accept(&store, "telegram", "damaged", "second").await;
    lose(&store, "topics", "head_due_at", "topic_key = 'damaged'");
    store.turns().finish_turn(&first.event, answered("ok", Vec::new()), Vec::new(), NOW).await.unwrap();
    assert_eq!(claimed(&store).await, ["second"]);
}
