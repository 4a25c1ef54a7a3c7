//! MCP over HTTP with a server that never stops talking.

use crate::mcp_parts::settings;
use cortex_testkit::eventually;
use cortex_tools::{McpSet, McpState};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const ENDLESS: usize = 256 * 1024 * 1024;
/// What a message may be, and what the system keeps on the way.
const SMALL: usize = 24 * 1024 * 1024;

/// Answers every request with a body that does not end, and counts the most bytes that one of them was taken.
fn endless(kind: &'static str, start: &'static str) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (port, most) = (listener.local_addr().unwrap().port(), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&most);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let counted = Arc::clone(&counted);
            std::thread::spawn(move || answer(stream, kind, start, &counted));
        }
    });
    (port, most)
}

fn answer(mut stream: TcpStream, kind: &str, start: &str, counted: &AtomicUsize) {
    let mut request = [0; 64 * 1024];
    if stream.read(&mut request).is_err() {
        return;
    }
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\nconnection: close\r\n\r\n{start}");
    if stream.write_all(head.as_bytes()).is_err() {
        return;
    }
    let (chunk, mut sent) = ([b'x'; 64 * 1024], 0);
    while sent < ENDLESS && stream.write_all(&chunk).is_ok() {
        sent += chunk.len();
        counted.fetch_max(sent, Ordering::SeqCst);
    }
}

/// Shakes hands by an event whose comment has a lone quote, and whose data has this many values.
fn hides_values_behind_a_quote(values: usize) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || drop(shake_hands(stream, values)));
        }
    });
    port
}

fn shake_hands(mut stream: TcpStream, values: usize) -> std::io::Result<()> {
    let mut request = [0; 64 * 1024];
    let (mut count, mut body) = (0, Value::Null);
    // The body may come after the head.
    while body.is_null() {
        let read = stream.read(&mut request[count..])?;
        if read == 0 {
            return Ok(());
        }
        count += read;
        let text = String::from_utf8_lossy(&request[..count]);
        if text.starts_with("GET ") {
            return stream.write_all(b"HTTP/1.1 405 No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        }
        let after = text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned());
        body = after.and_then(|body| serde_json::from_str(&body).ok()).unwrap_or_default();
    }
    if body["method"] != "initialize" {
        let status = if body["id"].is_null() { "202 Accepted" } else { "400 Bad Request" };
        let head = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        return stream.write_all(head.as_bytes());
    }
    let many = format!("[{}0]", "0,".repeat(values));
    let result = format!(
        r#"{{"protocolVersion":"2025-06-18","capabilities":{{}},"serverInfo":{{"name":"s","version":"1"}},"_meta":{{"a":{many}}}}}"#
    );
    let event = format!(": \"\ndata: {{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{result}}}\n\n", body["id"]);
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    stream.write_all(head.as_bytes())?;
    stream.write_all(event.as_bytes())
}

#[tokio::test]
async fn a_quote_in_a_comment_of_an_event_hides_no_values() {
    for (values, is_taken) in [(10_000, true), (300_000, false)] {
        let url = format!("http://127.0.0.1:{}/mcp", hides_values_behind_a_quote(values));
        let servers = serde_json::from_value(json!({"web": {"url": url}})).unwrap();
        let set = McpSet::connect(servers, settings());
        let was_taken = eventually("a verdict", async || match &set.status()[0].state {
            McpState::Down { .. } => Some(false),
            McpState::Ready { .. } => Some(true),
            McpState::Connecting | McpState::Stopped => None,
        })
        .await;
        assert_eq!(was_taken, is_taken, "{values} values: {:?}", set.status());
        set.stop().await;
    }
}

#[tokio::test]
async fn a_body_without_end_is_cut_and_the_server_counts_as_down() {
    for (kind, start) in [("application/json", "{\"a\":\""), ("text/event-stream", "data: ")] {
        let (port, most) = endless(kind, start);
        let servers = json!({"web": {"url": format!("http://127.0.0.1:{port}/mcp")}});
        let set = McpSet::connect(serde_json::from_value(servers).unwrap(), settings());
        eventually("it is given up", async || match &set.status()[0].state {
            McpState::Down { .. } => Some(()),
            McpState::Connecting | McpState::Ready { .. } | McpState::Stopped => None,
        })
        .await;
        let taken = most.load(Ordering::SeqCst);
        assert!(taken > 0 && taken < SMALL, "{kind}: {taken} bytes were taken");
        set.stop().await;
    }
}
