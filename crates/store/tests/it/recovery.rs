//! What a start does with the events a dead process left in flight, and with damaged ones.

use cortex_store::{Claimed, Recovered, TurnEnd};
use cortex_testkit::{TempStore, new_event, new_reply, topic};
use cortex_types::{InboxStatus, Millis, OutboxStatus, Step, StepBody, TopicRef};
use rusqlite::Connection;

const NOW: Millis = Millis(1_000);
const RESTARTS_MAX: u32 = 3;

async fn recover(store: &TempStore, now: Millis) -> Recovered {
    let notice = |event: &cortex_types::Event| new_reply(&event.topic, "I could not answer this.");
    store.inbox().recover(RESTARTS_MAX, now, notice).await.unwrap()
}

async fn claim_one(store: &TempStore, now: Millis) -> Claimed {
    let mut claimed = store.inbox().claim_next(10, now).await.unwrap();
    assert_eq!(claimed.len(), 1, "{claimed:?}");
    claimed.remove(0)
}

async fn replies_in(store: &TempStore) -> Vec<(TopicRef, String)> {
    let page = cortex_store::PageRequest::newest(100);
    let rows = store.outbox().list(Some(OutboxStatus::Pending), None, page).await.unwrap().rows;
    rows.into_iter().map(|row| (row.topic, row.text)).collect()
}

fn step(number: u32) -> Step {
    let body = StepBody::ToolAnswered {
        call_id: format!("call {number}"),
        name: "clock.now".to_owned(),
        text: "noon".to_owned(),
        is_error: false,
    };
    Step { number, at: NOW, body }
}

#[tokio::test]
async fn a_killed_turn_is_eligible_at_once_and_before_what_came_later() {
    let mut store = TempStore::create();
    let chat = topic("telegram", "chat");
    for text in ["first", "second"] {
        store.inbox().accept(new_event(&chat, text), NOW).await.unwrap();
    }
    assert_eq!(claim_one(&store, NOW).await.event.text, "first");
    store.crash();

    assert_eq!(store.inbox().counts().await.unwrap().processing, 1);
    assert_eq!(store.inbox().claim_next(10, NOW).await.unwrap(), [], "in flight until it is recovered");
    assert_eq!(recover(&store, NOW).await, Recovered { requeued: 1, failed: 0 });
    let again = claim_one(&store, NOW).await;
    assert_eq!((again.event.text.as_str(), again.event.attempts), ("first", 2));
    assert_eq!(recover(&store, NOW).await, Recovered { requeued: 1, failed: 0 });
}

#[tokio::test]
async fn a_restart_counts_as_an_attempt_only_when_no_new_step_was_recorded() {
    let mut store = TempStore::create();
    store.inbox().accept(new_event(&topic("telegram", "chat"), "hello"), NOW).await.unwrap();
    let first = claim_one(&store, NOW).await;
    store.turns().record_steps(&first.event, vec![step(0)], Vec::new()).await.unwrap();
    store.crash();
    recover(&store, NOW).await;

    let second = claim_one(&store, NOW).await;
    assert_eq!(second.event.attempts, 1, "the first attempt made progress");
    assert_eq!(second.steps, [step(0)]);
    store.crash();
    recover(&store, NOW).await;
    assert_eq!(claim_one(&store, NOW).await.event.attempts, 2, "the old step is no new one");
}

#[tokio::test]
async fn an_event_fails_with_a_notice_only_after_the_last_allowed_restart() {
    let mut store = TempStore::create();
    let chat = topic("telegram", "chat");
    let event = new_event(&chat, "hello");
    store.inbox().accept(event.clone(), NOW).await.unwrap();
    store.inbox().accept(new_event(&chat, "next"), NOW).await.unwrap();
    for _ in 1..RESTARTS_MAX {
        claim_one(&store, NOW).await;
        store.crash();
        assert_eq!(recover(&store, NOW).await, Recovered { requeued: 1, failed: 0 });
        assert_eq!(replies_in(&store).await, []);
    }
    claim_one(&store, NOW).await;
    store.crash();
    assert_eq!(recover(&store, NOW).await, Recovered { requeued: 0, failed: 1 });

    let failed = store.inbox().find(event.id).await.unwrap().unwrap();
    assert_eq!(failed.status, InboxStatus::Failed);
    assert_eq!(failed.error.as_deref(), Some("given up after 3 restarts in the middle of its turn"));
    assert_eq!(replies_in(&store).await, [(chat, "I could not answer this.".to_owned())]);
    assert_eq!(claim_one(&store, NOW).await.event.text, "next");
}

