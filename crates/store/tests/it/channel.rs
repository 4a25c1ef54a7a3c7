//! Channels: nothing leaves unless source and target are live, and what goes on elsewhere is one line each.

use cortex_store::{
    ChannelLine, ChannelState, FactsInPrompt, FinishedTurn, OpsInPrompt, OutboxPoll, SessionQuery, Store,
    TurnEnd, TurnTokens,
};
use cortex_testkit::{TempStore, new_event, new_reply, topic};
use cortex_types::{
    Accounts, ChannelLayer, ChannelMode, ChannelSetting, ChannelSettings, Event, Millis, NewEvent,
    OutboxStatus, TopicRef,
};
use rusqlite::Connection;
use std::time::Duration;

const NOW: Millis = Millis(1_000);
const DAY: i64 = 24 * 60 * 60 * 1_000;

fn modes(default_mode: ChannelMode, channels: &[(&str, ChannelMode)]) -> ChannelSettings {
    let setting = |mode| ChannelSetting { mode, topic: None };
    let channels = channels.iter().map(|(name, mode)| ((*name).to_owned(), setting(*mode))).collect();
    ChannelSettings { default_mode, channels, ..ChannelSettings::default() }
}

async fn claimed(store: &Store, new: NewEvent) -> Event {
    store.inbox().accept(new, NOW).await.unwrap();
    store.inbox().claim_next(1, NOW).await.unwrap().whole.remove(0).event
}

/// Answers a new event with one message to each of `to`.
async fn answer(store: &Store, new: NewEvent, to: &[TopicRef], now: Millis) -> Event {
    let event = claimed(store, new).await;
    finish(store, &event, to, now).await;
    event
}

async fn finish(store: &Store, event: &Event, to: &[TopicRef], now: Millis) {
    let end = TurnEnd::Answered(Box::new(FinishedTurn {
        content: "done".to_owned(),
        replies: to.iter().map(|topic| new_reply(topic, "done")).collect(),
        tokens: TurnTokens { heard: 3, said: 1 },
        summary: format!("about {}", event.text),
        ..FinishedTurn::default()
    }));
    store.turns().finish_turn(event, end, Vec::new(), now).await.unwrap();
}

async fn sent(store: &Store, event: &Event) -> Vec<(OutboxStatus, Option<String>)> {
    let replies = store.trace(event.id.clone()).await.unwrap().unwrap().replies;
    replies.into_iter().map(|reply| (reply.status, reply.last_error)).collect()
}

async fn polled(store: &Store, source: &str) -> usize {
    let lease = Duration::from_secs(60);
    let poll = OutboxPoll {
        source: source.to_owned(),
        max: 100,
        lease,
        ordered: false,
        attempts_max: 3,
        pushed: false,
        holder: None,
        topic_key: None,
    };
    store.outbox().claim_due(poll, Millis(NOW.0 + 1)).await.unwrap().len()
}

#[tokio::test]
async fn a_message_leaves_only_when_source_and_target_are_live() {
    let store = TempStore::create();
    let settings = modes(ChannelMode::Off, &[("a", ChannelMode::Live), ("b", ChannelMode::Shadow)]);
    let why = |text: &str| vec![(OutboxStatus::Suppressed, Some(text.to_owned()))];
    for (from, to, outcome) in [
        ("a", "a", vec![(OutboxStatus::Pending, None)]),
        ("a", "b", why("the target channel b is shadow")),
        ("b", "a", why("the source channel b is shadow")),
        ("a", "c", why("the target channel c is off")),
        ("c", "a", why("the source channel c is off")),
    ] {
        store.channels().set_modes(&ChannelSettings::default(), NOW).await.unwrap();
        let event = claimed(&store, new_event(&topic(from, "t"), "hi")).await;
        store.channels().set_modes(&settings, NOW).await.unwrap();
        finish(&store, &event, &[topic(to, "t")], NOW).await;
        assert_eq!(sent(&store, &event).await, outcome, "{from} to {to}");
    }
    assert_eq!((polled(&store, "a").await, polled(&store, "b").await, polled(&store, "c").await), (1, 0, 0));
}

