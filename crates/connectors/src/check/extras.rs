//! What a server may add to the protocol: errors as events, acks, previews, and answers that wait.

use super::basics::{Basics, QUIET};
use super::wire::{Heard, Socket};
use super::{Look, Promise, Report, Room};
use cortex_api::{
    ACCEPTED_TYPE, CLOSE_SESSION, CLOSE_TOO_BIG, DELTA_TYPE, ERROR_TYPE, OUTBOUND_TYPE, SETTLED_TYPE,
    SUBPROTOCOL,
};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// The other place of the door.
const BELOW: &str = "/api/cortex-m/v1";
const FRAME_BYTES_MAX: usize = 1024 * 1024;
/// How long a server may wait before it sends a message again that was given back.
const NACK_BACKOFF_MAX: Duration = Duration::from_secs(10);

pub(super) async fn check(room: &Room, basics: &Basics, report: &mut Report<'_>) {
    let code = match basics.refused_with {
        Some(CLOSE_SESSION) => Ok(()),
        Some(other) => Err(format!("it was closed with {other}")),
        None => Err("it was closed without a code".to_owned()),
    };
    report.put(Promise::SessionCode, Look::extra(code));
    report.put(Promise::OtherPath, Look::extra(other_path(room).await));
    report.put(Promise::Causation, Look::extra(causation(basics)));
    report.put(Promise::Subprotocol, Look::extra(subprotocol(room).await));
    on_one_socket(room, basics, report).await;
    with_stream(room, report).await;
    with_ack(room, report).await;
    after_a_reconnect(room, basics, report).await;
    report.put(Promise::TooBig, too_big(room).await);
}

async fn other_path(room: &Room) -> Result<(), String> {
    let session = room.wire.session(BELOW, true).await?;
    let mut socket = room.wire.socket(BELOW, &session, &[]).await?;
    socket.is_alive(room.soon()).await?;
    socket.close().await;
    Ok(())
}

async fn subprotocol(room: &Room) -> Result<(), String> {
    let session = room.wire.session("", true).await?;
    let socket = room.wire.socket_offering(&session, SUBPROTOCOL).await?;
    socket.close().await;
    Ok(())
}

fn causation(basics: &Basics) -> Result<(), String> {
    let (named, message) = (&basics.answer["causationid"], &basics.answer["data"]["messageId"]);
    if named != &basics.asked["id"] {
        return Err(format!("causationid is {named}"));
    }
    if message.is_string() { Ok(()) } else { Err(format!("data.messageId is {message}")) }
}

async fn on_one_socket(room: &Room, basics: &Basics, report: &mut Report<'_>) {
    let mut line = Line { room, session: &basics.session, socket: None };
    report.put(Promise::Ping, ping(&mut line).await.unwrap_or_else(Look::Absent));
    let malformed = refused(&mut line, "{\"specversion\": \"1.0\", ").await;
    report.put(Promise::MalformedJson, Look::extra(malformed));
    report.put(Promise::MissingAttribute, Look::extra(missing_attributes(room, &mut line).await));
    report.put(Promise::BoundSession, Look::extra(bound_session(room, &mut line).await));
    report.put(Promise::SameId, Look::extra(same_id(room, basics, &mut line).await));
    if let Some(open) = line.socket {
        open.close().await;
    }
}

/// A socket of one session; a check that ends it does not take the next one along.
struct Line<'a> {
    room: &'a Room,
    session: &'a str,
    socket: Option<Socket>,
}

impl Line<'_> {
    async fn open(&mut self) -> Result<&mut Socket, String> {
        let still_open = match self.socket.take() {
            Some(mut socket) => socket.is_alive(self.room.soon()).await.is_ok().then_some(socket),
            None => None,
        };
        let socket = match still_open {
            Some(socket) => socket,
            None => self.room.wire.socket("", self.session, &[]).await?,
        };
        Ok(self.socket.insert(socket))
    }
}

async fn ping(line: &mut Line<'_>) -> Result<Look, String> {
    let soon = line.room.soon();
    let socket = line.open().await?;
    for word in ["ping", "PING", "Ping"] {
        socket.say(word.to_owned()).await?;
        match socket.hear(soon).await {
            Heard::Words(words) if words == "pong" => {}
            heard @ Heard::Words(_) => return Ok(Look::Fails(format!("{word} was answered with {heard}"))),
            heard @ (Heard::Event(_) | Heard::Pong | Heard::Closed { .. } | Heard::Silence) => {
                return Err(format!("{word}: {heard}"));
            }
        }
    }
    Ok(Look::Holds)
}

