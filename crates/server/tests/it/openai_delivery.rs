//! Nothing said over OpenAI's door is lost or run twice, whatever the client's connection and library do.

use crate::openai_parts::{chat_in, content, open_messages, said};
use cortex_testkit::{FrozenTime, RunningTestServer, ServerSetup, eventually};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

async fn events(server: &RunningTestServer) -> usize {
    server.get("/api/v2/inbox").await.json()["items"].as_array().unwrap().len()
}

/// Model calls so far.
async fn calls(server: &RunningTestServer) -> u64 {
    server.get("/api/v2/usage").await.json()["total"]["calls"].as_u64().unwrap()
}

/// Sends a request and leaves the connection open.
async fn connect(server: &RunningTestServer, body: &Value) -> TcpStream {
    let mut connection = TcpStream::connect(server.address()).await.unwrap();
    let body = body.to_string();
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\nx-cortex-topic: garden\r\n\
         content-length: {}\r\n\r\n",
        server.address(),
        cortex_testkit::OWNER_KEY,
        body.len()
    );
    connection.write_all(head.as_bytes()).await.unwrap();
    connection.write_all(body.as_bytes()).await.unwrap();
    connection
}

/// Answers `slow` only after a while, and everything else at once.
fn sometimes_slow() -> ServerSetup {
    ServerSetup::scripted(json!({
        "answers": [{ "when": { "equals": "slow" }, "deltas": ["At ", "last: "], "say": "done", "delayMs": 100 }],
        "otherwise": { "say": "You said: {{user}}" },
    }))
}

#[tokio::test]
async fn what_a_client_that_left_did_not_get_comes_with_his_next_request() {
    let server = sometimes_slow().start().await;
    let connection = connect(&server, &said("slow")).await;
    eventually("the event", async || (events(&server).await == 1).then_some(())).await;
    drop(connection);
    let waiting = eventually("the reply", async || open_messages(&server).await.pop()).await;
    assert_eq!((&waiting["text"], &waiting["status"]), (&json!("At last: done"), &json!("pending")));
    let next = chat_in(&server, "garden", "hello").await;
    assert_eq!(content(&next), "At last: done\n\nYou said: hello");
    eventually("all to be delivered", async || open_messages(&server).await.is_empty().then_some(())).await;
}

#[tokio::test]
async fn what_was_under_way_when_a_client_left_waits_again_and_nothing_of_it_counts() {
    // More than the system's buffers hold, so that the answer cannot be written to one who does not read.
    let long = "word ".repeat(80_000);
    let server = ServerSetup::scripted(json!({
        "answers": [{ "when": { "equals": "long" }, "say": long }], "otherwise": { "say": "short" },
    }))
    .start()
    .await;
    for number in 0..20 {
        let mut event = crate::sample::saying(&format!("long-{number}"), "long");
        event["source"] = json!("openai");
        event["topicKey"] = json!("garden");
        server.answered(&event).await;
    }
    let of_status = async |status: &str| {
        // A page ends when its rows are large.
        let (mut items, mut before) = (Vec::new(), String::new());
        loop {
            let page = server.get(&format!("/api/v2/outbox?status={status}{before}")).await.json();
            items.extend(page["items"].as_array().unwrap().clone());
            let Some(next) = page["nextCursor"].as_str() else { break items };
            before = format!("&before={next}");
        }
    };
    let connection = connect(&server, &said("hello")).await;
    eventually("the answer to be under way", async || (of_status("leased").await.len() == 21).then_some(()))
        .await;
    drop(connection);
    let waiting = eventually("all to wait again", async || {
        let pending = of_status("pending").await;
        (pending.len() == 21).then_some(pending)
    })
    .await;
    assert!(waiting.iter().all(|message| message["attempts"] == 0), "{}", waiting[0]);
    let next = content(&chat_in(&server, "garden", "again").await);
    assert_eq!(next.matches("word").count(), 20 * 80_000);
    assert!(next.ends_with("short\n\nshort"), "both short answers come last");
}

#[tokio::test]
async fn a_library_that_sends_again_runs_the_model_once() {
    let server = sometimes_slow().start().await;
    let connection = connect(&server, &said("slow")).await;
    eventually("the event", async || (events(&server).await == 1).then_some(())).await;
    drop(connection);
    let again = || {
        let request = server.request("POST", "/v1/chat/completions").header("x-cortex-topic", "garden");
        request.header("x-stainless-retry-count", "1").json(&said("slow"))
    };
    for _ in 0..2 {
        let answer = again().send().await.json();
        assert_eq!(content(&answer), "At last: done", "also when it was delivered before");
    }
    assert_eq!((events(&server).await, calls(&server).await), (1, 1));
    let other = again().json(&said("hello")).send().await.json();
    assert_eq!(content(&other), "You said: hello", "other words are no retry");
    let first = server.request("POST", "/v1/chat/completions").header("x-stainless-retry-count", "0");
    first.header("x-cortex-topic", "garden").json(&said("hello")).send().await;
    assert_eq!(events(&server).await, 3, "a first request is none either");
}

