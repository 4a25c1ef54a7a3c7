//! The far side of a wire: a socket that answers each connection exactly as it is told.

use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// One thing the far side does; after the last one it closes the connection.
#[derive(Debug, Clone)]
pub(crate) enum Act {
    Send(Vec<u8>),
    /// One byte a tick.
    Drip(Vec<u8>, Duration),
    /// The same bytes until the other side has had enough.
    Flood(Vec<u8>),
    Reset,
    Hang,
}

/// A request as it came in.
#[derive(Debug, Clone)]
pub(crate) struct Received {
    /// The request line and the headers.
    pub(crate) head: String,
    pub(crate) body: serde_json::Value,
}

impl Received {
    pub(crate) fn line(&self) -> &str {
        self.head.lines().next().unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        headers.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

pub(crate) struct FarSide {
    pub(crate) url: String,
    received: Arc<Mutex<Vec<Received>>>,
    serving: JoinHandle<()>,
}

impl FarSide {
    /// The n-th connection gets the n-th answer; the last answer is given for ever.
    pub(crate) async fn answering(answers: Vec<Vec<Act>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let received = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&received);
        let serving = tokio::spawn(async move {
            for number in 0.. {
                let (connection, _) = listener.accept().await.unwrap();
                let answer = answers[usize::min(number, answers.len() - 1)].clone();
                tokio::spawn(serve(connection, answer, Arc::clone(&seen)));
            }
        });
        Self { url, received, serving }
    }

    pub(crate) async fn saying(response: String) -> Self {
        Self::answering(vec![vec![Act::Send(response.into_bytes())]]).await
    }

    pub(crate) fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }

    pub(crate) fn calls(&self) -> usize {
        self.received.lock().unwrap().len()
    }
}

impl Drop for FarSide {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Takes a single connection and answers every request on it.
pub(crate) async fn one_connection_saying(response: String) -> (String, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let serving = tokio::spawn(async move {
        let (mut connection, _) = listener.accept().await.unwrap();
        while read_request(&mut connection).await.is_some() {
            connection.write_all(response.as_bytes()).await.unwrap();
        }
    });
    (url, serving)
}

async fn serve(mut connection: TcpStream, answer: Vec<Act>, seen: Arc<Mutex<Vec<Received>>>) {
    let Some(request) = read_request(&mut connection).await else { return };
    seen.lock().unwrap().push(request);
    for act in answer {
        // A client that leaves early is what some tests are about.
        let written = match act {
            Act::Send(bytes) => connection.write_all(&bytes).await,
            Act::Drip(bytes, tick) => drip(&mut connection, &bytes, tick).await,
            Act::Flood(bytes) => flood(&mut connection, &bytes).await,
            Act::Reset => return connection.set_zero_linger().unwrap(),
            Act::Hang => return std::future::pending().await,
        };
        if written.is_err() {
            return;
        }
    }
}

async fn drip(connection: &mut TcpStream, bytes: &[u8], tick: Duration) -> std::io::Result<()> {
    for byte in bytes {
        connection.write_all(&[*byte]).await?;
        tokio::time::sleep(tick).await;
    }
    Ok(())
}

async fn flood(connection: &mut TcpStream, bytes: &[u8]) -> std::io::Result<()> {
    loop {
        connection.write_all(bytes).await?;
    }
}

async fn read_request(connection: &mut TcpStream) -> Option<Received> {
    let mut bytes = Vec::new();
    loop {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n");
        if let Some(end) = end {
            let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
            let length = Received { head: head.clone(), body: serde_json::Value::Null };
            let length = length.header("content-length").map_or(0, |length| length.parse().unwrap());
            if bytes.len() >= end + 4 + length {
                let body = serde_json::from_slice(&bytes[end + 4..]).unwrap_or_default();
                return Some(Received { head, body });
            }
        }
        let mut chunk = [0; 16 * 1024];
        match connection.read(&mut chunk).await {
            Ok(0) | Err(_) => return None,
            Ok(count) => bytes.extend_from_slice(&chunk[..count]),
        }
    }
}

/// A response whose body ends where the connection ends.
pub(crate) fn response(status: &str, content_type: &str, extra: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\n{extra}connection: close\r\n\r\n{body}")
}

pub(crate) fn error(status: &str, extra: &str, message: &str) -> String {
    let body = serde_json::json!({ "error": { "message": message, "type": "some_error" } });
    response(status, "application/json", extra, &body.to_string())
}

pub(crate) fn events(events: &[&str]) -> String {
    let body: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    response("200 OK", "text/event-stream", "", &body)
}

/// A whole OpenAI answer in a stream.
pub(crate) fn openai(text: &str) -> String {
    events(&[&openai_text(text), OPENAI_STOP, "[DONE]"])
}

pub(crate) fn openai_text(text: &str) -> String {
    serde_json::json!({ "choices": [{ "index": 0, "delta": { "content": text } }] }).to_string()
}

pub(crate) const OPENAI_STOP: &str = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
