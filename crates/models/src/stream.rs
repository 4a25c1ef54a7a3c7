//! Turns the bytes of a streaming answer into pieces: server-sent events, or one JSON body.

use crate::error::CallError;
use crate::model::{Piece, PieceStream};
use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt};

/// Longest single event: more than any provider sends, less than what could hurt.
const EVENT_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Longest answer in one JSON body.
const BODY_BYTES_MAX: usize = 16 * 1024 * 1024;

/// What is different in each wire.
pub(crate) trait Decoder: Send + 'static {
    /// The `data` of one event.
    fn event(&mut self, data: &str) -> Result<Vec<Piece>, CallError>;

    /// A whole JSON answer, from a server that does not stream.
    fn body(&mut self, json: &str) -> Result<Vec<Piece>, CallError>;
}

/// Pieces from bytes. Every chunk of bytes gives one batch, so the caller sees that the provider lives.
pub(crate) fn pieces<E, D>(
    bytes: impl Stream<Item = Result<Bytes, E>> + Send + 'static,
    decoder: D,
) -> PieceStream
where
    E: std::error::Error + Send + 'static,
    D: Decoder,
{
    let bytes =
        bytes.map(|chunk| chunk.map_err(|_| CallError::Cut("the connection broke".to_owned()))).boxed();
    let reading = Reading { bytes, framer: Framer::default(), decoder };
    stream::unfold(State::Reading(reading), |state| async move {
        match state {
            State::Reading(mut reading) => {
                let (batch, next) = match reading.bytes.next().await {
                    Some(chunk) => reading.read(chunk),
                    None => reading.finish(),
                };
                Some((Ok(batch), next))
            }
            State::Failed(error) => Some((Err(error), State::Over)),
            State::Over => None,
        }
    })
    .boxed()
}

enum State<D> {
    Reading(Reading<D>),
    /// What came before the fault has been handed out: whether it was enough is for the caller to say.
    Failed(CallError),
    Over,
}

struct Reading<D> {
    bytes: BoxStream<'static, Result<Bytes, CallError>>,
    framer: Framer,
    decoder: D,
}

impl<D: Decoder> Reading<D> {
    fn read(mut self, chunk: Result<Bytes, CallError>) -> (Vec<Piece>, State<D>) {
        let mut events = Vec::new();
        let framed = chunk.and_then(|chunk| self.framer.push(&chunk, &mut events));
        let mut batch = Vec::new();
        for data in events {
            match self.decoder.event(&data) {
                Ok(mut pieces) => batch.append(&mut pieces),
                Err(error) => return (batch, State::Failed(error)),
            }
        }
        (batch, framed.map_or_else(State::Failed, |()| State::Reading(self)))
    }

    fn finish(mut self) -> (Vec<Piece>, State<D>) {
        let pieces = self.framer.finish().and_then(|tail| match tail {
            Tail::Nothing => Ok(Vec::new()),
            Tail::Event(data) => self.decoder.event(&data),
            Tail::Body(json) => self.decoder.body(&json),
        });
        match pieces {
            Ok(pieces) => (pieces, State::Over),
            Err(error) => (Vec::new(), State::Failed(error)),
        }
    }
}

/// Cuts bytes into events. A chunk may end anywhere, also inside a character.
#[derive(Debug, Default)]
pub(crate) struct Framer {
    form: Form,
    buffer: Vec<u8>,
    /// How much of `buffer` has no line end in it, so that a long line is searched once.
    searched: usize,
    data: Option<String>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Form {
    #[default]
    Unknown,
    Events,
    Body,
}

#[derive(Debug, PartialEq, Eq)]
enum Tail {
    Nothing,
    Event(String),
    Body(String),
}

impl Framer {
    pub(crate) fn push(&mut self, chunk: &[u8], events: &mut Vec<String>) -> Result<(), CallError> {
        self.buffer.extend_from_slice(chunk);
        if self.form == Form::Unknown {
            // No line of an event stream begins with a bracket, and every JSON answer does.
            self.form = match self.buffer.iter().find(|byte| !byte.is_ascii_whitespace()) {
                None => Form::Unknown,
                Some(b'{' | b'[') => Form::Body,
                Some(_) => Form::Events,
            };
        }
        let limit = match self.form {
            Form::Unknown | Form::Body => BODY_BYTES_MAX,
            Form::Events => EVENT_BYTES_MAX,
        };
        if self.form == Form::Events {
            self.take_lines(events)?;
        }
        if self.buffer.len() + self.data.as_ref().map_or(0, String::len) > limit {
            return Err(CallError::Malformed(format!("over {limit} bytes without an end")));
        }
        Ok(())
    }

