//! Which facts stand in a prompt: all that are pinned, those of its owner, of its channel and of its topic.

use crate::far_side::FarSide;
use cortex_runtime::{MemoryError, NewMemory};
use cortex_store::{FactFilter, Keep, PageRequest};
use cortex_testkit::{FrozenTime, RuntimeSetup, TempStore, TestModels, TestRuntime, new_event, topic};
use cortex_types::limits::PINNED_FACTS_MAX;
use cortex_types::{ChannelSettings, FactScope, FactSource, FactSourceKind, NewEvent};

pub(crate) fn fact(text: &str, scope: FactScope) -> NewMemory {
    NewMemory {
        text: text.to_owned(),
        category: None,
        scope,
        source: FactSource { kind: FactSourceKind::Person, reference: "ada".to_owned() },
        metadata_json: None,
        idempotency_key: None,
        unreviewed_in: None,
        keep: Keep::Once,
    }
}

async fn known(flow: &TestRuntime) -> Option<String> {
    let shown = flow.runtime.context().show(topic("test", "a")).await.unwrap();
    shown
        .sections
        .into_iter()
        .find(|section| section.name.as_str() == "known_facts")
        .map(|section| section.text)
}

/// Numbers keep facts apart that are alike otherwise (D21).
fn numbered(number: usize) -> NewMemory {
    fact(&format!("box {number} holds {} keys", number * 7), FactScope::Global)
}

#[tokio::test(start_paused = true)]
async fn every_pinned_fact_is_in_the_prompt_and_one_too_many_is_refused() {
    let time = FrozenTime::hold();
    let flow = RuntimeSetup::new(TestModels::Offline, &time).start().await;
    let memory = flow.runtime.memory();
    let mut ids = Vec::new();
    for number in 0..=PINNED_FACTS_MAX {
        ids.push(memory.remember(numbered(number)).await.unwrap().id);
    }
    let last = ids.pop().unwrap();
    for id in &ids {
        assert!(memory.pin(id.clone()).await.unwrap());
    }
    // Nothing that is asked for more often pushes a pinned one out.
    let seq = memory.find(last.clone()).await.unwrap().unwrap().seq;
    for _ in 0..5 {
        memory.touch(vec![seq]).await.unwrap();
    }
    let refused = memory.pin(last.clone()).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "50 facts are pinned already; unpin one first: `cortex memory list --pinned` shows them, \
         `cortex memory pin <fact> --off` unpins one"
    );
    assert!(matches!(refused, MemoryError::PinsFull));
    assert!(memory.pin(ids[0].clone()).await.unwrap(), "one that is pinned stays so");
    let text = known(&flow).await.unwrap();
    for number in 0..PINNED_FACTS_MAX {
        assert!(text.contains(&format!("- box {number} holds")), "{number} in\n{text}");
    }
    let pinned = FactFilter { pinned: true, ..FactFilter::default() };
    assert_eq!(memory.list(pinned, PageRequest::newest(500)).await.unwrap().rows.len(), PINNED_FACTS_MAX);
    memory.unpin(ids[0].clone()).await.unwrap();
    assert!(memory.pin(last).await.unwrap(), "there is room again");
}

