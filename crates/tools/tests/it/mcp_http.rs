//! MCP over HTTP with a server that never stops talking.

use crate::mcp_parts::settings;
use cortex_testkit::eventually;
use cortex_tools::{McpSet, McpState};
use serde_json::json;
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
