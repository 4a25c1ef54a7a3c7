//! What waits in a conversation is handed to whoever comes for it, once, and comes back when he leaves.

use crate::outbox::{nack, nack_of, poll, poll_of, send};
use cortex_store::{HandOver, HandedOver, RepliesOf, ReturnedLease};
use cortex_testkit::{TempStore, answered, new_event, new_reply, topic};
use cortex_types::{EventId, LeaseToken, Millis, OutboxId, OutboxStatus, TopicRef};
use std::time::Duration;

fn garden() -> TopicRef {
    topic("openai", "garden")
}

async fn handed(store: &TempStore, replies_of: &[(&EventId, i64)], now: i64) -> Vec<HandedOver> {
    let replies_of =
        replies_of.iter().map(|(event, since)| RepliesOf { event: (*event).clone(), since: Millis(*since) });
    let request = HandOver {
        topic: garden(),
        replies_of: replies_of.collect(),
        lease: Duration::from_millis(100),
        attempts_max: 3,
    };
    store.outbox().hand_over(request, Millis(now)).await.unwrap()
}

fn texts(handed: &[HandedOver]) -> Vec<&str> {
    handed.iter().map(|handed| handed.message.text.as_str()).collect()
}

fn leases(handed: &[HandedOver]) -> Vec<(OutboxId, LeaseToken)> {
    handed.iter().map(|handed| (handed.message.id.clone(), handed.lease.clone().unwrap())).collect()
}

async fn put_back(store: &TempStore, handed: &[HandedOver], now: i64) -> usize {
    let returned = leases(handed).into_iter().map(|(id, lease)| ReturnedLease { id, lease, was_sent: false });
    store.outbox().give_back(returned.collect(), Millis(now)).await.unwrap()
}

/// Answers an event in the garden with these texts.
async fn answer(store: &TempStore, replies: &[&str], now: i64) -> EventId {
    let event = new_event(&garden(), "hello");
    store.inbox().accept(event.clone(), Millis(now)).await.unwrap();
    let claimed = store.inbox().claim_next(1, Millis(now)).await.unwrap().remove(0);
    let replies = replies.iter().map(|text| new_reply(&garden(), text)).collect();
    store.turns().finish_turn(&claimed.event, answered("x", replies), Vec::new(), Millis(now)).await.unwrap();
    event.id
}

#[tokio::test]
async fn a_conversation_gets_all_its_own_messages_in_order_and_nobody_elses() {
    let store = TempStore::create();
    send(&store, &garden(), &["1", "2"], Millis(0)).await;
    send(&store, &topic("openai", "shed"), &["other topic"], Millis(0)).await;
    send(&store, &topic("telegram", "garden"), &["other source"], Millis(0)).await;
    send(&store, &garden(), &["3"], Millis(0)).await;
    let first = handed(&store, &[], 1).await;
    assert_eq!(texts(&first), ["1", "2", "3"]);
    assert_eq!(texts(&handed(&store, &[], 2).await), [""; 0], "they are leased");
    assert_eq!(texts(&handed(&store, &[], 101).await), ["1", "2", "3"], "until the lease ends");
    let nowhere = HandOver {
        topic: topic("openai", "x"),
        replies_of: Vec::new(),
        lease: Duration::ZERO,
        attempts_max: 3,
    };
    assert_eq!(store.outbox().hand_over(nowhere, Millis(0)).await.unwrap(), []);
}

#[tokio::test]
async fn what_is_put_back_waits_as_before_and_the_attempt_does_not_count() {
    let store = TempStore::create();
    send(&store, &garden(), &["1", "2"], Millis(0)).await;
    for now in 0..20 {
        let taken = handed(&store, &[], now).await;
        assert_eq!(texts(&taken), ["1", "2"], "attempt {now}: a reader who leaves uses nothing up");
        assert_eq!(taken[0].message.attempts, 1);
        assert_eq!(put_back(&store, &taken, now).await, 2);
        assert_eq!(put_back(&store, &taken, now).await, 0, "the lease is void");
    }
    let taken = handed(&store, &[], 30).await;
    let (id, lease) = leases(&taken).remove(0);
    store.outbox().ack(id, lease, Millis(31)).await.unwrap().unwrap();
    assert_eq!(put_back(&store, &taken, 32).await, 1, "what was delivered stays so");
    assert_eq!(texts(&handed(&store, &[], 33).await), ["2"]);
}

#[tokio::test]
async fn a_message_that_backs_off_is_handed_over_and_one_without_attempts_left_is_dead() {
    let store = TempStore::create();
    send(&store, &garden(), &["1"], Millis(0)).await;
    let delivery = poll(&store, &poll_of("openai"), 0).await.remove(0);
    nack(&store, nack_of(&delivery), 60_000, 0).await.unwrap();
    assert_eq!(texts(&handed(&store, &[], 1).await), ["1"], "its reader is here now");
    assert_eq!(texts(&handed(&store, &[], 200).await), ["1"]);
    assert_eq!(texts(&handed(&store, &[], 400).await), [""; 0], "three claims are the most");
    let found = store.outbox().find(delivery.id).await.unwrap().unwrap();
    assert_eq!(found.status, OutboxStatus::Dead);
}

#[tokio::test]
async fn replies_that_somebody_else_has_are_shown_without_a_lease() {
    let store = TempStore::create();
    let early = answer(&store, &["early"], 0).await;
    let late = answer(&store, &["late"], 50).await;
    let taken = handed(&store, &[(&early, 0)], 60).await;
    assert_eq!(texts(&taken), ["early", "late"], "each once");
    assert!(taken.iter().all(|handed| handed.lease.is_some()));
    let (id, lease) = leases(&taken).remove(1);
    store.outbox().ack(id, lease, Millis(61)).await.unwrap().unwrap();
    let again = handed(&store, &[(&late, 0), (&early, 0)], 62).await;
    assert_eq!(texts(&again), ["early", "late"], "leased and delivered ones, oldest first");
    assert!(again.iter().all(|handed| handed.lease.is_none()));
    assert_eq!(texts(&handed(&store, &[(&early, 1)], 63).await), [""; 0], "only what came since then");
}

#[tokio::test]
async fn the_newest_event_of_a_topic_is_that_of_a_person_and_of_late() {
    let store = TempStore::create();
    let newest = async |since: i64| {
        store.inbox().newest_said(garden(), Millis(since)).await.unwrap().map(|event| event.text)
    };
    assert_eq!(newest(0).await, None);
    for (text, topic, channel, now) in [
        ("first", garden(), None, 10),
        ("second", garden(), None, 20),
        ("by the clock", garden(), Some("cron".to_owned()), 30),
        ("elsewhere", topic("telegram", "garden"), None, 40),
    ] {
        let event = cortex_types::NewEvent { channel, ..new_event(&topic, text) };
        store.inbox().accept(event, Millis(now)).await.unwrap();
    }
    assert_eq!(newest(0).await.as_deref(), Some("second"));
    assert_eq!(newest(20).await.as_deref(), Some("second"));
    assert_eq!(newest(21).await, None);
}
