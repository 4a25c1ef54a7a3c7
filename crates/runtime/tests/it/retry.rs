//! Failures of the model: the transient ones are tried again with patience, the others are told at once (F-L1, F-L3).

use crate::far_side::{FarSide, cut, cut_call, error, said};
use cortex_testkit::{FrozenTime, RuntimeSetup, TestModels, TestRuntime};
use cortex_types::{EventId, InboxStatus};
use std::ops::RangeInclusive;
use std::time::Duration;

async fn start(time: &FrozenTime) -> (FarSide, TestRuntime) {
    let far = FarSide::listen().await;
    let flow = RuntimeSetup::new(TestModels::Synapse(far.url.clone()), time).start().await;
    (far, flow)
}

/// Waits for the planned retry, checks when it is due, and lets that time pass.
async fn sit_out(
    flow: &TestRuntime,
    far: &mut FarSide,
    time: &FrozenTime,
    id: &EventId,
    attempt: u32,
    expected_ms: RangeInclusive<i64>,
) {
    let (_, due) = flow.backs_off(id, attempt).await;
    let wait = due.0 - time.now().0;
    assert!(expected_ms.contains(&wait), "attempt {attempt} waits {wait} ms, not {expected_ms:?}");
    time.advance(Duration::from_millis(u64::try_from(wait).unwrap() - 1)).await;
    only_others_run(flow, far).await;
    time.advance(Duration::from_millis(1)).await;
}

/// An event of another topic goes through the whole flow, and nothing else is asked meanwhile.
async fn only_others_run(flow: &TestRuntime, far: &mut FarSide) {
    let other = flow.say("other", "other").await;
    let question = far.question().await;
    assert_eq!(question.text(), "other", "not a millisecond early");
    question.say("ok");
    flow.reaches(&other, InboxStatus::Done).await;
}

#[tokio::test(start_paused = true)]
async fn a_transient_failure_is_retried_with_doubling_patience_and_then_given_up() {
    let time = FrozenTime::hold();
    let (mut far, flow) = start(&time).await;
    let id = flow.say("a", "hello").await;
    for attempt in 1..=4u32 {
        far.question().await.answer(error("503 Service Unavailable", ""));
        let middle = 5_000 << (attempt - 1);
        sit_out(&flow, &mut far, &time, &id, attempt, middle * 8 / 10..=middle * 12 / 10).await;
    }
    far.question().await.answer(error("503 Service Unavailable", ""));
    let failed = flow.reaches(&id, InboxStatus::Failed).await;
    assert_eq!(failed.attempts, 5);
    let reason = failed.error.unwrap();
    assert_eq!(reason, "synapse: server error (503): as the test wants it (given up after 5 attempts)");
    assert_eq!(flow.replies(&id).await, [format!("I could not answer this message: {reason}")]);
    time.advance(Duration::from_secs(3_600)).await;
    // Nothing is retried for ever.
    only_others_run(&flow, &mut far).await;
}

#[tokio::test(start_paused = true)]
async fn a_retry_waits_as_long_as_the_provider_asks_when_that_is_longer() {
    let time = FrozenTime::hold();
    let (mut far, flow) = start(&time).await;
    let id = flow.say("a", "hello").await;
    far.question().await.answer(error("429 Too Many Requests", "retry-after: 90\r\n"));
    sit_out(&flow, &mut far, &time, &id, 1, 90_000..=90_000).await;
    far.question().await.answer(error("503 Service Unavailable", "retry-after: 1\r\n"));
    sit_out(&flow, &mut far, &time, &id, 2, 8_000..=12_000).await;
    far.question().await.say("There.");
    assert_eq!(flow.reaches(&id, InboxStatus::Done).await.attempts, 3);
    assert_eq!(flow.replies(&id).await, ["There."]);
}

