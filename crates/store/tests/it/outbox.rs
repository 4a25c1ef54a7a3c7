//! A message on its way out: claimed in order, leased to one, acked, nacked, given up or tried again.

use cortex_store::{
    Acked, DiscardOutcome, LeaseRefused, Nack, Nacked, OutboxMessage, OutboxPoll, PageRequest, RequeueOutcome,
};
use cortex_testkit::{TempStore, answered, new_event, new_reply, topic};
use cortex_types::{Delivery, LeaseToken, Millis, NewReply, OutboxId, OutboxStatus, TopicRef};
use std::time::Duration;

const LEASE: Duration = Duration::from_millis(10_000);

/// Sends texts to a topic, as the end of one turn.
pub(crate) async fn send(store: &TempStore, topic: &TopicRef, texts: &[&str], now: Millis) -> Vec<OutboxId> {
    send_all(store, topic, texts.iter().map(|text| new_reply(topic, text)).collect(), now).await
}

pub(crate) async fn send_all(
    store: &TempStore,
    asked_in: &TopicRef,
    replies: Vec<NewReply>,
    now: Millis,
) -> Vec<OutboxId> {
    store.inbox().accept(new_event(asked_in, "say it"), now).await.unwrap();
    let claimed = store.inbox().claim_next(1, now).await.unwrap().whole.remove(0);
    let ids = replies.iter().map(|reply| reply.id.clone()).collect();
    store.turns().finish_turn(&claimed.event, answered("said", replies), Vec::new(), now).await.unwrap();
    ids
}

pub(crate) fn poll_of(source: &str) -> OutboxPoll {
    OutboxPoll {
        source: source.to_owned(),
        max: 10,
        lease: LEASE,
        ordered: false,
        attempts_max: 3,
        pushed: false,
        holder: None,
        topic_key: None,
    }
}

pub(crate) async fn poll(store: &TempStore, request: &OutboxPoll, now: i64) -> Vec<Delivery> {
    store.outbox().claim_due(request.clone(), Millis(now)).await.unwrap()
}

pub(crate) fn texts(deliveries: &[Delivery]) -> Vec<&str> {
    deliveries.iter().map(|delivery| delivery.text.as_str()).collect()
}

async fn row(store: &TempStore, id: &OutboxId) -> OutboxMessage {
    store.outbox().find(id.clone()).await.unwrap().unwrap()
}

pub(crate) fn nack_of(delivery: &Delivery) -> Nack {
    let (id, lease) = (delivery.id.clone(), delivery.lease.clone());
    Nack { id, lease, error: Some("chat is gone".to_owned()), retry_after: None, permanent: false }
}

pub(crate) async fn nack(
    store: &TempStore,
    nack: Nack,
    delay_ms: u64,
    now: i64,
) -> Result<Nacked, LeaseRefused> {
    let delay_for = move |attempts| Duration::from_millis(delay_ms * u64::from(attempts));
    store.outbox().nack(nack, delay_for, Millis(now)).await.unwrap()
}

fn foreign_lease() -> LeaseToken {
    "lease_01ARZ3NDEKTSV4RRFFQ69G5FAV".parse().unwrap()
}

#[tokio::test]
async fn due_messages_go_by_next_attempt_then_creation_then_insertion() {
    let store = TempStore::create();
    send(&store, &topic("telegram", "a"), &["late 1", "late 2"], Millis(300)).await;
    send(&store, &topic("telegram", "b"), &["early 1", "early 2"], Millis(100)).await;
    send(&store, &topic("telegram", "c"), &["same time as early"], Millis(100)).await;
    send(&store, &topic("slack", "a"), &["another source"], Millis(1)).await;
    // Nacked until 300, made at 100: before those made at 300.
    let first = poll(&store, &OutboxPoll { max: 1, ..poll_of("telegram") }, 250).await.remove(0);
    assert_eq!(first.text, "early 1");
    nack(&store, nack_of(&first), 50, 250).await.unwrap();

    let two = poll(&store, &OutboxPoll { max: 2, ..poll_of("telegram") }, 400).await;
    assert_eq!(texts(&two), ["early 2", "same time as early"]);
    assert_eq!(texts(&poll(&store, &poll_of("telegram"), 400).await), ["early 1", "late 1", "late 2"]);
    assert_eq!(texts(&poll(&store, &poll_of("telegram"), 400).await), [""; 0]);
}

