//! Groups: nothing of the owner's memory is in their prompts or in what their tools find, and what they say stays theirs.

use crate::far_side::{Question, called, said};
use crate::gardener::facts;
use crate::hands::{CountingBox, Person, Stage, last_words};
use crate::known_facts::fact;
use cortex_runtime::Dispatch;
use cortex_testkit::{FrozenTime, RuntimeSetup, TestModels, topic};
use cortex_types::{Audience, FactScope, GardenerTask, InboxStatus, Speaker, TopicRef};
use serde_json::json;

const PRIVATE: Person = Person("telegram", "42", "tg:1");
const GROUP: Person = Person("telegram", "-100", "tg:1");
const IS_PRIVATE: Option<&str> = Some(r#"{"chatType":"private"}"#);
const IS_GROUP: Option<&str> = Some(r#"{"chatType":"group"}"#);
/// What is the owner's: his files, facts that hold everywhere, facts of a person, what was said, asked for and planned
/// elsewhere.
const CANARIES: [&str; 7] =
    ["USERWORD", "MEMORYWORD", "GLOBALWORD", "PERSONWORD", "SAIDWORD", "OPWORD", "PLANWORD"];
/// Ways to look for them.
const LOOKS: [&str; 5] = [
    "hello",
    r#"CALL memory__query {"query":"what opens the safe"}"#,
    r#"CALL session__history {"topic":"42"}"#,
    r#"CALL session__history {"channel":"telegram"}"#,
    "CALL schedule__list {}",
];

/// Calls what its user names.
fn obey(question: &Question) -> String {
    let (text, told) = last_words(&question.body);
    match text.strip_prefix("CALL ").and_then(|call| call.split_once(' ')) {
        Some((tool, arguments)) if told.is_empty() => called(&[("1", tool, arguments)]),
        Some(_) | None => said("Well."),
    }
}

fn place(person: Person) -> TopicRef {
    topic(person.0, person.1)
}

/// A home with every canary in it, and a chat of each kind.
async fn stage(identities: &'static [&'static str]) -> Stage {
    let change = move |flow: &mut cortex_runtime::RuntimeConfig| {
        std::fs::create_dir_all(&flow.workspace).unwrap();
        for (file, words) in [("SOUL.md", "SOULWORD"), ("USER.md", "USERWORD"), ("MEMORY.md", "MEMORYWORD")] {
            std::fs::write(flow.workspace.join(file), words).unwrap();
        }
        if !identities.is_empty() {
            let accounts = identities.iter().map(|id| (*id).to_owned()).collect();
            flow.channels.identities.insert("ada".to_owned(), accounts);
        }
    };
    let stage = Stage::set_with(change, CountingBox::holding(""), obey).await;
    let memory = stage.flow.runtime.memory();
    for (text, scope) in [
        ("GLOBALWORD opens the safe", FactScope::Global),
        ("the person's PERSONWORD opens the door of the safe", FactScope::User("tg:1".to_owned())),
        ("CHANNELWORD is how telegram opens", FactScope::Channel("telegram".to_owned())),
        ("TOPICWORD is the safe of this group", FactScope::of_topic(&place(GROUP))),
    ] {
        memory.remember(fact(text, scope)).await.unwrap();
    }
    stage.flow.runtime.ops().add(dispatch(PRIVATE, "find the OPWORD")).await.unwrap();
    let plan = r#"{"cron":"0 0 1 1 *","what":"PLANWORD"}"#;
    let desk = stage.flow.runtime.schedules();
    desk.run_tool("create", plan, place(PRIVATE), "tg:1".to_owned()).await.unwrap();
    stage.event_by(Speaker::key("telegram"), PRIVATE, "SAIDWORD", IS_PRIVATE).await;
    stage
}

fn dispatch(person: Person, description: &str) -> Dispatch {
    Dispatch {
        kind: "router_job".to_owned(),
        description: description.to_owned(),
        topic: place(person),
        user_id: person.2.to_owned(),
        event: None,
        expected_channel: None,
        run_id: None,
    }
}

/// Everything that the model was sent for these words.
async fn sent_for(stage: &Stage, person: Person, words: &str, metadata: Option<&str>) -> String {
    let before = stage.heard.lock().unwrap().len();
    stage.event_by(Speaker::key("telegram"), person, words, metadata).await;
    since(stage, before)
}

fn since(stage: &Stage, before: usize) -> String {
    let heard = stage.heard.lock().unwrap();
    assert!(heard.len() > before, "a model was asked");
    heard[before..].iter().map(ToString::to_string).collect()
}

#[track_caller]
fn has_none(sent: &str, what: &str) {
    for canary in CANARIES {
        assert!(!sent.contains(canary), "{what}: {canary} in {sent}");
    }
    assert!(sent.contains("SOULWORD"), "{what}: the assistant is still itself: {sent}");
}

#[tokio::test(start_paused = true)]
async fn a_group_sees_its_own_place_and_nothing_of_the_owner() {
    for identities in [&[][..], &["tg:1", "ada@mail"]] {
        let stage = stage(identities).await;
        let mut own = String::new();
        for look in LOOKS {
            own += &sent_for(&stage, PRIVATE, look, IS_PRIVATE).await;
        }
        for canary in CANARIES.into_iter().chain(["CHANNELWORD"]) {
            assert!(own.contains(canary), "the control: {canary} in {own}");
        }
        for look in LOOKS {
            for (metadata, what) in [(IS_GROUP, "it says so"), (None, "it is known as one")] {
                let sent = sent_for(&stage, GROUP, look, metadata).await;
                has_none(&sent, &format!("{look}, {what}"));
                assert!(sent.contains("TOPICWORD") && sent.contains("CHANNELWORD"), "{look}: {sent}");
            }
        }
        let op = stage.flow.runtime.ops().add(dispatch(GROUP, "find flights")).await.unwrap();
        let before = stage.heard.lock().unwrap().len();
        stage.flow.runtime.ops().complete(op, "LH 400".to_owned()).await.unwrap();
        stage.settled().await;
        let sent = since(&stage, before);
        assert!(sent.contains("LH 400"), "{sent}");
        has_none(&sent, "what comes from inside");

        let shown = stage.flow.runtime.context().show(place(GROUP)).await.unwrap();
        let shown: String = shown.sections.iter().map(|section| section.text.as_str()).collect();
        has_none(&shown, "what the owner is shown of it");
    }
}

#[tokio::test(start_paused = true)]
async fn a_group_forgets_and_changes_nothing_of_the_owners() {
    let stage = stage(&[]).await;
    let found = facts(&stage.flow).await;
    let global = found.iter().find(|fact| fact.scope == FactScope::Global).unwrap();
    for call in [
        format!(r#"CALL memory__forget {{"id":"{}"}}"#, global.id),
        r#"CALL schedule__delete {"id":1}"#.to_owned(),
    ] {
        let id = stage.event_by(Speaker::key("telegram"), GROUP, &call, IS_GROUP).await;
        assert_eq!(stage.flow.event(&id).await.status, InboxStatus::Done, "{call}: nobody is asked");
        let (answer, _) = stage.flow.tool_answer(&id).await;
        assert!(answer.contains("there is no"), "{call}: {answer}");
        let id = stage.event_by(Speaker::key("telegram"), PRIVATE, &call, IS_PRIVATE).await;
        assert_eq!(stage.flow.event(&id).await.status, InboxStatus::Waiting, "{call}: the control");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_group_has_remembered_stands_in_no_other_prompt() {
    let stage = stage(&[]).await;
    let note = r#"CALL memory__remember {"text":"PICNICWORD is on Sunday"}"#;
    stage.event_by(Speaker::key("telegram"), GROUP, note, IS_GROUP).await;
    let found = facts(&stage.flow).await;
    let kept = found.iter().find(|fact| fact.text.contains("PICNICWORD")).unwrap();
    assert_eq!(kept.scope, FactScope::of_topic(&place(GROUP)));
    let known = async |person| {
        let shown = stage.flow.runtime.context().show(place(person)).await.unwrap();
        let known = shown.sections.into_iter().find(|section| section.name.as_str() == "known_facts");
        known.map(|section| section.text).unwrap_or_default()
    };
    assert!(known(GROUP).await.contains("PICNICWORD"));
    assert!(!known(PRIVATE).await.contains("PICNICWORD"));
}

#[tokio::test(start_paused = true)]
async fn what_is_learned_from_a_group_is_the_groups() {
    let time = FrozenTime::hold();
    let flow = RuntimeSetup::new(TestModels::Offline, &time).start().await;
    for (place, chat_type, words) in
        [("room", "group", "I live in Ghent."), ("own", "private", "I prefer green tea.")]
    {
        let id = flow.say_with(place, words, &json!({"chatType": chat_type})).await;
        flow.reaches(&id, InboxStatus::Done).await;
    }
    flow.gardener.run_task(GardenerTask::Extractor).await.unwrap();
    let mut scopes: Vec<FactScope> = facts(&flow).await.into_iter().map(|fact| fact.scope).collect();
    scopes.sort();
    assert_eq!(scopes, [FactScope::Global, FactScope::of_topic(&topic("test", "room"))]);
}

#[tokio::test(start_paused = true)]
async fn only_the_connector_says_what_a_chat_is() {
    let stage = stage(&[]).await;
    let audience = async |person| stage.flow.store.audience_of(place(person)).await.unwrap();
    stage.event_by(Speaker::key("telegram"), GROUP, "hello", IS_GROUP).await;
    assert_eq!((audience(PRIVATE).await, audience(GROUP).await), (Audience::Private, Audience::Group));
    let hook = || Speaker::hook("hook:ci", "telegram");
    stage.event_by(hook(), GROUP, "hello", IS_PRIVATE).await;
    stage.event_by(hook(), PRIVATE, "hello", IS_GROUP).await;
    assert_eq!((audience(PRIVATE).await, audience(GROUP).await), (Audience::Private, Audience::Group));
    stage.event_by(Speaker::key("telegram"), GROUP, "all others left", IS_PRIVATE).await;
    assert_eq!(audience(GROUP).await, Audience::Private);
}
