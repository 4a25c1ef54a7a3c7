//! A kill in the middle of extraction, harvest and eviction: nothing is lost, nothing is doubled, nothing is paid for twice.

use crate::far_side::{Answering, FarSide, Question, said};
use crate::gardener::{facts, texts};
use crate::images::take_images;
use cortex_runtime::GardenerAnswer;
use cortex_testkit::{FrozenTime, RuntimeSetup, TempStore, TestModels, TestRuntime, topic};
use cortex_types::{GardenerTask, InboxStatus};
use fail::FailScenario;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

const DAY: Duration = Duration::from_secs(24 * 3_600);

const EXTRACTION: [&str; 7] = [
    "store.before_commit",
    "store.after_commit",
    "gardener.journal.before_commit",
    "gardener.after_journal",
    "gardener.after_fact",
    "gardener.settle.after_cursor",
    "gardener.settle.before_commit",
];

const EVICTION: [&str; 3] = ["store.before_commit", "store.after_commit", "gardener.after_eviction"];

/// Talks, and extracts in other words each time it is asked: only what was written down can be the same again.
async fn far_side() -> Answering {
    let words = ["alpha", "beta", "gamma", "delta"];
    let asked = std::sync::atomic::AtomicUsize::new(0);
    let answer = move |question: &Question| {
        if !question.system().contains("JSON array") {
            return said("I see.");
        }
        let word = words[asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst) % words.len()];
        said(&format!(
            r#"[{{"content": "Ada keeps bees in {word}", "category": "fact"}},
                {{"content": "Quantum {word} conferences happen yearly", "category": "decision"}}]"#
        ))
    };
    FarSide::listen().await.answer_all(answer)
}

async fn told(flow: &TestRuntime, text: &str) {
    let id = flow.say("a", text).await;
    flow.reaches(&id, InboxStatus::Done).await;
}

