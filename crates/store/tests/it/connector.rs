//! What the connectors' door keeps: sessions, the channel of a source, leases that end with the process, and a bell.

use cortex_store::{
    ConnectorBinding, ConnectorKey, ConnectorSession, FinishedTurn, OutboxPoll, ReturnedLease, Ring,
    SessionOpener, Store, Trusted, TurnEnd,
};
use cortex_testkit::{TempStore, new_event, new_reply, topic};
use cortex_types::{
    Accounts, ChannelMode, ChannelSetting, ChannelSettings, Delivery, KeyId, Millis, NameRefusal, NewEvent,
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
    let open = ConnectorSession { opener: SessionOpener::Nobody, binding: None };
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
    let taken =
        |name: &str, by: &str| Err(NameRefusal::Taken { channel: name.to_owned(), by: by.to_owned() });
    assert_eq!(learn(SOURCE, "m").await, Ok(()));
    assert_eq!(learn(SOURCE, "m").await, Ok(()), "again");
    assert_eq!(learn("urn:x", "m").await, taken("m", SOURCE));
    assert_eq!(learn("urn:x", "realtg").await, taken("realtg", "realtg"));
    keep_key(&store, "slack", "slack").await;
    assert_eq!(learn("urn:x", "slack").await, taken("slack", "slack"), "it has a key and has not spoken yet");
    assert_eq!(
        store.channels().check_name("slack".to_owned(), "slack".to_owned()).await.unwrap(),
        Ok(()),
        "its own name"
    );
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
    let session = |opener| ConnectorSession { opener, binding: None };
    let owners = session(SessionOpener::Owner([7; 32]));
    sessions.open_session([255; 32], owners, NOW).await.unwrap();
    for number in 0..=KEYLESS_MAX {
        let now = Millis(NOW.0 + 1 + i64::from(number));
        sessions.open_session(digest(number), session(SessionOpener::Nobody), now).await.unwrap();
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

async fn keep_key(store: &TempStore, name: &str, source: &str) -> Vec<String> {
    let key = ConnectorKey {
        id: KeyId::from_ulid(ulid::Ulid::from_parts(name.len() as u64, u128::from(name.as_bytes()[0]))),
        name: name.to_owned(),
        source: source.to_owned(),
        prefix: "ck_".to_owned(),
        sha256: [name.as_bytes()[0]; 32],
        created_at: NOW,
        revoked_at: None,
    };
    store.keys().create(key).await.unwrap().unwrap()
}

#[tokio::test]
async fn a_key_ends_trust_without_one_and_its_end_does_not_bring_it_back() {
    let store = TempStore::create();
    let connectors = store.connectors();
    for (name, source) in [("prog", "urn:p"), ("other", "urn:o")] {
        connectors.hear_local(name.to_owned(), source.to_owned(), NOW).await.unwrap();
        let trusted = connectors.set_trust(name.to_owned(), Some(source.to_owned()), NOW).await.unwrap();
        assert_eq!(trusted, Trusted::Changed);
    }
    let trusted = async || {
        let locals = store.connectors().locals().await.unwrap();
        locals.into_iter().filter_map(|local| local.trusted_source).collect::<Vec<_>>()
    };
    assert_eq!(keep_key(&store, "first", "urn:p").await, ["prog"]);
    assert_eq!(trusted().await, ["urn:o"]);
    let again = connectors.set_trust("prog".to_owned(), Some("urn:p".to_owned()), NOW).await.unwrap();
    assert_eq!(again, Trusted::Guarded, "also when the two come at once");
    assert_eq!(keep_key(&store, "second", "urn:p").await, [] as [String; 0]);
    for name in ["first", "second"] {
        store.keys().revoke(name.to_owned(), NOW).await.unwrap().unwrap();
        assert_eq!(trusted().await, ["urn:o"], "{name}");
    }
    let again = connectors.set_trust("prog".to_owned(), Some("urn:p".to_owned()), NOW).await.unwrap();
    assert_eq!(again, Trusted::Changed, "the owner may say so anew");
}

#[tokio::test]
async fn the_first_claim_of_a_program_without_a_key_stays_and_its_last_visit_is_told() {
    let store = TempStore::create();
    let connectors = store.connectors();
    let hear = async |source: &str, at: i64| {
        store.connectors().hear_local("bot".to_owned(), source.to_owned(), Millis(NOW.0 + at)).await.unwrap();
        store.connectors().locals().await.unwrap().remove(0)
    };
    let first = hear("urn:bot", 1).await;
    assert_eq!((first.source.as_str(), first.other_source), ("urn:bot", None));
    assert_eq!(hear("urn:bot", 2).await.other_source, None, "the same again");
    let changed = hear("whatsapp", 3).await;
    assert_eq!((changed.source.as_str(), changed.other_source.as_deref()), ("urn:bot", Some("whatsapp")));
    connectors.see_local("bot".to_owned(), Millis(NOW.0 + 9)).await.unwrap();
    let seen = hear("urn:bot", 4).await;
    assert_eq!(seen.other_source.as_deref(), Some("whatsapp"), "what was claimed once stays told");
    assert_eq!((seen.first_seen_at.0 - NOW.0, seen.last_seen_at.0 - NOW.0), (1, 9));
    assert!(connectors.forget_local("bot".to_owned(), NOW).await.unwrap());
    assert!(!connectors.forget_local("bot".to_owned(), NOW).await.unwrap(), "nobody is left");
    assert_eq!(hear("whatsapp", 5).await.source, "whatsapp", "it is somebody new");
}

#[tokio::test]
async fn sessions_of_an_owners_key_that_is_gone_are_closed() {
    let store = TempStore::create();
    let sessions = store.connectors();
    let open = [SessionOpener::Owner([1; 32]), SessionOpener::Owner([2; 32]), SessionOpener::Nobody];
    for (number, opener) in (10..).zip(open) {
        let session = ConnectorSession { opener, binding: None };
        sessions.open_session([number; 32], session, NOW).await.unwrap();
    }
    assert_eq!(sessions.close_sessions_of_other_owners(vec![[2; 32], [3; 32]]).await.unwrap(), 1);
    for (number, is_open) in [(10, false), (11, true), (12, true)] {
        let found = sessions.use_session([number; 32], NOW).await.unwrap();
        assert_eq!(found.is_some(), is_open, "{number}");
    }
}
