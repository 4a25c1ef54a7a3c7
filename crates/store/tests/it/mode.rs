//! A mode that changes: what a connector holds does not come back into the queue, and what is off waits.

use crate::outbox::{nack, nack_of, poll, poll_of, send_all};
use cortex_store::{Nacked, RequeueOutcome};
use cortex_testkit::{TempStore, answered, new_event, new_reply, topic};
use cortex_types::{
    ChannelMode, ChannelSetting, ChannelSettings, Delivery, InboxStatus, Millis, NewEvent, NewOp, OpEnding,
    OpId, OutboxId, OutboxStatus,
};
use ulid::Ulid;

const NOW: Millis = Millis(1_000);
/// When the lease of a message that was polled at `NOW` has ended.
const LATER: i64 = 20_000;

pub(crate) async fn set_modes(store: &TempStore, channels: &[(&str, ChannelMode)]) {
    let setting = |mode| ChannelSetting { mode, topic: None };
    let channels = channels.iter().map(|(name, mode)| ((*name).to_owned(), setting(*mode))).collect();
    let settings = ChannelSettings { channels, ..ChannelSettings::default() };
    store.channels().set_modes(&settings, NOW).await.unwrap();
}

/// A message that an event of channel `a` sends to channel `b`, in the hands of b's connector.
async fn held(store: &TempStore) -> Delivery {
    send_all(store, &topic("a", "t"), vec![new_reply(&topic("b", "u"), "hello")], NOW).await;
    poll(store, &poll_of("b"), NOW.0).await.remove(0)
}

async fn fate(store: &TempStore, id: &OutboxId) -> (OutboxStatus, Option<String>) {
    let row = store.outbox().find(id.clone()).await.unwrap().unwrap();
    (row.status, row.last_error)
}

fn suppressed(reason: &str) -> (OutboxStatus, Option<String>) {
    (OutboxStatus::Suppressed, Some(reason.to_owned()))
}

#[tokio::test]
async fn a_lease_that_ends_after_a_mode_changed_does_not_send_again() {
    for (changed, reason) in
        [("a", "the source channel a is shadow"), ("b", "the target channel b is shadow")]
    {
        let store = TempStore::create();
        let message = held(&store).await;
        set_modes(&store, &[(changed, ChannelMode::Shadow)]).await;
        assert_eq!(fate(&store, &message.id).await.0, OutboxStatus::Leased, "it is with its connector");
        assert_eq!(poll(&store, &poll_of("b"), LATER).await, []);
        assert_eq!(fate(&store, &message.id).await, suppressed(reason));
        set_modes(&store, &[]).await;
        assert_eq!(poll(&store, &poll_of("b"), LATER).await, [], "what was suppressed never leaves");
    }
}

#[tokio::test]
async fn what_is_acked_after_a_mode_changed_was_delivered() {
    let store = TempStore::create();
    let message = held(&store).await;
    set_modes(&store, &[("a", ChannelMode::Shadow)]).await;
    store.outbox().ack(message.id.clone(), message.lease, NOW).await.unwrap().unwrap();
    assert_eq!(fate(&store, &message.id).await, (OutboxStatus::Delivered, None));
}

#[tokio::test]
async fn a_nack_after_a_mode_changed_does_not_queue_again() {
    let store = TempStore::create();
    let (first, second) = (held(&store).await, held(&store).await);
    set_modes(&store, &[("a", ChannelMode::Off)]).await;
    assert_eq!(nack(&store, nack_of(&first), 1, NOW.0).await, Ok(Nacked::Suppressed));
    assert_eq!(fate(&store, &first.id).await, suppressed("the source channel a is off"));
    let for_good = cortex_store::Nack { permanent: true, ..nack_of(&second) };
    assert_eq!(nack(&store, for_good, 1, NOW.0).await, Ok(Nacked::Dead));
    set_modes(&store, &[]).await;
    assert_eq!(poll(&store, &poll_of("b"), LATER).await, []);
}

