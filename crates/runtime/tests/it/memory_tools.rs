//! `memory.*` and `session.history` as a model calls them, by their own names and by the seed's.

use crate::channel::say;
use cortex_store::{FactFilter, PageRequest};
use cortex_testkit::{FrozenTime, RuntimeSetup, TempStore, TestRuntime, topic};
use cortex_types::{EventId, InboxStatus, ToolEnding};
use serde_json::{Value, json};

/// A model that calls a tool when it is told `call <number>`, and otherwise notes what it hears.
async fn start(time: &FrozenTime, calls: &[(&str, Value)]) -> TestRuntime {
    let after = calls.iter().map(|(name, _)| json!({ "when": { "afterTool": name }, "say": "Done." }));
    let called = calls.iter().enumerate().map(|(number, (name, arguments))| {
        let call = json!({ "id": "1", "name": name, "arguments": arguments });
        json!({ "when": { "equals": format!("call {number}") }, "toolCalls": [call] })
    });
    let answers: Vec<Value> = after.chain(called).collect();
    let script = json!({ "answers": answers, "otherwise": { "say": "Noted." } });
    RuntimeSetup::scripted(script, time).start().await
}

async fn told(flow: &TestRuntime, topic: &str, text: &str) -> EventId {
    let id = flow.say(topic, text).await;
    flow.reaches(&id, InboxStatus::Done).await;
    id
}

async fn lines(flow: &TestRuntime, event: &EventId) -> Vec<Value> {
    let (text, ending) = flow.tool_answer(event).await;
    assert_eq!(ending, ToolEnding::Done, "{text}");
    serde_json::from_str(&text).unwrap()
}

#[tokio::test(start_paused = true)]
async fn what_is_remembered_in_one_turn_is_found_in_another_by_either_name() {
    let time = FrozenTime::hold();
    let note = json!({ "text": "Ada's favourite tea is Darjeeling" });
    let question = json!({ "query": "Which tea does Ada like?", "limit": 3 });
    let flow = start(
        &time,
        &[("memory.remember", note), ("memory.query", question.clone()), ("memory_query", question)],
    )
    .await;
    let kept = told(&flow, "a", "call 0").await;
    let (text, _) = flow.tool_answer(&kept).await;
    let id = text.strip_prefix("remembered: ").unwrap();
    for call in ["call 1", "call 2"] {
        let asked = told(&flow, "b", call).await;
        let hits = lines(&flow, &asked).await;
        assert_eq!((&hits[0]["kind"], &hits[0]["id"]), (&json!("fact"), &json!(id)), "{hits:?}");
        assert_eq!(hits[0]["text"], "Ada's favourite tea is Darjeeling");
        assert!(hits[0]["score"].as_f64() > Some(0.5));
    }
    let again = told(&flow, "a", "call 0").await;
    assert_eq!(flow.tool_answer(&again).await.0, format!("was known already: {id}"));
}

#[tokio::test(start_paused = true)]
async fn to_forget_is_asked_first_and_shows_what_goes() {
    let time = FrozenTime::hold();
    let first = start(&time, &[("memory.remember", json!({ "text": "The alarm code is 4711" }))]).await;
    told(&first, "a", "call 0").await;
    let memory = first.runtime.memory();
    let fact = memory.list(FactFilter::default(), PageRequest::newest(1)).await.unwrap().rows.remove(0);
    let store = first.stop().await;
    let script = json!({ "otherwise": { "toolCalls": [
        { "id": "1", "name": "memory.forget", "arguments": { "id": fact.id.as_str() } }] } });
    let flow = RuntimeSetup::scripted(script, &time).start_on(store).await;
    let id = flow.say("a", "forget the code").await;
    flow.reaches(&id, InboxStatus::Waiting).await;
    let asked = flow.replies(&id).await.remove(0);
    assert!(asked.contains("The alarm code is 4711"), "{asked}");
    assert!(flow.runtime.memory().find(fact.id).await.unwrap().is_some(), "nothing goes before the answer");
}

#[tokio::test(start_paused = true)]
async fn a_fact_that_is_not_there_cannot_be_forgotten() {
    let time = FrozenTime::hold();
    let flow = start(&time, &[("memory.forget", json!({ "id": "fct_nothing" }))]).await;
    let id = told(&flow, "a", "call 0").await;
    let (text, ending) = flow.tool_answer(&id).await;
    assert_eq!((ending, text.contains("there is no fact")), (ToolEnding::Refused, true), "{text}");
}

