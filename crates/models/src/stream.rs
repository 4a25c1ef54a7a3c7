//! Turns the bytes of a streaming answer into pieces: server-sent events, or one JSON body.

use crate::error::CallError;
use crate::model::{Piece, PieceStream};
use crate::room::Room;
use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt};
use std::sync::Arc;

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
    room: Arc<dyn Room>,
) -> PieceStream
where
    E: std::error::Error + Send + 'static,
    D: Decoder,
{
    let bytes =
        bytes.map(|chunk| chunk.map_err(|_| CallError::Cut("the connection broke".to_owned()))).boxed();
    let reading = Reading { bytes, framer: Framer::default(), decoder, room };
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
    room: Arc<dyn Room>,
}

impl<D: Decoder> Reading<D> {
    fn read(mut self, chunk: Result<Bytes, CallError>) -> (Vec<Piece>, State<D>) {
        let mut events = Vec::new();
        let framed = chunk.and_then(|chunk| self.framer.push(&chunk, &mut events));
        let framed = framed.and_then(|()| Ok(self.room.hold(self.framer.held())?));
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

/// Cuts bytes into events. A chunk may end anywhere, also inside a character. It holds no more than one body or one event,
/// and nothing any more once it has refused something.
#[derive(Debug, Default)]
pub(crate) struct Framer {
    form: Form,
    /// A body, or the beginning of a line.
    buffer: Vec<u8>,
    data: Option<String>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Form {
    #[default]
    Unknown,
    Events,
    Body,
    Refused,
}

#[derive(Debug, PartialEq, Eq)]
enum Tail {
    Nothing,
    Event(String),
    Body(String),
}

impl Framer {
    pub(crate) fn push(&mut self, chunk: &[u8], events: &mut Vec<String>) -> Result<(), CallError> {
        let framed = self.cut(chunk, events);
        if framed.is_err() {
            *self = Self { form: Form::Refused, ..Self::default() };
        }
        framed
    }

    /// How many bytes it holds.
    pub(crate) fn held(&self) -> usize {
        self.buffer.len() + self.data.as_ref().map_or(0, String::len)
    }

    fn cut(&mut self, chunk: &[u8], events: &mut Vec<String>) -> Result<(), CallError> {
        if self.form == Form::Unknown {
            // No line of an event stream begins with a bracket, and every JSON answer does.
            self.form = match chunk.iter().find(|byte| !byte.is_ascii_whitespace()) {
                None => Form::Unknown,
                Some(b'{' | b'[') => Form::Body,
                Some(_) => {
                    // Blank lines before the first event.
                    self.buffer = Vec::new();
                    Form::Events
                }
            };
        }
        match self.form {
            Form::Unknown | Form::Body => self.keep(chunk, BODY_BYTES_MAX),
            Form::Events => chunk
                .split_inclusive(|byte| *byte == b'\n')
                .try_for_each(|piece| self.take_piece(piece, events)),
            Form::Refused => Err(CallError::Malformed("it has no events".to_owned())),
        }
    }

    /// A line's next bytes, or its last ones.
    fn take_piece(&mut self, piece: &[u8], events: &mut Vec<String>) -> Result<(), CallError> {
        let Some(end) = piece.strip_suffix(b"\n") else { return self.keep(piece, EVENT_BYTES_MAX) };
        if self.buffer.is_empty() {
            self.has_room_for(end, EVENT_BYTES_MAX)?;
            events.extend(take_line(&mut self.data, line_text(end)?));
        } else {
            self.keep(end, EVENT_BYTES_MAX)?;
            let line = std::mem::take(&mut self.buffer);
            events.extend(take_line(&mut self.data, line_text(&line)?));
        }
        Ok(())
    }

    fn keep(&mut self, bytes: &[u8], limit: usize) -> Result<(), CallError> {
        self.has_room_for(bytes, limit)?;
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    fn has_room_for(&self, bytes: &[u8], limit: usize) -> Result<(), CallError> {
        if bytes.len() > limit.saturating_sub(self.held()) {
            return Err(CallError::Malformed(format!("over {limit} bytes without an end")));
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Tail, CallError> {
        let rest = line_text(&self.buffer)?;
        match self.form {
            Form::Unknown | Form::Refused => Ok(Tail::Nothing),
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

    /// What a framer has in hand, in bytes that were allocated.
    fn in_hand(framer: &Framer) -> usize {
        framer.buffer.capacity() + framer.data.as_ref().map_or(0, String::capacity)
    }

    #[test]
    fn a_framer_stays_small_whatever_it_is_given_and_however_often() {
        const CHUNK: usize = 1024 * 1024;
        let bad_line = [&[0xff; 100][..], b"\n", &[b'x'; CHUNK]].concat();
        let one_event = [&b"data: "[..], &[b'x'; 30], b"\n"].concat().repeat(CHUNK / 37);
        for (first, chunk) in [
            (&b"data: "[..], vec![b'x'; CHUNK]),
            (b"data: ", vec![b'x'; 64 * CHUNK]),
            (b"data: ", bad_line),
            (b"data: x\n", one_event.clone()),
            (b"data: x\n", one_event.repeat(64)),
            (b"{", vec![b' '; CHUNK]),
            (b" ", vec![b' '; CHUNK]),
            (b" ", vec![b' '; 64 * CHUNK]),
        ] {
            let mut framer = Framer::default();
            framer.push(first, &mut Vec::new()).unwrap();
            let mut refusals = 0;
            for _ in 0..64 {
                refusals += usize::from(framer.push(&chunk, &mut Vec::new()).is_err());
                assert!(in_hand(&framer) <= 2 * BODY_BYTES_MAX, "{} bytes", in_hand(&framer));
            }
            assert!(refusals >= 47, "{refusals}");
            assert_eq!(in_hand(&framer), 0, "what cannot be read is not kept");
        }
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
