//! A WebSocket as a connector holds it: a session, then frames and their answers. Lean like the other clients: frames are
//! put together once, several are on their way at a time, and of an answer only its end is looked for.

use super::{Connection, Target};
use crate::BenchError;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const READ_BYTES: usize = 64 * 1024;

pub(crate) struct Socket {
    stream: TcpStream,
    received: Vec<u8>,
    /// What of `received` was handed out already.
    taken: usize,
}

/// A text frame as it goes over the wire.
#[derive(Clone)]
pub(crate) struct TextFrame(Vec<u8>);

impl TextFrame {
    /// Masked with zeroes, as a client must mask and may choose how.
    pub(crate) fn new(text: &str) -> Self {
        let length = text.len();
        let mut bytes = vec![0x81];
        match u16::try_from(length) {
            Ok(short @ 0..126) => bytes.push(0x80 | short as u8),
            Ok(length) => {
                bytes.push(0x80 | 126);
                bytes.extend(length.to_be_bytes());
            }
            Err(_) => {
                bytes.push(0x80 | 127);
                bytes.extend((length as u64).to_be_bytes());
            }
        }
        bytes.extend([0; 4]);
        bytes.extend(text.as_bytes());
        Self(bytes)
    }
}

impl Socket {
    /// A new session of the connectors' door and its socket.
    pub(crate) async fn of_session(target: &Target) -> Result<Self, BenchError> {
        let mut connection = Connection::open(target.clone()).await?;
        let answer = connection.get("/connector").await?;
        if answer.status != 200 {
            return Err(answer.wrong("a session"));
        }
        let session = String::from_utf8_lossy(answer.body).into_owned();
        Self::open(target, &format!("/connector/{session}")).await
    }

    pub(crate) async fn open(target: &Target, path: &str) -> Result<Self, BenchError> {
        let mut stream = TcpStream::connect(target.address).await?;
        stream.set_nodelay(true)?;
        let key = match target.key.as_str() {
            "" => String::new(),
            key => format!("authorization: Bearer {key}\r\n"),
        };
        let request = format!(
            "GET {path} HTTP/1.1\r\nhost: {}\r\n{key}connection: Upgrade\r\nupgrade: websocket\r\n\
             sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
            target.address
        );
        stream.write_all(request.as_bytes()).await?;
        let mut socket = Self { stream, received: Vec::with_capacity(READ_BYTES), taken: 0 };
        let head = loop {
            if let Some(end) = socket.received.windows(4).position(|four| four == b"\r\n\r\n") {
                break end + 4;
            }
            socket.receive().await?;
        };
        if !socket.received.starts_with(b"HTTP/1.1 101") {
            let told = String::from_utf8_lossy(&socket.received).into_owned();
            return Err(BenchError::Broken(format!("no socket: {told}")));
        }
        socket.taken = head;
        Ok(socket)
    }

    /// Sends so many copies of a frame at once.
    pub(crate) async fn send(&mut self, frame: &TextFrame, copies: usize) -> Result<(), BenchError> {
        let bytes = frame.0.repeat(copies);
        Ok(self.stream.write_all(&bytes).await?)
    }

    /// The texts that are there, at least one.
    pub(crate) async fn receive_some(&mut self) -> Result<Vec<&[u8]>, BenchError> {
        self.received.drain(..self.taken);
        self.taken = 0;
        let mut ends = Vec::new();
        while ends.is_empty() {
            ends = self.whole_frames()?;
            if ends.is_empty() {
                self.receive().await?;
            }
        }
        self.taken = ends.last().map_or(0, |(_, end)| *end);
        Ok(ends.iter().map(|(start, end)| &self.received[*start..*end]).collect())
    }

    /// Where the texts of whole frames begin and end.
    fn whole_frames(&self) -> Result<Vec<(usize, usize)>, BenchError> {
        let mut frames = Vec::new();
        let mut at = 0;
        while let [kind, length, rest @ ..] = &self.received[at..] {
            let (head, length) = match (length, rest) {
                (126, [high, low, ..]) => (4, usize::from(u16::from_be_bytes([*high, *low]))),
                (126, _) => break,
                (127, _) => return Err(BenchError::Broken("an answer that is far too long".to_owned())),
                (short, _) => (2, usize::from(*short)),
            };
            let end = at + head + length;
            if end > self.received.len() {
                break;
            }
            match kind {
                0x81 => frames.push((at + head, end)),
                // Whether we are still here; a run is over before that matters.
                0x89 => {}
                other => return Err(BenchError::Broken(format!("a frame of kind {other:#x} ends the run"))),
            }
            at = end;
        }
        Ok(frames)
    }

    async fn receive(&mut self) -> Result<(), BenchError> {
        self.received.reserve(READ_BYTES);
        match self.stream.read_buf(&mut self.received).await? {
            0 => Err(BenchError::Broken("the server closed a socket".to_owned())),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_has_a_length_of_its_size_and_a_mask_that_changes_nothing() {
        assert_eq!(TextFrame::new("ping").0, b"\x81\x84\0\0\0\0ping");
        let long = TextFrame::new(&"x".repeat(300)).0;
        assert_eq!((&long[..4], long.len()), (&[0x81, 0x80 | 126, 1, 44][..], 308));
    }
}
