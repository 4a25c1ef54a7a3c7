//! Bounds of the socket: heads, patience, and how many at once.

use axum::Router;
use axum::routing::get;
use cortex_testkit::{FrozenTime, ServerSetup, eventually};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

const REQUESTS_MAX: usize = 1_024;

#[tokio::test]
async fn a_head_over_16_kib_is_431_and_one_below_is_read() {
    let server = ServerSetup::echoing().start().await;
    let answer = server.request("GET", "/health").header("x-large", &"x".repeat(15 * 1024)).send().await;
    assert_eq!(answer.status, 200);
    for bytes in [16 * 1024, 64 * 1024, 1024 * 1024] {
        let answer = server.request("GET", "/health").header("x-large", &"x".repeat(bytes)).send().await;
        assert_eq!(answer.status, 431, "{bytes} bytes");
    }
    assert_eq!(server.get("/health").await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn a_head_that_is_not_whole_after_ten_seconds_is_closed() {
    let time = FrozenTime::hold();
    let server = ServerSetup::echoing().at(&time).start().await;
    let mut slow = TcpStream::connect(server.address()).await.unwrap();
    slow.write_all(b"GET /health HTTP/1.1\r\nhost: loc").await.unwrap();
    let prompt = server.get("/health").await;
    assert_eq!(prompt.status, 200, "the server has taken the slow one up before this one");
    time.advance(Duration::from_millis(9_990)).await;
    assert_eq!(server.get("/health").await.status, 200);
    assert_eq!(slow.try_read(&mut [0]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    time.advance(Duration::from_millis(10)).await;
    let mut rest = Vec::new();
    slow.read_to_end(&mut rest).await.unwrap();
    let rest = String::from_utf8_lossy(&rest);
    assert!(rest.is_empty() || rest.starts_with("HTTP/1.1 408"), "{rest}");
}

#[tokio::test]
async fn one_request_more_than_may_run_at_once_is_told_to_come_back() {
    let running = Arc::new(AtomicUsize::new(0));
    let gate = Arc::new(Semaphore::new(0));
    let (entered, opened) = (Arc::clone(&running), Arc::clone(&gate));
    let wait = move || {
        let (entered, opened) = (Arc::clone(&entered), Arc::clone(&opened));
        async move {
            entered.fetch_add(1, Ordering::SeqCst);
            drop(opened.acquire().await);
        }
    };
    let server = ServerSetup::echoing().more_routes(Router::new().route("/wait", get(wait))).start().await;
    let mut waiting = JoinSet::new();
    for _ in 0..REQUESTS_MAX {
        waiting.spawn(server.request("GET", "/wait").send());
    }
    eventually("all of them to run", || async {
        (running.load(Ordering::SeqCst) == REQUESTS_MAX).then_some(())
    })
    .await;
    let answer = server.get("/api/v2/status").await;
    assert_eq!(answer.seen(), (429, json!({ "error": "too_many_requests", "retryAfterMs": 1_000 })));
    assert_eq!(answer.header("retry-after"), Some("1"));
    gate.add_permits(REQUESTS_MAX);
    assert!(waiting.join_all().await.iter().all(|answer| answer.status == 200));
    assert_eq!(server.get("/api/v2/status").await.status, 200);
}

#[tokio::test]
async fn the_server_listens_on_loopback_alone() {
    let server = ServerSetup::echoing().start().await;
    let port = format!("{:04X}", server.address().port());
    let mut listening = Vec::new();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        let rows = std::fs::read_to_string(table).unwrap_or_default();
        for row in rows.lines().skip(1) {
            let fields: Vec<&str> = row.split_whitespace().collect();
            if let Some((address, found)) = fields[1].split_once(':')
                && (found, fields[3]) == (port.as_str(), "0A")
            {
                listening.push(address.to_owned());
            }
        }
    }
    assert_eq!(listening, ["0100007F"], "127.0.0.1 and nothing else");
}

#[tokio::test]
async fn garbage_instead_of_http_is_closed_and_harms_nobody() {
    let server = ServerSetup::echoing().start().await;
    for garbage in
        [&b"\x16\x03\x01\x02\x00\x01\x00"[..], b"\0\0\0\0\r\n\r\n", b"HELLO\r\n\r\n", b"GET\r\n\r\n"]
    {
        let mut connection = TcpStream::connect(server.address()).await.unwrap();
        connection.write_all(garbage).await.unwrap();
        connection.shutdown().await.unwrap();
        let mut said = Vec::new();
        connection.read_to_end(&mut said).await.unwrap();
        let said = String::from_utf8_lossy(&said);
        assert!(said.is_empty() || said.starts_with("HTTP/1.1 400"), "{garbage:?}: {said}");
    }
    assert_eq!(server.get("/health").await.status, 200);
}