#[tokio::test(start_paused = true)]
async fn the_history_says_what_the_sender_is_and_what_came_with_his_words() {
    let time = FrozenTime::hold();
    let flow = start(&time, &[("session.history", json!({}))]).await;
    let metadata =
        json!({ "relationship": "colleague", "attachments": [{ "name": "cat.jpg", "type": "image/jpeg" }] });
    let id = flow.say_with("home", "look", &metadata).await;
    flow.reaches(&id, InboxStatus::Done).await;
    told(&flow, "home", "nice").await;
    let read = told(&flow, "home", "call 0").await;
    let tags: Vec<(Value, Value)> = lines(&flow, &read)
        .await
        .iter()
        .map(|line| (line["relationship"].clone(), line["attachments"].clone()))
        .collect();
    let (none, owner) = (Value::Null, json!("owner"));
    let picture = (json!("colleague"), json!("[attachments: cat.jpg (image/jpeg)]"));
    let assistant = (none.clone(), none.clone());
    assert_eq!(tags, [picture, assistant.clone(), (owner, none), assistant]);
}

#[tokio::test(start_paused = true)]
async fn the_history_of_this_and_of_other_topics_is_read_page_by_page() {
    let time = FrozenTime::hold();
    let flow = start(
        &time,
        &[
            ("session.history", json!({})),
            ("fetch_chat_history", json!({ "topic": "work", "limit": 2 })),
            ("session.history", json!({ "channel": "test", "limit": 100 })),
            ("session.history", json!({ "topic": "work", "before": 3 })),
            ("session.history", json!({ "topic": "work", "before": "2020-01-01T00:00:00Z" })),
            ("session.history", json!({ "topic": "work", "before": "yesterday" })),
        ],
    )
    .await;
    told(&flow, "work", "The report is due").await;
    told(&flow, "work", "The report is done").await;
    told(&flow, "home", "The plants need water").await;
    let texts = |lines: Vec<Value>| -> Vec<String> {
        lines.iter().map(|line| line["text"].as_str().unwrap().to_owned()).collect()
    };
    let here = told(&flow, "home", "call 0").await;
    assert_eq!(texts(lines(&flow, &here).await), ["The plants need water", "Noted."]);
    let work = told(&flow, "home", "call 1").await;
    let last_two = lines(&flow, &work).await;
    assert_eq!((&last_two[0]["speaker"], &last_two[1]["speaker"]), (&json!("ada"), &json!("assistant")));
    assert_eq!(texts(last_two), ["The report is done", "Noted."]);
    let everywhere = told(&flow, "home", "call 2").await;
    assert_eq!(lines(&flow, &everywhere).await.len(), 10);
    let before = told(&flow, "home", "call 3").await;
    assert_eq!(texts(lines(&flow, &before).await), ["The report is due", "Noted."]);
    let long_ago = told(&flow, "home", "call 4").await;
    assert_eq!(lines(&flow, &long_ago).await, Vec::<Value>::new());
    let wrong = told(&flow, "home", "call 5").await;
    assert_eq!(flow.tool_answer(&wrong).await.1, ToolEnding::Refused);
}

/// Ada and Eve are two people.
async fn start_for_two(time: &FrozenTime, store: TempStore, script: Value) -> TestRuntime {
    let setup = RuntimeSetup::scripted(script, time).flow(|flow| {
        for person in ["ada", "eve"] {
            flow.channels.identities.insert(person.to_owned(), vec![person.to_owned()]);
        }
    });
    setup.start_on(store).await
}

#[tokio::test(start_paused = true)]
async fn one_person_neither_finds_nor_forgets_what_another_told() {
    let time = FrozenTime::hold();
    let call = |name: &str, arguments: Value| json!({ "toolCalls": [{ "id": "1", "name": name, "arguments": arguments }] });
    let script = json!({ "answers": [{ "when": { "afterTool": "memory.remember" }, "say": "Done." }],
        "otherwise": call("memory.remember", json!({ "text": "The PIN of the card is 4711" })) });
    let flow = start_for_two(&time, TempStore::create(), script).await;
    let id = say(&flow, &topic("test", "a"), "ada", "the PIN of the card is 4711").await;
    let fact = flow.tool_answer(&id).await.0.strip_prefix("remembered: ").unwrap().to_owned();
    let script = json!({ "answers": [
        { "when": { "afterTool": "memory.query" }, "say": "Done." },
        { "when": { "afterTool": "memory.forget" }, "say": "Done." },
        { "when": { "equals": "find" }, "toolCalls": [
            { "id": "1", "name": "memory.query", "arguments": { "query": "PIN of the card" } }] },
    ], "otherwise": call("memory.forget", json!({ "id": fact })) });
    let flow = start_for_two(&time, flow.stop().await, script).await;
    let found = say(&flow, &topic("test", "e"), "eve", "find").await;
    assert!(!flow.tool_answer(&found).await.0.contains("4711"), "{:?}", flow.tool_answer(&found).await);
    let forgot = say(&flow, &topic("test", "e"), "eve", "forget it").await;
    assert_eq!(flow.tool_answer(&forgot).await.1, ToolEnding::Refused);
    let found = say(&flow, &topic("test", "other"), "ada", "find").await;
    assert!(flow.tool_answer(&found).await.0.contains("4711"), "and she finds it anywhere");
}
