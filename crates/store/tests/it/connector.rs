//! What the connectors' door keeps: sessions, the channel of a source, leases that end with the process, and a bell.

use cortex_store::{
    ConnectorBinding, ConnectorSession, FinishedTurn, OutboxPoll, ReturnedLease, Ring, Store, TurnEnd,
};
use cortex_testkit::{TempStore, new_event, new_reply, topic};
use cortex_types::{
    Accounts, ChannelMode, ChannelSetting, ChannelSettings, Delivery, Millis, NameRefusal, NewEvent,
    OutboxStatus, TopicRef,
};
use rusqlite::Connection;
use std::time::Duration;

const NOW: Millis = Millis(1_000_000_000);
const SOURCE: &str = "urn:connector:m";

fn conversation() -> TopicRef {
    topic(SOURCE, "c")
}

async fn answer(store: &Store, new: NewEvent, replies: &[&str]) {
    store.inbox().accept(new, NOW).await.unwrap();
    let event = store.inbox().claim_next(1, NOW).await.unwrap().whole.remove(0).event;
    let end = TurnEnd::Answered(Box::new(FinishedTurn {
        content: "done".to_owned(),
        replies: replies.iter().map(|text| new_reply(&event.topic, text)).collect(),
        ..FinishedTurn::default()
    }));
    store.turns().finish_turn(&event, end, Vec::new(), NOW).await.unwrap();
}

async fn pushed(store: &Store) -> Vec<Delivery> {
    let poll = OutboxPoll {
        source: SOURCE.to_owned(),
        max: 100,
        lease: Duration::from_secs(60),
        ordered: true,
        attempts_max: 3,
        pushed: true,
        holder: None,
        topic_key: None,
    };
    store.outbox().claim_due(poll, NOW).await.unwrap()
}

#[tokio::test]
async fn a_session_is_bound_once_and_ends_a_day_after_its_last_use() {
    let store = TempStore::create();
    let sessions = store.connectors();
    let open = ConnectorSession { key: None, is_keyless: true, binding: None };
    sessions.open_session([1; 32], open.clone(), NOW).await.unwrap();
    assert_eq!(sessions.use_session([2; 32], NOW).await.unwrap(), None, "never opened");
    let binding = |name: &str| ConnectorBinding { connector_id: name.to_owned(), source: name.to_owned() };
    for wanted in ["first", "second"] {
        let bound = sessions.bind_session([1; 32], binding(wanted), NOW).await.unwrap();
        assert_eq!(bound, Some(binding("first")));
    }
    let day = Duration::from_secs(24 * 60 * 60);
    let almost = Millis(NOW.after(day).0 - 1);
    let found = sessions.use_session([1; 32], almost).await.unwrap();
    assert_eq!(found, Some(ConnectorSession { binding: Some(binding("first")), ..open.clone() }));
    assert_eq!(sessions.use_session([1; 32], almost.after(day)).await.unwrap(), None, "a day unused");
    sessions.open_session([3; 32], open, almost.after(day)).await.unwrap();
    let look = Connection::open(store.path()).unwrap();
    let rows: i64 = look.query_row("SELECT count(*) FROM connector_sessions", [], |row| row.get(0)).unwrap();
    assert_eq!(rows, 1, "the next one sweeps it away");
}

#[tokio::test]
async fn a_source_is_on_the_channel_it_was_learned_to_be() {
    let store = TempStore::create();
    store.channels().learn_source(SOURCE.to_owned(), "m".to_owned()).await.unwrap().unwrap();
    let live = ChannelSetting { mode: ChannelMode::Live, topic: None };
    let settings = ChannelSettings {
        default_mode: ChannelMode::Off,
        channels: [("m".to_owned(), live)].into(),
        ..ChannelSettings::default()
    };
    store.channels().set_modes(&settings, NOW).await.unwrap();
    let event = NewEvent { channel: Some("m".to_owned()), ..new_event(&conversation(), "hello") };
    answer(&store, event, &["hi"]).await;
    assert_eq!(pushed(&store).await.len(), 1, "its messages leave by the mode of the channel");
    let states = store.channels().states().await.unwrap();
    assert_eq!(states.iter().map(|state| state.channel.as_str()).collect::<Vec<_>>(), ["m"]);
    let newest =
        store.channels().newest_topic("m".to_owned(), SOURCE.to_owned(), Accounts::Everyone).await.unwrap();
    assert_eq!(newest, Some(conversation()));
    let look = Connection::open(store.path()).unwrap();
    for view in [
        "SELECT DISTINCT channel FROM cortex_session",
        "SELECT value ->> 'channel' FROM cortex_checkpoints, json_each(channel_states)",
    ] {
        let channel: String = look.query_row(view, [], |row| row.get(0)).unwrap();
        assert_eq!(channel, "m", "{view}");
    }
}

