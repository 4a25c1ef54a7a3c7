//! Many topics and one that is stuck: the others drain as if it were not there (F-C4).

use cortex_testkit::{FrozenTime, RuntimeSetup, eventually};
use cortex_types::InboxStatus;
use futures::future::join_all;
use serde_json::json;

const TOPICS: usize = 2_000;
const EVENTS: usize = 3;

#[tokio::test(start_paused = true)]
async fn two_thousand_topics_drain_beside_a_stuck_one() {
    let time = FrozenTime::hold();
    let script = json!({
        "answers": [{ "when": { "equals": "stuck" }, "error": { "kind": "hang" } }],
        "otherwise": { "say": "ok" },
    });
    let flow = RuntimeSetup::scripted(script, &time).flow(|flow| flow.max_parallel_topics = 8).start().await;
    let stuck = flow.say("stuck", "stuck").await;
    let behind = flow.say("stuck", "behind").await;
    for number in 0..EVENTS {
        let texts: Vec<(String, String)> =
            (0..TOPICS).map(|topic| (format!("topic {topic}"), number.to_string())).collect();
        join_all(texts.iter().map(|(topic, text)| flow.say(topic, text))).await;
    }
    let all = (TOPICS * EVENTS) as u64;
    eventually("the backlog to drain", async || {
        let counts = flow.store.inbox().counts().await.unwrap();
        (counts.done == all).then_some(())
    })
    .await;
    assert_eq!(flow.event(&stuck).await.status, InboxStatus::Processing);
    assert_eq!(flow.event(&behind).await.status, InboxStatus::Pending);
    let topic = cortex_testkit::topic("test", "topic 1999");
    let history = flow.store.turns().history(topic, 10).await.unwrap();
    let said: Vec<&str> = history.iter().map(|line| line.content.as_str()).collect();
    assert_eq!(said, ["0", "ok", "1", "ok", "2", "ok"]);
}
