//! Compaction shortens the prompt and loses nothing: taken back, the context is the same to the byte.

use cortex_runtime::{Compaction, ShownContext, SummaryBy};
use cortex_testkit::{FrozenTime, RuntimeSetup, TestRuntime, topic};
use cortex_types::InboxStatus;
use serde_json::json;
use tokio_util::sync::CancellationToken;

async fn shown(flow: &TestRuntime) -> ShownContext {
    flow.runtime.context().show(topic("test", "a")).await.unwrap()
}

async fn talk(flow: &TestRuntime, exchanges: std::ops::Range<usize>) {
    for number in exchanges {
        let id = flow.say("a", &format!("Fact {number}: box {number} holds {} keys.", number * 7)).await;
        flow.reaches(&id, InboxStatus::Done).await;
    }
}

async fn compact(flow: &TestRuntime) -> usize {
    let desk = flow.runtime.context();
    match desk.compact(topic("test", "a"), None, &CancellationToken::new()).await.unwrap().outcome {
        Compaction::Summarised { covered, by: SummaryBy::Rules, .. } => covered,
        Compaction::Unchanged => 0,
        other @ (Compaction::Interrupted | Compaction::Summarised { .. }) => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn twenty_compactions_are_taken_back_one_by_one_to_the_same_bytes() {
    let time = FrozenTime::hold();
    let script = json!({ "otherwise": { "say": "Noted." } });
    let flow = RuntimeSetup::scripted(script, &time).flow(|flow| flow.active_window_size = 50).start().await;
    let mut before = Vec::new();
    for round in 0..20 {
        talk(&flow, round * 8..(round + 1) * 8).await;
        before.push(shown(&flow).await);
        assert!(compact(&flow).await > 0, "round {round}");
        assert_ne!(shown(&flow).await, before[round]);
    }
    let all = flow.store.turns().history(topic("test", "a"), 1_000).await.unwrap();
    assert_eq!(all.len(), 2 * 160, "no turn is gone");
    // Only the last exchanges were added since, so the newest compaction alone must give its own context back.
    flow.runtime.context().undo(topic("test", "a")).await.unwrap().unwrap();
    assert_eq!(shown(&flow).await, before[19]);
    for _ in 0..19 {
        assert!(flow.runtime.context().undo(topic("test", "a")).await.unwrap().is_some());
    }
    assert!(flow.runtime.context().undo(topic("test", "a")).await.unwrap().is_none());
    let names: Vec<&str> = shown(&flow).await.sections.iter().map(|section| section.name.as_str()).collect();
    assert_eq!(names, ["message", "foreground", "event"], "nothing is summarised any more");
}

#[tokio::test(start_paused = true)]
async fn a_summary_stands_in_the_prompt_for_what_it_covers() {
    let time = FrozenTime::hold();
    let flow = RuntimeSetup::scripted(json!({ "otherwise": { "say": "Noted." } }), &time).start().await;
    talk(&flow, 0..4).await;
    assert_eq!(compact(&flow).await, 4, "two exchanges of four");
    let sections = shown(&flow).await.sections;
    let summary = sections.iter().find(|section| section.name.as_str() == "summary").unwrap();
    let expected = "## Earlier in this conversation\n\
                    - Fact 0: box 0 holds 0 keys. → Noted.\n- Fact 1: box 1 holds 7 keys. → Noted.\n\n";
    assert_eq!(summary.text, expected);
    let foreground = sections.iter().find(|section| section.name.as_str() == "foreground").unwrap();
    assert!(foreground.text.starts_with("user: Fact 2"), "{}", foreground.text);
    assert_eq!(compact(&flow).await, 0, "there is nothing new to fold");
}