#[tokio::test]
async fn a_dead_message_is_tried_again_only_when_both_channels_are_live() {
    let store = TempStore::create();
    let message = held(&store).await;
    let for_good = cortex_store::Nack { permanent: true, ..nack_of(&message) };
    nack(&store, for_good, 1, NOW.0).await.unwrap();
    set_modes(&store, &[("a", ChannelMode::Shadow)]).await;
    let outbox = store.outbox();
    let requeue = || outbox.requeue(message.id.clone(), NOW);
    let reason = "the source channel a is shadow".to_owned();
    assert_eq!(requeue().await, Ok(RequeueOutcome::HeldBack(reason)));
    assert_eq!(fate(&store, &message.id).await.0, OutboxStatus::Dead, "nothing is lost");
    assert_eq!(poll(&store, &poll_of("b"), LATER).await, []);
    set_modes(&store, &[]).await;
    assert_eq!(requeue().await, Ok(RequeueOutcome::Requeued));
    assert_eq!(poll(&store, &poll_of("b"), LATER).await.len(), 1);
}

async fn claimed(store: &TempStore) -> Vec<String> {
    let claimed = store.inbox().claim_next(10, NOW).await.unwrap().whole;
    claimed.into_iter().map(|claimed| claimed.event.text).collect()
}

#[tokio::test]
async fn events_of_a_channel_that_is_switched_off_wait_and_hold_up_nobody() {
    let store = TempStore::create();
    for (source, text) in [("a", "one"), ("a", "two"), ("b", "three")] {
        store.inbox().accept(new_event(&topic(source, "t"), text), NOW).await.unwrap();
    }
    set_modes(&store, &[("a", ChannelMode::Off)]).await;
    // A door looked at the modes right before they changed.
    store.inbox().accept(new_event(&topic("a", "u"), "late"), NOW).await.unwrap();
    assert_eq!(claimed(&store).await, ["three"]);
    assert_eq!(store.inbox().counts().await.unwrap().pending, 3);
    assert_eq!(store.inbox().next_due().await, Ok(None));
    set_modes(&store, &[("a", ChannelMode::Shadow)]).await;
    assert_eq!(claimed(&store).await, ["one", "late"]);
}

#[tokio::test]
async fn a_turn_that_is_put_back_after_its_channel_went_off_waits_too() {
    let store = TempStore::create();
    let accepted = new_event(&topic("a", "t"), "one");
    store.inbox().accept(accepted.clone(), NOW).await.unwrap();
    store.inbox().accept(new_event(&topic("a", "t"), "two"), NOW).await.unwrap();
    assert_eq!(claimed(&store).await, ["one"]);
    set_modes(&store, &[("a", ChannelMode::Off)]).await;
    let event = store.inbox().find(accepted.id).await.unwrap().unwrap();
    let end = cortex_store::TurnEnd::Parked;
    store.turns().finish_turn(&event, end, Vec::new(), NOW).await.unwrap();
    assert_eq!(claimed(&store).await, [""; 0]);
    set_modes(&store, &[]).await;
    assert_eq!(claimed(&store).await, ["one"]);
}

#[tokio::test]
async fn an_internal_channel_that_is_off_holds_its_events_and_not_the_conversation() {
    let store = TempStore::create();
    let chat = topic("a", "t");
    let tick = NewEvent { channel: Some("cron".to_owned()), ..new_event(&chat, "tick") };
    store.inbox().accept(tick, NOW).await.unwrap();
    store.inbox().accept(new_event(&chat, "hello"), NOW).await.unwrap();
    set_modes(&store, &[("cron", ChannelMode::Off)]).await;
    let hello = store.inbox().claim_next(10, NOW).await.unwrap().whole.remove(0).event;
    assert_eq!(hello.text, "hello");
    store.turns().finish_turn(&hello, answered("hi", Vec::new()), Vec::new(), NOW).await.unwrap();
    assert_eq!(claimed(&store).await, [""; 0]);
    set_modes(&store, &[]).await;
    assert_eq!(claimed(&store).await, ["tick"]);
}

