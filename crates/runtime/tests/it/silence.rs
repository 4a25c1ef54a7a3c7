//! Silence is an outcome: recorded in the history and the journal, and nothing is sent.

use cortex_testkit::{FrozenTime, RuntimeSetup};
use cortex_types::InboxStatus;
use serde_json::json;

#[tokio::test(start_paused = true)]
async fn exact_silence_is_recorded_and_nothing_is_sent() {
    let time = FrozenTime::hold();
    for word in ["NO_REPLY", " NO_REPLY\n", "HEARTBEAT_OK"] {
        let flow = RuntimeSetup::scripted(json!({ "otherwise": { "say": word } }), &time).start().await;
        let id = flow.say("a", "hello").await;
        let event = flow.reaches(&id, InboxStatus::Done).await;
        assert_eq!(flow.replies(&id).await, Vec::<String>::new(), "{word:?}");
        assert_eq!(flow.trace(&id).await.steps.len(), 1, "the answer is in the journal");
        let history = flow.store.turns().history(event.topic, 10).await.unwrap();
        let lines: Vec<&str> = history.iter().map(|line| line.content.as_str()).collect();
        assert_eq!(lines, ["hello", "[silence]"]);
    }
}

#[tokio::test(start_paused = true)]
async fn words_around_silence_are_said() {
    let time = FrozenTime::hold();
    for said in ["NO_REPLY.", "I say NO_REPLY", "no_reply"] {
        let flow = RuntimeSetup::scripted(json!({ "otherwise": { "say": said } }), &time).start().await;
        let id = flow.say("a", "hello").await;
        flow.reaches(&id, InboxStatus::Done).await;
        assert_eq!(flow.replies(&id).await, [said]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_model_that_says_nothing_at_all_is_a_failure_and_no_silence() {
    let time = FrozenTime::hold();
    let flow = RuntimeSetup::scripted(json!({ "otherwise": { "say": "  " } }), &time)
        .flow(|flow| flow.inbox_max_attempts = 1)
        .start()
        .await;
    let id = flow.say("a", "hello").await;
    let failed = flow.reaches(&id, InboxStatus::Failed).await;
    assert_eq!(failed.error.as_deref(), Some("scripted: the answer was empty (given up after 1 attempts)"));
    assert_eq!(flow.replies(&id).await.len(), 1, "the user is told");
}
