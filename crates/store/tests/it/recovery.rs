//! What a start does with the events a dead process left in flight, and with damaged ones.

use crate::outbox::{poll, poll_of, send, texts};
use cortex_store::{Claimed, Claims, OutboxPoll, Recovered, TurnEnd};
use cortex_testkit::{TempStore, answered, new_event, new_reply, topic};
use cortex_types::{InboxStatus, Millis, OutboxStatus, Step, StepBody, TopicRef};
use rusqlite::Connection;
use std::time::Duration;

const NOW: Millis = Millis(1_000);
const RESTARTS_MAX: u32 = 3;

pub(crate) async fn recover(store: &TempStore, now: Millis) -> Recovered {
    let notice = |event: &cortex_types::Event| new_reply(&event.topic, "I could not answer this.");
    store.inbox().recover(RESTARTS_MAX, now, notice).await.unwrap()
}

pub(crate) async fn claim_one(store: &TempStore, now: Millis) -> Claimed {
    let mut claimed = store.inbox().claim_next(10, now).await.unwrap().whole;
    assert_eq!(claimed.len(), 1, "{claimed:?}");
    claimed.remove(0)
}

pub(crate) async fn replies_in(store: &TempStore) -> Vec<(TopicRef, String)> {
    let page = cortex_store::PageRequest::newest(100);
    let rows = store.outbox().list(Some(OutboxStatus::Pending), None, page).await.unwrap().rows;
    rows.into_iter().map(|row| (row.topic, row.text)).collect()
}

fn step(number: u32) -> Step {
    let body = StepBody::ToolAnswered {
        call_id: format!("call {number}"),
        name: "clock.now".to_owned(),
        text: "noon".to_owned(),
        ending: cortex_types::ToolEnding::Done,
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
    assert_eq!(
        store.inbox().claim_next(10, NOW).await.unwrap(),
        Claims::default(),
        "in flight until it is recovered"
    );
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
    store
        .turns()
        .record_steps(&first.event, vec![step(0)], Vec::new(), Vec::new(), cortex_types::Millis(1))
        .await
        .unwrap();
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
    assert_eq!(store.inbox().claim_next(10, Millis(8_999)).await.unwrap(), Claims::default());
    assert_eq!(claim_one(&store, Millis(9_000)).await.event.attempts, 2);
}

#[tokio::test]
async fn after_the_clock_was_set_back_no_topic_waits_longer_than_the_horizon() {
    let mut store = TempStore::create();
    store.inbox().accept(new_event(&topic("telegram", "chat"), "hello"), NOW).await.unwrap();
    let claimed = claim_one(&store, NOW).await;
    let retry = TurnEnd::RetryAt { due_at: Millis(86_400_000), reason: "busy".to_owned() };
    store.turns().finish_turn(&claimed.event, retry, Vec::new(), NOW).await.unwrap();
    store.crash();
    recover(&store, NOW).await;
    assert_eq!(store.inbox().clamp_future(Duration::from_millis(5_000), NOW).await, Ok(1));
    assert_eq!(store.inbox().clamp_future(Duration::from_millis(5_000), NOW).await, Ok(0));
    assert_eq!(store.inbox().next_due().await, Ok(Some(Millis(6_000))));
    assert_eq!(store.inbox().claim_next(10, Millis(5_999)).await.unwrap(), Claims::default());
    assert_eq!(claim_one(&store, Millis(6_000)).await.event.text, "hello");
}

/// Changes stored bytes behind the store's back, as a failing disk would.
pub(crate) fn damage(store: &TempStore, sql: &str) {
    let connection = Connection::open(store.path()).unwrap();
    connection.execute_batch("PRAGMA foreign_keys = 0").unwrap();
    let changed = connection.execute(sql, []).unwrap();
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
        store
            .turns()
            .record_steps(&first.event, vec![step(0)], Vec::new(), Vec::new(), cortex_types::Millis(1))
            .await
            .unwrap();
        recover(&store, NOW).await;
        damage(&store, sql);

        let claims = store.inbox().claim_next(1, NOW).await.unwrap();
        assert_eq!(claims.damaged, [damaged.id], "{sql}");
        assert_eq!(claims.whole[0].event.text, "next", "{sql}");
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
        assert_eq!(store.inbox().claim_next(10, NOW).await.unwrap().whole.len(), 2);
        recover(&store, NOW).await;
    }
    assert_eq!(store.inbox().claim_next(10, NOW).await.unwrap().whole.len(), 2);
    damage(&store, "UPDATE inbox_messages SET text = 'other' WHERE seq = 1");
    store.crash();
    assert_eq!(recover(&store, NOW).await, Recovered { requeued: 0, failed: 2 });
    let told: Vec<TopicRef> = replies_in(&store).await.into_iter().map(|(topic, _)| topic).collect();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told.contains(&topic("telegram", "damaged")), "{told:?}");
}

#[tokio::test]
async fn a_damaged_head_never_runs_a_finished_event_again() {
    let mut store = TempStore::create();
    let chat = topic("telegram", "chat");
    store.inbox().accept(new_event(&chat, "finished"), NOW).await.unwrap();
    let finished = claim_one(&store, NOW).await;
    let end = answered("ok", Vec::new());
    store.turns().finish_turn(&finished.event, end, Vec::new(), NOW).await.unwrap();
    store.inbox().accept(new_event(&chat, "next"), NOW).await.unwrap();
    store.inbox().accept(new_event(&topic("telegram", "other"), "elsewhere"), NOW).await.unwrap();
    damage(&store, "UPDATE topics SET head_seq = 1 WHERE topic_key = 'chat'");

    assert_eq!(claim_one(&store, NOW).await.event.text, "elsewhere", "the others go on");
    store.crash();
    recover(&store, NOW).await;
    let texts: Vec<String> = store
        .inbox()
        .claim_next(10, NOW)
        .await
        .unwrap()
        .whole
        .into_iter()
        .map(|claimed| claimed.event.text)
        .collect();
    assert_eq!(texts, ["next", "elsewhere"], "the next start finds the real head");
    let kept = store.inbox().find(finished.event.id).await.unwrap().unwrap();
    assert_eq!((kept.status, kept.attempts), (InboxStatus::Done, 1));
}

#[tokio::test]
async fn a_damaged_message_is_dead_and_holds_no_other() {
    let whole = ["pay ada", "next"];
    let damages = [
        ("text = 'pay eve'", &whole[1..]),
        ("text = CAST(x'66ff6f' AS TEXT)", &whole[1..]),
        ("payload_json = CAST(x'00' AS BLOB)", &whole[1..]),
        ("created_at = created_at - 1", &whole[1..]),
        // What is said and to whom is whole, so it goes out.
        ("topic_id = 'none'", &whole[..]),
    ];
    for (change, expected) in damages {
        for ordered in [false, true] {
            let store = TempStore::create();
            send(&store, &topic("telegram", "chat"), &whole, NOW).await;
            damage(&store, &format!("UPDATE outbox_messages SET {change} WHERE seq = 1"));
            let request = OutboxPoll { ordered, ..poll_of("telegram") };
            assert_eq!(texts(&poll(&store, &request, NOW.0).await), expected, "{change}");
            let dead = whole.len() - expected.len();
            assert_eq!(store.outbox().counts().await.unwrap().dead, dead as u64, "{change}");
        }
    }
}