#[tokio::test]
async fn the_end_of_an_op_waits_while_its_conversation_is_off() {
    let store = TempStore::create();
    let id = OpId::from_ulid(Ulid::from_parts(1, 1));
    let op = NewOp {
        id: id.clone(),
        kind: "router_job".to_owned(),
        description: "job".to_owned(),
        topic: topic("a", "t"),
        user_id: "ada".to_owned(),
        event: None,
        expected_channel: None,
        run_id: None,
    };
    store.ops().add(op, NOW).await.unwrap();
    set_modes(&store, &[("a", ChannelMode::Off), ("router", ChannelMode::Live)]).await;
    let told = |op: &cortex_types::Op| NewEvent {
        channel: Some("router".to_owned()),
        ..new_event(&op.topic, op.result.as_deref().unwrap_or_default())
    };
    let ending = OpEnding::Completed { result: "42".to_owned() };
    store.ops().settle(id, ending, NOW, told).await.unwrap();
    assert_eq!(claimed(&store).await, [""; 0]);
    set_modes(&store, &[("router", ChannelMode::Live)]).await;
    let event = store.inbox().claim_next(1, NOW).await.unwrap().whole.remove(0).event;
    assert_eq!((event.text.as_str(), event.status), ("42", InboxStatus::Processing));
}

/// Everything is off but the channel `matrix-1`, which a source of another name is.
async fn only_matrix(store: &TempStore, mode: ChannelMode) {
    let source = "urn:connector:matrix-1".to_owned();
    store.channels().learn_source(source, "matrix-1".to_owned()).await.unwrap().unwrap();
    let channels = [("matrix-1".to_owned(), ChannelSetting { mode, topic: None })].into();
    let settings = ChannelSettings { default_mode: ChannelMode::Off, channels, ..ChannelSettings::default() };
    store.channels().set_modes(&settings, NOW).await.unwrap();
}

#[tokio::test]
async fn a_message_behind_a_turn_runs_where_the_source_has_another_name_than_its_channel() {
    let store = TempStore::create();
    only_matrix(&store, ChannelMode::Live).await;
    let room = topic("urn:connector:matrix-1", "room");
    let said = |text| NewEvent { channel: Some("matrix-1".to_owned()), ..new_event(&room, text) };
    for text in ["one", "two"] {
        store.inbox().accept(said(text), NOW).await.unwrap();
    }
    let one = store.inbox().claim_next(10, NOW).await.unwrap().whole.remove(0).event;
    let again = cortex_store::TurnEnd::RetryAt { due_at: NOW, reason: "busy".to_owned() };
    store.turns().finish_turn(&one, again, Vec::new(), NOW).await.unwrap();
    store.inbox().accept(said("three"), NOW).await.unwrap();
    for text in ["one", "two", "three"] {
        let next = store.inbox().claim_next(10, NOW).await.unwrap().whole;
        let texts: Vec<&str> = next.iter().map(|claimed| claimed.event.text.as_str()).collect();
        assert_eq!(texts, [text]);
        store.turns().finish_turn(&next[0].event, answered("hi", Vec::new()), Vec::new(), NOW).await.unwrap();
    }
}

#[tokio::test]
async fn a_message_behind_a_turn_waits_while_the_channel_of_its_source_is_off() {
    let store = TempStore::create();
    let room = topic("urn:connector:matrix-1", "room");
    let tick = NewEvent { channel: Some("cron".to_owned()), ..new_event(&room, "tick") };
    store.inbox().accept(tick, NOW).await.unwrap();
    only_matrix(&store, ChannelMode::Off).await;
    assert_eq!(claimed(&store).await, [""; 0]);
    only_matrix(&store, ChannelMode::Shadow).await;
    assert_eq!(claimed(&store).await, ["tick"]);
}

#[tokio::test]
async fn events_of_one_topic_keep_their_order_when_its_channel_was_forgotten_between_them() {
    let store = TempStore::create();
    only_matrix(&store, ChannelMode::Live).await;
    let source = "urn:connector:matrix-1";
    store.channels().forget_source(source.to_owned(), NOW).await.unwrap();
    let room = topic(source, "room");
    store.inbox().accept(new_event(&room, "names no channel"), NOW).await.unwrap();
    assert_eq!(claimed(&store).await, [""; 0], "nobody knows that it is on a channel that is live");
    let named = NewEvent { channel: Some("matrix-1".to_owned()), ..new_event(&room, "names its channel") };
    store.inbox().accept(named, NOW).await.unwrap();
    assert_eq!(claimed(&store).await, ["names no channel"]);
}

