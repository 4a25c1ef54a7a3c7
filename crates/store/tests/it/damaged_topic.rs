//! A topic that is damaged on disk: its events wait at most for themselves, and those of all others are claimed.

use crate::damaged_row::lose;
use crate::recovery::{claim_one, damage, recover, replies_in};
use cortex_store::{Claims, TurnEnd};
use cortex_testkit::{TempStore, answered, new_event, new_reply, topic};
use cortex_types::{Event, Millis, NewEvent, Priority};
use std::collections::BTreeSet;
use std::time::Duration;

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

/// A turn that is tried again at `at`.
async fn backs_off(store: &TempStore, key: &str, at: i64) {
    accept(store, "telegram", key, key).await;
    let claimed = claim_one(store, NOW).await;
    let retry = TurnEnd::RetryAt { due_at: Millis(at), reason: "busy".to_owned() };
    store.turns().finish_turn(&claimed.event, retry, Vec::new(), NOW).await.unwrap();
}

#[tokio::test]
async fn a_time_of_a_topic_that_cannot_be_read_holds_it_until_the_next_look_alone() {
    for change in ["head_due_at = 'noon'", "head_due_at = x'00'", "head_due_at = -5"] {
        let store = TempStore::create();
        backs_off(&store, "damaged", 9_000).await;
        backs_off(&store, "whole", 9_000).await;
        damage(&store, &format!("UPDATE topics SET {change} WHERE topic_key = 'damaged'"));
        let look = async || store.watchdog().look(BTreeSet::new()).await.unwrap();
        let stranded = look().await;
        assert_eq!(stranded.topics, [1], "{change}");
        let notice = |event: &Event| new_reply(&event.topic, "lost");
        assert_eq!(store.watchdog().rescue(stranded, 3, NOW, notice).await.unwrap().topics, 1, "{change}");
        assert!(look().await.is_empty(), "{change}");
        assert_eq!(store.inbox().claim_next(10, Millis(8_999)).await.unwrap(), Claims::default(), "{change}");
        let claims = store.inbox().claim_next(10, Millis(9_000)).await.unwrap();
        assert_eq!(claims.whole.len(), 2, "{change}");
    }
}

#[tokio::test]
async fn times_that_cannot_be_read_are_now_after_a_start() {
    for change in ["topics SET head_due_at = 'noon'", "inbox_messages SET due_at = 'noon'"] {
        let store = TempStore::create();
        backs_off(&store, "damaged", 2_000).await;
        if change.starts_with("inbox") {
            damage(&store, "UPDATE topics SET head_due_at = 0");
        }
        damage(&store, &format!("UPDATE {change}"));
        store.inbox().clamp_future(Duration::from_secs(3_600), NOW).await.unwrap();
        assert_eq!(claim_one(&store, NOW).await.event.text, "damaged", "{change}");
        let due = sql_number(&store, "SELECT due_at FROM inbox_messages");
        assert!(due <= 2_000, "{change}: {due}");
    }
}

fn sql_number(store: &TempStore, sql: &str) -> i64 {
    rusqlite::Connection::open(store.path()).unwrap().query_row(sql, [], |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn a_topic_that_names_another_event_than_the_one_that_runs_begins_no_second_turn() {
    let store = TempStore::create();
    for text in ["first", "second"] {
        accept(&store, "telegram", "damaged", text).await;
    }
    let first = claim_one(&store, NOW).await;
    damage(&store, "UPDATE topics SET in_flight = 99");
    let notice = |event: &Event| new_reply(&event.topic, "lost");
    let running = BTreeSet::from([first.event.seq]);
    let stranded = store.watchdog().look(running.clone()).await.unwrap();
    assert_eq!(stranded.events, [99]);
    store.watchdog().rescue(stranded, 3, NOW, notice).await.unwrap();
    assert_eq!(claimed(&store).await, [""; 0], "one turn in a topic at a time");
    assert!(store.watchdog().look(running).await.unwrap().is_empty());
    store.turns().finish_turn(&first.event, answered("ok", Vec::new()), Vec::new(), NOW).await.unwrap();
    assert_eq!(claimed(&store).await, ["second"]);
}

#[tokio::test]
async fn an_event_that_runs_while_no_topic_names_it_is_found_by_the_next_start() {
    for change in ["in_flight = NULL", "in_flight = 2"] {
        for of_the_event in ["topic_id = topic_id", "topic_id = 99", "restarts = 9", "text = 'other'"] {
            let mut store = TempStore::create();
            for key in ["damaged", "whole"] {
                accept(&store, "telegram", key, key).await;
            }
            assert_eq!(claimed(&store).await.len(), 2);
            damage(&store, &format!("UPDATE topics SET {change} WHERE topic_key = 'damaged'"));
            damage(&store, &format!("UPDATE inbox_messages SET {of_the_event} WHERE seq = 1"));
            store.crash();
            let recovered = recover(&store, NOW).await;
            assert_eq!(recovered.requeued + recovered.failed, 2, "{change}, {of_the_event}");
            let claims = store.inbox().claim_next(10, NOW).await.unwrap();
            let told = replies_in(&store).await.len();
            // Each is answered or its user is told.
            assert_eq!(claims.whole.len() + told, 2, "{change}, {of_the_event}");
            let running =
                sql_number(&store, "SELECT count(*) FROM inbox_messages WHERE status = 'processing'");
            assert_eq!(running, i64::try_from(claims.whole.len()).unwrap(), "{change}, {of_the_event}");
        }
    }
}
