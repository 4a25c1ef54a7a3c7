//! The watchdog as people meet it: whoever waits for an event that it ends is told at once, and the server says that it is
//! not well.

use crate::openai_parts::{content, said, streamed};
use crate::sample::saying;
use cortex_api::LiveEvent;
use cortex_testkit::{Answer, FrozenTime, RunningTestServer, ServerSetup, eventually, lose_turn, pause};
use cortex_types::InboxStatus;
use futures::StreamExt;
use serde_json::json;
use std::time::Duration;

const NOTICE: &str =
    "I could not answer this message because of an internal error: its turn was lost every time";

/// A server whose only worker is busy for an hour.
async fn busy(time: &FrozenTime) -> RunningTestServer {
    let script = json!({
        "answers": [{ "when": { "contains": "hold" }, "deltas": ["a", "b"], "delayMs": 3_600_000 }],
        "otherwise": { "say": "You said: {{user}}" },
    });
    let server =
        ServerSetup::scripted(script).at(time).flow(|flow| flow.max_parallel_topics = 1).start().await;
    server.accept(&saying("1", "hold")).await;
    eventually("the worker is busy", async || {
        let inbox = server.get("/api/v2/inbox").await.json();
        (inbox["items"][0]["status"] == "processing").then_some(())
    })
    .await;
    server
}

/// What comes within half a minute of the server's time.
async fn soon<T>(time: &FrozenTime, coming: impl Future<Output = T>) -> T {
    let mut coming = std::pin::pin!(coming);
    for _ in 0..60 {
        tokio::select! {
            biased;
            come = &mut coming => return come,
            () = pause(Duration::from_millis(50)) => time.advance(Duration::from_millis(500)).await,
        }
    }
    panic!("nothing came within half a minute");
}

async fn asked(server: &RunningTestServer, stream: bool) -> Answer {
    let mut body = said("lost");
    body["stream"] = json!(stream);
    let answer = server.request("POST", "/v1/chat/completions").json(&body).send().await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer
}

async fn lost(server: &RunningTestServer) {
    eventually("the event is in", async || (lose_turn(&server.database(), "lost") == 1).then_some(())).await;
}

#[tokio::test(start_paused = true)]
async fn a_client_of_openai_gets_the_notice_at_once() {
    for stream in [true, false] {
        let time = FrozenTime::hold();
        let server = busy(&time).await;
        let (answer, ()) = soon(&time, async { tokio::join!(asked(&server, stream), lost(&server)) }).await;
        let text = if stream {
            let chunks = streamed(&answer);
            chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect()
        } else {
            content(&answer.json())
        };
        assert_eq!(text, NOTICE, "stream: {stream}");
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_watches_hears_the_end_and_the_server_says_that_it_is_not_well() {
    let time = FrozenTime::hold();
    let server = busy(&time).await;
    let mut event = saying("2", "lost");
    event["topicKey"] = json!("elsewhere");
    let id = server.accept(&event).await;
    let mut live = server.client().live(&id.parse().unwrap()).await.unwrap();
    lost(&server).await;
    match soon(&time, live.next()).await.unwrap().unwrap() {
        LiveEvent::Done(done) => {
            assert_eq!((done.status, done.text.as_deref()), (InboxStatus::Failed, Some(NOTICE)))
        }
        other @ (LiveEvent::Delta(_) | LiveEvent::Restart) => panic!("{other:?}"),
    }
    let health = server.request("GET", "/health").without_key().send().await;
    assert_eq!(health.json(), json!({ "status": "degraded" }));
    let status = server.get("/api/v2/status").await.json();
    assert_eq!(status["watchdog"], json!({ "stranded": 1, "requeued": 0, "failed": 1 }), "{status}");
    let metrics = server.get("/metrics").await.text();
    for line in ["cortex_events_stranded 1", "cortex_events_given_up_total 1"] {
        assert!(metrics.lines().any(|found| found == line), "no {line:?} in {metrics}");
    }
    soon(&time, async {
        eventually("a look that finds nothing", async || {
            let health = server.get("/health").await.json();
            (health["status"] == "healthy").then_some(())
        })
        .await;
    })
    .await;
}
