//! Polls that ask for order (D5), and polls that come at once (I8).

use crate::outbox::{nack, nack_of, poll, poll_of, send, send_all, texts};
use cortex_store::{Nack, OutboxPoll};
use cortex_testkit::{TempStore, new_reply, topic};
use cortex_types::{Delivery, Millis};
use std::collections::BTreeSet;
use std::time::Duration;

fn ordered() -> OutboxPoll {
    OutboxPoll { ordered: true, ..poll_of("telegram") }
}

async fn ack(store: &TempStore, delivery: &Delivery, now: i64) {
    let (id, lease) = (delivery.id.clone(), delivery.lease.clone());
    store.outbox().ack(id, lease, Millis(now)).await.unwrap().unwrap();
}

#[tokio::test]
async fn messages_of_one_topic_may_follow_each_other_in_one_ordered_answer() {
    let store = TempStore::create();
    send(&store, &topic("telegram", "chat"), &["1", "2", "3"], Millis(0)).await;
    let two = poll(&store, &OutboxPoll { max: 2, ..ordered() }, 0).await;
    assert_eq!(texts(&two), ["1", "2"]);
    assert_eq!(texts(&poll(&store, &ordered(), 1).await), [""; 0], "1 and 2 are not delivered yet");
    ack(&store, &two[1], 2).await;
    assert_eq!(texts(&poll(&store, &ordered(), 3).await), [""; 0], "1 is not delivered yet");
    ack(&store, &two[0], 4).await;
    assert_eq!(texts(&poll(&store, &ordered(), 5).await), ["3"]);
}

#[tokio::test]
async fn an_ordered_poll_never_overtakes_a_message_that_backs_off() {
    let store = TempStore::create();
    send(&store, &topic("telegram", "chat"), &["1", "2"], Millis(0)).await;
    send(&store, &topic("telegram", "other"), &["free"], Millis(0)).await;
    let first = poll(&store, &OutboxPoll { max: 1, ..ordered() }, 0).await.remove(0);
    nack(&store, nack_of(&first), 1_000, 0).await.unwrap();

    assert_eq!(texts(&poll(&store, &ordered(), 500).await), ["free"]);
    // Both are due now; 2 was due earlier, but it never goes ahead of 1.
    let answer = poll(&store, &ordered(), 1_000).await;
    assert_eq!(texts(&answer), ["1"]);
    ack(&store, &answer[0], 1_001).await;
    assert_eq!(texts(&poll(&store, &ordered(), 1_002).await), ["2"]);
}

#[tokio::test]
async fn a_plain_poll_goes_by_time_alone() {
    let store = TempStore::create();
    send(&store, &topic("telegram", "chat"), &["1", "2"], Millis(0)).await;
    let first = poll(&store, &OutboxPoll { max: 1, ..poll_of("telegram") }, 0).await.remove(0);
    nack(&store, nack_of(&first), 1_000, 0).await.unwrap();
    assert_eq!(texts(&poll(&store, &poll_of("telegram"), 500).await), ["2"]);
}

#[tokio::test]
async fn an_expired_lease_goes_out_again_before_what_follows_it() {
    let store = TempStore::create();
    send(&store, &topic("telegram", "chat"), &["1", "2"], Millis(0)).await;
    let first = poll(&store, &OutboxPoll { max: 1, ..ordered() }, 0).await.remove(0);
    assert_eq!(texts(&poll(&store, &ordered(), 9_999).await), [""; 0]);
    let again = poll(&store, &ordered(), 10_000).await;
    assert_eq!(texts(&again), ["1", "2"]);
    assert_eq!((again[0].id.clone(), again[0].attempts), (first.id, 2));
}

#[tokio::test]
async fn a_dead_message_holds_nobody_back() {
    let store = TempStore::create();
    send(&store, &topic("telegram", "chat"), &["refused", "worn out", "next"], Millis(0)).await;
    let refused = poll(&store, &OutboxPoll { max: 1, ..ordered() }, 0).await.remove(0);
    nack(&store, Nack { permanent: true, ..nack_of(&refused) }, 0, 0).await.unwrap();
    for claim in 1..=3 {
        let worn_out = poll(&store, &OutboxPoll { max: 1, ..ordered() }, claim * 10_000).await;
        assert_eq!(texts(&worn_out), ["worn out"]);
    }
    let last = poll(&store, &OutboxPoll { max: 1, ..ordered() }, 40_000).await;
    assert_eq!(texts(&last), ["next"], "the worn-out one dies inside this very poll");
}

#[tokio::test]
async fn a_message_to_another_channel_waits_in_the_topic_it_goes_to() {
    let store = TempStore::create();
    let (asked_in, target) = (topic("telegram", "chat"), topic("slack", "team"));
    let replies = vec![new_reply(&target, "for slack"), new_reply(&asked_in, "for telegram")];
    send_all(&store, &asked_in, replies, Millis(0)).await;
    // Nobody polls slack; what goes to telegram must not wait for that.
    assert_eq!(texts(&poll(&store, &ordered(), 0).await), ["for telegram"]);
    send(&store, &target, &["second for slack"], Millis(1)).await;
    let slack = OutboxPoll { max: 1, ordered: true, ..poll_of("slack") };
    assert_eq!(texts(&poll(&store, &slack, 1).await), ["for slack"]);
    assert_eq!(texts(&poll(&store, &slack, 2).await), [""; 0]);
}

#[tokio::test]
async fn a_long_blocked_topic_does_not_hide_what_is_due_behind_it() {
    let store = TempStore::create();
    let many: Vec<String> = (0..300).map(|number| number.to_string()).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    send(&store, &topic("telegram", "blocked"), &many, Millis(0)).await;
    send(&store, &topic("telegram", "free"), &["free"], Millis(1)).await;
    assert_eq!(texts(&poll(&store, &OutboxPoll { max: 1, ..ordered() }, 1).await), ["0"]);
    assert_eq!(texts(&poll(&store, &OutboxPoll { max: 5, ..ordered() }, 1).await), ["free"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn twenty_pollers_at_once_get_disjoint_messages_and_miss_none() {
    for is_ordered in [false, true] {
        let store = TempStore::create();
        let mut sent = BTreeSet::new();
        for number in 0..100 {
            let chat = topic("telegram", &format!("chat {number}"));
            sent.extend(send(&store, &chat, &["1", "2", "3"], Millis(0)).await);
        }
        let mut pollers = tokio::task::JoinSet::new();
        for _ in 0..20 {
            let store = store.clone();
            let request = OutboxPoll {
                max: 7,
                lease: Duration::from_secs(300),
                ordered: is_ordered,
                ..poll_of("telegram")
            };
            pollers.spawn(async move { drain(&store, &request).await });
        }
        let handed_out: Vec<_> = pollers.join_all().await.concat();
        assert_eq!(handed_out.len(), 300, "each message exactly once");
        assert_eq!(handed_out.into_iter().collect::<BTreeSet<_>>(), sent);
    }
}

/// Polls and acks until everything is delivered, by whomever.
async fn drain(store: &cortex_store::Store, request: &OutboxPoll) -> Vec<cortex_types::OutboxId> {
    let mut seen = Vec::new();
    loop {
        let counts = store.outbox().counts().await.unwrap();
        if counts.delivered == 300 {
            return seen;
        }
        for delivery in store.outbox().claim_due(request.clone(), Millis(0)).await.unwrap() {
            store.outbox().ack(delivery.id.clone(), delivery.lease, Millis(0)).await.unwrap().unwrap();
            seen.push(delivery.id);
        }
    }
}