#[tokio::test(start_paused = true)]
async fn a_kill_in_extraction_loses_no_fact_doubles_none_and_pays_for_no_written_answer_again() {
    let time = FrozenTime::hold();
    let far = far_side().await;
    let setup = |far: &Answering| RuntimeSetup::new(TestModels::Synapse(far.url.clone()), &time);
    let flow = setup(&far).start().await;
    told(&flow, "I keep bees and go to conferences").await;
    let scenario = FailScenario::setup();
    let images = take_images(flow.store.path(), &EXTRACTION, &Arc::new(AtomicBool::new(true)));
    flow.gardener.run_task(GardenerTask::Extractor).await.unwrap();
    drop(flow.stop().await);
    scenario.teardown();
    let images = std::mem::take(&mut *images.lock().unwrap());
    let seen: BTreeSet<&str> = images.keys().map(|(point, _)| *point).collect();
    assert_eq!(seen, EXTRACTION.into_iter().collect(), "a point that was never reached proves nothing");
    for ((point, _), image) in images {
        let far = far_side().await;
        let store = TempStore::open_in(image.files).unwrap();
        let was_written = !store.gardener().journaled().await.unwrap().is_empty();
        let was_done = store.gardener().unextracted(10).await.unwrap().is_none();
        let flow = setup(&far).start_on(store).await;
        let answer = flow.gardener.run_task(GardenerTask::Extractor).await.unwrap();
        assert!(matches!(answer, GardenerAnswer::Done { .. }), "{point}: {answer:?}");
        assert_eq!(far.asked(), usize::from(!was_written && !was_done), "{point}");
        assert_eq!(
            texts(&flow).await,
            ["Ada keeps bees in alpha", "Quantum alpha conferences happen yearly"],
            "{point}"
        );
        assert_eq!(facts(&flow).await.iter().map(|fact| fact.origins.len()).max(), Some(1), "{point}");
        assert_eq!(flow.store.gardener().journaled().await.unwrap(), [], "{point}");
        assert_eq!(flow.store.gardener().unextracted(10).await.unwrap(), None, "{point}");
        let usage =
            flow.store.usage_by(cortex_store::UsageGroup::Model, cortex_types::Millis(0)).await.unwrap();
        assert_eq!(usage[0].totals.calls, 2, "{point}: each answer that counts is in the books once");
        flow.store.check_integrity().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_kill_in_eviction_leaves_whole_exchanges_and_the_next_run_ends_it() {
    let time = FrozenTime::hold();
    let setup = RuntimeSetup::new(TestModels::Offline, &time).flow(|flow| flow.turn_ttl = Some(30 * DAY));
    let flow = setup.start().await;
    told(&flow, "the marmot sleeps").await;
    time.advance(31 * DAY).await;
    told(&flow, "the marmot wakes").await;
    flow.gardener.run_task(GardenerTask::Extractor).await.unwrap();
    flow.runtime.memory().catch_up().await.unwrap();
    let scenario = FailScenario::setup();
    let images = take_images(flow.store.path(), &EVICTION, &Arc::new(AtomicBool::new(true)));
    flow.gardener.run_task(GardenerTask::Evictor).await.unwrap();
    drop(flow.stop().await);
    scenario.teardown();
    let images = std::mem::take(&mut *images.lock().unwrap());
    let seen: BTreeSet<&str> = images.keys().map(|(point, _)| *point).collect();
    assert_eq!(seen, EVICTION.into_iter().collect(), "a point that was never reached proves nothing");
    for ((point, _), image) in images {
        let flow = setup.start_on(TempStore::open_in(image.files).unwrap()).await;
        let lines = |flow: &TestRuntime| {
            let turns = flow.store.clone();
            async move { turns.turns().history(topic("test", "a"), 10).await.unwrap().len() }
        };
        assert!([2, 4].contains(&lines(&flow).await), "{point}: an exchange goes as a whole");
        flow.gardener.run_task(GardenerTask::Evictor).await.unwrap();
        assert_eq!(lines(&flow).await, 2, "{point}");
        let found = flow.store.memory_index().search_turns("sleeps".to_owned(), None, 10).await.unwrap();
        assert_eq!(found, Vec::<i64>::new(), "{point}: its index rows went along");
        let found = flow.store.memory_index().search_turns("wakes".to_owned(), None, 10).await.unwrap();
        assert!(!found.is_empty(), "{point}: what is young stays");
        flow.store.check_integrity().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_kill_in_compaction_leaves_one_summary_and_every_turn() {
    const COMPACTION: [&str; 3] = ["store.before_commit", "store.after_commit", "summary.add.before_commit"];
    let time = FrozenTime::hold();
    let setup = RuntimeSetup::new(TestModels::Offline, &time);
    let flow = setup.start().await;
    for number in 0..6 {
        told(&flow, &format!("line {number}")).await;
    }
    time.advance(Duration::from_secs(2 * 3_600)).await;
    let scenario = FailScenario::setup();
    let images = take_images(flow.store.path(), &COMPACTION, &Arc::new(AtomicBool::new(true)));
    flow.gardener.run_task(GardenerTask::Compactor).await.unwrap();
    let undisturbed = flow.store.summaries().uncovered(topic("test", "a"), 100).await.unwrap();
    assert!(undisturbed.summary.is_some(), "there is something to summarise");
    drop(flow.stop().await);
    scenario.teardown();
    let images = std::mem::take(&mut *images.lock().unwrap());
    let seen: BTreeSet<&str> = images.keys().map(|(point, _)| *point).collect();
    assert_eq!(seen, COMPACTION.into_iter().collect(), "a point that was never reached proves nothing");
    for ((point, _), image) in images {
        let flow = setup.start_on(TempStore::open_in(image.files).unwrap()).await;
        flow.gardener.run_task(GardenerTask::Compactor).await.unwrap();
        let healed = flow.store.summaries().uncovered(topic("test", "a"), 100).await.unwrap();
        assert_eq!(healed.lines, undisturbed.lines, "{point}");
        let words =
            |found: &cortex_store::Uncovered| found.summary.as_ref().map(|summary| summary.content.clone());
        assert_eq!(words(&healed), words(&undisturbed), "{point}");
        let now = time.now();
        assert!(flow.store.summaries().undo(topic("test", "a"), now).await.unwrap().is_some(), "{point}");
        assert_eq!(
            flow.store.summaries().undo(topic("test", "a"), now).await.unwrap(),
            None,
            "{point}: only one"
        );
        assert_eq!(flow.store.turns().history(topic("test", "a"), 100).await.unwrap().len(), 12, "{point}");
    }
}