#[tokio::test]
async fn notices_and_failures_are_held_back_like_answers() {
    let store = TempStore::create();
    let chat = topic("a", "t");
    let shadow = modes(ChannelMode::Live, &[("a", ChannelMode::Shadow)]);
    store.channels().set_modes(&shadow, NOW).await.unwrap();
    let event = claimed(&store, new_event(&chat, "hi")).await;
    let notices = vec![new_reply(&chat, "it may have run")];
    store.turns().record_steps(&event, Vec::new(), Vec::new(), notices, NOW).await.unwrap();
    let end = TurnEnd::Failed { reason: "broken".to_owned(), replies: vec![new_reply(&chat, "sorry")] };
    store.turns().finish_turn(&event, end, Vec::new(), NOW).await.unwrap();
    let statuses: Vec<OutboxStatus> =
        sent(&store, &event).await.into_iter().map(|(status, _)| status).collect();
    assert_eq!(statuses, [OutboxStatus::Suppressed, OutboxStatus::Suppressed]);
}

#[tokio::test]
async fn an_unlisted_cron_may_send_where_its_target_may_and_a_listed_one_what_it_may_itself() {
    let store = TempStore::create();
    let from_cron = || NewEvent { channel: Some("cron".to_owned()), ..new_event(&topic("a", "t"), "tick") };
    for (cron, expected) in [
        (None, OutboxStatus::Pending),
        (Some(ChannelMode::Live), OutboxStatus::Pending),
        (Some(ChannelMode::Shadow), OutboxStatus::Suppressed),
    ] {
        let mut listed = vec![("a", ChannelMode::Live)];
        listed.extend(cron.map(|mode| ("cron", mode)));
        store.channels().set_modes(&modes(ChannelMode::Off, &listed), NOW).await.unwrap();
        let event = answer(&store, from_cron(), &[topic("a", "t")], NOW).await;
        assert_eq!(event.channel, "cron");
        assert_eq!(sent(&store, &event).await[0].0, expected, "{cron:?}");
    }
}

#[tokio::test]
async fn a_mode_that_changes_holds_back_what_waits_in_the_outbox() {
    let store = TempStore::create();
    let event = answer(&store, new_event(&topic("a", "t"), "hi"), &[topic("a", "t")], NOW).await;
    let shadow = modes(ChannelMode::Live, &[("a", ChannelMode::Shadow)]);
    assert_eq!(store.channels().set_modes(&shadow, Millis(2_000)).await, Ok(1));
    let reason = "the target channel a is shadow".to_owned();
    assert_eq!(sent(&store, &event).await, [(OutboxStatus::Suppressed, Some(reason))]);
    store.channels().set_modes(&ChannelSettings::default(), Millis(3_000)).await.unwrap();
    assert_eq!(polled(&store, "a").await, 0, "what was suppressed never leaves");
}

#[tokio::test]
async fn what_was_said_to_another_channel_is_a_line_of_its_history_unless_it_was_held_back() {
    let store = TempStore::create();
    let (here, there) = (topic("a", "t"), topic("b", "u"));
    answer(&store, new_event(&here, "tell b"), std::slice::from_ref(&there), NOW).await;
    let history = store.turns().history(there.clone(), 10).await.unwrap();
    assert_eq!((history.len(), history[0].role.as_str(), history[0].tokens), (1, "assistant", 1));
    let shadow = modes(ChannelMode::Live, &[("b", ChannelMode::Shadow)]);
    store.channels().set_modes(&shadow, NOW).await.unwrap();
    answer(&store, new_event(&here, "tell b again"), std::slice::from_ref(&there), NOW).await;
    assert_eq!(store.turns().history(there, 10).await.unwrap().len(), 1);
    let here = store.turns().history(here, 10).await.unwrap();
    assert_eq!(here.iter().map(|line| line.tokens).collect::<Vec<_>>(), [3, 1, 3, 1]);
}