#[tokio::test]
async fn events_of_one_topic_keep_their_order_when_its_channel_is_forgotten_behind_them() {
    for default_mode in [ChannelMode::Off, ChannelMode::Live] {
        let store = TempStore::create();
        let mode = if default_mode == ChannelMode::Off { ChannelMode::Live } else { ChannelMode::Off };
        only_matrix(&store, mode).await;
        let source = "urn:connector:matrix-1";
        let room = topic(source, "room");
        let named = |text| NewEvent { channel: Some("matrix-1".to_owned()), ..new_event(&room, text) };
        store.inbox().accept(named("one"), NOW).await.unwrap();
        store.inbox().accept(new_event(&room, "two"), NOW).await.unwrap();
        store.inbox().accept(named("three"), NOW).await.unwrap();
        let channels = [("matrix-1".to_owned(), ChannelSetting { mode, topic: None })].into();
        let settings = ChannelSettings { default_mode, channels, ..ChannelSettings::default() };
        store.channels().set_modes(&settings, NOW).await.unwrap();
        store.channels().forget_source(source.to_owned(), NOW).await.unwrap();
        let first = claimed(&store).await;
        let expected: &[&str] = if default_mode == ChannelMode::Off { &[] } else { &["one"] };
        assert_eq!(first, expected, "{default_mode}");
        store.channels().learn_source(source.to_owned(), "matrix-1".to_owned()).await.unwrap().unwrap();
        let expected: &[&str] = if default_mode == ChannelMode::Off { &["one"] } else { &[] };
        assert_eq!(claimed(&store).await, expected, "{default_mode}");
    }
}

#[tokio::test]
async fn an_event_that_names_the_channel_of_another_is_not_kept() {
    let store = TempStore::create();
    only_matrix(&store, ChannelMode::Live).await;
    let other = topic("urn:connector:other", "room");
    let named = NewEvent { channel: Some("matrix-1".to_owned()), ..new_event(&other, "hello") };
    let refused = store.inbox().accept(named, NOW).await.unwrap();
    assert!(matches!(refused, cortex_types::AcceptedEvent::NameRefused(_)), "{refused:?}");
    assert_eq!(store.inbox().counts().await.unwrap().pending, 0);
}

/// A message that waits for the source which was learned to be `matrix-1`.
async fn waiting_for_matrix(store: &TempStore) -> OutboxId {
    let room = topic("urn:connector:matrix-1", "room");
    let said = NewEvent { channel: Some("matrix-1".to_owned()), ..new_event(&room, "hello") };
    store.inbox().accept(said, NOW).await.unwrap();
    let event = store.inbox().claim_next(10, NOW).await.unwrap().whole.remove(0).event;
    let reply = new_reply(&room, "hi");
    let id = reply.id.clone();
    store.turns().finish_turn(&event, answered("hi", vec![reply]), Vec::new(), NOW).await.unwrap();
    id
}

#[tokio::test]
async fn what_waits_for_a_source_that_is_forgotten_is_told_and_never_waits_in_vain() {
    let source = "urn:connector:matrix-1";
    let forgotten = |waiting, suppressed| {
        Some(cortex_store::Forgotten { channel: "matrix-1".to_owned(), waiting, suppressed })
    };
    let store = TempStore::create();
    only_matrix(&store, ChannelMode::Live).await;
    let message = waiting_for_matrix(&store).await;
    assert_eq!(store.channels().forget_source(source.to_owned(), NOW).await.unwrap(), forgotten(0, 1));
    assert_eq!(
        fate(&store, &message).await.0,
        OutboxStatus::Suppressed,
        "it may not leave, and nobody polls"
    );
    assert_eq!(store.channels().forget_source(source.to_owned(), NOW).await.unwrap(), None);

    let store = TempStore::create();
    store.channels().learn_source(source.to_owned(), "matrix-1".to_owned()).await.unwrap().unwrap();
    let message = waiting_for_matrix(&store).await;
    assert_eq!(store.channels().forget_source(source.to_owned(), NOW).await.unwrap(), forgotten(1, 0));
    assert_eq!(fate(&store, &message).await.0, OutboxStatus::Pending);
    assert_eq!(poll(&store, &poll_of(source), LATER).await.len(), 1, "a connector of another name gets it");
}
