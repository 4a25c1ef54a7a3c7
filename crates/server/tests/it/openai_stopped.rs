//! A stream that its reader stopped: the turn goes on and history has its words, but they do not come back.

use crate::openai_parts::{chat_in, content, open_messages, said, streamed};
use cortex_testkit::{RunningTestServer, ServerSetup, eventually};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Streams `slow` in pieces that take their time, and says everything else at once.
fn sometimes_slow() -> ServerSetup {
    ServerSetup::scripted(json!({
        "answers": [{ "when": { "equals": "slow" }, "deltas": ["At ", "last: "], "say": "done", "delayMs": 300 }],
        "otherwise": { "say": "You said: {{user}}" },
    }))
}

/// Begins a stream and gives its connection once it has its first bytes.
async fn begin(server: &RunningTestServer, text: &str, more_headers: &str) -> TcpStream {
    let mut body = said(text);
    body["stream"] = json!(true);
    let body = body.to_string();
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\nx-cortex-topic: garden\r\n\
         {more_headers}content-length: {}\r\n\r\n",
        server.address(),
        cortex_testkit::OWNER_KEY,
        body.len()
    );
    let mut connection = TcpStream::connect(server.address()).await.unwrap();
    connection.write_all(head.as_bytes()).await.unwrap();
    connection.write_all(body.as_bytes()).await.unwrap();
    let mut first = [0; 64];
    connection.read_exact(&mut first).await.unwrap();
    connection
}

/// The only event there is, once it has ended.
async fn ended(server: &RunningTestServer) -> String {
    let list = server.get("/api/v2/inbox").await.json();
    let id = list["items"][0]["eventId"].as_str().unwrap_or_else(|| panic!("{list}")).to_owned();
    server.ended(&id).await;
    id
}

async fn discarded(server: &RunningTestServer) -> Vec<Value> {
    server.get("/api/v2/outbox?status=discarded").await.json()["items"].as_array().unwrap().clone()
}

#[tokio::test]
async fn a_stopped_stream_does_not_come_back_before_the_next_answer() {
    for stops_late in [false, true] {
        let server = sometimes_slow().start().await;
        let connection = begin(&server, "slow", "").await;
        if stops_late {
            // The next question is already there when its reader stops the first.
            let asking = server.request("POST", "/v1/chat/completions").header("x-cortex-topic", "garden");
            let next = tokio::spawn(asking.json(&said("hello")).send());
            eventually("the second event", async || {
                let events = server.get("/api/v2/inbox").await.json()["items"].as_array().unwrap().len();
                (events == 2).then_some(())
            })
            .await;
            drop(connection);
            assert_eq!(content(&next.await.unwrap().json()), "You said: hello");
        } else {
            drop(connection);
            assert_eq!(content(&chat_in(&server, "garden", "hello").await), "You said: hello");
        }
        let gone = eventually("its words to be given up", async || discarded(&server).await.pop()).await;
        assert_eq!(gone["text"], "At last: done");
        assert_eq!(gone["lastError"], "its reader stopped the stream");
        eventually("all to be settled", async || open_messages(&server).await.is_empty().then_some(())).await;
        let mut again = said("again");
        again["stream"] = json!(true);
        let request = server.request("POST", "/v1/chat/completions").header("x-cortex-topic", "garden");
        let chunks = streamed(&request.json(&again).send().await);
        let text: String =
            chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect();
        assert_eq!(text, "You said: again");
    }
}

#[tokio::test]
async fn a_stopped_stream_is_in_the_history_and_its_trace_says_what_became_of_it() {
    let server = sometimes_slow().start().await;
    drop(begin(&server, "slow", "").await);
    let event = ended(&server).await;
    eventually("its words to be given up", async || discarded(&server).await.pop()).await;
    let trace = server.get(&format!("/api/v2/events/{event}/trace")).await.text();
    assert!(trace.contains("its reader stopped the stream"), "{trace}");
    let history = server.get("/api/v2/context?topic=garden").await.text();
    assert!(history.contains("At last: done"), "{history}");
}

#[tokio::test]
async fn an_idempotency_key_still_gets_the_answer_of_a_stopped_stream() {
    let server = sometimes_slow().start().await;
    drop(begin(&server, "slow", "idempotency-key: k-1\r\n").await);
    ended(&server).await;
    eventually("its words to be given up", async || discarded(&server).await.pop()).await;
    let request = server.request("POST", "/v1/chat/completions").header("x-cortex-topic", "garden");
    let again = request.header("idempotency-key", "k-1").json(&said("slow")).send().await.json();
    assert_eq!(content(&again), "At last: done");
}

fn tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

#[tokio::test]
async fn a_stream_that_is_stopped_again_and_again_leaves_one_follower() {
    let server = ServerSetup::never_answering().start().await;
    let key = "idempotency-key: k-1\r\n";
    let before = tasks();
    let streams = 40;
    for _ in 0..streams {
        drop(begin(&server, "slow", key).await);
    }
    let events = server.get("/api/v2/inbox").await.json()["items"].as_array().unwrap().len();
    assert_eq!(events, 1);
    // Beside the one follower there may be a few of the server's own, and of the connections that were looked with.
    eventually("the others to be gone", async || (tasks() < before + streams / 2).then_some(())).await;
}

#[tokio::test]
async fn a_question_to_a_person_outlives_the_stream_that_led_to_it() {
    let arguments = json!({ "cron": "0 9 * * *", "what": "stretch", "timezone": "UTC" });
    let call = json!({ "name": "schedule.create", "arguments": arguments });
    let server = ServerSetup::scripted(json!({
        "answers": [{ "when": { "equals": "plan" }, "deltas": ["Well. "], "toolCalls": [call], "delayMs": 200 }],
        "otherwise": { "say": "You said: {{user}}" },
    }))
    .start()
    .await;
    drop(begin(&server, "plan", "").await);
    let waiting = eventually("the question", async || open_messages(&server).await.pop()).await;
    assert!(waiting["text"].as_str().unwrap().starts_with("May I add a reminder: stretch, "), "{waiting}");
    let next = content(&chat_in(&server, "garden", "hello").await);
    assert!(next.starts_with("May I add a reminder: stretch, "), "{next}");
    assert!(next.ends_with("You said: hello"), "{next}");
}
