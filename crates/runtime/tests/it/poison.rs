//! An event that breaks the turn itself, every time: it fails in the end, and nobody waits for it (F-C3).

use crate::far_side::FarSide;
use cortex_testkit::{FrozenTime, RuntimeSetup, TestModels};
use cortex_types::InboxStatus;
use fail::FailScenario;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Makes the turn panic on this thread after a model answer while `armed`; other tests run on other threads.
fn panic_after_model(armed: &Arc<AtomicBool>) {
    let (armed, here) = (Arc::clone(armed), thread::current().id());
    let panic_here = move || {
        let is_mine = thread::current().id() == here && armed.swap(false, Ordering::SeqCst);
        assert!(!is_mine, "poisoned");
    };
    fail::cfg_callback("turn.after_model", panic_here).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_poisoned_event_fails_after_its_attempts_and_its_topic_and_the_others_go_on() {
    let scenario = FailScenario::setup();
    let armed = Arc::new(AtomicBool::new(false));
    panic_after_model(&armed);
    let time = FrozenTime::hold();
    let mut far = FarSide::listen().await;
    let flow = RuntimeSetup::new(TestModels::Synapse(far.url.clone()), &time)
        .flow(|flow| flow.max_parallel_topics = 1)
        .start()
        .await;
    let poisoned = flow.say("a", "poison").await;
    let behind = flow.say("a", "behind").await;
    for attempt in 1..=5 {
        let question = far.question().await;
        assert_eq!(question.text(), "poison", "attempt {attempt}");
        armed.store(true, Ordering::SeqCst);
        question.say("never kept");
        if attempt == 5 {
            break;
        }
        let (event, due) = flow.backs_off(&poisoned, attempt).await;
        assert_eq!(event.error.as_deref(), Some("the turn panicked: poisoned"));
        let other = flow.say("b", "other").await;
        far.question().await.say("ok");
        flow.reaches(&other, InboxStatus::Done).await;
        time.advance(due.since(time.now())).await;
    }
    let failed = flow.reaches(&poisoned, InboxStatus::Failed).await;
    assert_eq!((failed.attempts, failed.error.as_deref()), (5, Some("the turn panicked: poisoned")));
    let notice = "I could not answer this message because of an internal error: the turn broke every time";
    assert_eq!(flow.replies(&poisoned).await, [notice]);
    let question = far.question().await;
    assert_eq!(question.text(), "behind");
    question.say("At last.");
    flow.reaches(&behind, InboxStatus::Done).await;
    assert_eq!(flow.replies(&behind).await, ["At last."]);
    scenario.teardown();
}