#[tokio::test(start_paused = true)]
async fn an_import_pins_no_more_than_fit_and_says_so() {
    let time = FrozenTime::hold();
    let flow = RuntimeSetup::new(TestModels::Offline, &time).start().await;
    let line = |number| format!(r#"{{"content": "box {number} holds {} keys", "pinned": true}}"#, number * 7);
    let lines: Vec<String> = (0..PINNED_FACTS_MAX + 2).map(line).collect();
    let done = flow.runtime.memory().import(&lines.join("\n"), "ada").await.unwrap();
    assert_eq!((done.created, done.unpinned), (PINNED_FACTS_MAX as u64 + 2, 2));
}

#[tokio::test(start_paused = true)]
async fn without_memory_no_fact_stands_in_a_prompt() {
    let time = FrozenTime::hold();
    for memory in [true, false] {
        let setup =
            RuntimeSetup::new(TestModels::Offline, &time).flow(move |flow| flow.memory_enabled = memory);
        let flow = setup.start().await;
        let desk = flow.runtime.memory();
        let id = desk.remember(fact("Ada is allergic to peanuts", FactScope::Global)).await.unwrap().id;
        desk.pin(id).await.unwrap();
        let expected = memory.then(|| "## Known Facts\n- Ada is allergic to peanuts\n\n".to_owned());
        assert_eq!(known(&flow).await, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn facts_of_every_user_are_the_owners_unless_people_are_told_apart() {
    let time = FrozenTime::hold();
    let flow = RuntimeSetup::new(TestModels::Offline, &time).start().await;
    let desk = flow.runtime.memory();
    crate::gardener::tell(&flow, "a", "hello").await;
    for (user, text) in [("ada", "ada sails"), ("ada@mail", "the boat is red"), ("eve", "eve paints")] {
        desk.remember(fact(text, FactScope::User(user.to_owned()))).await.unwrap();
    }
    assert_eq!(
        known(&flow).await.unwrap(),
        "## Known Facts\n- ada sails\n- the boat is red\n- eve paints\n\n"
    );
    let accounts = vec!["ada".to_owned(), "ada@mail".to_owned()];
    let identities = [("ada".to_owned(), accounts)].into_iter().collect();
    let settings = ChannelSettings { identities, ..ChannelSettings::default() };
    flow.runtime.channels().apply(settings).await.unwrap();
    assert_eq!(known(&flow).await.unwrap(), "## Known Facts\n- ada sails\n- the boat is red\n\n");
}

#[tokio::test(start_paused = true)]
async fn an_event_from_inside_sees_the_facts_of_the_channel_it_is_for() {
    let time = FrozenTime::hold();
    let mut far = FarSide::listen().await;
    let setup = RuntimeSetup::new(TestModels::Synapse(far.url.clone()), &time);
    let flow = setup.start().await;
    let desk = flow.runtime.memory();
    for (channel, text) in [("test", "answer in French here"), ("cron", "nobody reads this")] {
        desk.remember(fact(text, FactScope::Channel(channel.to_owned()))).await.unwrap();
    }
    let store: TempStore = flow.stop().await;
    let tick = NewEvent { channel: Some("cron".to_owned()), ..new_event(&topic("test", "a"), "tick") };
    store.inbox().accept(tick, time.now()).await.unwrap();
    let _flow = setup.start_on(store).await;
    let question = far.question().await;
    assert!(question.system().contains("Channel: cron"), "{}", question.system());
    assert!(
        question.system().contains("## Known Facts\n- answer in French here\n\n"),
        "{}",
        question.system()
    );
}

#[tokio::test(start_paused = true)]
async fn no_topic_key_reaches_the_facts_of_another_conversation() {
    let time = FrozenTime::hold();
    let flow = RuntimeSetup::new(TestModels::Offline, &time).start().await;
    let desk = flow.runtime.memory();
    let chosen = [
        (topic("a:b", "c"), topic("a", "b:c")),
        (topic("discord", "123"), topic("slack", "discord:123")),
        (topic("discord", "123"), topic("cli", "discord:123")),
    ];
    for (number, (own, other)) in chosen.into_iter().enumerate() {
        let text = format!("the {number}. canary sings");
        desk.remember(fact(&text, FactScope::of_topic(&own))).await.unwrap();
        let unreviewed_in = Some(FactScope::topic_name(&own));
        let planted = format!("the {number}. parrot talks");
        desk.remember(NewMemory { unreviewed_in, ..fact(&planted, FactScope::Global) }).await.unwrap();
        for (place, sees) in [(&own, true), (&other, false)] {
            let shown = flow.runtime.context().show(place.clone()).await.unwrap();
            let prompt: String = shown.sections.iter().map(|section| section.text.as_str()).collect();
            assert_eq!(prompt.contains(&text), sees, "{place:?}: {prompt}");
            assert_eq!(prompt.contains(&planted), sees, "{place:?}: {prompt}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_memory_clients_scope_is_in_no_prompt_of_a_connector_that_chose_its_name() {
    let time = FrozenTime::hold();
    let flow = RuntimeSetup::new(TestModels::Offline, &time).start().await;
    let scope = FactScope::Topic("notes".to_owned());
    flow.runtime.memory().remember(fact("the boat is red", scope)).await.unwrap();
    for (source, sees) in [("cli", true), ("slack", false)] {
        let shown = flow.runtime.context().show(topic(source, "notes")).await.unwrap();
        let prompt: String = shown.sections.iter().map(|section| section.text.as_str()).collect();
        assert_eq!(prompt.contains("the boat is red"), sees, "{source}: {prompt}");
    }
}
