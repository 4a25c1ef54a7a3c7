//! One connection: writes a request, reads exactly its answer.

use crate::BenchError;
use std::io::Write;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const ANSWER_BYTES: usize = 16 * 1024;

/// Where requests go and what opens the door.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) address: SocketAddr,
    pub(crate) key: String,
}

/// An open keep-alive connection.
pub(crate) struct Connection {
    stream: TcpStream,
    target: Target,
    request: Vec<u8>,
    received: Vec<u8>,
}

/// The answer to one request.
pub(crate) struct Answer<'a> {
    pub(crate) status: u16,
    pub(crate) body: &'a [u8],
}

impl Answer<'_> {
    /// What to say when this answer is not the one that was due.
    pub(crate) fn wrong(&self, wanted: &str) -> BenchError {
        let said = String::from_utf8_lossy(&self.body[..self.body.len().min(300)]);
        BenchError::Broken(format!("expected {wanted}, the server answered {} {said}", self.status))
    }
}

impl Connection {
    pub(crate) async fn open(target: Target) -> Result<Self, BenchError> {
        let stream = TcpStream::connect(target.address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, target, request: Vec::new(), received: Vec::with_capacity(ANSWER_BYTES) })
    }

    pub(crate) async fn post(&mut self, path: &str, body: &[u8]) -> Result<Answer<'_>, BenchError> {
        self.request.clear();
        write!(
            self.request,
            "POST {path} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n",
            self.target.address,
            self.target.key,
            body.len()
        )?;
        self.request.extend_from_slice(body);
        self.exchange().await
    }

    pub(crate) async fn get(&mut self, path: &str) -> Result<Answer<'_>, BenchError> {
        self.request.clear();
        let key = match self.target.key.as_str() {
            "" => String::new(),
            key => format!("authorization: Bearer {key}\r\n"),
        };
        write!(self.request, "GET {path} HTTP/1.1\r\nhost: {}\r\n{key}\r\n", self.target.address)?;
        self.exchange().await
    }

    async fn exchange(&mut self) -> Result<Answer<'_>, BenchError> {
        self.stream.write_all(&self.request).await?;
        self.received.clear();
        let head = loop {
            if let Some(head) = Head::parse(&self.received)? {
                break head;
            }
            self.receive().await?;
        };
        while self.received.len() < head.bytes + head.body_bytes {
            self.receive().await?;
        }
        Ok(Answer { status: head.status, body: &self.received[head.bytes..head.bytes + head.body_bytes] })
    }

    async fn receive(&mut self) -> Result<(), BenchError> {
        match self.stream.read_buf(&mut self.received).await? {
            0 => Err(BenchError::Broken("the server closed the connection".to_owned())),
            _ => Ok(()),
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Head {
    bytes: usize,
    body_bytes: usize,
    status: u16,
}

impl Head {
    /// `None` while the head is not whole.
    fn parse(received: &[u8]) -> Result<Option<Self>, BenchError> {
        let Some(end) = received.windows(4).position(|four| four == b"\r\n\r\n") else { return Ok(None) };
        let head = String::from_utf8_lossy(&received[..end]);
        let strange = || BenchError::Broken(format!("an answer that is not understood: {head}"));
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or_else(strange)?;
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then_some(value.trim())
        });
        let body_bytes = length.and_then(|length| length.parse().ok()).ok_or_else(strange)?;
        Ok(Some(Self { bytes: end + 4, body_bytes, status }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_once_it_is_whole() {
        let whole = b"HTTP/1.1 202 Accepted\r\nContent-Length: 5\r\n\r\nhello";
        assert_eq!(Head::parse(&whole[..40]).unwrap(), None);
        let head = Head { bytes: whole.len() - 5, body_bytes: 5, status: 202 };
        assert_eq!(Head::parse(whole).unwrap(), Some(head));
        assert!(Head::parse(b"HTTP/1.1 202 Accepted\r\n\r\n").is_err());
    }
}
