//! Providers that mean harm: what one of them says to a request that is passed on costs a bounded memory and time.

use super::Attack;
use super::far_side::{last_message, says};
use super::flood::beside;
use super::judgement::Judgement;
use super::target::{Arena, Setup, Target};
use super::wire::Request;
use crate::faults::Extent;
use crate::faults::http::{KEY, Message};
use anyhow::Result;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "a_relayed_line_that_never_ends",
        statement: "57",
        extent: Extent::Short,
        run: endless_line,
    },
    Attack { name: "a_relayed_answer_of_small_values", statement: "57", extent: Extent::Short, run: crumbs },
    Attack {
        name: "a_provider_that_falls_silent_is_given_up",
        statement: "57",
        extent: Extent::Short,
        run: silence,
    },
];

const PATH: &str = "/v1/chat/completions";
/// The model that the assistant itself asks for, and the one that only clients ask for.
const OWN: &str = "honest";
const EVIL: &str = "evil";
const MIB: usize = 1024 * 1024;
/// As long as one line gets.
const LINE_MIB: usize = 256;
/// As much as a whole answer may have, but for a little.
const CRUMBS_BYTES: usize = 16 * MIB - 4_096;
const IDLE: Duration = Duration::from_millis(1_500);
const TOTAL: Duration = Duration::from_secs(3);

/// What a provider does to a connection that asked for its other model.
type Harm = fn(&mut TcpStream, &Value);

/// A provider behind OpenAI's wire that echoes for its honest model, and does this for the other one.
fn provider(harm: impl Fn(&mut TcpStream, &Value) + Send + Sync + Copy + 'static) -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let Some(request) = heard(&mut stream) else { return };
                if request["model"] == EVIL {
                    return harm(&mut stream, &request);
                }
                let answer = says(&format!("re: {}", last_message(&request).0)).to_string();
                whole(&mut stream, &answer);
            });
        }
    });
    Ok(address)
}

fn heard(stream: &mut TcpStream) -> Option<Value> {
    let (mut bytes, mut chunk) = (Vec::new(), [0; 16 * 1024]);
    loop {
        if let Some(message) = Message::read(&bytes) {
            return serde_json::from_slice(message.body).ok();
        }
        match stream.read(&mut chunk) {
            Ok(count) if count > 0 => bytes.extend_from_slice(&chunk[..count]),
            Ok(_) | Err(_) => return None,
        }
    }
}

fn whole(stream: &mut TcpStream, body: &str) {
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    // Who has gone away needs no answer.
    stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes())).unwrap_or_default();
}

/// A server whose only provider this is.
fn setup(provider: SocketAddr) -> Setup {
    let profile = json!({"name": "far", "kind": "openai", "baseUrl": format!("http://{provider}/v1"),
        "apiKey": "none", "models": {"pro": OWN, "flash": OWN, "lite": OWN}});
    Setup { settings: json!({"providers": {"profiles": [profile]}}), ..Setup::with_real_model() }
}

fn asked(model: &str, stream: bool) -> Request {
    let messages = json!([{"role": "user", "content": "hello"}]);
    Request::post(PATH, &json!({"model": model, "stream": stream, "messages": messages})).key(KEY)
}

/// A request for the honest model goes through, so that what comes of the other one is its own doing.
fn passes_on(target: &Target, judgement: &mut Judgement) -> Result<()> {
    let answer = target.ask(&asked(OWN, false))?;
    judgement.control(answer.code == 200 && answer.text().contains("re: hello"), || {
        format!("nothing is passed on: {} {}", answer.code, answer.text())
    });
    Ok(())
}

