//! The compactor: idle conversations become a summary and step back, those that stay silent are archived, and nothing
//! that is interrupted or said meanwhile is lost.

use crate::far_side::FarSide;
use crate::gardener::tell;
use cortex_runtime::GardenerAnswer;
use cortex_store::ChannelState;
use cortex_testkit::{FrozenTime, RuntimeSetup, TempStore, TestModels, TestRuntime, topic};
use cortex_types::{ChannelLayer, GardenerTask, InboxStatus};
use serde_json::json;
use std::time::Duration;
use tokio::task::JoinHandle;

const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(24 * 3_600);
const MOMENT: Duration = Duration::from_millis(1);

async fn compact(flow: &TestRuntime) -> GardenerAnswer {
    flow.gardener.run_task(GardenerTask::Compactor).await.unwrap()
}

fn compacting(flow: &TestRuntime) -> JoinHandle<GardenerAnswer> {
    let gardener = flow.gardener.clone();
    tokio::spawn(async move { gardener.run_task(GardenerTask::Compactor).await.unwrap() })
}

fn done(report: &str) -> GardenerAnswer {
    GardenerAnswer::Done { report: report.to_owned() }
}

async fn state(store: &TempStore) -> ChannelState {
    store.channels().states().await.unwrap().remove(0)
}

async fn summary(store: &TempStore, key: &str) -> Option<String> {
    let uncovered = store.summaries().uncovered(topic("test", key), 100).await.unwrap();
    uncovered.summary.map(|summary| summary.content)
}

/// Four exchanges, of which two can be folded.
async fn talk(flow: &TestRuntime, far: &mut FarSide) {
    for number in 1..=4 {
        let id = flow.say("a", &format!("question {number}")).await;
        far.question().await.say(&format!("answer {number}"));
        flow.reaches(&id, InboxStatus::Done).await;
    }
}

async fn section(flow: &TestRuntime, source: &str, name: &str) -> Option<String> {
    let shown = flow.runtime.context().show(topic(source, "t")).await.unwrap();
    shown.sections.into_iter().find(|section| section.name.as_str() == name).map(|section| section.text)
}

#[tokio::test(start_paused = true)]
async fn a_conversation_that_is_idle_for_more_than_an_hour_steps_back_and_its_summary_is_its_line() {
    let time = FrozenTime::hold();
    let script = json!({ "otherwise": { "say": "Noted." } });
    let offline = RuntimeSetup::new(TestModels::Offline, &time);
    for (setup, by) in [
        (offline, "by rules, because no model is configured"),
        (RuntimeSetup::scripted(script, &time), "by the model"),
    ] {
        let flow = setup.start().await;
        for number in 1..=4 {
            tell(&flow, "a", &format!("hello {number}")).await;
        }
        let last_words = state(&flow.store).await.summary;
        time.advance(HOUR).await;
        let none = format!("0 conversations summarised, {by}; 0 out of the foreground, 0 archived");
        assert_eq!(compact(&flow).await, done(&none), "exactly an hour is not more");
        assert_eq!(state(&flow.store).await.layer, ChannelLayer::Foreground);
        time.advance(MOMENT).await;
        let one = format!("1 conversations summarised, {by}; 1 out of the foreground, 0 archived");
        assert_eq!(compact(&flow).await, done(&one));
        let after = state(&flow.store).await;
        assert_eq!(after.layer, ChannelLayer::Background);
        assert_ne!(after.summary, last_words);
        let summary = summary(&flow.store, "a").await.unwrap();
        assert!(summary.replace("\n- ", "; ").ends_with(&after.summary), "{after:?} of {summary}");
        let seen = section(&flow, "elsewhere", "background").await.unwrap();
        assert!(seen.contains(&format!("[test] {} (last: ", after.summary)), "{seen}");
        assert_eq!(compact(&flow).await, done(&none), "once");
    }
}

#[tokio::test(start_paused = true)]
async fn every_idle_topic_of_a_channel_is_compacted() {
    let time = FrozenTime::hold();
    let flow = RuntimeSetup::new(TestModels::Offline, &time).start().await;
    for number in 1..=4 {
        tell(&flow, "a", &format!("hello {number}")).await;
        tell(&flow, "b", &format!("hello {number}")).await;
    }
    time.advance(HOUR + MOMENT).await;
    compact(&flow).await;
    assert!(summary(&flow.store, "a").await.is_some() && summary(&flow.store, "b").await.is_some());
}

#[tokio::test(start_paused = true)]
async fn the_words_of_the_model_are_the_summary_and_the_line() {
    let time = FrozenTime::hold();
    let mut far = FarSide::listen().await;
    let flow = RuntimeSetup::new(TestModels::Synapse(far.url.clone()), &time).start().await;
    talk(&flow, &mut far).await;
    time.advance(HOUR + MOMENT).await;
    let running = compacting(&flow);
    let question = far.question().await;
    assert!(question.text().contains("User: question 2\nAssistant: answer 2"), "{}", question.text());
    question.say("- Ada asked twice\n- she was answered\n");
    let report = "1 conversations summarised, by the model; 1 out of the foreground, 0 archived";
    assert_eq!(running.await.unwrap(), done(report));
    assert_eq!(summary(&flow.store, "a").await.unwrap(), "- Ada asked twice\n- she was answered");
    assert_eq!(state(&flow.store).await.summary, "Ada asked twice; she was answered");
}