#[tokio::test]
async fn an_idempotency_key_is_answered_once_and_never_for_other_words() {
    let server = ServerSetup::echoing().start().await;
    let ask = async |text: &str| {
        let asking = server.request("POST", "/v1/chat/completions").header("idempotency-key", "k-1");
        asking.json(&said(text)).send().await
    };
    let (first, second) = (ask("hello").await.json(), ask("hello").await.json());
    assert_eq!(content(&first), "You said: hello");
    assert_eq!((first["id"].clone(), content(&first)), (second["id"].clone(), content(&second)));
    let row = first["cortex"]["eventId"].as_str().unwrap();
    assert_eq!(server.get(&format!("/api/v2/inbox/{row}")).await.json()["externalMessageId"], "k-1");
    let other = ask("something else").await;
    assert_eq!((other.status, &other.json()["error"]["code"]), (422, &json!("idempotency_key_reused")));
    assert_eq!(calls(&server).await, 1);
}

#[tokio::test(start_paused = true)]
async fn the_same_words_after_a_delivered_answer_are_meant_again() {
    let time = FrozenTime::hold();
    let server = ServerSetup::echoing().at(&time).start().await;
    let ask = async |retries: &str| {
        let asking =
            server.request("POST", "/v1/chat/completions").header("x-stainless-retry-count", retries);
        assert_eq!(content(&asking.json(&said("next")).send().await.json()), "You said: next");
    };
    ask("0").await;
    ask("1").await;
    assert_eq!(calls(&server).await, 1, "a library that sends again at once");
    time.advance(Duration::from_secs(120)).await;
    ask("1").await;
    assert_eq!(calls(&server).await, 2, "a person who says it again, whose first try failed on the way");
}

#[tokio::test]
async fn a_server_that_stops_says_that_the_answer_comes_later() {
    let mut server = ServerSetup::never_answering().start().await;
    let mut connection = connect(&server, &said("hello")).await;
    eventually("the event", async || (events(&server).await == 1).then_some(())).await;
    server.restart().await;
    let mut answer = Vec::new();
    connection.read_to_end(&mut answer).await.unwrap();
    let answer = String::from_utf8_lossy(&answer).into_owned();
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    assert!(answer.contains("the answer comes with the next request"), "{answer}");
    assert_eq!(events(&server).await, 1, "the question is kept");
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_takes_longer_than_ten_minutes_is_a_504_and_its_answer_is_not_lost() {
    let time = cortex_testkit::FrozenTime::hold();
    let server = ServerSetup::never_answering().at(&time).start().await;
    let asking = tokio::spawn(server.request("POST", "/v1/chat/completions").json(&said("hello")).send());
    eventually("the event", async || (events(&server).await == 1).then_some(())).await;
    while !asking.is_finished() {
        time.advance(std::time::Duration::from_secs(60)).await;
        cortex_testkit::pause(std::time::Duration::from_millis(2)).await;
    }
    let answer = asking.await.unwrap();
    let error = answer.json()["error"].clone();
    assert_eq!((answer.status, &error["code"]), (504, &json!("answer_timeout")));
    assert!(error["message"].as_str().unwrap().starts_with("evt_"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_stream_is_kept_alive_while_nothing_is_said() {
    let time = cortex_testkit::FrozenTime::hold();
    let server = ServerSetup::never_answering().at(&time).start().await;
    let mut body = said("hello");
    body["stream"] = json!(true);
    let connection = connect(&server, &body).await;
    let mut received = String::new();
    for _ in 0..1_000 {
        if received.matches("\n:\n\n").count() == 2 {
            break;
        }
        time.advance(std::time::Duration::from_secs(5)).await;
        cortex_testkit::pause(std::time::Duration::from_millis(2)).await;
        let mut bytes = [0; 4_096];
        match connection.try_read(&mut bytes) {
            Ok(0) => panic!("the stream ended: {received}"),
            Ok(read) => received.push_str(&String::from_utf8_lossy(&bytes[..read])),
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
        }
    }
    assert!(received.contains("\"role\":\"assistant\""), "{received}");
    assert_eq!(received.matches("\n:\n\n").count(), 2, "{received}");
}
