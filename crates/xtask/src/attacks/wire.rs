//! HTTP/1.1 as an attacker writes it: every header by hand, nothing added but what a request needs.

use crate::faults::http::KEY;
use anyhow::{Context, Result};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) method: &'static str,
    pub(crate) path: String,
    host: Option<String>,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Request {
    pub(crate) fn new(method: &'static str, path: impl Into<String>) -> Self {
        Self { method, path: path.into(), host: None, headers: Vec::new(), body: Vec::new() }
    }

    pub(crate) fn get(path: impl Into<String>) -> Self {
        Self::new("GET", path)
    }

    pub(crate) fn post(path: impl Into<String>, body: &Value) -> Self {
        Self::new("POST", path).header("content-type", "application/json").body(body.to_string())
    }

    pub(crate) fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    pub(crate) fn host(mut self, host: &str) -> Self {
        self.host = Some(host.to_owned());
        self
    }

    pub(crate) fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    pub(crate) fn key(self, key: &str) -> Self {
        self.header("authorization", format!("Bearer {key}"))
    }

    pub(crate) fn owner(self) -> Self {
        self.key(KEY)
    }

    pub(crate) fn bytes(&self, port: u16) -> Vec<u8> {
        let host = self.host.clone().unwrap_or_else(|| format!("127.0.0.1:{port}"));
        let mut head =
            format!("{} {} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n", self.method, self.path);
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        if !self.body.is_empty() || self.method != "GET" {
            head += &format!("content-length: {}\r\n", self.body.len());
        }
        let mut bytes = (head + "\r\n").into_bytes();
        bytes.extend_from_slice(&self.body);
        bytes
    }

    /// Sends it on a connection of its own and reads the answer to its end.
    pub(crate) fn send(&self, port: u16) -> Result<Answer> {
        let mut stream = self.start(port)?;
        let mut bytes = Vec::new();
        // A server that refuses a body may close before it has read it; what it said until then counts.
        let read = stream.read_to_end(&mut bytes);
        let answer = Answer::read(&bytes);
        match (answer, read) {
            (Some(answer), _) => Ok(answer),
            (None, read) => {
                read.with_context(|| format!("{} {}", self.method, self.path))?;
                anyhow::bail!("{} {}: the connection was closed without an answer", self.method, self.path)
            }
        }
    }

    /// Sends it and leaves the answer unread.
    pub(crate) fn start(&self, port: u16) -> Result<TcpStream> {
        let mut stream = connect(port)?;
        // Half of a body that is refused early is never taken.
        stream.write_all(&self.bytes(port)).unwrap_or_default();
        Ok(stream)
    }
}

pub(crate) fn connect(port: u16) -> Result<TcpStream> {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    fn read(bytes: &[u8]) -> Option<Self> {
        let head_end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
        let head = std::str::from_utf8(&bytes[..head_end]).ok()?;
        let mut lines = head.split("\r\n");
        let code = lines.next()?.split(' ').nth(1)?.parse().ok()?;
        let headers: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        let is_chunked =
            headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked");
        let rest = &bytes[head_end + 4..];
        let body = if is_chunked { unchunked(rest) } else { rest.to_vec() };
        Some(Self { code, headers, body })
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    /// A field of the body as text; empty when it is not there.
    pub(crate) fn field(&self, name: &str) -> String {
        self.json()[name].as_str().unwrap_or_default().to_owned()
    }
}

fn unchunked(mut bytes: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(end) = bytes.windows(2).position(|window| window == b"\r\n") {
        let size = std::str::from_utf8(&bytes[..end])
            .ok()
            .and_then(|size| usize::from_str_radix(size.trim(), 16).ok());
        let Some(size) = size.filter(|size| *size > 0) else { break };
        let Some(chunk) = bytes.get(end + 2..end + 2 + size) else { break };
        body.extend_from_slice(chunk);
        bytes = bytes.get(end + 2 + size + 2..).unwrap_or_default();
    }
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_in_chunks_is_put_together() {
        let bytes = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-A: b\r\n\r\n5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n";
        let answer = Answer::read(bytes).unwrap();
        assert_eq!((answer.code, answer.text().as_str(), answer.header("x-a")), (200, "hello!", Some("b")));
        assert_eq!(Answer::read(b"HTTP/1.1 200 OK\r\n"), None);
    }
}