#[tokio::test(start_paused = true)]
async fn a_model_that_fails_is_named_in_the_report_and_the_rules_write_instead() {
    let time = FrozenTime::hold();
    let mut far = FarSide::listen().await;
    let flow = RuntimeSetup::new(TestModels::Synapse(far.url.clone()), &time).start().await;
    talk(&flow, &mut far).await;
    time.advance(HOUR + MOMENT).await;
    let running = compacting(&flow);
    far.question().await.answer("HTTP/1.1 400 Bad Request\r\ncontent-length: 2\r\n\r\n{}".to_owned());
    let GardenerAnswer::Done { report } = running.await.unwrap() else { panic!("it came to nothing") };
    let begin = "1 conversations summarised, by the model; 1 of them by rules, because the model failed: ";
    assert!(report.starts_with(begin) && report.contains("400"), "{report}");
    let expected = "- question 1 → answer 1\n- question 2 → answer 2";
    assert_eq!(summary(&flow.store, "a").await.unwrap(), expected);
    let status = flow.gardener.status().await.unwrap();
    assert_eq!(status.tasks[0].last.as_ref().unwrap().last_report, report);
}

#[tokio::test(start_paused = true)]
async fn a_stop_leaves_the_conversation_as_it_was_for_the_next_run() {
    let time = FrozenTime::hold();
    let mut far = FarSide::listen().await;
    let setup = RuntimeSetup::new(TestModels::Synapse(far.url.clone()), &time)
        .flow(|flow| flow.extraction_interval = 0)
        .gardening();
    let flow = setup.start().await;
    talk(&flow, &mut far).await;
    let before = state(&flow.store).await;
    time.advance(HOUR + MOMENT).await;
    let unanswered = far.question().await;
    let store = flow.stop().await;
    assert_eq!((state(&store).await, summary(&store, "a").await), (before, None));
    drop(unanswered);
    let runs = store.gardener().runs().await.unwrap();
    assert!(runs.iter().any(|run| run.last_report == "failed: the server stops"), "{runs:?}");
    // The next run has another try.
    let flow = setup.start_on(store).await;
    time.advance(HOUR).await;
    far.question().await.say("- Ada asked");
    let changed = || async { summary(&flow.store, "a").await };
    let written = cortex_testkit::eventually("the summary".to_owned(), changed).await;
    assert_eq!(written, "- Ada asked");
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_ends_while_the_model_writes_stays_in_the_foreground() {
    let time = FrozenTime::hold();
    let mut far = FarSide::listen().await;
    let flow = RuntimeSetup::new(TestModels::Synapse(far.url.clone()), &time).start().await;
    talk(&flow, &mut far).await;
    time.advance(HOUR + MOMENT).await;
    let running = compacting(&flow);
    let asked = far.question().await;
    let id = flow.say("a", "and now?").await;
    far.question().await.say("here");
    flow.reaches(&id, InboxStatus::Done).await;
    asked.say("- Ada asked");
    let report = "1 conversations summarised, by the model; 0 out of the foreground, 0 archived";
    assert_eq!(running.await.unwrap(), done(report));
    let state = state(&flow.store).await;
    assert_eq!((state.layer, state.summary.as_str()), (ChannelLayer::Foreground, "and now? → here"));
}

#[tokio::test(start_paused = true)]
async fn at_the_daily_cap_the_rest_waits_for_the_next_day() {
    let time = FrozenTime::hold();
    let script = json!({ "otherwise": { "say": "Noted." } });
    let setup = RuntimeSetup::scripted(script, &time).flow(|flow| flow.gardener_tokens_per_day = Some(1));
    let flow = setup.start().await;
    for key in ["a", "b"] {
        for number in 1..=4 {
            tell(&flow, key, &format!("hello {number}")).await;
        }
        time.advance(MOMENT).await;
    }
    time.advance(HOUR).await;
    let reason = "the daily token cap of 1 is reached".to_owned();
    assert_eq!(compact(&flow).await, GardenerAnswer::Failed { reason });
    assert!(summary(&flow.store, "a").await.is_some(), "what was paid for is kept");
    assert_eq!(summary(&flow.store, "b").await, None);
    time.advance(DAY).await;
    let report = "1 conversations summarised, by the model; 1 out of the foreground, 0 archived";
    assert_eq!(compact(&flow).await, done(report));
    assert!(summary(&flow.store, "b").await.is_some());
}

#[tokio::test(start_paused = true)]
async fn without_memory_an_old_channel_is_seen_until_it_is_archived_and_with_memory_for_a_day() {
    for memory in [true, false] {
        let time = FrozenTime::hold();
        let setup =
            RuntimeSetup::new(TestModels::Offline, &time).flow(move |flow| flow.memory_enabled = memory);
        let flow = setup.start().await;
        tell(&flow, "a", "is there milk?").await;
        let is_seen = async || {
            section(&flow, "elsewhere", "background").await.is_some_and(|text| text.contains("[test] "))
        };
        time.advance(DAY).await;
        compact(&flow).await;
        assert!(is_seen().await, "exactly a day, memory {memory}");
        time.advance(MOMENT).await;
        assert_eq!(is_seen().await, !memory, "more than a day, memory {memory}");
        time.advance(6 * DAY - MOMENT).await;
        compact(&flow).await;
        assert_eq!(is_seen().await, !memory, "exactly a week, memory {memory}");
        time.advance(MOMENT).await;
        let GardenerAnswer::Done { report } = compact(&flow).await else { panic!("it came to nothing") };
        assert!(report.ends_with("0 out of the foreground, 1 archived"), "{report}");
        assert_eq!((is_seen().await, state(&flow.store).await.layer), (false, ChannelLayer::Archived));
        tell(&flow, "a", "and bread?").await;
        assert!(is_seen().await, "it is back, memory {memory}");
    }
}