/// Whether a frame is answered with an error event, and the socket lives.
async fn refused(line: &mut Line<'_>, frame: &str) -> Result<(), String> {
    let soon = line.room.soon();
    let socket = line.open().await?;
    socket.say(frame.to_owned()).await?;
    match socket.hear(soon).await {
        Heard::Event(event) if event["type"] == ERROR_TYPE => {}
        heard @ (Heard::Event(_) | Heard::Words(_) | Heard::Pong | Heard::Closed { .. } | Heard::Silence) => {
            return Err(heard.to_string());
        }
    }
    socket.is_alive(soon).await.map(drop)
}

async fn missing_attributes(room: &Room, line: &mut Line<'_>) -> Result<(), String> {
    for path in
        ["/specversion", "/source", "/id", "/data", "/data/connectorId", "/data/conversationId", "/data/text"]
    {
        let mut event = room.wire.inbound(&room.conversation, "Nobody answers this.");
        let (parent, name) = path.rsplit_once('/').unwrap_or_default();
        if let Some(object) = event.pointer_mut(parent).and_then(Value::as_object_mut) {
            object.remove(name);
        }
        refused(line, &event.to_string()).await.map_err(|seen| format!("without {name}: {seen}"))?;
    }
    Ok(())
}

async fn bound_session(room: &Room, line: &mut Line<'_>) -> Result<(), String> {
    let mut event = room.wire.inbound(&room.conversation, "Nobody answers this.");
    event["data"]["connectorId"] = json!("somebody-else");
    refused(line, &event.to_string()).await
}

async fn same_id(room: &Room, basics: &Basics, line: &mut Line<'_>) -> Result<(), String> {
    let socket = line.open().await?;
    socket.send(&basics.asked).await?;
    same(&basics.answer, &socket.reply(&basics.asked["id"], room.patience).await?)
}

fn same(first: &Value, again: &Value) -> Result<(), String> {
    if first["id"] != again["id"] {
        return Err(format!("its id was {} and is {}", first["id"], again["id"]));
    }
    if first["data"]["text"] != again["data"]["text"] {
        return Err("it has other words".to_owned());
    }
    Ok(())
}

/// One question shows all: it has only what is required, its answer may come in pieces, and receipts may be told of it.
async fn with_stream(room: &Room, report: &mut Report<'_>) {
    let mut asked = room
        .wire
        .inbound(&room.conversation, "This is a connector check. Count from one to twenty in words.");
    if let Some(attributes) = asked.as_object_mut() {
        attributes.remove("time");
        attributes.remove("datacontenttype");
    }
    match streamed(room, &asked).await {
        Ok(told) => {
            report.put(Promise::OptionalAttributes, Look::Holds);
            let seen = "the answer came in one piece".to_owned();
            report.put(Promise::Stream, Look::extra(if told.pieces > 0 { Ok(()) } else { Err(seen) }));
            let seen = format!("of accepted and settled, {:?} came", told.receipts);
            let is_all = told.receipts == [ACCEPTED_TYPE, SETTLED_TYPE];
            report.put(Promise::Receipts, Look::extra(if is_all { Ok(()) } else { Err(seen) }));
        }
        Err(seen) => {
            report.put(Promise::OptionalAttributes, Look::Absent(seen));
            report.skip(Promise::Stream);
            report.skip(Promise::Receipts);
        }
    }
}

/// What was told about a question beside its answer.
#[derive(Default)]
struct Told {
    /// Pieces that came before the answer.
    pieces: usize,
    /// Receipts of the question, in order.
    receipts: Vec<String>,
}

async fn streamed(room: &Room, asked: &Value) -> Result<Told, String> {
    let session = room.wire.session("", true).await?;
    let mut socket = room.wire.socket("", &session, &[("stream", "1"), ("receipts", "1")]).await?;
    socket.send(asked).await?;
    let mut until = Instant::now() + room.patience;
    let (mut told, mut is_answered) = (Told::default(), false);
    while !is_answered || (told.receipts.len() == 1 && Instant::now() < until) {
        match socket.hear(until.saturating_duration_since(Instant::now())).await {
            Heard::Event(event) if event["type"] == DELTA_TYPE => told.pieces += 1,
            Heard::Event(event) if event["type"] == OUTBOUND_TYPE => {
                is_answered = true;
                until = Instant::now() + room.soon();
            }
            Heard::Event(event) if event["type"] == ERROR_TYPE => return Err(Heard::Event(event).to_string()),
            Heard::Event(event) if event["causationid"] == asked["id"] => {
                told.receipts.extend(event["type"].as_str().map(str::to_owned));
            }
            Heard::Event(_) | Heard::Words(_) | Heard::Pong => {}
            Heard::Closed { .. } | Heard::Silence if is_answered => break,
            heard @ (Heard::Closed { .. } | Heard::Silence) => return Err(heard.to_string()),
        }
    }
    socket.close().await;
    Ok(told)
}

