//! What goes out over sockets, and what a socket holds: messages of others, ids, frames that never end.

use super::Attack;
use super::flood::{beside, upgraded};
use super::judgement::Judgement;
use super::socket::{Posing, Socket};
use super::target::{Arena, Target};
use super::wire::Request;
use crate::faults::Extent;
use anyhow::Result;
use serde_json::{Value, json};
use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "half_messages_behind_pings",
        statement: "57",
        extent: Extent::Short,
        run: half_messages_behind_pings,
    },
    Attack {
        name: "a_neighbour_settles_messages_of_another_source",
        statement: "51",
        extent: Extent::Short,
        run: neighbour_settles,
    },
    Attack {
        name: "a_trusted_name_outlives_the_key_of_its_source",
        statement: "51",
        extent: Extent::Short,
        run: outlives_the_key,
    },
];

const OUTBOUND: &str = "assistant.message.outbound";
const HALF_BYTES: u64 = 1_000_000;
const SOCKETS: usize = 100;

fn half_messages_behind_pings(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let target = arena.server()?;
    let session = target.ask(&Request::get("/connector"))?;
    judgement.control(session.code == 200, || "no session was opened".to_owned());
    let (port, session) = (target.port, session.text());
    // A frame that says that more is to come, then a ping; both masked with zeros.
    let mut frames = vec![0x01, 0xff];
    frames.extend_from_slice(&HALF_BYTES.to_be_bytes());
    frames.extend_from_slice(&[0; 4]);
    frames.resize(frames.len() + HALF_BYTES as usize, b'a');
    frames.extend_from_slice(&[0x89, 0x80, 0, 0, 0, 0]);
    beside(&target, judgement, (4, SOCKETS), |tide, _| {
        let mut open: Vec<TcpStream> = Vec::new();
        for _ in 0..SOCKETS {
            if let Ok(mut stream) = upgraded(port, &session) {
                // A server that has enough hangs up in the middle.
                tide.count();
                stream.write_all(&frames).unwrap_or_default();
                open.push(stream);
            }
        }
        tide.hold(open);
    })
}

/// A connector with a key, and one answer that it got and did not ack.
fn with_an_answer(target: &Target, name: &str, conversation: &str) -> Result<(Socket, Value)> {
    let source = format!("urn:connector:{name}");
    let key = target.connector_key(&source)?;
    let mut socket = Socket::open(target, Some(&key), "?ack=1")?;
    let posing = Posing { source: &source, connector_id: name, conversation, user: None };
    socket.say(&posing, &format!("{name}-1"), "hello", &Value::Null)?;
    let answer = socket.wait_for(|event| event["type"] == OUTBOUND)?;
    Ok((socket, answer))
}

fn settling(kind: &str, message: &Value) -> Value {
    json!({
        "specversion": "1.0",
        "type": format!("assistant.message.{kind}"),
        "source": "urn:connector:any",
        "id": "settling",
        "data": {"messageId": message["id"], "permanent": true},
    })
}

fn status_of(target: &Target, message: &Value) -> Result<String> {
    let id = message["data"]["messageId"].as_str().unwrap_or_default();
    let row = target.owner_get(&format!("/api/v2/outbox/{id}"))?;
    Ok(row["status"].as_str().unwrap_or_default().to_owned())
}

fn neighbour_settles(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let target = arena.server()?;
    let (mut victim, wanted) = with_an_answer(&target, "victim", "garden")?;
    let (mut neighbour, own) = with_an_answer(&target, "neighbour", "garden")?;
    for kind in ["ack", "nack"] {
        neighbour.send(&settling(kind, &wanted))?;
    }
    // Frames are taken in order: once its own is settled, the others were looked at.
    neighbour.send(&settling("nack", &own))?;
    let is_settled = (0..200).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        status_of(&target, &own).is_ok_and(|status| status == "dead")
    });
    judgement.control(is_settled, || "a connector cannot give up its own message".to_owned());
    let status = status_of(&target, &wanted)?;
    judgement.demand(status == "leased", || format!("a neighbour made it {status}"));
    victim.send(&settling("ack", &wanted))?;
    Ok(())
}

fn outlives_the_key(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let target = arena.server()?;
    let source = "urn:connector:house";
    let posing = Posing { source, connector_id: "house", conversation: "hall", user: None };
    let mut first = Socket::open(&target, None, "")?;
    first.say(&posing, "h-1", "hello", &Value::Null)?;
    first.wait_for(|event| event["type"] == OUTBOUND)?;
    let trust = Request::post("/api/v2/connectors/trust", &json!({"connectorId": "house"})).owner();
    target.ask(&trust)?;
    let mut trusted = Socket::open(&target, None, "?connectorId=house")?;
    trusted.say(&posing, "h-2", "hello again", &Value::Null)?;
    let answered = trusted.wait_for(|event| event["type"] == OUTBOUND);
    judgement.control(answered.is_ok(), || "a trusted connector gets no answer".to_owned());
    let key = target.connector_key(source)?;
    let mut keyed = Socket::open(&target, Some(&key), "?connectorId=house")?;
    keyed.say(&posing, "h-3", "the secret party", &Value::Null)?;
    let answered = keyed.wait_for(|event| event["type"] == OUTBOUND);
    judgement.control(answered.is_ok(), || "the key of the source opens nothing".to_owned());
    // It was told why, or hung up on; what counts is that it can say and hear nothing more.
    let said = trusted.say(&posing, "h-4", "me again", &Value::Null);
    let heard = trusted.overhear();
    judgement.demand(!heard.contains("secret party"), || format!("it heard {heard}"));
    judgement.demand(said.is_err() || !heard.contains("me again"), || format!("it was answered: {heard}"));
    // Nor does it come back when the key ends.
    target.ask(&Request::post("/api/v2/keys/revoke", &json!({"key": source})).owner())?;
    let rows = target.owner_get("/api/v2/connectors")?;
    judgement.control(rows["local"][0]["connectorId"] == "house", || format!("it is not listed: {rows}"));
    judgement.demand(rows["local"][0]["trustedSource"].is_null(), || format!("it is trusted again: {rows}"));
    Ok(())
}