    fn take_lines(&mut self, events: &mut Vec<String>) -> Result<(), CallError> {
        let mut begin = 0;
        while let Some(length) =
            self.buffer[self.searched.max(begin)..].iter().position(|byte| *byte == b'\n')
        {
            let end = self.searched.max(begin) + length;
            let line = line_text(&self.buffer[begin..end])?;
            events.extend(take_line(&mut self.data, line));
            begin = end + 1;
        }
        self.buffer.drain(..begin);
        self.searched = self.buffer.len();
        Ok(())
    }

    fn finish(mut self) -> Result<Tail, CallError> {
        let rest = line_text(&self.buffer)?;
        match self.form {
            Form::Unknown => Ok(Tail::Nothing),
            Form::Body => Ok(Tail::Body(rest.to_owned())),
            Form::Events => {
                // Some servers leave out the last blank line; half an event fails when it is decoded.
                let unterminated = take_line(&mut self.data, rest).or(self.data.take());
                Ok(unterminated.map_or(Tail::Nothing, Tail::Event))
            }
        }
    }
}

/// Takes one line; a blank line ends the event and gives its data.
fn take_line(data: &mut Option<String>, line: &str) -> Option<String> {
    if line.is_empty() {
        return data.take();
    }
    if let Some(value) = line.strip_prefix("data:") {
        let value = value.strip_prefix(' ').unwrap_or(value);
        match data {
            Some(data) => {
                data.push('\n');
                data.push_str(value);
            }
            None => *data = Some(value.to_owned()),
        }
    }
    None
}

fn line_text(line: &[u8]) -> Result<&str, CallError> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line);
    std::str::from_utf8(line).map_err(|_| CallError::Cut("it is not whole UTF-8".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::{BODY_BYTES_MAX, EVENT_BYTES_MAX, Framer, Tail};

    #[test]
    fn events_are_the_same_wherever_the_bytes_are_cut() {
        let text =
            ": hello\r\nevent: x\r\ndata: {\"a\":\"ü\"}\r\n\r\ndata:one\ndata: two\n\n\n\ndata: [DONE]";
        for size in 1..=text.len() {
            let mut framer = Framer::default();
            let mut events = Vec::new();
            for chunk in text.as_bytes().chunks(size) {
                framer.push(chunk, &mut events).unwrap();
            }
            assert_eq!(events, ["{\"a\":\"ü\"}", "one\ntwo"], "chunks of {size}");
            assert_eq!(framer.finish().unwrap(), Tail::Event("[DONE]".to_owned()));
        }
    }

    #[test]
    fn a_json_body_is_recognised_by_its_first_byte() {
        let mut framer = Framer::default();
        let mut events = Vec::new();
        for chunk in ["\n  ", "{\"a\":\n", "1}"] {
            framer.push(chunk.as_bytes(), &mut events).unwrap();
        }
        assert!(events.is_empty());
        assert_eq!(framer.finish().unwrap(), Tail::Body("\n  {\"a\":\n1}".to_owned()));
    }

    #[test]
    fn half_a_character_at_the_end_is_an_error() {
        let mut framer = Framer::default();
        assert!(framer.push(b"data: {\"text\":\"\xc3", &mut Vec::new()).is_ok());
        assert!(framer.finish().is_err());
    }

    #[test]
    fn neither_an_endless_line_nor_an_endless_event_nor_an_endless_body_is_kept() {
        for (first, chunk, limit) in [
            (&b"data: "[..], &[b'x'; 65_536][..], EVENT_BYTES_MAX),
            (b"data: x\n", b"data: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n", EVENT_BYTES_MAX),
            (b"{", &[b' '; 65_536], BODY_BYTES_MAX),
        ] {
            let mut framer = Framer::default();
            assert!(framer.push(first, &mut Vec::new()).is_ok());
            let chunks_until_refused =
                (0..=limit / 50).find(|_| framer.push(chunk, &mut Vec::new()).is_err()).unwrap();
            assert!(chunks_until_refused <= limit / 50);
        }
    }
}