fn by(user_id: &str, topic: &TopicRef, text: &str) -> NewEvent {
    NewEvent { user_id: user_id.to_owned(), ..new_event(topic, text) }
}

#[tokio::test]
async fn the_newest_topic_of_a_channel_is_that_of_the_same_person() {
    let store = TempStore::create();
    for (user, key, at) in [("ada", "one", 1), ("ada", "two", 2), ("eve", "three", 3)] {
        answer(&store, by(user, &topic("a", key), "hi"), &[], Millis(at)).await;
    }
    let channels = store.channels();
    let newest = |accounts| channels.newest_topic("a".to_owned(), "a".to_owned(), accounts);
    let only = |users: &[&str]| Accounts::Only(users.iter().map(|&user| user.to_owned()).collect());
    assert_eq!(newest(Accounts::Everyone).await, Ok(Some(topic("a", "three"))));
    assert_eq!(newest(only(&["ada", "ada@b"])).await, Ok(Some(topic("a", "two"))));
    assert_eq!(newest(only(&["bob"])).await, Ok(None));
}

async fn background(store: &Store, topic: TopicRef, now: Millis) -> Vec<ChannelLine> {
    let query = SessionQuery {
        topic,
        lines: 20,
        accounts: Accounts::Everyone,
        but_event: 0,
        background_since: Millis(now.0 - DAY),
        background_lines: 32,
        facts: FactsInPrompt::None,
        ops: OpsInPrompt::Everybodys,
    };
    store.session(query).await.unwrap().background
}

#[tokio::test]
async fn other_channels_are_one_line_each_and_archived_ones_none() {
    let store = TempStore::create();
    let here = topic("a", "t");
    for (topic, text, at) in [
        (&here, "home", 1),
        (&topic("b", "old"), "old", 2),
        (&topic("b", "new"), "new", 3),
        (&topic("c", "t"), "cats", 4),
    ] {
        answer(&store, new_event(topic, text), &[], Millis(at)).await;
    }
    let line = |channel: &str, summary: &str, at| ChannelLine {
        channel: channel.to_owned(),
        summary: summary.to_owned(),
        last_message_at: Millis(at),
    };
    let seen = background(&store, here.clone(), Millis(5)).await;
    assert_eq!(seen, [line("c", "about cats", 4), line("b", "about new", 3)]);
    let idle = store.channels().idle(Millis(4), 9).await.unwrap();
    let heard: Vec<(&str, i64)> =
        idle.iter().map(|idle| (idle.topic.topic_key.as_str(), idle.last_message_at.0)).collect();
    assert_eq!(heard, [("t", 1), ("old", 2), ("new", 3)], "every topic, and 4 is not before 4");
    for topic in idle {
        assert_eq!(store.channels().step_back(topic, None).await, Ok(true));
    }
    assert_eq!(store.channels().archive(Millis(4)).await, Ok(3));
    let cats = store.channels().idle(Millis(5), 9).await.unwrap().remove(0);
    store.channels().step_back(cats, Some("cats, in short".to_owned())).await.unwrap();
    assert_eq!(background(&store, here.clone(), Millis(5)).await, [line("c", "cats, in short", 4)]);
    assert_eq!(background(&store, here.clone(), Millis(4 + DAY)).await.len(), 1, "exactly a day ago");
    assert_eq!(background(&store, here, Millis(5 + DAY)).await, []);
}

#[tokio::test]
async fn an_older_topic_of_the_same_channel_is_seen_as_long_as_it_is_the_newest_other_one() {
    let store = TempStore::create();
    let (one, two) = (topic("telegram", "one"), topic("telegram", "two"));
    let lines = async |here: &TopicRef| -> Vec<String> {
        let seen = background(&store, here.clone(), Millis(9)).await;
        seen.into_iter().map(|line| line.summary).collect()
    };
    answer(&store, new_event(&two, "two"), &[], Millis(1)).await;
    for at in 2..5 {
        assert_eq!(lines(&one).await, ["about two"], "before turn {at}");
        answer(&store, new_event(&one, "one"), &[], Millis(at)).await;
    }
    assert_eq!(lines(&two).await, ["about one"]);
    answer(&store, new_event(&topic("telegram", "three"), "three"), &[], Millis(5)).await;
    assert_eq!(lines(&one).await, ["about three"], "one line for a channel");
    assert_eq!(store.channels().states().await.unwrap().len(), 1, "a row for a channel");
}

