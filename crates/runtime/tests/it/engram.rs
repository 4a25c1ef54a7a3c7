//! An Engram service instead of the built-in memory: our own on a second server, and one that never answers.

use crate::far_side::FarSide;
use crate::gardener::{facts, tell};
use cortex_runtime::{EngramClient, EngramError, EngramMemory, EngramSetting, GardenerAnswer};
use cortex_testkit::{FrozenTime, RunningTestServer, RuntimeSetup, ServerSetup, TestModels, TestRuntime};
use cortex_types::{Accounts, FactScope, GardenerTask, TopicRef};
use serde_json::json;
use std::time::Duration;
use tokio::net::TcpListener;

fn http() -> reqwest::Client {
    cortex_testkit::offline_models().client
}

async fn memory_service() -> RunningTestServer {
    ServerSetup::echoing().engram_for_local_clients().start().await
}

fn at(server: &RunningTestServer) -> EngramClient {
    EngramClient::at(&format!("http://{}/engram", server.address()), http()).unwrap()
}

fn memory(content: &str, scope: &str) -> EngramMemory {
    EngramMemory {
        content: content.to_owned(),
        category: "fact".to_owned(),
        scope_id: scope.to_owned(),
        idempotency_key: format!("cortex:extract:{content}"),
        upsert: true,
    }
}

/// How memory names the conversation `trip` of the runtime's tests.
fn trip() -> String {
    FactScope::topic_name(&TopicRef { source: "test".to_owned(), topic_key: "trip".to_owned() })
}

/// Accepts and never says a word.
async fn hanging() -> (TcpListener, EngramClient) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    (listener, EngramClient::at(&url, http()).unwrap())
}

