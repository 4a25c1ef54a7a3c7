//! Counts the values of a message while it is read: a short text of many tiny values takes a hundred times its size
//! in memory once it is parsed.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, ReadBuf};

/// Most values of one message. Texts count as one, however long.
const VALUES_MAX: usize = 200_000;

/// What was seen of the message that is being read.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sieve {
    values: usize,
    is_in_text: bool,
    is_escaped: bool,
}

impl Sieve {
    /// Takes the next byte; an error once there are too many values.
    pub(super) fn take(&mut self, byte: u8) -> io::Result<()> {
        if self.is_in_text {
            let was_escaped = std::mem::take(&mut self.is_escaped);
            match byte {
                b'\\' => self.is_escaped = !was_escaped,
                b'"' if !was_escaped => self.is_in_text = false,
                _ => {}
            }
            return Ok(());
        }
        match byte {
            b'"' => self.is_in_text = true,
            b',' | b':' | b'{' | b'[' => self.values += 1,
            _ => {}
        }
        if self.values > VALUES_MAX {
            return Err(io::Error::other(format!("a message has over {VALUES_MAX} values")));
        }
        Ok(())
    }

    /// The next message begins.
    pub(super) fn restart(&mut self) {
        *self = Self::default();
    }
}

/// The output of a server, whose messages are lines.
pub(super) struct SievedLines<R> {
    pub(super) inner: R,
    pub(super) sieve: Sieve,
}

impl<R: AsyncRead + Unpin> AsyncRead for SievedLines<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.inner).poll_read(context, buffer);
        for byte in &buffer.filled()[before..] {
            if *byte == b'\n' {
                self.sieve.restart();
            } else if let Err(error) = self.sieve.take(*byte) {
                return Poll::Ready(Err(error));
            }
        }
        read
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> bool {
        let mut sieve = Sieve::default();
        text.bytes().all(|byte| sieve.take(byte).is_ok())
    }

    #[test]
    fn many_values_are_refused_and_long_texts_are_not() {
        assert!(!check(&format!("[{}0]", "{\"\":0},".repeat(100_000))));
        assert!(check(&format!("[{}0]", "{\"\":0},".repeat(10_000))));
        assert!(check(&format!("{{\"a\":\"{}\"}}", "{,:[\\\"".repeat(400_000))));
    }
}
