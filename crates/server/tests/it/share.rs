//! Shares: a caller that takes all it can get is told to come back, and nobody else notices.

use cortex_server::CallerLimits;
use cortex_testkit::{Answer, RunningTestServer, ServerSetup};
use futures::future::{join_all, select_all};
use serde_json::{Value, json};
use std::time::Instant;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

async fn key_for(server: &RunningTestServer, source: &str) -> String {
    let made = server.post("/api/v2/keys", &json!({ "name": source, "source": source })).await;
    made.json()["key"].as_str().unwrap().to_owned()
}

async fn poll(server: &RunningTestServer, key: &str, body: &Value) -> Answer {
    let request = server.request("POST", "/outbox/poll").without_key();
    request.header("authorization", &format!("Bearer {key}")).json(body).send().await
}

fn told(answer: &Answer) -> [Option<&str>; 3] {
    ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"].map(|name| answer.header(name))
}

#[tokio::test]
async fn a_key_that_asks_too_often_is_told_when_to_come_back() {
    let limits = CallerLimits { key_per_minute: 3, ..CallerLimits::default() };
    let server = ServerSetup::echoing().caller_limits(limits).start().await;
    let (first, second) = (key_for(&server, "first").await, key_for(&server, "second").await);
    for (remaining, reset) in [("2", "20"), ("1", "40"), ("0", "60")] {
        let answer = poll(&server, &first, &json!({ "source": "first" })).await;
        assert_eq!(answer.status, 200);
        assert_eq!(told(&answer)[..2], [Some("3"), Some(remaining)]);
        let seconds = |text: &str| text.parse::<u64>().unwrap();
        assert!(seconds(told(&answer)[2].unwrap()) <= seconds(reset));
    }
    let refused = poll(&server, &first, &json!({ "source": "first" })).await;
    assert_eq!((refused.status, &refused.json()["error"]), (429, &json!("too_many_requests")));
    assert_eq!(told(&refused)[..2], [Some("3"), Some("0")]);
    let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=20).contains(&wait), "{wait} s");
    assert_eq!(poll(&server, &second, &json!({ "source": "second" })).await.status, 200);
    assert_eq!(told(&server.get("/api/v2/status").await)[0], Some("6000000"), "the owner's limit is wide");
    assert_eq!(told(&server.get("/health").await), [None; 3]);
}

#[tokio::test]
async fn a_burst_gets_what_is_there_and_at_most_one_more() {
    const LIMIT: u32 = 10;
    let limits = CallerLimits { key_per_minute: LIMIT, ..CallerLimits::default() };
    let server = ServerSetup::echoing().caller_limits(limits).start().await;
    let key = key_for(&server, "m").await;
    let begun = Instant::now();
    let body = json!({ "source": "m" });
    let answers = join_all((0..60).map(|_| poll(&server, &key, &body))).await;
    let refilled = u32::try_from(begun.elapsed().as_secs()).unwrap() * LIMIT / 60;
    let served = u32::try_from(answers.iter().filter(|answer| answer.status == 200).count()).unwrap();
    assert!((LIMIT..=LIMIT + refilled + 1).contains(&served), "{served} were served");
    assert!(answers.iter().all(|answer| matches!(answer.status, 200 | 429)));
}

#[tokio::test]
async fn half_of_what_a_key_may_ask_at_once_may_wait() {
    let limits = CallerLimits { requests_per_key: 16, ..CallerLimits::default() };
    let server = ServerSetup::echoing().caller_limits(limits).start().await;
    let key = key_for(&server, "m").await;
    let wait = json!({ "source": "m", "waitSeconds": 2 });
    let waited = join_all((0..9).map(|_| poll(&server, &key, &wait))).await;
    let refused: Vec<&Answer> = waited.iter().filter(|answer| answer.status != 200).collect();
    assert_eq!(refused.len(), 1, "eight wait, and the ninth is told to come back");
    assert_eq!((refused[0].status, refused[0].header("retry-after")), (429, Some("1")));
    assert_eq!(poll(&server, &key, &json!({ "source": "m" })).await.status, 200);
}

/// Sends all of a body of 1 MiB but its end.
async fn almost_a_body(server: &RunningTestServer, key: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.address()).await.unwrap();
    let head = format!(
        "POST /ingest HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\ncontent-length: 1048576\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    // A server that has enough may close in the middle.
    drop(stream.write_all(&vec![b' '; 1_048_000]).await);
    stream
}

/// The status of the answer.
async fn status(stream: &mut TcpStream) -> String {
    let mut said = [0; 64];
    let read = stream.read(&mut said).await.unwrap();
    std::str::from_utf8(&said[..read]).unwrap().split(' ').nth(1).unwrap_or_default().to_owned()
}

#[tokio::test]
async fn bodies_on_their_way_share_the_bytes_of_their_key() {
    let server = ServerSetup::echoing().start().await;
    let (rude, polite) = (key_for(&server, "rude").await, key_for(&server, "polite").await);
    let mut sent = join_all((0..32).map(|_| almost_a_body(&server, &rude))).await;
    let (first, ..) = select_all(sent.iter_mut().map(|stream| Box::pin(status(stream)))).await;
    assert_eq!(first, "429", "24 MiB are the share of a key");
    let mut other = almost_a_body(&server, &polite).await;
    other.write_all(&[b' '; 576]).await.unwrap();
    assert_eq!(status(&mut other).await, "400", "another key has its own share, and spaces are no JSON");
    assert_eq!(server.post("/ingest", &crate::sample::event("1")).await.status, 202);
    assert_eq!(server.get("/health").await.status, 200);
}