fn endless_line(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let provider = provider(|stream, _| {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\ndata: ";
        let piece = vec![b'x'; MIB];
        let mut goes_on = stream.write_all(head.as_bytes()).is_ok();
        for _ in 0..LINE_MIB {
            goes_on = goes_on && stream.write_all(&piece).is_ok();
        }
    })?;
    let target = arena.server_with(&setup(provider))?;
    passes_on(&target, judgement)?;
    let (port, passed_on) = (target.port, AtomicU64::new(0));
    beside(&target, judgement, (2, 2), |tide, _| {
        while tide.goes_on() {
            let Ok(mut stream) = asked(EVIL, true).start(port) else { continue };
            let (mut chunk, mut bytes) = (vec![0; 256 * 1024], 0_u64);
            // However it ends: it may be cut off, and it may be handed on to its end.
            while tide.goes_on()
                && let Ok(count @ 1..) = stream.read(&mut chunk)
            {
                if bytes == 0 && chunk.starts_with(b"HTTP/1.1 200") {
                    tide.count();
                }
                bytes += count as u64;
            }
            passed_on.fetch_add(bytes, Ordering::SeqCst);
        }
    })?;
    judgement.measured(format!("{} MiB handed on", passed_on.into_inner() / MIB as u64));
    Ok(())
}

fn crumbs(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let provider = provider(|stream, _| {
        let filler = "{\"\":0},".repeat(CRUMBS_BYTES / 7);
        let answer = says("crumbs").to_string();
        let open = answer.strip_suffix('}').unwrap_or(&answer);
        whole(stream, &format!("{open},\"a\":[{filler}0]}}"));
    })?;
    let target = arena.server_with(&setup(provider))?;
    passes_on(&target, judgement)?;
    let (port, bytes) = (target.port, AtomicU64::new(0));
    beside(&target, judgement, (2, 2), |tide, _| {
        while tide.goes_on() {
            // Handed on or refused: what counts is what it costs.
            let answer = asked(EVIL, false).send(port);
            if let Ok(answer) = answer
                && matches!(answer.code, 200 | 502)
            {
                bytes.fetch_max(answer.body.len() as u64, Ordering::SeqCst);
                tide.count();
            }
        }
    })?;
    judgement.measured(format!("longest answer {} KiB", bytes.into_inner() / 1024));
    Ok(())
}

fn silence(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let heads: [(&str, Harm); 3] = [
        ("a line of a head", |stream, _| hold(stream, "HTTP/1.1 503 Service Unavailable\r\n")),
        ("a head that promises a body", |stream, _| {
            hold(
                stream,
                "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n",
            );
        }),
        ("a refusal that promises a body", |stream, _| {
            hold(
                stream,
                "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{",
            );
        }),
    ];
    for (what, harm) in heads {
        let mut setup = setup(provider(harm)?);
        setup.settings["modelIdleTimeoutMs"] = json!(IDLE.as_millis());
        setup.settings["modelTimeoutMs"] = json!(TOTAL.as_millis());
        let target = arena.server_with(&setup)?;
        passes_on(&target, judgement)?;
        for stream in [false, true] {
            let started = Instant::now();
            let answer = asked(EVIL, stream).send(target.port);
            let took = started.elapsed();
            judgement.measured(format!("{what}, stream {stream}: {} ms", took.as_millis()));
            let (code, error) = match &answer {
                Ok(answer) => (answer.code, answer.json()["error"].clone()),
                Err(_) => (0, Value::Null),
            };
            // Its total time at the latest, and a moment for a busy machine.
            judgement
                .demand(took < TOTAL + IDLE, || format!("{what}, stream {stream}: it hangs for {took:?}"));
            let is_coded =
                (400..600).contains(&code) && (error["code"].is_string() || error["message"].is_string());
            judgement.demand(is_coded, || format!("{what}, stream {stream}: {code} {error}"));
        }
    }
    Ok(())
}

/// Says this much and nothing more, until the other side has had enough.
fn hold(stream: &mut TcpStream, head: &str) {
    stream.write_all(head.as_bytes()).unwrap_or_default();
    let mut rest = [0; 64];
    while stream.read(&mut rest).is_ok_and(|count| count > 0) {}
}