#[tokio::test(start_paused = true)]
async fn every_kind_of_broken_answer_is_retried_and_leaves_nothing_behind() {
    let time = FrozenTime::hold();
    let (mut far, flow) = start(&time).await;
    let broken = [
        error("500 Internal Server Error", ""),
        error("529 Overloaded", ""),
        cut("Half an ans"),
        cut_call("{\"half\":"),
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: {not json\n\n".to_owned(),
        "HTTP/1.1 200 OK\r\ncontent-length: 1000\r\ncontent-type: text/event-stream\r\n\r\ndata: {}\n\n"
            .to_owned(),
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n".to_owned(),
        String::new(),
    ];
    for (number, response) in broken.into_iter().enumerate() {
        let id = flow.say(&format!("topic {number}"), "hello").await;
        far.question().await.answer(response.clone());
        let (event, due) = flow.backs_off(&id, 1).await;
        assert!(event.error.is_some(), "{response}");
        assert_eq!(flow.trace(&id).await.steps, [], "{response}");
        assert_eq!(flow.replies(&id).await, Vec::<String>::new(), "{response}");
        time.advance(due.since(time.now())).await;
        far.question().await.say("Whole.");
        flow.reaches(&id, InboxStatus::Done).await;
        assert_eq!(flow.replies(&id).await, ["Whole."], "{response}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_permanent_failure_is_told_at_once() {
    let time = FrozenTime::hold();
    let (mut far, flow) = start(&time).await;
    for (status, reason) in [
        ("400 Bad Request", "synapse: the request was rejected (400): as the test wants it"),
        ("401 Unauthorized", "synapse: the key was refused (401): as the test wants it"),
        ("404 Not Found", "synapse: the request was rejected (404): as the test wants it"),
    ] {
        let id = flow.say("a", "hello").await;
        far.question().await.answer(error(status, ""));
        let failed = flow.reaches(&id, InboxStatus::Failed).await;
        assert_eq!((failed.attempts, failed.error.as_deref()), (1, Some(reason)));
        assert_eq!(flow.replies(&id).await, [format!("I could not answer this message: {reason}")]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_retrying_head_holds_its_topic_and_no_other() {
    let time = FrozenTime::hold();
    let (mut far, flow) = start(&time).await;
    let first = flow.say("a", "first").await;
    far.question().await.answer(error("503 Service Unavailable", ""));
    let (_, due) = flow.backs_off(&first, 1).await;
    let second = flow.say("a", "second").await;
    let other = flow.say("b", "other").await;
    let question = far.question().await;
    assert_eq!(question.text(), "other");
    question.say("ok");
    flow.reaches(&other, InboxStatus::Done).await;
    assert_eq!(flow.event(&second).await.status, InboxStatus::Pending);
    time.advance(due.since(time.now())).await;
    for wanted in ["first", "second"] {
        let question = far.question().await;
        assert_eq!(question.text(), wanted);
        question.say("ok");
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_provider_is_given_up_after_the_idle_time() {
    let time = FrozenTime::hold();
    let (mut far, flow) = start(&time).await;
    let id = flow.say("a", "hello").await;
    let held = far.question().await;
    time.advance(Duration::from_secs(120)).await;
    let (event, _) = flow.backs_off(&id, 1).await;
    assert_eq!(event.error.as_deref(), Some("synapse: silent for 120000 ms"));
    held.answer(said("too late"));
    only_others_run(&flow, &mut far).await;
    assert_eq!(flow.replies(&id).await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_refused_retry_of_a_person_changes_nothing() {
    let time = FrozenTime::hold();
    let (mut far, flow) = start(&time).await;
    let id = flow.say("a", "hello").await;
    far.question().await.answer(error("503 Service Unavailable", ""));
    let (_, due) = flow.backs_off(&id, 1).await;
    let refused = flow.runtime.intake().retry(id.clone()).await.unwrap();
    assert_eq!(refused, Err(cortex_store::RetryRefused::Is(InboxStatus::Pending)));
    only_others_run(&flow, &mut far).await;
    assert_eq!(flow.event(&id).await.attempts, 1);
    assert_eq!(flow.store.inbox().next_due().await.unwrap(), Some(due));
}
