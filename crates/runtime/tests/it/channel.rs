//! Channels through the whole flow: where answers go, what modes hold back, what other channels see.

use crate::far_side::FarSide;
use cortex_runtime::IncomingEvent;
use cortex_store::OutboxPoll;
use cortex_testkit::{FrozenTime, RuntimeSetup, TestModels, TestRuntime, new_event, topic};
use cortex_types::{
    AcceptedEvent, ChannelMode, ChannelSetting, ChannelSettings, EventId, InboxStatus, Millis, OutboxStatus,
    Priority, Speaker, TopicRef,
};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The model says what it is told to say.
fn parrot(time: &FrozenTime) -> RuntimeSetup {
    RuntimeSetup::scripted(json!({ "otherwise": { "say": "{{user}}" } }), time)
}

fn modes(channels: &[(&str, ChannelMode)]) -> ChannelSettings {
    let setting = |mode| ChannelSetting { mode, topic: None };
    let channels = channels.iter().map(|(name, mode)| ((*name).to_owned(), setting(*mode))).collect();
    ChannelSettings { channels, ..ChannelSettings::default() }
}

async fn heard(flow: &TestRuntime, topic: &TopicRef, user: &str, text: &str) -> AcceptedEvent {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let event = IncomingEvent {
        external_message_id: number.to_string(),
        idempotency_key: number.to_string(),
        topic_key: topic.topic_key.clone(),
        user_id: user.to_owned(),
        text: text.to_owned(),
        occurred_at: Millis(1),
        metadata_json: None,
        priority: Priority::Normal,
    };
    flow.runtime.intake().accept(&Speaker::owner(topic.source.as_str()), event).await.unwrap()
}

/// Says something and waits for the end of its turn.
pub(crate) async fn say(flow: &TestRuntime, topic: &TopicRef, user: &str, text: &str) -> EventId {
    let AcceptedEvent::Queued(id) = heard(flow, topic, user, text).await else { panic!("not queued") };
    flow.reaches(&id, InboxStatus::Done).await;
    id
}

/// Target, text and status of everything an event led to.
async fn sent(flow: &TestRuntime, id: &EventId) -> Vec<(String, String, OutboxStatus)> {
    let replies = flow.trace(id).await.replies;
    replies
        .into_iter()
        .map(|reply| (format!("{} {}", reply.topic.source, reply.topic.topic_key), reply.text, reply.status))
        .collect()
}

fn due(to: &str, text: &str) -> (String, String, OutboxStatus) {
    (to.to_owned(), text.to_owned(), OutboxStatus::Pending)
}

