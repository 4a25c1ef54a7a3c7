//! Budgets: a runaway ends with a reason, and the next day is a new one (F-L6).

use crate::far_side::{FarSide, called, said};
use cortex_testkit::{FrozenTime, RuntimeSetup, TestModels};
use cortex_types::InboxStatus;
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn one_event_may_not_cost_more_than_its_budget() {
    let time = FrozenTime::hold();
    let far = FarSide::listen().await;
    // Fifteen tokens a round, and it never stops by itself.
    let far = far.answer_all(|_| called(&[("1", "no__tool", "{}")]));
    let flow = RuntimeSetup::new(TestModels::Synapse(far.url.clone()), &time)
        .flow(|flow| flow.max_tokens_per_event = Some(40))
        .start()
        .await;
    let id = flow.say("a", "hello").await;
    let failed = flow.reaches(&id, InboxStatus::Failed).await;
    let reason = "budget_exceeded: 45 tokens of 40 for one message are used up";
    assert_eq!((failed.error.as_deref(), failed.attempts, far.asked()), (Some(reason), 1, 3));
    assert_eq!(flow.replies(&id).await, [format!("I could not answer this message: {reason}")]);
}

#[tokio::test(start_paused = true)]
async fn a_day_may_not_cost_more_than_its_budget_and_the_next_begins_afresh() {
    let time = FrozenTime::hold();
    let far = FarSide::listen().await.answer_all(|_| said("ok"));
    let flow = RuntimeSetup::new(TestModels::Synapse(far.url.clone()), &time)
        .flow(|flow| flow.max_tokens_per_day = Some(30))
        .start()
        .await;
    for text in ["first", "second"] {
        let id = flow.say("a", text).await;
        flow.reaches(&id, InboxStatus::Done).await;
    }
    let third = flow.say("a", "third").await;
    let failed = flow.reaches(&third, InboxStatus::Failed).await;
    let reason = "budget_exceeded: the tokens of this day are used up";
    assert_eq!((failed.error.as_deref(), far.asked()), (Some(reason), 2));
    assert_eq!(flow.replies(&third).await, [format!("I could not answer this message: {reason}")]);
    time.advance(Duration::from_secs(16 * 3_600)).await;
    let fourth = flow.say("a", "fourth").await;
    flow.reaches(&fourth, InboxStatus::Done).await;
}

#[tokio::test(start_paused = true)]
async fn every_call_is_booked_with_its_tokens() {
    let time = FrozenTime::hold();
    let far = FarSide::listen().await.answer_all(|_| said("ok"));
    let flow = RuntimeSetup::new(TestModels::Synapse(far.url.clone()), &time).start().await;
    let id = flow.say("a", "hello").await;
    flow.reaches(&id, InboxStatus::Done).await;
    assert_eq!(flow.store.tokens_since(time.now()).await.unwrap(), 15);
}
