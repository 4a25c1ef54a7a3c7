//! What waits in a conversation is handed to whoever comes for it, once, and comes back when he leaves.

use crate::outbox::{nack, nack_of, poll, poll_of, send};
use cortex_store::{HandOver, HandedOver, RepliesOf, ReturnedLease};
use cortex_testkit::{TempStore, answered, new_event, new_reply, topic};
use cortex_types::{EventId, LeaseToken, Millis, NewEvent, OutboxId, OutboxStatus, TopicRef};
use std::time::Duration;

fn garden() -> TopicRef {
    topic("openai", "garden")
}

async fn handed(store: &TempStore, replies_of: &[(&EventId, i64)], now: i64) -> Vec<HandedOver> {
    handed_beside(store, replies_of, &[], now).await
}

/// The same while others follow these events of the garden, by their external ids.
async fn handed_beside(
    store: &TempStore,
    replies_of: &[(&EventId, i64)],
    followed: &[&str],
    now: i64,
) -> Vec<HandedOver> {
    let replies_of =
        replies_of.iter().map(|(event, since)| RepliesOf { event: (*event).clone(), since: Millis(*since) });
    let request = HandOver {
        topic: garden(),
        replies_of: replies_of.collect(),
        lease: Duration::from_millis(100),
        attempts_max: 3,
    };
    let followed: Vec<String> = followed.iter().map(|name| (*name).to_owned()).collect();
    let is_followed =
        move |source: &str, name: &str| source == "openai" && followed.iter().any(|known| known == name);
    store.outbox().hand_over(request, is_followed, Millis(now)).await.unwrap()
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
    answer_to(store, new_event(&garden(), "hello"), replies, now).await
}

async fn answer_to(store: &TempStore, event: NewEvent, replies: &[&str], now: i64) -> EventId {
    store.inbox().accept(event.clone(), Millis(now)).await.unwrap();
    let claimed = store.inbox().claim_next(1, Millis(now)).await.unwrap().whole.remove(0);
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
    assert_eq!(store.outbox().hand_over(nowhere, |_, _| false, Millis(0)).await.unwrap(), []);
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
        let event = NewEvent { channel, ..new_event(&topic, text) };
        store.inbox().accept(event, Millis(now)).await.unwrap();
    }
    assert_eq!(newest(0).await.as_deref(), Some("second"));
    assert_eq!(newest(20).await.as_deref(), Some("second"));
    assert_eq!(newest(21).await, None);
}

#[tokio::test]
async fn what_an_event_led_to_is_for_who_follows_it_and_the_rest_for_whoever_comes() {
    let store = TempStore::create();
    let named = |name: &str| NewEvent { external_message_id: name.to_owned(), ..new_event(&garden(), name) };
    let first = answer_to(&store, named("first"), &["to the first"], 0).await;
    let second = answer_to(&store, named("second"), &["to the second"], 0).await;
    answer_to(&store, named("third"), &["to nobody"], 0).await;
    let both = ["first", "second"];
    assert_eq!(
        texts(&handed_beside(&store, &[(&second, 0)], &both, 1).await),
        ["to the second", "to nobody"]
    );
    assert_eq!(texts(&handed_beside(&store, &[], &both, 2).await), [""; 0]);
    assert_eq!(texts(&handed_beside(&store, &[(&first, 0)], &both, 3).await), ["to the first"]);
    assert_eq!(texts(&handed_beside(&store, &[], &["first"], 200).await), ["to the second", "to nobody"]);
}

#[tokio::test]
async fn followed_messages_take_no_place_from_those_that_are_for_everybody() {
    let store = TempStore::create();
    let event = NewEvent { external_message_id: "busy".to_owned(), ..new_event(&garden(), "hello") };
    let many: Vec<String> = (0..130).map(|number| number.to_string()).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    answer_to(&store, event, &many, 0).await;
    answer(&store, &["to nobody"], 1).await;
    assert_eq!(texts(&handed_beside(&store, &[], &["busy"], 2).await), ["to nobody"]);
}

#[tokio::test]
async fn what_its_reader_stopped_is_given_up_and_shown_to_who_asks_for_it_again() {
    let store = TempStore::create();
    let other = answer(&store, &["other"], 0).await;
    let stopped = answer(&store, &["1", "2"], 0).await;
    let replies = |since: i64| RepliesOf { event: stopped.clone(), since: Millis(since) };
    assert_eq!(store.outbox().stop(replies(1), Millis(1)).await.unwrap(), 0, "only what came since then");
    let taken = handed(&store, &[], 1).await;
    assert_eq!(texts(&taken), ["other", "1", "2"]);
    assert_eq!(store.outbox().stop(replies(0), Millis(2)).await.unwrap(), 2);
    assert_eq!(put_back(&store, &taken, 3).await, 1, "its lease is void");
    assert_eq!(texts(&handed(&store, &[(&other, 0)], 4).await), ["other"]);
    assert_eq!(texts(&handed(&store, &[(&stopped, 0)], 5).await), ["1", "2"]);
    let row = store.outbox().find(taken[1].message.id.clone()).await.unwrap().unwrap();
    assert_eq!(
        (row.status, row.last_error.as_deref()),
        (OutboxStatus::Discarded, Some("its reader stopped the stream"))
    );
    store.outbox().discard(taken[0].message.id.clone(), Millis(6)).await.unwrap();
    assert_eq!(texts(&handed(&store, &[(&other, 0)], 7).await), [""; 0], "what a person gave up stays so");
}
