//! The protocol itself: a session, a socket, an answer.

use super::wire::{Heard, Socket, new_id, shown};
use super::{Look, Promise, Report, Room};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// How long to listen for what should not come.
pub(super) const QUIET: Duration = Duration::from_millis(500);

/// What later checks go on with.
pub(super) struct Basics {
    pub(super) session: String,
    /// The event that was answered, and its answer.
    pub(super) asked: Value,
    pub(super) answer: Value,
    /// How long the answer took.
    pub(super) took: Duration,
    /// The close code of an invalid session.
    pub(super) refused_with: Option<u16>,
}

/// None when nothing more can be found out.
pub(super) async fn check(room: &Room, report: &mut Report<'_>) -> Option<Basics> {
    let session = match room.wire.session("", false).await {
        Ok(session) if is_uuid(&session) => session,
        Ok(other) => {
            report.put(Promise::Session, Look::Fails(format!("{:?}", shown(&other))));
            return None;
        }
        Err(seen) => {
            report.put(Promise::Session, Look::Fails(seen));
            return None;
        }
    };
    report.put(Promise::Session, Look::Holds);
    let refused_with = match invalid_session(room).await {
        Ok(code) => {
            report.put(Promise::InvalidSession, Look::Holds);
            code
        }
        Err(seen) => {
            report.put(Promise::InvalidSession, Look::Fails(seen));
            None
        }
    };
    let asked = room.wire.inbound(&room.conversation, "This is a connector check. Answer in one word.");
    let started = Instant::now();
    let (mut socket, answer) = match first_answer(room, &session, &asked).await {
        Ok(answered) => answered,
        Err(seen) => {
            report.put(Promise::Reply, Look::Fails(seen));
            return None;
        }
    };
    let took = started.elapsed();
    report.put(Promise::Reply, Look::required(whole(&answer)));
    report.put(Promise::Echo, Look::required(echoed(&asked, &answer)));
    report.put(Promise::UnknownType, Look::required(unknown_type(room, &mut socket).await));
    socket.close().await;
    Some(Basics { session, asked, answer, took, refused_with })
}

async fn first_answer(room: &Room, session: &str, asked: &Value) -> Result<(Socket, Value), String> {
    let mut socket = room.wire.socket("", session, &[]).await?;
    socket.send(asked).await?;
    let answer = socket.reply(&asked["id"], room.patience).await?;
    Ok((socket, answer))
}

/// The close code, where there was one: a server may also refuse the upgrade.
async fn invalid_session(room: &Room) -> Result<Option<u16>, String> {
    let Ok(mut socket) = room.wire.socket("", &new_id(), &[]).await else { return Ok(None) };
    match socket.hear(room.soon()).await {
        Heard::Closed { code } => Ok(code),
        heard @ (Heard::Event(_) | Heard::Words(_) | Heard::Pong | Heard::Silence) => {
            Err(format!("{heard}; the socket is open"))
        }
    }
}

/// Every attribute that the protocol names, with a value that can be one.
fn whole(answer: &Value) -> Result<(), String> {
    let fixed = [
        ("specversion", "1.0"),
        ("type", "assistant.message.outbound"),
        ("source", "urn:cortex-m"),
        ("datacontenttype", "application/json"),
    ];
    let wrong = fixed
        .iter()
        .filter(|(name, value)| answer[name] != *value)
        .map(|(name, value)| format!("{name} is {} instead of {value:?}", answer[name]));
    let mut wrong: Vec<String> = wrong.collect();
    if !answer["id"].as_str().is_some_and(is_uuid) {
        wrong.push(format!("id is {} and no UUID", answer["id"]));
    }
    if !answer["time"].as_str().is_some_and(is_time) {
        wrong.push(format!("time is {} and no ISO 8601 time", answer["time"]));
    }
    if !answer["data"]["text"].is_string() {
        wrong.push(format!("data.text is {}", answer["data"]["text"]));
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) }
}

fn echoed(asked: &Value, answer: &Value) -> Result<(), String> {
    let wrong = ["connectorId", "conversationId"].iter().filter_map(|name| {
        let (sent, came) = (&asked["data"][name], &answer["data"][name]);
        (sent != came).then(|| format!("{name} {sent} came back as {came}"))
    });
    let wrong: Vec<String> = wrong.collect();
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) }
}

async fn unknown_type(room: &Room, socket: &mut Socket) -> Result<(), String> {
    let mut event = room.wire.inbound(&room.conversation, "Nobody answers this.");
    event["type"] = json!("assistant.check.unknown");
    socket.send(&event).await?;
    let mut said = socket.is_alive(room.soon()).await?;
    match socket.hear(QUIET).await {
        Heard::Silence | Heard::Pong => {}
        closed @ Heard::Closed { .. } => return Err(closed.to_string()),
        heard @ (Heard::Event(_) | Heard::Words(_)) => said.push(heard),
    }
    said.first().map_or(Ok(()), |heard| Err(format!("it was answered: {heard}")))
}

fn is_uuid(text: &str) -> bool {
    let groups: Vec<&str> = text.split('-').collect();
    groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12])
        && groups.iter().all(|group| group.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// `2026-02-23T14:00:01Z`, with or without parts of a second, at any offset.
fn is_time(text: &str) -> bool {
    let shape = |text: &str| -> String {
        text.chars().map(|letter| if letter.is_ascii_digit() { '0' } else { letter }).collect()
    };
    let Some((start, rest)) = text.split_at_checked(19) else { return false };
    let rest = rest.trim_start_matches(|letter: char| letter == '.' || letter.is_ascii_digit());
    shape(start) == "0000-00-00T00:00:00"
        && (rest == "Z" || matches!(shape(rest).as_str(), "+00:00" | "-00:00"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_and_a_time_are_known_by_their_shape() {
        assert!(is_uuid("3f2a1b4c-8d9e-4f0a-b1c2-d3e4f5a6b7c8"));
        for bad in
            ["", "3f2a1b4c", "3f2a1b4c-8d9e-4f0a-b1c2-d3e4f5a6b7cg", "3f2a1b4c8d9e-4f0a-b1c2-d3e4f5a6b7c8-"]
        {
            assert!(!is_uuid(bad), "{bad}");
        }
        for good in ["2026-02-23T14:00:01Z", "2026-02-23T14:00:01.123Z", "2026-02-23T14:00:01+01:00"] {
            assert!(is_time(good), "{good}");
        }
        for bad in ["", "2026-02-23", "2026-02-23T14:00:01", "now", "2026-02-23 14:00:01Z"] {
            assert!(!is_time(bad), "{bad}");
        }
    }
}