#[tokio::test]
async fn a_delivery_carries_what_was_sent_and_its_lease() {
    let store = TempStore::create();
    let chat = topic("telegram", "chat");
    let reply = NewReply { payload_json: Some(r#"{"buttons":[]}"#.to_owned()), ..new_reply(&chat, "hi") };
    send_all(&store, &chat, vec![reply.clone()], Millis(100)).await;
    let delivery = poll(&store, &poll_of("telegram"), 200).await.remove(0);
    assert_eq!((delivery.id.clone(), delivery.topic.clone(), delivery.attempts), (reply.id, chat, 1));
    assert_eq!((delivery.text, delivery.payload_json), (reply.text, reply.payload_json));
    assert_eq!(delivery.lease_expires_at, Millis(200).after(LEASE));
    let kept = row(&store, &delivery.id).await;
    assert_eq!((kept.status, kept.attempts, kept.next_attempt_at), (OutboxStatus::Leased, 1, Millis(100)));
    assert_eq!((kept.leased_at, kept.lease_expires_at), (Some(Millis(200)), Some(Millis(10_200))));
}

#[tokio::test]
async fn a_message_is_not_due_before_it_was_made() {
    let store = TempStore::create();
    send(&store, &topic("telegram", "chat"), &["hi"], Millis(100)).await;
    assert_eq!(texts(&poll(&store, &poll_of("telegram"), 99).await), [""; 0]);
    assert_eq!(texts(&poll(&store, &poll_of("telegram"), 100).await), ["hi"]);
}

#[tokio::test]
async fn an_expired_lease_is_reclaimed_at_its_very_end_under_a_new_token() {
    let store = TempStore::create();
    send(&store, &topic("telegram", "chat"), &["hi"], Millis(0)).await;
    let first = poll(&store, &poll_of("telegram"), 0).await.remove(0);
    assert_eq!(texts(&poll(&store, &poll_of("telegram"), 9_999).await), [""; 0]);
    let second = poll(&store, &poll_of("telegram"), 10_000).await.remove(0);
    assert_eq!((second.id.clone(), second.attempts), (first.id.clone(), 2));
    assert_ne!(second.lease, first.lease);
    let ack = store.outbox().ack(first.id, first.lease, Millis(10_001)).await;
    assert_eq!(ack, Ok(Err(LeaseRefused::Conflict)));
    assert_eq!(row(&store, &second.id).await.status, OutboxStatus::Leased);
}

#[tokio::test]
async fn after_its_last_claim_a_message_is_dead_and_takes_no_place_in_the_answer() {
    let store = TempStore::create();
    let chat = topic("telegram", "chat");
    let ids = send(&store, &chat, &["never acked"], Millis(0)).await;
    for claim in 1..=3 {
        let deliveries = poll(&store, &poll_of("telegram"), claim * 10_000).await;
        assert_eq!(texts(&deliveries), ["never acked"], "claim {claim}");
    }
    send(&store, &chat, &["fresh"], Millis(40_000)).await;
    let next = poll(&store, &OutboxPoll { max: 1, ..poll_of("telegram") }, 40_000).await;
    assert_eq!(texts(&next), ["fresh"]);
    let dead = row(&store, &ids[0]).await;
    assert_eq!((dead.status, dead.attempts, dead.lease_expires_at), (OutboxStatus::Dead, 4, None));
    assert_eq!(dead.last_error.as_deref(), Some("not delivered in 3 attempts"));
    let listed = store.outbox().list(Some(OutboxStatus::Dead), None, PageRequest::newest(10)).await.unwrap();
    assert_eq!(listed.rows, [dead]);
    assert_eq!(texts(&poll(&store, &poll_of("telegram"), 90_000).await), ["fresh"]);
}

#[tokio::test]
async fn an_ack_is_answered_in_four_ways() {
    let store = TempStore::create();
    let chat = topic("telegram", "chat");
    send(&store, &chat, &["one", "two"], Millis(0)).await;
    let deliveries = poll(&store, &poll_of("telegram"), 0).await;
    let [one, two] = &deliveries[..] else { panic!("{deliveries:?}") };
    let ack = async |id: &OutboxId, lease: &LeaseToken, now| {
        store.outbox().ack(id.clone(), lease.clone(), Millis(now)).await.unwrap()
    };
    assert_eq!(ack(&one.id, &two.lease, 1).await, Err(LeaseRefused::Conflict));
    assert_eq!(ack(&one.id, &one.lease, 9_999).await, Ok(Acked::Delivered));
    assert_eq!(ack(&one.id, &one.lease, 99_999).await, Ok(Acked::AlreadyDelivered));
    assert_eq!(ack(&one.id, &foreign_lease(), 5).await, Err(LeaseRefused::Conflict));
    assert_eq!(ack(&two.id, &two.lease, 10_000).await, Err(LeaseRefused::Conflict), "expired at its end");
    assert_eq!(ack(&new_reply(&chat, "").id, &one.lease, 1).await, Err(LeaseRefused::NotFound));

    let delivered = row(&store, &one.id).await;
    assert_eq!((delivered.status, delivered.delivered_at), (OutboxStatus::Delivered, Some(Millis(9_999))));
    assert_eq!(row(&store, &two.id).await.status, OutboxStatus::Leased);
    let counts = store.outbox().counts().await.unwrap();
    assert_eq!((counts.pending, counts.leased, counts.delivered), (0, 1, 1));
}

#[tokio::test]
async fn a_nack_waits_for_the_longer_of_backoff_and_retry_after() {
    let store = TempStore::create();
    send(&store, &topic("telegram", "chat"), &["hi"], Millis(0)).await;
    let first = poll(&store, &poll_of("telegram"), 0).await.remove(0);
    let report = Nack { retry_after: Some(Duration::from_millis(400)), ..nack_of(&first) };
    let pending = |at| Ok(Nacked::Pending { next_attempt_at: Millis(at) });
    assert_eq!(nack(&store, report.clone(), 1_000, 50).await, pending(1_050));
    let kept = row(&store, &first.id).await;
    assert_eq!((kept.status, kept.attempts, kept.lease_expires_at), (OutboxStatus::Pending, 1, None));
    assert_eq!(kept.last_error.as_deref(), Some("chat is gone"));
    assert_eq!(nack(&store, report, 1_000, 60).await, Err(LeaseRefused::Conflict), "the lease is over");

    assert_eq!(texts(&poll(&store, &poll_of("telegram"), 1_049).await), [""; 0]);
    let second = poll(&store, &poll_of("telegram"), 1_050).await.remove(0);
    let report = Nack { retry_after: Some(Duration::from_millis(4_000)), ..nack_of(&second) };
    assert_eq!(nack(&store, report, 1_000, 2_000).await, pending(6_000), "attempt 2 backs off 2,000 ms");
}

#[tokio::test]
async fn a_nack_never_buries_by_itself_but_the_next_claim_does() {
    let store = TempStore::create();
    let ids = send(&store, &topic("telegram", "chat"), &["hi"], Millis(0)).await;
    for claim in 1..=3 {
        let delivery = poll(&store, &poll_of("telegram"), claim * 100).await.remove(0);
        let outcome = nack(&store, nack_of(&delivery), 0, claim * 100).await;
        assert_eq!(outcome, Ok(Nacked::Pending { next_attempt_at: Millis(claim * 100) }));
    }
    assert_eq!(row(&store, &ids[0]).await.status, OutboxStatus::Pending);
    assert_eq!(texts(&poll(&store, &poll_of("telegram"), 400).await), [""; 0]);
    let dead = row(&store, &ids[0]).await;
    assert_eq!((dead.status, dead.attempts), (OutboxStatus::Dead, 4));
    assert_eq!(dead.last_error.as_deref(), Some("not delivered in 3 attempts; last: chat is gone"));
}

#[tokio::test]
async fn a_permanent_nack_is_dead_at_once_and_needs_the_lease_too() {
    let store = TempStore::create();
    let chat = topic("telegram", "chat");
    send(&store, &chat, &["hi"], Millis(0)).await;
    let delivery = poll(&store, &poll_of("telegram"), 0).await.remove(0);
    let report = Nack { permanent: true, ..nack_of(&delivery) };
    let foreign = Nack { lease: foreign_lease(), ..report.clone() };
    assert_eq!(nack(&store, foreign, 0, 1).await, Err(LeaseRefused::Conflict));
    let unknown = Nack { id: new_reply(&chat, "").id, ..report.clone() };
    assert_eq!(nack(&store, unknown, 0, 1).await, Err(LeaseRefused::NotFound));
    assert_eq!(nack(&store, report.clone(), 0, 10_000).await, Err(LeaseRefused::Conflict), "expired");
    assert_eq!(nack(&store, report, 0, 1).await, Ok(Nacked::Dead));
    let dead = row(&store, &delivery.id).await;
    assert_eq!((dead.status, dead.attempts), (OutboxStatus::Dead, 1));
    assert_eq!(dead.last_error.as_deref(), Some("chat is gone"));
}

#[tokio::test]
async fn a_dead_or_discarded_message_can_be_tried_again_from_the_start() {
    let store = TempStore::create();
    let chat = topic("telegram", "chat");
    send(&store, &chat, &["hi"], Millis(0)).await;
    let delivery = poll(&store, &poll_of("telegram"), 0).await.remove(0);
    let requeue = async |now| store.outbox().requeue(delivery.id.clone(), Millis(now)).await.unwrap();
    assert_eq!(requeue(1).await, RequeueOutcome::Is(OutboxStatus::Leased));
    nack(&store, Nack { permanent: true, ..nack_of(&delivery) }, 0, 1).await.unwrap();
    assert_eq!(requeue(500).await, RequeueOutcome::Requeued);
    assert_eq!(requeue(501).await, RequeueOutcome::Is(OutboxStatus::Pending));
    let again = row(&store, &delivery.id).await;
    assert_eq!((again.attempts, again.next_attempt_at), (0, Millis(500)));
    assert_eq!(store.outbox().discard(delivery.id.clone(), Millis(600)).await, Ok(DiscardOutcome::Discarded));
    assert_eq!(texts(&poll(&store, &poll_of("telegram"), 600).await), [""; 0]);
    assert_eq!(requeue(700).await, RequeueOutcome::Requeued);
    let last = poll(&store, &poll_of("telegram"), 700).await.remove(0);
    store.outbox().ack(last.id.clone(), last.lease, Millis(700)).await.unwrap().unwrap();
    assert_eq!(requeue(800).await, RequeueOutcome::Is(OutboxStatus::Delivered));
    let unknown = store.outbox().requeue(new_reply(&chat, "").id, Millis(1)).await;
    assert_eq!(unknown, Ok(RequeueOutcome::NotFound));
}

#[tokio::test]
async fn a_discarded_message_takes_the_lease_from_who_holds_it() {
    let store = TempStore::create();
    let chat = topic("telegram", "chat");
    send(&store, &chat, &["hi"], Millis(0)).await;
    let delivery = poll(&store, &poll_of("telegram"), 0).await.remove(0);
    let discard = async |id: &OutboxId| store.outbox().discard(id.clone(), Millis(1)).await.unwrap();
    assert_eq!(discard(&new_reply(&chat, "").id).await, DiscardOutcome::NotFound);
    assert_eq!(discard(&delivery.id).await, DiscardOutcome::Discarded);
    assert_eq!(discard(&delivery.id).await, DiscardOutcome::Is(OutboxStatus::Discarded));
    let ack = store.outbox().ack(delivery.id.clone(), delivery.lease, Millis(2)).await;
    assert_eq!(ack, Ok(Err(LeaseRefused::Conflict)));
    assert_eq!(row(&store, &delivery.id).await.status, OutboxStatus::Discarded);
}

#[tokio::test]
async fn after_the_clock_was_set_back_nothing_waits_longer_than_the_horizon() {
    let store = TempStore::create();
    let day = 86_400_000;
    send(&store, &topic("telegram", "a"), &["leased"], Millis(day)).await;
    let leased = poll(&store, &poll_of("telegram"), day).await.remove(0);
    send(&store, &topic("telegram", "b"), &["pending"], Millis(day)).await;
    let horizon = Duration::from_millis(5_000);
    assert_eq!(store.outbox().clamp_future(horizon, Millis(1_000)).await, Ok(3));
    assert_eq!(texts(&poll(&store, &poll_of("telegram"), 5_999).await), [""; 0]);
    assert_eq!(texts(&poll(&store, &poll_of("telegram"), 6_000).await), ["leased", "pending"]);
    assert_eq!(row(&store, &leased.id).await.attempts, 2);
    assert_eq!(store.outbox().clamp_future(horizon, Millis(day)).await, Ok(0));
}

#[tokio::test]
async fn a_time_of_a_message_that_cannot_be_read_is_now_after_a_start() {
    for change in ["next_attempt_at = 'noon'", "lease_expires_at = 'noon'"] {
        let store = TempStore::create();
        send(&store, &topic("telegram", "a"), &["hi"], Millis(0)).await;
        poll(&store, &poll_of("telegram"), 0).await;
        crate::recovery::damage(&store, &format!("UPDATE outbox_messages SET {change}"));
        let horizon = Duration::from_secs(3_600);
        assert_eq!(store.outbox().clamp_future(horizon, Millis(20_000)).await, Ok(1), "{change}");
        assert_eq!(store.outbox().clamp_future(horizon, Millis(20_000)).await, Ok(0), "{change}");
        assert_eq!(texts(&poll(&store, &poll_of("telegram"), 20_000).await), ["hi"], "{change}");
    }
}

#[tokio::test]
async fn a_holder_that_comes_back_gets_its_messages_at_once_and_nobody_elses() {
    let store = TempStore::create();
    let held_by =
        |holder: &str| OutboxPoll { max: 1, holder: Some(holder.to_owned()), ..poll_of("telegram") };
    send(&store, &topic("telegram", "a"), &["mine", "another's"], Millis(0)).await;
    send(&store, &topic("slack", "a"), &["elsewhere"], Millis(0)).await;
    let mine = poll(&store, &held_by("mine"), 1).await.remove(0);
    let others = poll(&store, &held_by("another"), 1).await.remove(0);
    poll(&store, &OutboxPoll { source: "slack".to_owned(), ..held_by("mine") }, 1).await;
    let release = async |holder: &str, now| {
        store.outbox().release("telegram".to_owned(), holder.to_owned(), Millis(now)).await.unwrap()
    };
    assert_eq!(release("nobody", 2).await, 0);
    assert_eq!(release("mine", 2).await, 1);
    assert_eq!(release("mine", 2).await, 0, "it holds nothing any more");
    let again = poll(&store, &poll_of("telegram"), 3).await;
    assert_eq!((texts(&again), again[0].attempts), (vec!["mine"], 2));
    let stale = store.outbox().ack(mine.id.clone(), mine.lease, Millis(4)).await.unwrap();
    assert_eq!(stale, Err(LeaseRefused::Conflict), "an ack of the life before changes nothing");
    assert_eq!(store.outbox().ack(others.id, others.lease, Millis(4)).await.unwrap(), Ok(Acked::Delivered));
    assert_eq!(row(&store, &mine.id).await.status, OutboxStatus::Leased);
}