#[tokio::test]
async fn a_person_sees_the_newest_topic_of_each_channel_over_all_accounts_and_nobody_elses() {
    let store = TempStore::create();
    let rows = [("ada", "a", 1), ("ada@b", "a", 2), ("eve", "a", 3), ("eve", "b", 4), ("ada@b", "c", 5)];
    for (user, channel, at) in rows {
        answer(&store, by(user, &topic(channel, user), user), &[], Millis(at)).await;
    }
    let seen = async |users: &[&str]| -> Vec<(String, String)> {
        let query = SessionQuery {
            topic: topic("z", "t"),
            lines: 20,
            accounts: Accounts::Only(users.iter().map(|&user| user.to_owned()).collect()),
            but_event: 0,
            background_since: Millis(0),
            background_lines: 32,
            facts: FactsInPrompt::None,
            ops: OpsInPrompt::Everybodys,
        };
        let lines = store.session(query).await.unwrap().background.into_iter();
        lines.map(|line| (line.channel, line.summary)).collect()
    };
    let pair = |channel: &str, user: &str| (channel.to_owned(), format!("about {user}"));
    assert_eq!(seen(&["ada", "ada@b"]).await, [pair("c", "ada@b"), pair("a", "ada@b")]);
    assert_eq!(seen(&["ada"]).await, [pair("a", "ada")]);
    assert_eq!(seen(&["bob"]).await, []);
}

#[tokio::test]
async fn a_topic_in_which_something_was_said_meanwhile_does_not_step_back() {
    let store = TempStore::create();
    let chat = topic("a", "t");
    answer(&store, by("ada", &chat, "hi"), &[], Millis(1)).await;
    let idle = store.channels().idle(Millis(2), 9).await.unwrap().remove(0);
    // Another person in the same topic counts, too.
    answer(&store, by("eve", &chat, "more"), &[], Millis(7)).await;
    assert_eq!(store.channels().step_back(idle, Some("old news".to_owned())).await, Ok(false));
    let state = store.channels().states().await.unwrap().remove(0);
    assert_eq!((state.summary.as_str(), state.layer), ("about more", ChannelLayer::Foreground));
    assert_eq!(
        store.channels().idle(Millis(7), 9).await,
        Ok(Vec::new()),
        "it is not idle while one of them speaks"
    );
}

#[tokio::test]
async fn an_archived_topic_comes_back_with_its_next_turn_and_can_still_be_sent_to() {
    let store = TempStore::create();
    let chat = topic("a", "t");
    answer(&store, new_event(&chat, "hi"), &[], Millis(1)).await;
    assert_eq!(store.channels().archive(Millis(9)).await, Ok(0), "what was not summarised stays");
    let idle = store.channels().idle(Millis(2), 9).await.unwrap().remove(0);
    store.channels().step_back(idle, None).await.unwrap();
    assert_eq!(store.channels().archive(Millis(1)).await, Ok(0), "1 is not before 1");
    assert_eq!(store.channels().archive(Millis(2)).await, Ok(1));
    let layer = async || store.channels().states().await.unwrap().remove(0).layer;
    assert_eq!(layer().await, ChannelLayer::Archived);
    let newest = store.channels().newest_topic("a".to_owned(), "a".to_owned(), Accounts::Everyone).await;
    assert_eq!(newest, Ok(Some(chat.clone())));
    answer(&store, new_event(&chat, "again"), &[], Millis(9)).await;
    assert_eq!(layer().await, ChannelLayer::Foreground);
}

