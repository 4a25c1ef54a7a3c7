//! A plain HTTP client that sends exactly what it is told, odd requests too.

#![expect(clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

use serde_json::Value;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A request under construction. It starts with a good host and key.
#[derive(Debug, Clone)]
pub struct Request {
    address: SocketAddr,
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Request {
    pub(crate) fn new(address: SocketAddr, key: &str, method: &str, path: &str) -> Self {
        Self {
            address,
            method: method.to_owned(),
            path: path.to_owned(),
            headers: Vec::new(),
            body: Vec::new(),
        }
        .header("host", &address.to_string())
        .header("authorization", &format!("Bearer {key}"))
    }

    /// One more header, beside those of the same name.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self
    }

    pub fn without_key(self) -> Self {
        self.without("authorization")
    }

    pub fn json(self, body: &Value) -> Self {
        self.body(body.to_string())
    }

    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self.without("content-length")
    }

    pub async fn send(self) -> Answer {
        let length = self.body.len().to_string();
        let request = self.header("content-length", &length);
        exchange(request.address, &[request.head().into_bytes(), request.body].concat()).await
    }

    /// The body in chunks, without saying its length before.
    pub async fn send_chunked(self, chunk_bytes: usize) -> Answer {
        let request = self.header("transfer-encoding", "chunked");
        let mut bytes = request.head().into_bytes();
        for chunk in request.body.chunks(chunk_bytes) {
            bytes.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
            bytes.extend_from_slice(chunk);
            bytes.extend_from_slice(b"\r\n");
        }
        bytes.extend_from_slice(b"0\r\n\r\n");
        exchange(request.address, &bytes).await
    }

    fn head(&self) -> String {
        let mut head = format!("{} {} HTTP/1.1\r\nconnection: close\r\n", self.method, self.path);
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head + "\r\n"
    }
}

/// What came back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{} without JSON ({error}): {}", self.status, self.text()))
    }

    /// Status and body at once, as most checks want them.
    #[track_caller]
    pub fn seen(&self) -> (u16, Value) {
        (self.status, self.json())
    }
}

/// Sends these bytes on a connection of their own and reads what comes until the other side closes.
pub async fn exchange(address: SocketAddr, bytes: &[u8]) -> Answer {
    let connection = TcpStream::connect(address).await.expect("the server accepts");
    let (mut reading, mut writing) = connection.into_split();
    let mut received = Vec::new();
    // A server that has heard enough closes while the rest is still being written; its answer counts.
    let (written, read) = tokio::join!(writing.write_all(bytes), reading.read_to_end(&mut received));
    drop((written, read));
    parse(&received)
}

fn parse(received: &[u8]) -> Answer {
    let end = received.windows(4).position(|window| window == b"\r\n\r\n");
    let end = end.unwrap_or_else(|| panic!("no whole head: {:?}", String::from_utf8_lossy(received)));
    let head = String::from_utf8_lossy(&received[..end]).into_owned();
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|code| code.parse().ok());
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let is_chunked = headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked");
    let rest = &received[end + 4..];
    let body = if is_chunked { unchunked(rest) } else { rest.to_vec() };
    Answer { status: status.expect("a status line"), headers, body }
}

fn unchunked(mut rest: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(line_end) = rest.windows(2).position(|window| window == b"\r\n") {
        let size =
            std::str::from_utf8(&rest[..line_end]).ok().and_then(|hex| usize::from_str_radix(hex, 16).ok());
        let Some(size) = size.filter(|size| *size > 0) else { break };
        let start = line_end + 2;
        let end = (start + size).min(rest.len());
        body.extend_from_slice(&rest[start..end]);
        rest = rest.get(end + 2..).unwrap_or_default();
    }
    body
}