async fn with_ack(room: &Room, report: &mut Report<'_>) {
    match redelivered(room).await {
        Ok(Look::Holds) => {
            report.put(Promise::AckRedelivery, Look::Holds);
            report.put(Promise::AckEnds, Look::extra(acked(room).await));
        }
        other => {
            report.put(Promise::AckRedelivery, other.unwrap_or_else(Look::Absent));
            report.skip(Promise::AckEnds);
        }
    }
}

/// An answer that nobody acked comes again on the next socket.
async fn redelivered(room: &Room) -> Result<Look, String> {
    let asked =
        room.wire.inbound(&room.conversation, "This is a connector check. Answer in one word, again.");
    let mut socket = ack_socket(room).await?;
    socket.send(&asked).await?;
    let first = socket.reply(&asked["id"], room.patience).await?;
    socket.close().await;
    let mut socket = ack_socket(room).await?;
    let again = socket.reply(&asked["id"], room.soon()).await?;
    let look = same(&first, &again).map_or_else(Look::Fails, |()| Look::Holds);
    socket.send(&room.wire.ack(&again)).await?;
    // Frames are taken in order: once this is answered the ack was taken.
    socket.is_alive(room.soon()).await?;
    socket.close().await;
    Ok(look)
}

/// After the ack of the check before nothing is left to come.
async fn acked(room: &Room) -> Result<(), String> {
    let mut socket = ack_socket(room).await?;
    let said = match socket.hear(2 * QUIET).await {
        Heard::Silence | Heard::Pong => Ok(()),
        heard @ (Heard::Event(_) | Heard::Words(_) | Heard::Closed { .. }) => Err(heard.to_string()),
    };
    socket.close().await;
    said
}

async fn ack_socket(room: &Room) -> Result<Socket, String> {
    let session = room.wire.session("", true).await?;
    let options = [("ack", "1"), ("connectorId", room.wire.connector_id.as_str())];
    room.wire.socket("", &session, &options).await
}

async fn after_a_reconnect(room: &Room, basics: &Basics, report: &mut Report<'_>) {
    match reconnect(room, basics).await {
        Ok((socket, answer)) => {
            let given_back = nacked(room, socket, &answer).await;
            report.put(Promise::Nack, Look::extra(given_back));
            report.put(Promise::Reconnect, Look::Holds);
        }
        Err(seen) => {
            report.skip(Promise::Nack);
            report.put(Promise::Reconnect, Look::Absent(seen));
        }
    }
}

/// A message that was given back comes again after a while.
async fn nacked(room: &Room, mut socket: Socket, answer: &Value) -> Result<(), String> {
    socket.send(&room.wire.nack(answer)).await?;
    let again = socket.reply(&answer["causationid"], NACK_BACKOFF_MAX + room.soon()).await;
    // Whichever of them counts, it is delivered.
    socket.send(&room.wire.ack(answer)).await?;
    socket.is_alive(room.soon()).await?;
    socket.close().await;
    same(answer, &again?)
}

async fn reconnect(room: &Room, basics: &Basics) -> Result<(Socket, Value), String> {
    let asked =
        room.wire.inbound(&room.conversation, "This is a connector check. Answer in one word, once more.");
    let mut socket = ack_socket(room).await?;
    socket.send(&asked).await?;
    // The event is taken once this is answered; its answer is not waited for.
    socket.is_alive(room.soon()).await?;
    socket.close().await;
    let longest = (3 * basics.took).clamp(room.soon(), room.patience);
    let mut socket = ack_socket(room).await?;
    let answer = socket.reply(&asked["id"], longest).await?;
    Ok((socket, answer))
}

async fn too_big(room: &Room) -> Look {
    let big = room.wire.inbound(&room.conversation, &"x".repeat(FRAME_BYTES_MAX));
    let closed = async {
        let session = room.wire.session("", true).await?;
        let mut socket = room.wire.socket("", &session, &[]).await?;
        // A server that closes early breaks the write; the code is what counts.
        let sent = socket.send(&big).await;
        Ok::<Heard, String>(match (socket.hear(room.soon()).await, sent) {
            (Heard::Closed { code: None }, Err(error)) => Heard::Words(error),
            (heard, _) => heard,
        })
    };
    match closed.await {
        Ok(Heard::Closed { code: Some(CLOSE_TOO_BIG) }) => Look::Holds,
        Ok(heard) => Look::Absent(heard.to_string()),
        Err(seen) => Look::Absent(seen),
    }
}
