//! HTTP/1.1 on loopback, as small as the fault runs need it: what matters is to know when an outcome is unknown.

use serde_json::Value;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

/// Longest wait for an answer; a server that dies closes the connection much earlier.
const PATIENCE: Duration = Duration::from_secs(20);
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The owner's key in every home of the fault runs.
pub(crate) const KEY: &str = "the-key-of-the-fault-runs-0123456789";

/// What came of a request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Reply {
    Answered(Answer),
    /// Nobody listened, so nothing was asked.
    NotSent,
    /// The connection broke: it may or may not have been done.
    Unknown,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) body: Value,
}

impl Answer {
    /// A field of the body as text; empty when it is not there.
    pub(crate) fn text(&self, field: &str) -> String {
        self.body.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
    }
}

/// One kept connection; it is opened again whenever it broke or the server moved.
#[derive(Default)]
pub(crate) struct Http {
    open: Option<(u16, TcpStream)>,
}

impl Http {
    pub(crate) fn post(&mut self, port: u16, path: &str, body: &Value) -> Reply {
        self.send(port, "POST", path, &body.to_string())
    }

    pub(crate) fn get(&mut self, port: u16, path: &str) -> Reply {
        self.send(port, "GET", path, "")
    }

    fn send(&mut self, port: u16, method: &str, path: &str, body: &str) -> Reply {
        let mut stream = match self.open.take().filter(|(open, _)| *open == port) {
            Some((_, stream)) => stream,
            None => match connect(port) {
                Ok(stream) => stream,
                Err(_) => return Reply::NotSent,
            },
        };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nauthorization: Bearer {KEY}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        match stream.write_all(request.as_bytes()).and_then(|()| read_answer(&mut stream)) {
            Ok(answer) => {
                self.open = Some((port, stream));
                Reply::Answered(answer)
            }
            Err(_) => Reply::Unknown,
        }
    }
}

fn connect(port: u16) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

fn read_answer(stream: &mut TcpStream) -> std::io::Result<Answer> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 16 * 1024];
    loop {
        if let Some(message) = Message::read(&bytes) {
            let code = message.first_line.split(' ').nth(1).and_then(|code| code.parse().ok());
            let body = serde_json::from_slice(message.body).unwrap_or(Value::Null);
            return code.map(|code| Answer { code, body }).ok_or(std::io::ErrorKind::InvalidData.into());
        }
        let count = stream.read(&mut chunk)?;
        if count == 0 || bytes.len() > ANSWER_BYTES_MAX {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        bytes.extend_from_slice(&chunk[..count]);
    }
}

/// A request or an answer at the start of some bytes, once it is there as a whole.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Message<'a> {
    pub(crate) first_line: &'a str,
    pub(crate) body: &'a [u8],
    /// Bytes it takes, head and body.
    pub(crate) length: usize,
}

impl<'a> Message<'a> {
    pub(crate) fn read(bytes: &'a [u8]) -> Option<Self> {
        let head_end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
        let head = std::str::from_utf8(&bytes[..head_end]).ok()?;
        let mut lines = head.split("\r\n");
        let first_line = lines.next()?;
        let body_length = lines
            .filter_map(|line| line.split_once(':'))
            .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
            .and_then(|(_, value)| value.trim().parse().ok())
            .unwrap_or(0);
        let body = bytes.get(head_end + 4..head_end + 4 + body_length)?;
        Some(Self { first_line, body, length: head_end + 4 + body_length })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_read_only_when_its_body_is_whole() {
        let bytes = b"HTTP/1.1 202 Accepted\r\nContent-Length: 2\r\n\r\n{}HTTP/1.1 200";
        let message = Message::read(bytes).unwrap();
        assert_eq!((message.first_line, message.body), ("HTTP/1.1 202 Accepted", b"{}".as_slice()));
        assert!(bytes[message.length..].starts_with(b"HTTP/1.1 200"));
        assert_eq!(Message::read(&bytes[..message.length - 1]), None);
    }

    #[test]
    fn a_port_nobody_listens_on_is_not_sent() {
        let free = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        assert_eq!(Http::default().get(port, "/health"), Reply::NotSent);
    }

    #[test]
    fn a_connection_that_breaks_leaves_the_outcome_unknown() {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = std::thread::spawn(move || drop(listener.accept().unwrap()));
        assert_eq!(Http::default().get(port, "/health"), Reply::Unknown);
        server.join().unwrap();
    }
}