#[tokio::test]
async fn a_name_belongs_to_one_source() {
    let store = TempStore::create();
    answer(&store, new_event(&topic("realtg", "c"), "1"), &[]).await;
    let learn = async |source: &str, channel: &str| {
        store.channels().learn_source(source.to_owned(), channel.to_owned()).await.unwrap()
    };
    let taken = |name: &str| Err(NameRefusal::Taken(name.to_owned()));
    assert_eq!(learn(SOURCE, "m").await, Ok(()));
    assert_eq!(learn(SOURCE, "m").await, Ok(()), "again");
    assert_eq!(learn("urn:x", "m").await, taken("m"));
    assert_eq!(learn("urn:x", "realtg").await, taken("realtg"));
    let bound = NameRefusal::Bound { of: SOURCE.to_owned(), channel: "m".to_owned() };
    assert_eq!(learn(SOURCE, "other").await, Err(bound));
    assert_eq!(store.channels().sources().await.unwrap().len(), 1, "nothing else was kept");
}

#[tokio::test]
async fn what_a_door_held_comes_back_at_the_next_start_and_what_a_poller_holds_does_not() {
    let store = TempStore::create();
    answer(&store, new_event(&conversation(), "1"), &["a", "b"]).await;
    let held = pushed(&store).await;
    assert_eq!(held.len(), 2);
    answer(&store, new_event(&topic("other", "c"), "2"), &["c"]).await;
    let poll = OutboxPoll {
        source: "other".to_owned(),
        max: 9,
        lease: Duration::from_secs(60),
        ordered: false,
        attempts_max: 3,
        pushed: false,
        holder: None,
        topic_key: None,
    };
    assert_eq!(store.outbox().claim_due(poll, NOW).await.unwrap().len(), 1);
    assert_eq!(store.outbox().take_back_pushed(NOW).await.unwrap(), 2);
    let again = pushed(&store).await;
    assert_eq!(again.iter().map(|delivery| &delivery.id).collect::<Vec<_>>(), [&held[0].id, &held[1].id]);
}

#[tokio::test]
async fn a_lease_that_is_given_back_counts_only_when_its_message_was_sent() {
    let store = TempStore::create();
    answer(&store, new_event(&conversation(), "1"), &["a"]).await;
    for (was_sent, attempts_before) in [(false, 1), (false, 1), (true, 1), (false, 2)] {
        let held = pushed(&store).await.remove(0);
        assert_eq!(held.attempts, attempts_before);
        let returned = ReturnedLease { id: held.id, lease: held.lease, was_sent };
        assert_eq!(store.outbox().give_back(vec![returned.clone()], NOW).await.unwrap(), 1);
        assert_eq!(store.outbox().give_back(vec![returned], NOW).await.unwrap(), 0, "once");
    }
}

#[tokio::test]
async fn the_bell_rings_for_the_topic_that_has_something_after_it_is_on_disk() {
    let store = TempStore::create();
    let mut bell = store.outbox().listen();
    answer(&store, new_event(&conversation(), "1"), &["a", "b"]).await;
    assert_eq!(bell.next().await, Ring::For(conversation().into()));
    let held = pushed(&store).await;
    let first = held[0].clone();
    store.outbox().ack(first.id, first.lease, NOW).await.unwrap().unwrap();
    assert_eq!(bell.next().await, Ring::For(conversation().into()), "what stood behind it may follow");
    let second = held[1].clone();
    store.outbox().ack(second.id.clone(), second.lease, NOW).await.unwrap().unwrap();
    answer(&store, new_event(&topic("other", "c"), "2"), &["c"]).await;
    assert_eq!(bell.next().await, Ring::For(topic("other", "c").into()), "nothing stood behind the last one");
    let delivered = store.outbox().find(second.id).await.unwrap().unwrap();
    assert_eq!(delivered.status, OutboxStatus::Delivered);
}

#[tokio::test]
async fn sessions_without_a_key_push_out_none_that_has_one() {
    const KEYLESS_MAX: u32 = 1_000;
    let store = TempStore::create();
    let sessions = store.connectors();
    let digest = |number: u32| {
        let mut digest = [0; 32];
        digest[..4].copy_from_slice(&number.to_be_bytes());
        digest
    };
    let session = |is_keyless| ConnectorSession { key: None, is_keyless, binding: None };
    sessions.open_session([255; 32], session(false), NOW).await.unwrap();
    for number in 0..=KEYLESS_MAX {
        let now = Millis(NOW.0 + 1 + i64::from(number));
        sessions.open_session(digest(number), session(true), now).await.unwrap();
    }
    let look = Connection::open(store.path()).unwrap();
    let keyless: u32 = look
        .query_row("SELECT count(*) FROM connector_sessions WHERE is_keyless = 1", [], |row| row.get(0))
        .unwrap();
    assert_eq!(keyless, KEYLESS_MAX, "they have a number of their own");
    let later = Millis(NOW.0 + 10_000);
    assert_eq!(sessions.use_session(digest(0), later).await.unwrap(), None, "the longest idle one went");
    assert!(sessions.use_session(digest(1), later).await.unwrap().is_some());
    assert!(
        sessions.use_session([255; 32], later).await.unwrap().is_some(),
        "the older one with a key stays"
    );
}
