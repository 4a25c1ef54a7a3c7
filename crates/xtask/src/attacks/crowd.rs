//! Crowds: what everybody else begins leaves the owner a turn, a place at the store and an answer.

use super::Attack;
use super::flood::beside;
use super::judgement::Judgement;
use super::socket::{Posing, Socket};
use super::target::{Arena, Said, Setup};
use super::wire::Request;
use crate::faults::Extent;
use crate::faults::http::KEY;
use anyhow::Result;
use serde_json::json;
use std::sync::atomic::{AtomicUsize, Ordering};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack { name: "turns_that_take_long", statement: "57", extent: Extent::Short, run: slow_turns },
    Attack { name: "events_on_many_sockets", statement: "57", extent: Extent::Short, run: socket_events },
    Attack { name: "long_words_on_many_sockets", statement: "57", extent: Extent::Short, run: long_words },
    Attack { name: "frames_that_nobody_can_read", statement: "57", extent: Extent::Short, run: bad_frames },
    Attack { name: "sessions_without_end", statement: "57", extent: Extent::Short, run: sessions },
];

/// Longer than the owner may wait, by far.
const LONG_MS: u64 = 15_000;
/// Conversations of each, twice as many as there are turns at once.
const CONVERSATIONS: usize = 8;
const SOCKETS: usize = 50;
/// Sockets of each thread that asks for receipts and previews; all of them together are forty.
const WORDY_SOCKETS: usize = 10;
/// Letters of an id or a conversation.
const FIELD_LETTERS: usize = 512;
/// As many as a socket takes at once.
const FRAMES: usize = 30;

fn nobody<'a>(connector_id: &'a str, conversation: &'a str) -> Posing<'a> {
    Posing { source: "urn:nobody", connector_id, conversation, user: None }
}

fn slow_turns(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let script = json!({"answers": [{"when": {"startsWith": "slow"}, "say": "re: {{user}}", "delayMs": LONG_MS}],
        "otherwise": {"say": "re: {{user}}"}});
    let target = arena.server_with(&Setup { script, ..Setup::default() })?;
    let key = target.connector_key("slack")?;
    let (target_beside, key) = (&target, key.as_str());
    beside(&target, judgement, (3, 3 * CONVERSATIONS), |tide, thread| {
        let (mut socket, mut programs) = (None, Vec::new());
        for number in 0..CONVERSATIONS {
            let (id, topic) = (format!("slow-{number}"), format!("t-{number}"));
            let is_taken = match thread {
                0 => {
                    let said = Said { source: "slack", topic: &topic, ..Said::at_terminal(&id, "slow") };
                    target_beside.ingest(key, &said).is_ok_and(|taken| taken.code == 202)
                }
                1 => {
                    let body = json!({"model": "cortex", "stream": true, "user": topic,
                        "messages": [{"role": "user", "content": format!("slow {number}")}]});
                    let asked = Request::post("/v1/chat/completions", &body).key(KEY);
                    programs.extend(asked.start(target_beside.port));
                    programs.len() > number
                }
                _ => {
                    if socket.is_none() {
                        socket = Socket::open(target_beside, None, "").ok();
                    }
                    let say =
                        |socket: &mut Socket| socket.say(&nobody("slow", &topic), &id, "slow", &json!({}));
                    socket.as_mut().is_some_and(|socket| say(socket).is_ok())
                }
            };
            if is_taken {
                tide.count();
            }
        }
        tide.hold(vec![(socket, programs)]);
    })
}

/// Frames that are read to their last byte before they turn out to be nothing.
fn bad_frames(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    const FRAME_BYTES: usize = 250_000;
    let target = arena.server()?;
    let target_beside = &target;
    let frame = format!("{{\"text\":\"{}", "x".repeat(FRAME_BYTES));
    let mut alone = Socket::open(&target, None, "")?;
    let sent = (0..1_000).take_while(|_| alone.send_text("{").is_ok()).count();
    let is_closed = sent < 1_000
        || alone.wait_for(|_| false).is_err_and(|error| !error.to_string().starts_with("no such frame"));
    judgement.demand(is_closed, || "a socket may send what nobody can read for ever".to_owned());
    beside(&target, judgement, (2, 50), |tide, _| {
        while tide.goes_on() {
            let Ok(mut socket) = Socket::open(target_beside, None, "") else { continue };
            while tide.goes_on() && socket.send_text(&frame).is_ok() {
                tide.count();
            }
        }
    })
}

fn socket_events(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let target = arena.server()?;
    let target_beside = &target;
    beside(&target, judgement, (4, 1_000), |tide, thread| {
        let name = format!("crowd-{thread}");
        let mut open: Vec<Socket> =
            (0..SOCKETS).filter_map(|_| Socket::open(target_beside, None, "").ok()).collect();
        let mut number = 0;
        // Nobody reads here: the server ends such a socket when it has enough of it.
        while tide.goes_on() && !open.is_empty() {
            open.retain_mut(|socket| {
                (0..FRAMES).all(|_| {
                    number += 1;
                    let (id, topic) = (number.to_string(), format!("t-{}", number % SOCKETS));
                    let is_said = socket.say(&nobody(&name, &topic), &id, "again", &json!({})).is_ok();
                    if is_said {
                        tide.count();
                    }
                    is_said
                })
            });
        }
        tide.hold(open);
    })
}

/// Every field as long as it may be, in letters of four bytes; a slow turn holds what was said behind it.
fn long_words(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let script = json!({"answers": [{"when": {"startsWith": "slow"}, "say": "re: {{user}}", "delayMs": LONG_MS}],
        "otherwise": {"say": "re: {{user}}"}});
    let target = arena.server_with(&Setup { script, ..Setup::default() })?;
    let target_beside = &target;
    beside(&target, judgement, (4, 4_000), |tide, thread| {
        let name = format!("wordy-{thread}");
        let wide = |number: usize| format!("{:0>8}{}", number, "🦉".repeat(FIELD_LETTERS - 8));
        let conversation = wide(thread);
        let mut open: Vec<Socket> = (0..WORDY_SOCKETS)
            .filter_map(|_| Socket::open(target_beside, None, "?receipts=1&stream=1").ok())
            .collect();
        let mut number = 0;
        while tide.goes_on() && !open.is_empty() {
            open.retain_mut(|socket| {
                (0..FRAMES).all(|_| {
                    number += 1;
                    // Every second one was said before, on this socket or on another one.
                    let id = wide(if number % 2 == 0 { number } else { number % 64 });
                    let is_said = socket.say(&nobody(&name, &conversation), &id, "slow", &json!({})).is_ok();
                    if is_said {
                        tide.count();
                    }
                    is_said
                })
            });
        }
        tide.hold(open);
    })
}

fn sessions(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let target = arena.server()?;
    let port = target.port;
    let ask = Request::get("/connector");
    let given = AtomicUsize::new(0);
    beside(&target, judgement, (8, 200), |tide, _| {
        while tide.goes_on() {
            // Given or refused as one too many: what counts is what it costs. One that never got there costs nothing.
            let code = ask.send(port).map(|answer| answer.code).unwrap_or_default();
            given.fetch_add(usize::from(code == 200), Ordering::SeqCst);
            if matches!(code, 200 | 429 | 503) {
                tide.count();
            }
        }
    })?;
    let given = given.into_inner();
    judgement.measured(format!("{given} sessions given"));
    judgement.control(given > 0, || "not one session was given".to_owned());
    Ok(())
}