/// Lets time pass until it is there.
async fn passing<T>(time: &FrozenTime, awaited: impl Future<Output = T>) -> T {
    let mut awaited = std::pin::pin!(awaited);
    loop {
        tokio::select! {
            biased;
            there = &mut awaited => return there,
            () = cortex_testkit::pause(Duration::from_millis(2)) => {}
        }
        time.advance(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn a_recall_asks_the_conversation_and_everything_and_gives_each_memory_once() {
    let server = memory_service().await;
    let engram = at(&server);
    for number in 0..6 {
        let content = format!(
            "the {} owl sits on branch {number}",
            ["red", "blue", "old", "wet", "shy", "big"][number]
        );
        engram.remember(&memory(&content, if number < 3 { "trip" } else { "other" })).await.unwrap();
        engram.remember(&memory(&content, if number < 3 { "trip" } else { "other" })).await.unwrap();
    }
    assert_eq!(server.get("/engram/stats").await.json()["total"], 6, "the same key is the same memory");
    let hits = engram.recall("owl", "trip", &Accounts::Everyone).await;
    let mut ids: Vec<&str> = hits.iter().map(|hit| hit.id.as_str()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), hits.len(), "{hits:?}");
    assert!((3..=8).contains(&hits.len()), "{hits:?}");
    assert!(
        hits[..3].iter().all(|hit| hit.content.contains("owl")),
        "the conversation's own come first: {hits:?}"
    );
    assert_eq!(hits[0].category.as_deref(), Some("fact"));
    let ada = Accounts::Only(vec!["ada".to_owned()]);
    assert_eq!(
        engram.recall("owl", "other", &ada).await.len(),
        3,
        "of several people each sees this conversation"
    );
}

#[tokio::test]
async fn the_default_address_is_used_only_when_an_engram_answers_there() {
    let server = memory_service().await;
    let found =
        |setting: EngramSetting| async move { EngramClient::find(&setting, http()).await.unwrap().is_some() };
    let here = format!("http://{}/engram", server.address());
    assert!(found(EngramSetting::Probe(here.clone())).await);
    assert!(
        !found(EngramSetting::Probe(format!("http://{}", server.address()))).await,
        "a Cortex is no Engram"
    );
    assert!(
        !found(EngramSetting::Probe("http://192.0.2.1:7749".to_owned())).await,
        "only this machine is probed"
    );
    assert!(found(EngramSetting::Explicit("http://192.0.2.1:7749".to_owned())).await);
    assert!(!found(EngramSetting::Off).await);
    let bad = EngramClient::find(&EngramSetting::Explicit("not an address".to_owned()), http()).await;
    assert!(matches!(bad, Err(EngramError::BadUrl(_))), "{bad:?}");
}

#[tokio::test(start_paused = true)]
async fn a_service_that_hangs_is_waited_for_three_seconds_and_recalls_nothing() {
    let time = FrozenTime::hold();
    let (_listener, engram) = hanging().await;
    let begun = time.now();
    assert_eq!(passing(&time, engram.recall("owl", "trip", &Accounts::Everyone)).await, []);
    assert!(time.now().since(begun) >= Duration::from_secs(3), "it was given its time");
}

#[tokio::test(start_paused = true)]
async fn what_is_extracted_goes_to_the_service_and_waits_while_it_is_away_without_asking_the_model_again() {
    let time = FrozenTime::hold();
    let mut far = FarSide::listen().await;
    let (listener, engram) = hanging().await;
    let away = RuntimeSetup::new(TestModels::Synapse(far.url.clone()), &time)
        .flow(move |flow| flow.engram = Some(engram.clone()));
    let flow = away.start().await;
    let id = flow.say("trip", "I live in Paris").await;
    let question = passing(&time, far.question()).await;
    assert!(!question.system().contains("Known Facts"), "nothing was recalled, and the turn goes on");
    question.say("Nice.");
    let event = flow.reaches(&id, cortex_types::InboxStatus::Done).await;
    assert_eq!(event.attempts, 1, "a service that does not answer fails no turn");
    let gardener = flow.gardener.clone();
    let running = tokio::spawn(async move { gardener.run_task(GardenerTask::Extractor).await.unwrap() });
    far.question().await.say(r#"[{"content": "Ada lives in Paris", "category": "fact"}]"#);
    let answer = passing(&time, running).await.unwrap();
    assert!(
        matches!(&answer, GardenerAnswer::Failed { reason } if reason.contains("did not answer")),
        "{answer:?}"
    );
    drop(listener);
    let server = memory_service().await;
    let engram = at(&server);
    let back = RuntimeSetup::new(TestModels::Synapse(far.url.clone()), &time)
        .flow(move |flow| flow.engram = Some(engram.clone()));
    let flow = back.start_on(flow.stop().await).await;
    let report = "1 facts from 0 messages, by the model".to_owned();
    assert_eq!(
        flow.gardener.run_task(GardenerTask::Extractor).await.unwrap(),
        GardenerAnswer::Done { report }
    );
    assert_eq!(far.asked(), 2, "the answer that was paid for is kept");
    assert_eq!(facts(&flow).await, [], "the built-in memory stays empty");
    let found = server.post("/engram/recall", &json!({"query": "Paris", "scope_id": trip()})).await.json();
    assert_eq!(found["memories"][0]["content"], "Ada lives in Paris");
    let again = flow.gardener.run_task(GardenerTask::Extractor).await.unwrap();
    assert_eq!(again, GardenerAnswer::Done { report: "0 facts from 0 messages, by the model".to_owned() });
}

#[tokio::test(start_paused = true)]
async fn rules_extract_into_the_service_too() {
    let time = FrozenTime::hold();
    let server = memory_service().await;
    let engram = at(&server);
    let setup =
        RuntimeSetup::new(TestModels::Offline, &time).flow(move |flow| flow.engram = Some(engram.clone()));
    let flow = setup.start().await;
    tell(&flow, "trip", "I like green tea").await;
    flow.gardener.run_task(GardenerTask::Extractor).await.unwrap();
    let found = server.post("/engram/recall", &json!({"query": "tea", "scope_id": trip()})).await.json();
    assert_eq!(found["memories"][0]["category"], "preference");
}

/// A flow whose memory is this service, which knows one thing.
async fn with_the_cottage(time: &FrozenTime, far: &FarSide, server: &RunningTestServer) -> TestRuntime {
    let engram = at(server);
    engram.remember(&memory("the cottage has a blue door", "trip")).await.unwrap();
    let setup = RuntimeSetup::new(TestModels::Synapse(far.url.clone()), time);
    setup.flow(move |flow| flow.engram = Some(engram.clone())).start().await
}

#[tokio::test(start_paused = true)]
async fn what_the_service_recalls_stands_among_the_known_facts() {
    let time = FrozenTime::hold();
    let (mut far, server) = (FarSide::listen().await, memory_service().await);
    let flow = with_the_cottage(&time, &far, &server).await;
    flow.say("trip", "what colour is the door of the cottage?").await;
    let question = far.question().await;
    assert!(
        question.system().contains("## Known Facts\n- the cottage has a blue door\n"),
        "{}",
        question.system()
    );
}

#[tokio::test(start_paused = true)]
async fn facts_that_are_pinned_here_stand_before_what_the_service_recalls() {
    let time = FrozenTime::hold();
    let (mut far, server) = (FarSide::listen().await, memory_service().await);
    let flow = with_the_cottage(&time, &far, &server).await;
    let lines = "{\"content\": \"Ada is allergic to peanuts\", \"pinned\": true}\n{\"content\": \"the train leaves at 7:42\"}";
    flow.runtime.memory().import(lines, "ada").await.unwrap();
    flow.say("trip", "what colour is the door of the cottage?").await;
    let question = far.question().await;
    let expected = "## Known Facts\n- Ada is allergic to peanuts\n- the cottage has a blue door\n\n";
    assert!(question.system().contains(expected), "{}", question.system());
}

#[tokio::test]
async fn a_memory_is_forgotten_by_who_names_its_scope() {
    let server = memory_service().await;
    let engram = at(&server);
    engram.remember(&memory("the cottage has a blue door", "trip")).await.unwrap();
    let id = engram.recall("cottage", "trip", &Accounts::Everyone).await.remove(0).id;
    assert!(!engram.forget(&id, None).await.unwrap(), "it has a scope");
    assert!(!engram.forget(&id, Some("other")).await.unwrap());
    assert!(engram.forget(&id, Some("trip")).await.unwrap());
    assert_eq!(engram.recall("cottage", "trip", &Accounts::Everyone).await, []);
}

#[tokio::test]
async fn the_place_of_a_service_has_no_password_in_it() {
    let engram = EngramClient::at("http://ada:secret@127.0.0.1:7749/engram?key=secret", http()).unwrap();
    assert_eq!(engram.place(), "http://127.0.0.1:7749/engram");
}
