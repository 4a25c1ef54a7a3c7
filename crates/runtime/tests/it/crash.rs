//! Crash anywhere, lose nothing: the files as a kill would leave them at every fault point, each opened again.

use crate::far_side::{Answering, FarSide, Question, called, said};
use crate::images::take_images;
use cortex_testkit::{FrozenTime, RuntimeSetup, TempStore, TestModels};
use cortex_types::{EventId, InboxStatus, StepBody};
use fail::FailScenario;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Every fault point between the durable steps of a turn.
const POINTS: [&str; 12] = [
    "inbox.accept.after_insert",
    "inbox.claim.before_commit",
    "store.before_commit",
    "store.after_commit",
    "turn.after_claim",
    "turn.after_model",
    "turn.after_record",
    "turn.record.before_commit",
    "turn.finish.after_step",
    "turn.finish.after_history",
    "turn.finish.after_outbox",
    "turn.finish.before_commit",
];

/// One round of tools, then the answer: two questions in all.
async fn far_side() -> Answering {
    let answer = |question: &Question| {
        let messages = question.body["messages"].as_array().unwrap();
        let knows = messages.iter().any(|message| message["role"] == "tool");
        if knows { said("The end.") } else { called(&[("1", "a__b", "{}")]) }
    };
    FarSide::listen().await.answer_all(answer)
}

#[tokio::test(start_paused = true)]
async fn a_kill_at_any_fault_point_loses_nothing_and_pays_for_no_recorded_answer_again() {
    let time = FrozenTime::hold();
    let scenario = FailScenario::setup();
    let far = far_side().await;
    let setup = |far: &Answering| RuntimeSetup::new(TestModels::Synapse(far.url.clone()), &time);
    let flow = setup(&far).start().await;
    let acked = Arc::new(AtomicBool::new(false));
    let images = take_images(flow.store.path(), &POINTS, &acked);
    let id = flow.say("a", "hello").await;
    acked.store(true, Ordering::SeqCst);
    flow.reaches(&id, InboxStatus::Done).await;
    drop(flow.stop().await);
    scenario.teardown();

    let images = std::mem::take(&mut *images.lock().unwrap());
    let seen: BTreeSet<&str> = images.keys().map(|(point, _)| *point).collect();
    assert_eq!(seen, POINTS.into_iter().collect(), "a point that was never reached proves nothing");
    for ((point, _), image) in images {
        let far = far_side().await;
        let store = TempStore::open_in(image.files).unwrap();
        match store.trace(id.clone()).await.unwrap() {
            Some(_) => check_resumed(point, &setup(&far), &far, store, &id).await,
            None => assert!(!image.is_acked, "{point}: the event is lost"),
        }
    }
}

async fn check_resumed(point: &str, setup: &RuntimeSetup, far: &Answering, store: TempStore, id: &EventId) {
    let before = store.trace(id.clone()).await.unwrap().unwrap();
    let answers =
        before.steps.iter().filter(|step| matches!(step.body, StepBody::ModelAnswered { .. })).count();
    let was_in_flight = usize::from(before.event.status == InboxStatus::Processing);
    let flow = setup.start_on(store).await;
    assert_eq!(flow.boot.recovered.requeued, was_in_flight, "{point}");
    // No time passes: what a restart puts back is eligible at once.
    let event = flow.reaches(id, InboxStatus::Done).await;
    assert_eq!(far.asked(), 2 - answers, "{point}: a recorded answer is not asked for again");
    assert_eq!(flow.replies(id).await, ["The end."], "{point}");
    let history = flow.store.turns().history(event.topic, 10).await.unwrap();
    let lines: Vec<&str> = history.iter().map(|line| line.content.as_str()).collect();
    assert_eq!(lines, ["hello", "The end."], "{point}");
    let kinds: Vec<&str> = flow.trace(id).await.steps.iter().map(|step| step.body.kind()).collect();
    assert_eq!(kinds, ["model_answered", "tool_answered", "model_answered"], "{point}");
    let usage = flow.store.usage_by(cortex_store::UsageGroup::Model, cortex_types::Millis(0)).await.unwrap();
    assert_eq!(usage[0].totals.calls, 2, "{point}: each answer that counts is paid for once in the books");
    flow.store.check_integrity().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_recorded_a_step_does_not_count_when_a_restart_ends_it() {
    let time = FrozenTime::hold();
    let mut far = FarSide::listen().await;
    let setup = RuntimeSetup::new(TestModels::Synapse(far.url.clone()), &time);
    let flow = setup.start().await;
    let id = flow.say("a", "hello").await;
    far.question().await.answer(called(&[("1", "a__b", "{}")]));
    let unanswered = far.question().await;
    let store = flow.crash();
    drop(unanswered);
    let flow = setup.start_on(store).await;
    let second = far.question().await;
    assert_eq!(flow.event(&id).await.attempts, 1, "the first attempt made progress");
    let store = flow.crash();
    drop(second);
    let flow = setup.start_on(store).await;
    far.question().await.say("The end.");
    assert_eq!(flow.reaches(&id, InboxStatus::Done).await.attempts, 2, "the second made none");
}
