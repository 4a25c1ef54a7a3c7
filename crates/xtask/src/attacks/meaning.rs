//! Keys that a library of the server may know as its own: below them it would read a text a second time, past every bound.

use super::Attack;
use super::flood::beside;
use super::judgement::Judgement;
use super::socket::{Posing, Socket};
use super::target::{Arena, Target};
use super::wire::Request;
use crate::faults::Extent;
use crate::faults::http::KEY;
use anyhow::Result;
use serde_json::json;

pub(crate) const ATTACKS: &[Attack] = &[
    Attack { name: "no_key_nests_without_end", statement: "56, 57", extent: Extent::Short, run: nesting },
    Attack {
        name: "no_key_hides_what_a_text_costs",
        statement: "57",
        extent: Extent::Short,
        run: hidden_values,
    },
];

const KEYS: &[&str] = &["$serde_json::private::RawValue", "$serde_json::private::Number"];
/// Below the parser's own bound of 128.
const BRACKETS: usize = 120;
/// As deep as fits into a frame: every quote costs five bytes more with each level.
const LEVELS: usize = 200;

/// Lists within the text of a key, within lists within the text of a key …
fn nested(key: &str) -> String {
    let (open, close) = ("[".repeat(BRACKETS), "]".repeat(BRACKETS));
    let below = |inner: &str| {
        let inner = inner.replace('\\', "\\u005c").replace('"', "\\u0022");
        format!(r#"{{"{key}":"{inner}"}}"#)
    };
    // What the server can count nests little.
    below(&(0..LEVELS).fold("0".to_owned(), |inner, _| format!("{open}{}{close}", below(&inner))))
}

fn event_with(metadata: &str) -> String {
    format!(
        r#"{{"source":"x","externalMessageId":"1","idempotencyKey":"1","topicKey":"t","userId":"u","text":"t",
            "occurredAt":"2026-02-15T20:30:00Z","metadata":{{"a":{metadata}}}}}"#
    )
}

fn nesting(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let target = arena.server()?;
    let key = target.connector_key("x")?;
    let posted = |path: &str, key: &str, body: String| {
        target.ask(&Request::new("POST", path).key(key).header("content-type", "application/json").body(body))
    };
    let honest = posted("/ingest", &key, event_with("[{\"b\":\"0\"}]"))?;
    judgement.control(honest.code == 202, || format!("an honest event: {} {}", honest.code, honest.text()));
    for name in KEYS {
        let text = nested(name);
        // Whatever is answered: what counts is that somebody still answers.
        drop(posted("/ingest", &key, event_with(&text)));
        lives(&target, judgement, "/ingest");
        let body = format!(r#"{{"model":"cortex","messages":[{{"role":"user","content":{text}}}]}}"#);
        drop(posted("/v1/chat/completions", KEY, body));
        lives(&target, judgement, "/v1");
        let mut socket = Socket::open(&target, None, "")?;
        drop(socket.send_text(&frame_with(&text)));
        socket.overhear();
        lives(&target, judgement, "a socket without a key");
    }
    Ok(())
}

fn frame_with(metadata: &str) -> String {
    format!(
        r#"{{"specversion":"1.0","type":"assistant.message.inbound","source":"urn:nobody","id":"1",
            "time":"2026-02-23T14:00:00Z","datacontenttype":"application/json",
            "data":{{"connectorId":"c","conversationId":"t","text":"t","metadata":{{"a":{metadata}}}}}}}"#
    )
}

fn lives(target: &Target, judgement: &mut Judgement, door: &str) {
    let health = target.ask(&Request::get("/health"));
    judgement.demand(health.is_ok_and(|health| health.code == 200), || format!("{door}: the server is gone"));
}

/// Small values cost a hundred times their text once they are built, and here the text that is weighed is one value.
fn hidden_values(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    const FRAME_BYTES: usize = 900_000;
    let target = arena.server()?;
    let target_beside = &target;
    let crumbs = format!("[{}0]", "{\"\":0},".repeat(FRAME_BYTES / 9)).replace('"', "\\\"");
    let frame = frame_with(&format!(r#"{{"{}":"{crumbs}"}}"#, KEYS[0]));
    let mut honest = Socket::open(&target, None, "")?;
    let nobody = Posing { source: "urn:nobody", connector_id: "c", conversation: "t", user: None };
    honest.say(&nobody, "0", "hello", &json!({}))?;
    let answer = honest.wait_for(|frame| frame["type"] == "assistant.message.outbound");
    judgement.control(answer.is_ok(), || format!("an honest frame: {answer:?}"));
    beside(&target, judgement, (8, 8), |tide, _| {
        while tide.goes_on() {
            let Ok(mut socket) = Socket::open(target_beside, None, "") else { continue };
            while tide.goes_on() && socket.send_text(&frame).is_ok() {
                tide.count();
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn what_is_sent_is_json_and_fits_into_a_frame() {
        let text = nested(KEYS[0]);
        assert!(text.len() < 1_000_000, "{}", text.len());
        assert!(serde_json::from_str::<Value>(&event_with(&text)).is_ok());
        assert!(serde_json::from_str::<Value>(&frame_with(&text)).is_ok());
    }
}
