//! The stop: turns that can finish do, the others are parked and cost no attempt; the next start goes on at once.

use crate::far_side::FarSide;
use cortex_testkit::{FrozenTime, RuntimeSetup, TestModels, eventually};
use cortex_types::InboxStatus;
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn a_stop_lets_running_turns_finish_and_starts_no_other() {
    let time = FrozenTime::hold();
    let mut far = FarSide::listen().await;
    let flow = RuntimeSetup::new(TestModels::Synapse(far.url.clone()), &time)
        .flow(|flow| flow.max_parallel_topics = 1)
        .start()
        .await;
    let running = flow.say("a", "running").await;
    let waiting = flow.say("b", "waiting").await;
    let question = far.question().await;
    flow.begin_stop();
    time.advance(Duration::from_secs(20)).await;
    question.say("Just in time.");
    let store = flow.stop().await;
    assert_eq!(store.inbox().find(running).await.unwrap().unwrap().status, InboxStatus::Done);
    let left = store.inbox().find(waiting).await.unwrap().unwrap();
    assert_eq!((left.status, left.attempts, far.asked()), (InboxStatus::Pending, 0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_does_not_finish_is_parked_without_costing_an_attempt() {
    let time = FrozenTime::hold();
    let mut far = FarSide::listen().await;
    let setup = RuntimeSetup::new(TestModels::Synapse(far.url.clone()), &time);
    let flow = setup.start().await;
    let id = flow.say("a", "hello").await;
    let unanswered = far.question().await;
    assert_eq!(flow.event(&id).await.attempts, 1);
    let stopping = tokio::spawn(flow.stop());
    eventually("the stop to begin", async || {
        time.advance(Duration::from_secs(1)).await;
        stopping.is_finished().then_some(())
    })
    .await;
    drop(unanswered);
    let store = stopping.await.unwrap();
    let parked = store.inbox().find(id.clone()).await.unwrap().unwrap();
    assert_eq!((parked.status, parked.attempts), (InboxStatus::Pending, 0));

    let flow = setup.start_on(store).await;
    assert_eq!(flow.boot.recovered.requeued, 0, "nothing was left in flight");
    far.question().await.say("Here I am.");
    assert_eq!(flow.reaches(&id, InboxStatus::Done).await.attempts, 1);
    assert_eq!(flow.replies(&id).await, ["Here I am."]);
}

#[tokio::test(start_paused = true)]
async fn ten_queued_messages_are_all_answered_after_a_stop_and_after_a_kill() {
    for is_killed in [false, true] {
        let time = FrozenTime::hold();
        let mut far = FarSide::listen().await;
        let setup = RuntimeSetup::new(TestModels::Synapse(far.url.clone()), &time)
            .flow(|flow| flow.drain = Duration::ZERO);
        let flow = setup.start().await;
        let mut ids = Vec::new();
        for number in 0..10 {
            ids.push(flow.say("a", &number.to_string()).await);
        }
        let unanswered = far.question().await;
        let store = if is_killed { flow.crash() } else { flow.stop().await };
        drop(unanswered);
        let flow = setup.start_on(store).await;
        for number in 0..10 {
            let question = far.question().await;
            assert_eq!(question.text(), number.to_string());
            question.say(&format!("re {number}"));
        }
        for (number, id) in ids.iter().enumerate() {
            flow.reaches(id, InboxStatus::Done).await;
            assert_eq!(flow.replies(id).await, [format!("re {number}")], "killed: {is_killed}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn restarts_alone_fail_an_event_only_after_their_own_limit() {
    let time = FrozenTime::hold();
    let mut far = FarSide::listen().await;
    let setup = RuntimeSetup::new(TestModels::Synapse(far.url.clone()), &time).flow(|flow| {
        flow.inbox_max_attempts = 2;
        flow.inbox_max_restarts = 4;
    });
    let mut flow = setup.start().await;
    let id = flow.say("a", "hello").await;
    for restart in 1..=4 {
        let unanswered = far.question().await;
        let store = flow.crash();
        drop(unanswered);
        flow = setup.start_on(store).await;
        let left = u32::from(restart == 4);
        assert_eq!(flow.boot.recovered.failed, left as usize, "restart {restart}");
    }
    let failed = flow.event(&id).await;
    assert_eq!(failed.status, InboxStatus::Failed);
    assert_eq!(failed.error.as_deref(), Some("given up after 4 restarts in the middle of its turn"));
    let notice = "I could not answer this message: the server was restarted too often while I worked on it.";
    assert_eq!(flow.replies(&id).await, [notice]);
}
