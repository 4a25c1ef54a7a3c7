//! Whatever goes wrong at the end of a turn: the event ends, its user is told, and its topic goes on (F-E1).

use crate::far_side::{FarSide, said_for};
use cortex_bus::{Heard, LiveNews};
use cortex_testkit::{FrozenTime, RuntimeSetup, TestModels};
use cortex_types::InboxStatus;
use fail::FailScenario;
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn a_count_that_no_model_can_mean_does_not_hold_up_the_answer() {
    let time = FrozenTime::hold();
    let mut far = FarSide::listen().await;
    let flow = RuntimeSetup::new(TestModels::Synapse(far.url.clone()), &time).start().await;
    for count in [9_223_372_036_854_775_808_u64, u64::MAX] {
        let id = flow.say("a", "hello").await;
        let usage = serde_json::json!({ "prompt_tokens": count, "completion_tokens": count });
        far.question().await.answer(said_for("Hello.", usage));
        flow.reaches(&id, InboxStatus::Done).await;
        assert_eq!(flow.replies(&id).await, ["Hello."]);
    }
    let spent = flow.store.tokens_since(cortex_types::Millis(0)).await.unwrap();
    assert_eq!(spent, 4 * cortex_types::limits::TOKENS_PER_CALL_MAX);
}

#[tokio::test(start_paused = true)]
async fn an_end_that_cannot_be_written_fails_the_event_and_its_topic_goes_on() {
    for point in ["turn.finish.after_step", "turn.finish.after_outbox", "turn.finish.before_commit"] {
        let scenario = FailScenario::setup();
        let time = FrozenTime::hold();
        let mut far = FarSide::listen().await;
        let flow = RuntimeSetup::new(TestModels::Synapse(far.url.clone()), &time).start().await;
        let broken = flow.say("a", "broken").await;
        let behind = flow.say("a", "behind").await;
        let question = far.question().await;
        fail::cfg(point, "1*panic(no room)->off").unwrap();
        question.say("never kept");
        let failed = flow.reaches(&broken, InboxStatus::Failed).await;
        assert_eq!(
            failed.error.as_deref(),
            Some("its end could not be written: store fault: a request panicked: no room")
        );
        let notice =
            "I could not answer this message because of an internal error: the answer could not be kept";
        assert_eq!(flow.replies(&broken).await, [notice], "{point}");
        far.question().await.say("At last.");
        flow.reaches(&behind, InboxStatus::Done).await;
        assert_eq!(flow.replies(&behind).await, ["At last."], "{point}");
        scenario.teardown();
    }
}

#[tokio::test(start_paused = true)]
async fn a_step_that_can_never_be_written_fails_the_event_after_its_attempts() {
    let scenario = FailScenario::setup();
    fail::cfg("turn.record.before_commit", "panic(no room)").unwrap();
    let time = FrozenTime::hold();
    let mut far = FarSide::listen().await;
    let flow = RuntimeSetup::new(TestModels::Synapse(far.url.clone()), &time).start().await;
    let id = flow.say("a", "hello").await;
    for attempt in 1..=5 {
        far.question().await.answer(crate::far_side::called(&[("1", "a__b", "{}")]));
        if attempt < 5 {
            let (_, due) = flow.backs_off(&id, attempt).await;
            time.advance(due.since(time.now())).await;
        }
    }
    flow.reaches(&id, InboxStatus::Failed).await;
    let notice = "I could not answer this message because of an internal error: the turn broke every time";
    assert_eq!(flow.replies(&id).await, [notice]);
    scenario.teardown();
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_ends_in_a_damaged_database_lets_go_of_those_who_watch() {
    let time = FrozenTime::hold();
    let mut far = FarSide::listen().await;
    let flow = RuntimeSetup::new(TestModels::Synapse(far.url.clone()), &time).start().await;
    let id = flow.say("a", "hello").await;
    let question = far.question().await;
    let (_, mut watcher) = flow.bus.listen_to(&id);
    let log = flow.store.path().with_extension("db-wal");
    cortex_testkit::eventually("the log to be folded in", || {
        let bytes = std::fs::metadata(&log).map_or(0, |log| log.len());
        async move { (bytes == 0).then_some(()) }
    })
    .await;
    cortex_testkit::damage_first_page(&flow.store.path(), "ops");
    // A reader finds out with the next look at the file.
    cortex_testkit::eventually("the damage to be met", || async {
        let met = flow.store.check_integrity().await;
        met.is_err().then_some(())
    })
    .await;
    question.say("Never written.");
    loop {
        match watcher.next().await {
            Heard::Event(LiveNews::Ended { status, .. }) => {
                assert_eq!(status, InboxStatus::Processing);
                break;
            }
            Heard::Event(LiveNews::Delta { .. } | LiveNews::Restarted { .. }) | Heard::Lagged(_) => {}
        }
    }
    assert_eq!(flow.event(&id).await.status, InboxStatus::Processing, "the next start takes it up");
}

#[tokio::test(start_paused = true)]
async fn the_watchdog_finds_an_event_that_no_task_works_on() {
    let time = FrozenTime::hold();
    let mut far = FarSide::listen().await;
    let setup = RuntimeSetup::new(TestModels::Synapse(far.url.clone()), &time);
    let flow = setup.flow(|flow| flow.max_parallel_topics = 1).start().await;
    let first = flow.say("a", "first").await;
    let question = far.question().await;
    let lost = flow.say("b", "lost").await;
    // Claimed, and the answer to the claim went nowhere.
    let claimed = flow.store.inbox().claim_next(1, time.now()).await.unwrap().whole;
    assert_eq!(claimed[0].event.id, lost);
    drop(claimed);
    question.say("One.");
    flow.reaches(&first, InboxStatus::Done).await;
    assert_eq!(flow.runtime.watchdog().stranded, 0);
    time.advance(Duration::from_secs(10)).await;
    far.question().await.say("Found.");
    flow.reaches(&lost, InboxStatus::Done).await;
    assert_eq!(flow.replies(&lost).await, ["Found."]);
    let report = flow.runtime.watchdog();
    assert_eq!((report.stranded, report.requeued, report.failed), (1, 1, 0));
    time.advance(Duration::from_secs(10)).await;
    cortex_testkit::eventually("a clean look".to_owned(), || async {
        (flow.runtime.watchdog().stranded == 0).then_some(())
    })
    .await;
}
