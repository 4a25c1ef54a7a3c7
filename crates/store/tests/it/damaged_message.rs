//! A message on its way out that is damaged on disk: what is whole about it leaves, and all beside it does.

use crate::damaged_row::lose;
use crate::outbox::{poll, poll_of, send, texts};
use crate::recovery::damage;
use cortex_store::OutboxPoll;
use cortex_testkit::{TempStore, topic};
use cortex_types::Millis;

const NOW: Millis = Millis(1_000);
/// When the lease of a message that was polled at `NOW` has ended.
const LATER: i64 = 20_000;

/// The first of three messages is damaged; the first two are of one topic.
async fn waiting() -> TempStore {
    let store = TempStore::create();
    send(&store, &topic("b", "one"), &["damaged", "behind it"], NOW).await;
    send(&store, &topic("b", "other"), &["beside it"], NOW).await;
    store
}

async fn polled(store: &TempStore, ordered: bool, now: i64) -> Vec<String> {
    let request = OutboxPoll { ordered, ..poll_of("b") };
    let mut left: Vec<String> = Vec::new();
    // One alone, so that a page ends behind the damaged one.
    for max in [1, 10] {
        let polled = poll(store, &OutboxPoll { max, ..request.clone() }, now).await;
        left.extend(texts(&polled).into_iter().map(str::to_owned));
    }
    left.sort();
    left
}

#[tokio::test]
async fn a_message_whose_time_cannot_be_read_is_due() {
    let times = ["'later'", "CAST(x'ff' AS TEXT)", "x'00'", "0.5", "1e300 * 1e300"];
    for time in times {
        for ordered in [false, true] {
            let store = waiting().await;
            damage(&store, &format!("UPDATE outbox_messages SET next_attempt_at = {time} WHERE seq = 1"));
            let next = store.outbox().next_due("b".to_owned(), NOW).await;
            assert!(next.is_ok(), "{time}: {next:?}");
            let polled = polled(&store, ordered, NOW.0).await;
            // What is no text and yet later than all times is for the next start.
            let expected: &[&str] = match (time, ordered) {
                ("1e300 * 1e300", false) => &["behind it", "beside it"],
                ("1e300 * 1e300", true) => &["beside it"],
                (_, false) => &["behind it", "beside it", "damaged"],
                (_, true) => &["beside it", "damaged"],
            };
            assert_eq!(polled, expected, "{time}, ordered: {ordered}");
        }
    }
}

#[tokio::test]
async fn a_message_whose_age_cannot_be_read_is_dead_and_the_others_leave() {
    for age in ["'noon'", "CAST(x'ff' AS TEXT)", "x'00'", "0.5"] {
        for ordered in [false, true] {
            let store = waiting().await;
            damage(&store, &format!("UPDATE outbox_messages SET created_at = {age} WHERE seq = 1"));
            let polled = polled(&store, ordered, LATER).await;
            assert_eq!(polled, ["behind it", "beside it"], "{age}, ordered: {ordered}");
            assert_eq!(store.outbox().counts().await.unwrap().dead, 1, "{age}");
        }
    }
}

#[tokio::test]
async fn a_message_that_lost_a_number_keeps_no_other() {
    let lost = [
        ("attempts", false),
        ("created_at", false),
        ("created_at", true),
        ("topic_id", false),
        ("topic_id", true),
    ];
    for (column, ordered) in lost {
        let store = waiting().await;
        lose(&store, "outbox_messages", column, "seq = 1");
        let mut left = polled(&store, ordered, LATER).await;
        left.retain(|text| text != "damaged");
        assert_eq!(left, ["behind it", "beside it"], "{column}, ordered: {ordered}");
        assert_eq!(store.outbox().counts().await.unwrap().pending, 0, "{column}");
    }
}

#[tokio::test]
async fn a_message_of_an_event_that_is_not_there_is_dead_and_the_others_leave() {
    let store = waiting().await;
    damage(&store, "UPDATE outbox_messages SET event_seq = 99 WHERE seq = 1");
    assert_eq!(polled(&store, true, NOW.0).await, ["behind it", "beside it"]);
    assert_eq!(store.outbox().counts().await.unwrap().dead, 1);
}

#[tokio::test]
async fn a_lease_whose_end_cannot_be_read_has_ended() {
    for end in ["'later'", "CAST(x'ff' AS TEXT)", "NULL", "1e300 * 1e300"] {
        let store = TempStore::create();
        send(&store, &topic("b", "one"), &["damaged"], NOW).await;
        assert_eq!(poll(&store, &poll_of("b"), NOW.0).await.len(), 1);
        damage(&store, &format!("UPDATE outbox_messages SET lease_expires_at = {end} WHERE seq = 1"));
        let next = store.outbox().next_due("b".to_owned(), NOW).await;
        assert!(next.is_ok(), "{end}: {next:?}");
        assert_eq!(texts(&poll(&store, &poll_of("b"), LATER).await), ["damaged"], "{end}");
    }
}