#[tokio::test]
async fn a_parked_turn_is_eligible_after_the_restart_and_nothing_was_counted() {
    let mut store = TempStore::create();
    store.inbox().accept(new_event(&topic("telegram", "chat"), "hello"), NOW).await.unwrap();
    for _ in 0..10 {
        let claimed = claim_one(&store, NOW).await;
        assert_eq!(claimed.event.attempts, 1);
        store.turns().finish_turn(&claimed.event, TurnEnd::Parked, Vec::new(), NOW).await.unwrap();
        store.restart();
        assert_eq!(recover(&store, NOW).await, Recovered::default());
    }
}

#[tokio::test]
async fn a_backing_off_event_keeps_its_due_time_over_a_restart() {
    let mut store = TempStore::create();
    store.inbox().accept(new_event(&topic("telegram", "chat"), "hello"), NOW).await.unwrap();
    let claimed = claim_one(&store, NOW).await;
    let retry = TurnEnd::RetryAt { due_at: Millis(9_000), reason: "busy".to_owned() };
    store.turns().finish_turn(&claimed.event, retry, Vec::new(), NOW).await.unwrap();
    store.crash();
    recover(&store, NOW).await;
    assert_eq!(store.inbox().claim_next(10, Millis(8_999)).await.unwrap(), []);
    assert_eq!(claim_one(&store, Millis(9_000)).await.event.attempts, 2);
}

/// Changes stored bytes behind the store's back, as a failing disk would.
fn damage(store: &TempStore, sql: &str) {
    let changed = Connection::open(store.path()).unwrap().execute(sql, []).unwrap();
    assert_eq!(changed, 1, "{sql}");
}

#[tokio::test]
async fn a_damaged_event_is_set_aside_the_user_is_told_and_the_topic_goes_on() {
    let damages = [
        "UPDATE inbox_messages SET text = 'pay eve' WHERE seq = 1",
        "UPDATE inbox_messages SET text = CAST(x'66ff6f' AS TEXT) WHERE seq = 1",
        "UPDATE inbox_messages SET text = CAST(text AS BLOB) WHERE seq = 1",
        "UPDATE inbox_messages SET attempts = 1 << 40 WHERE seq = 1",
        "UPDATE turn_steps SET body_json = replace(body_json, 'noon', 'dawn') WHERE event_seq = 1",
        "UPDATE turn_steps SET body_json = CAST(x'ff' AS TEXT) WHERE event_seq = 1",
    ];
    for sql in damages {
        let store = TempStore::create();
        let chat = topic("telegram", "chat");
        let damaged = new_event(&chat, "pay ada");
        store.inbox().accept(damaged.clone(), NOW).await.unwrap();
        store.inbox().accept(new_event(&chat, "next"), NOW).await.unwrap();
        let first = claim_one(&store, NOW).await;
        store.turns().record_steps(&first.event, vec![step(0)], Vec::new()).await.unwrap();
        recover(&store, NOW).await;
        damage(&store, sql);

        assert_eq!(claim_one(&store, NOW).await.event.text, "next", "{sql}");
        let counts = store.inbox().counts().await.unwrap();
        assert_eq!((counts.failed, counts.processing), (1, 1), "{sql}");
        let told = replies_in(&store).await;
        assert_eq!(told.len(), 1, "{sql}: {told:?}");
        assert_eq!(told[0].0, chat, "{sql}");
        assert!(told[0].1.contains("damaged"), "{sql}: {told:?}");
    }
}

#[tokio::test]
async fn a_damaged_event_does_not_stop_the_recovery_of_the_others() {
    let mut store = TempStore::create();
    for key in ["damaged", "whole"] {
        store.inbox().accept(new_event(&topic("telegram", key), key), NOW).await.unwrap();
    }
    for _ in 1..RESTARTS_MAX {
        assert_eq!(store.inbox().claim_next(10, NOW).await.unwrap().len(), 2);
        recover(&store, NOW).await;
    }
    assert_eq!(store.inbox().claim_next(10, NOW).await.unwrap().len(), 2);
    damage(&store, "UPDATE inbox_messages SET text = 'other' WHERE seq = 1");
    store.crash();
    assert_eq!(recover(&store, NOW).await, Recovered { requeued: 0, failed: 2 });
    let told: Vec<TopicRef> = replies_in(&store).await.into_iter().map(|(topic, _)| topic).collect();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told.contains(&topic("telegram", "damaged")), "{told:?}");
}