#[tokio::test]
async fn unread_counts_count_what_is_not_answered_yet() {
    let store = TempStore::create();
    answer(&store, new_event(&topic("a", "t"), "hi"), &[], Millis(1)).await;
    for _ in 0..3 {
        store.inbox().accept(new_event(&topic("a", "t"), "more"), Millis(5)).await.unwrap();
    }
    store.inbox().accept(new_event(&topic("b", "t"), "new here"), Millis(6)).await.unwrap();
    store.inbox().claim_next(1, NOW).await.unwrap();
    let state = |channel: &str, at, unread_count, summary: &str| ChannelState {
        channel: channel.to_owned(),
        last_message_at: Millis(at),
        unread_count,
        summary: summary.to_owned(),
        layer: ChannelLayer::Foreground,
    };
    assert_eq!(
        store.channels().states().await.unwrap(),
        [state("a", 5, 3, "about hi"), state("b", 6, 1, "")]
    );
}

#[tokio::test]
async fn every_finished_turn_leaves_a_checkpoint_that_goes_away_after_a_week() {
    let store = TempStore::create();
    let first = answer(&store, new_event(&topic("a", "t"), "one"), &[], Millis(1)).await;
    let look = Connection::open(store.path()).unwrap();
    let row: (String, String, String) = look
        .query_row(
            "SELECT session_snapshot, channel_states, pending_ops FROM cortex_checkpoints",
            [],
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
        )
        .unwrap();
    assert_eq!(row.0, r#"{"source":"a","topicKey":"t","lastTurn":2}"#);
    assert_eq!(row.1, r#"[{"channel":"a","lastMessageAt":1000,"layer":"foreground"}]"#);
    assert_eq!(row.2, "[]");
    let of_event = "SELECT state, checkpoint_id FROM cortex_bus WHERE id = ?1";
    let bus = look.query_row(of_event, [first.id.as_str()], |row| Ok((row.get(0)?, row.get(1)?)));
    assert_eq!(bus, Ok(("completed".to_owned(), 1)));
    answer(&store, new_event(&topic("a", "t"), "two"), &[], Millis(8 * DAY)).await;
    let kept: Vec<i64> = look
        .prepare("SELECT id FROM cortex_checkpoints")
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    assert_eq!(kept, [2]);
}

#[tokio::test]
async fn a_checkpoint_keeps_the_channels_as_they_were_when_its_turn_ended() {
    const HOUR: i64 = 60 * 60 * 1_000;
    let store = TempStore::create();
    answer(&store, new_event(&topic("a", "t"), "one"), &[], Millis(NOW.0)).await;
    // Exactly an hour is not longer than an hour; b is answered then and a little later.
    for moment in [NOW.0 + HOUR, NOW.0 + HOUR + 1] {
        answer(&store, new_event(&topic("b", "t"), "two"), &[], Millis(moment)).await;
    }
    let look = Connection::open(store.path()).unwrap();
    let mut statement = look
        .prepare(
            "SELECT (SELECT group_concat((value ->> 'channel') || ' ' || (value ->> 'layer')) FROM json_each(channel_states))
             FROM cortex_checkpoints ORDER BY id",
        )
        .unwrap();
    let rows: Vec<String> =
        statement.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap();
    assert_eq!(rows, ["a foreground", "b foreground,a foreground", "b foreground,a background"]);
}

#[tokio::test]
async fn two_channels_are_in_one_history() {
    let store = TempStore::create();
    answer(&store, new_event(&topic("webchat", "t"), "hello"), &[], Millis(1)).await;
    answer(&store, new_event(&topic("whatsapp", "u"), "hi there"), &[], Millis(2)).await;
    let look = Connection::open(store.path()).unwrap();
    let mut statement =
        look.prepare("SELECT channel, role, content FROM cortex_session ORDER BY id").unwrap();
    let rows: Vec<(String, String, String)> = statement
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    let row = |channel: &str, role: &str, content: &str| (channel.into(), role.into(), content.into());
    assert_eq!(
        rows,
        [
            row("webchat", "user", "hello"),
            row("webchat", "assistant", "done"),
            row("whatsapp", "user", "hi there"),
            row("whatsapp", "assistant", "done"),
        ]
    );
}
