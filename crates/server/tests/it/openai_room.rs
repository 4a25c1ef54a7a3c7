//! Answers that are passed on count among the bytes that their caller may hold, until he has read them.

use crate::openai_relay::{Fake, server};
use axum::body::Bytes;
use axum::response::IntoResponse;
use cortex_testkit::{OWNER_KEY, RunningTestServer, eventually};
use futures::future::join_all;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const LARGE: usize = 15 * 1024 * 1024;
/// What one key of the owner may hold.
const ROOM: usize = 72 * 1024 * 1024;

/// Asks for a model and reads only the status of the answer; the rest waits in the server.
async fn asked(server: &RunningTestServer) -> (String, TcpStream) {
    let mut stream = TcpStream::connect(server.address()).await.unwrap();
    let body = r#"{"model":"far-2","messages":[]}"#;
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {OWNER_KEY}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut said = [0; 64];
    let read = stream.read(&mut said).await.unwrap();
    let said = String::from_utf8_lossy(&said[..read]).into_owned();
    (said.split(' ').nth(1).unwrap_or_default().to_owned(), stream)
}

#[tokio::test]
async fn many_large_answers_at_once_stay_within_the_bytes_of_their_key() {
    let large = Bytes::from(vec![b' '; LARGE]);
    let far =
        Fake::answering(move || ([("content-type", "application/json")], large.clone()).into_response())
            .await;
    let server = server(&[&far]).await;
    let answers = join_all((0..12).map(|_| asked(&server))).await;
    let with = |status: &str| answers.iter().filter(|(said, _)| said == status).count();
    assert!((1..=ROOM / LARGE).contains(&with("200")), "{} were let in", with("200"));
    assert_eq!(with("200") + with("429"), answers.len(), "the others are told to come back");
    assert_eq!(server.get("/health").await.status, 200);
    drop(answers);
    eventually("room again", async || (asked(&server).await.0 == "200").then_some(())).await;
}