#[tokio::test(start_paused = true)]
async fn an_answer_goes_to_the_channel_its_message_came_from() {
    let time = FrozenTime::hold();
    let flow = parrot(&time).start().await;
    for source in ["webchat", "whatsapp"] {
        let id = say(&flow, &topic(source, "t"), "ada", "hello").await;
        assert_eq!(sent(&flow, &id).await, [due(&format!("{source} t"), "hello")]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_directive_sends_to_the_newest_topic_of_that_channel_and_both_histories_know() {
    let time = FrozenTime::hold();
    let flow = parrot(&time).start().await;
    for key in ["old", "new"] {
        say(&flow, &topic("my-phone", key), "ada", "hi").await;
        time.advance(Duration::from_secs(1)).await;
    }
    let id = say(&flow, &topic("webchat", "t"), "ada", "[[send_to:my-phone]] dinner is ready").await;
    assert_eq!(sent(&flow, &id).await, [due("my-phone new", "dinner is ready")]);
    let there = flow.store.turns().history(topic("my-phone", "new"), 1).await.unwrap();
    assert_eq!((there[0].role.as_str(), there[0].content.as_str()), ("assistant", "dinner is ready"));
    let here = flow.store.turns().history(topic("webchat", "t"), 1).await.unwrap();
    assert_eq!(here[0].content, "[sent to my-phone] dinner is ready");
}

#[tokio::test(start_paused = true)]
async fn two_channels_and_the_source_get_the_same_words() {
    let time = FrozenTime::hold();
    let flow = parrot(&time).start().await;
    say(&flow, &topic("a", "1"), "ada", "hi").await;
    say(&flow, &topic("b", "2"), "ada", "hi").await;
    let text = "[[send_to:a]][[send_to:b]][[reply_to_current]] all of you";
    let id = say(&flow, &topic("webchat", "t"), "ada", text).await;
    let words = "all of you";
    assert_eq!(sent(&flow, &id).await, [due("webchat t", words), due("a 1", words), due("b 2", words)]);
}

#[tokio::test(start_paused = true)]
async fn a_topic_in_the_settings_is_where_a_send_goes() {
    let time = FrozenTime::hold();
    let mut settings = modes(&[("x", ChannelMode::Live)]);
    settings.channels.get_mut("x").unwrap().topic = Some("123".to_owned());
    let flow = parrot(&time).flow(move |flow| flow.channels = settings.clone()).start().await;
    let id = say(&flow, &topic("webchat", "t"), "ada", "[[send_to:x]] hello").await;
    assert_eq!(sent(&flow, &id).await, [due("x 123", "hello")]);
}

#[tokio::test(start_paused = true)]
async fn the_user_is_told_of_a_channel_that_cannot_be_reached() {
    let time = FrozenTime::hold();
    let settings = modes(&[("telegram", ChannelMode::Live)]);
    let flow = parrot(&time).flow(move |flow| flow.channels = settings.clone()).start().await;
    let webchat = topic("webchat", "t");
    let id = say(&flow, &webchat, "ada", "[[send_to:nowhere]] hello").await;
    let told = "I could not send this to nowhere: there is no such channel.\n\nhello";
    assert_eq!(sent(&flow, &id).await, [due("webchat t", told)]);
    let id = say(&flow, &webchat, "ada", "[[send_to:telegram]][[reply_to_current]] hello").await;
    let told = "I could not send this to telegram: I know no conversation of yours there.";
    assert_eq!(sent(&flow, &id).await, [due("webchat t", "hello"), due("webchat t", told)]);
    let history = flow.store.turns().history(webchat, 10).await.unwrap();
    let said: Vec<String> = history.into_iter().skip(1).step_by(2).map(|line| line.content).collect();
    let nowhere = "I could not send this to nowhere: there is no such channel.\n\nhello".to_owned();
    assert_eq!(said, [nowhere, format!("hello\n\n{told}")], "history claims no send");
}

#[tokio::test(start_paused = true)]
async fn history_tells_what_was_sent_from_what_was_not() {
    let time = FrozenTime::hold();
    let mut settings = modes(&[("phone", ChannelMode::Live), ("attic", ChannelMode::Off)]);
    for setting in settings.channels.values_mut() {
        setting.topic = Some("1".to_owned());
    }
    let flow = parrot(&time).flow(move |flow| flow.channels = settings.clone()).start().await;
    let text = "[[send_to:phone]][[send_to:x]][[send_to:attic]][[send_to:y]] hello";
    let id = say(&flow, &topic("webchat", "t"), "ada", text).await;
    let told = "I could not send this to x: there is no such channel.\n\
        I could not send this to attic: that channel is off.\n\
        I could not send this to y: there is no such channel.";
    let suppressed = ("attic 1".to_owned(), "hello".to_owned(), OutboxStatus::Suppressed);
    let told_here = due("webchat t", &format!("{told}\n\nhello"));
    assert_eq!(sent(&flow, &id).await, [due("phone 1", "hello"), suppressed, told_here]);
    let here = flow.store.turns().history(topic("webchat", "t"), 1).await.unwrap();
    assert_eq!(here[0].content, format!("[sent to phone] hello\n\n{told}"));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_names_its_own_channel_is_said_once() {
    let time = FrozenTime::hold();
    let flow = parrot(&time).start().await;
    let webchat = topic("webchat", "t");
    for text in ["[[send_to:webchat]][[reply_to_current]] hi", "[[send_to:webchat]] hi"] {
        let id = say(&flow, &webchat, "ada", text).await;
        assert_eq!(sent(&flow, &id).await, [due("webchat t", "hi")], "{text}");
        let history = flow.store.turns().history(webchat.clone(), 1).await.unwrap();
        assert_eq!(history[0].content, "hi");
    }
}

#[tokio::test(start_paused = true)]
async fn in_shadow_the_history_is_as_if_it_were_live_where_it_was_said_and_nowhere_else() {
    let time = FrozenTime::hold();
    let flow = parrot(&time).flow(|flow| flow.channels = modes(&[("phone", ChannelMode::Shadow)]));
    let flow = flow.start().await;
    say(&flow, &topic("phone", "1"), "ada", "hi").await;
    let id = say(&flow, &topic("webchat", "t"), "ada", "[[send_to:phone]] hello").await;
    let suppressed = ("phone 1".to_owned(), "hello".to_owned(), OutboxStatus::Suppressed);
    assert_eq!(sent(&flow, &id).await, [suppressed]);
    let here = flow.store.turns().history(topic("webchat", "t"), 1).await.unwrap();
    assert_eq!(here[0].content, "[sent to phone] hello");
    let there = flow.store.turns().history(topic("phone", "1"), 10).await.unwrap();
    assert_eq!(there.into_iter().map(|line| line.content).collect::<Vec<_>>(), ["hi", "hi"]);
}

#[tokio::test(start_paused = true)]
async fn a_send_goes_to_a_topic_of_the_same_person() {
    let time = FrozenTime::hold();
    let flow = parrot(&time).flow(|flow| {
        let accounts = vec!["tg:ada".to_owned(), "ada".to_owned()];
        flow.channels.identities.insert("ada".to_owned(), accounts);
    });
    let flow = flow.start().await;
    say(&flow, &topic("telegram", "of ada"), "tg:ada", "hi").await;
    time.advance(Duration::from_secs(1)).await;
    say(&flow, &topic("telegram", "of eve"), "tg:eve", "hi").await;
    let id = say(&flow, &topic("webchat", "t"), "ada", "[[send_to:telegram]] hello").await;
    assert_eq!(sent(&flow, &id).await, [due("telegram of ada", "hello")]);
}

#[tokio::test(start_paused = true)]
async fn a_hundred_messages_in_shadow_send_nothing_and_record_everything() {
    let time = FrozenTime::hold();
    let mut settings = modes(&[("whatsapp", ChannelMode::Shadow), ("webchat", ChannelMode::Live)]);
    settings.channels.get_mut("webchat").unwrap().topic = Some("owner".to_owned());
    let flow = parrot(&time).flow(move |flow| flow.channels = settings.clone()).start().await;
    for number in 0..100 {
        let text = format!("[[send_to:webchat]] number {number}");
        say(&flow, &topic("whatsapp", "t"), "ada", &text).await;
    }
    let counts = flow.store.outbox().counts().await.unwrap();
    assert_eq!((counts.suppressed, counts.pending, counts.leased, counts.delivered), (100, 0, 0, 0));
    for source in ["webchat", "whatsapp"] {
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
        assert_eq!(flow.store.outbox().claim_due(poll, Millis(i64::MAX)).await, Ok(Vec::new()));
    }
    let report = flow.runtime.channels().shadow_report(500).await.unwrap();
    assert_eq!(report.len(), 100);
    let message = &report[0].messages[0];
    assert_eq!((message.text.as_str(), message.topic.source.as_str()), ("number 99", "webchat"));
    assert_eq!(message.last_error.as_deref(), Some("the source channel whatsapp is shadow"));
    let history = flow.store.turns().history(topic("whatsapp", "t"), 500).await.unwrap();
    assert_eq!(history.len(), 200, "every decision is in the history");
}

#[tokio::test(start_paused = true)]
async fn a_channel_that_is_off_is_not_tracked_at_all() {
    let time = FrozenTime::hold();
    let settings = modes(&[("x", ChannelMode::Off)]);
    let flow = parrot(&time).flow(move |flow| flow.channels = settings.clone()).start().await;
    assert_eq!(heard(&flow, &topic("x", "t"), "ada", "hi").await, AcceptedEvent::ChannelOff);
    let inbox = flow.store.inbox().counts().await.unwrap();
    assert_eq!((inbox.pending, inbox.done), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn what_waits_on_a_channel_that_goes_off_is_answered_when_it_is_live_again() {
    let time = FrozenTime::hold();
    let mut far = FarSide::listen().await;
    let flow = RuntimeSetup::new(TestModels::Synapse(far.url.clone()), &time).start().await;
    let off = topic("x", "t");
    let AcceptedEvent::Queued(first) = heard(&flow, &off, "ada", "one").await else { panic!() };
    let question = far.question().await;
    let AcceptedEvent::Queued(second) = heard(&flow, &off, "ada", "two").await else { panic!() };
    flow.runtime.channels().apply(modes(&[("x", ChannelMode::Off)])).await.unwrap();
    question.say("first");
    flow.reaches(&first, InboxStatus::Done).await;
    assert_eq!(sent(&flow, &first).await[0].2, OutboxStatus::Suppressed);
    let AcceptedEvent::Queued(other) = heard(&flow, &topic("y", "t"), "ada", "three").await else { panic!() };
    far.question().await.say("third");
    flow.reaches(&other, InboxStatus::Done).await;
    time.advance(Duration::from_secs(300)).await;
    assert_eq!(flow.event(&second).await.status, InboxStatus::Pending);
    flow.runtime.channels().apply(ChannelSettings::default()).await.unwrap();
    far.question().await.say("second");
    flow.reaches(&second, InboxStatus::Done).await;
    assert_eq!(sent(&flow, &second).await, [due("x t", "second")]);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_comes_again_and_names_its_channel_wakes_what_waited_for_it() {
    let (hold, held) = std::sync::mpsc::channel::<()>();
    // While this thread waits, no timer ends: nothing but a bell wakes the pump.
    let holding = tokio::task::spawn_blocking(move || held.recv().is_err());
    let time = FrozenTime::hold();
    let live = modes(&[("m-1", ChannelMode::Live), ("x", ChannelMode::Live)]);
    let settings = ChannelSettings { default_mode: ChannelMode::Off, ..live };
    let mut far = FarSide::listen().await;
    let flow = RuntimeSetup::new(TestModels::Synapse(far.url.clone()), &time);
    let flow = flow.flow(move |flow| flow.channels = settings.clone()).start().await;
    heard(&flow, &topic("x", "t"), "ada", "hi").await;
    let running = far.question().await;
    let source = "urn:connector:m-1";
    let first = new_event(&topic(source, "room"), "hello");
    flow.store.inbox().accept(first.clone(), Millis(1)).await.unwrap();
    let again = IncomingEvent {
        external_message_id: first.external_message_id,
        idempotency_key: first.idempotency_key,
        topic_key: first.topic_key,
        user_id: first.user_id,
        text: first.text,
        occurred_at: first.occurred_at,
        metadata_json: None,
        priority: Priority::Normal,
    };
    let speaker = Speaker::owner(source).on_channel("m-1");
    let accepted = flow.runtime.intake().accept(&speaker, again).await.unwrap();
    assert_eq!(accepted, AcceptedEvent::Duplicate { first: first.id.clone(), same_body: true });
    flow.reaches(&first.id, InboxStatus::Processing).await;
    running.say("hi");
    drop(hold);
    assert!(holding.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn the_lines_of_other_channels_are_those_of_the_same_person() {
    let time = FrozenTime::hold();
    let mut far = FarSide::listen().await;
    let setup = RuntimeSetup::new(TestModels::Synapse(far.url.clone()), &time).flow(|flow| {
        let accounts = vec!["ada".to_owned(), "tg:ada".to_owned()];
        flow.channels.identities.insert("ada".to_owned(), accounts);
    });
    let flow = setup.start().await;
    for (source, user) in [("telegram", "tg:ada"), ("whatsapp", "eve")] {
        let text = format!("a secret of {user}");
        let AcceptedEvent::Queued(id) = heard(&flow, &topic(source, "t"), user, &text).await else {
            panic!("not queued")
        };
        far.question().await.say("noted");
        flow.reaches(&id, InboxStatus::Done).await;
    }
    heard(&flow, &topic("webchat", "t"), "ada", "hello").await;
    let question = far.question().await;
    let system = system_of(&question.body);
    assert!(system.contains("[telegram] a secret of tg:ada"), "{system}");
    assert!(!system.contains("whatsapp") && !system.contains("eve"), "{system}");
    question.say("hi");
}

#[tokio::test(start_paused = true)]
async fn while_it_is_not_enabled_events_queue_up_and_are_answered_afterwards() {
    let time = FrozenTime::hold();
    let flow = parrot(&time).flow(|flow| flow.channels.enabled = false).start().await;
    let AcceptedEvent::Queued(id) = heard(&flow, &topic("x", "t"), "ada", "hi").await else { panic!() };
    time.advance(Duration::from_secs(300)).await;
    assert_eq!(flow.event(&id).await.status, InboxStatus::Pending);
    flow.runtime.channels().apply(ChannelSettings::default()).await.unwrap();
    flow.reaches(&id, InboxStatus::Done).await;
}

fn system_of(body: &Value) -> String {
    body["messages"][0]["content"].as_str().unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn the_model_sees_one_line_of_each_other_channel_for_a_day() {
    let time = FrozenTime::hold();
    let mut far = FarSide::listen().await;
    let flow = RuntimeSetup::new(TestModels::Synapse(far.url.clone()), &time).start().await;
    let AcceptedEvent::Queued(id) = heard(&flow, &topic("whatsapp", "t"), "ada", "is there milk?").await
    else {
        panic!("not queued")
    };
    far.question().await.say("Two bottles.");
    flow.reaches(&id, InboxStatus::Done).await;
    let line =
        "## Other Channels\n[whatsapp] is there milk? → Two bottles. (last: 2027-01-15T08:00:00.000Z)\n";
    for (wait, seen) in [(0, true), (24 * 60 * 60, true), (1, false)] {
        time.advance(Duration::from_secs(wait)).await;
        let AcceptedEvent::Queued(id) = heard(&flow, &topic("webchat", "t"), "ada", "hello").await else {
            panic!("not queued")
        };
        let question = far.question().await;
        let system = system_of(&question.body);
        assert_eq!(system.contains(line), seen, "{wait} s later:\n{system}");
        assert!(!system.contains("[webchat]"), "this topic is no other channel");
        question.say("hi");
        flow.reaches(&id, InboxStatus::Done).await;
    }
}
