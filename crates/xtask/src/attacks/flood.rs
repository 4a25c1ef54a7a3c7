//! Floods: memory stays small and the owner is answered while one key, one peer or everybody without a key does its worst.

use super::Attack;
use super::judgement::Judgement;
use super::socket::Socket;
use super::target::{Arena, Said, Setup, Target};
use super::wire::{Request, connect};
use crate::faults::Extent;
use crate::faults::http::KEY;
use anyhow::{Context, Result};
use serde_json::json;
use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "many_small_values_at_ingest",
        statement: "57",
        extent: Extent::Short,
        run: |arena, judgement| small_values(arena, judgement, "/ingest", 1),
    },
    Attack {
        name: "many_small_values_at_the_openai_door",
        statement: "57",
        extent: Extent::Short,
        run: |arena, judgement| small_values(arena, judgement, "/v1/chat/completions", 8),
    },
    Attack { name: "half_messages_on_sockets", statement: "57", extent: Extent::Short, run: half_messages },
    Attack { name: "streams_that_nobody_reads", statement: "57", extent: Extent::Full, run: unread_streams },
    Attack { name: "bodies_that_never_end", statement: "57", extent: Extent::Short, run: slow_bodies },
    Attack { name: "polls_that_wait", statement: "57", extent: Extent::Short, run: waiting_polls },
    Attack { name: "sockets_without_a_session", statement: "57", extent: Extent::Short, run: bogus_sockets },
    Attack {
        name: "one_connector_calls_everything_urgent",
        statement: "57",
        extent: Extent::Short,
        run: all_urgent,
    },
];

/// Most memory that a flood may cost.
const GROWTH_MIB_MAX: u64 = 150;
/// Longest wait of the owner for an answer.
const ANSWER_MAX: Duration = Duration::from_secs(1);
const ASKED_BESIDE: usize = 7;
/// How long a message says it is that never comes to its end.
const HALF_BYTES: u64 = 4_000_000;

fn memory_mib(target: &Target, field: &str) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{}/status", target.server.pid()))?;
    let line =
        status.lines().find_map(|line| line.strip_prefix(field)).context("the kernel tells the memory")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse::<u64>()? / 1024)
}

/// How long the owner waits for an answer to a message, and for `/health`.
fn owner_waits(target: &Target, number: usize) -> Result<(Duration, Duration)> {
    let (id, words) = (format!("beside-{number}"), format!("beside {number}"));
    let started = Instant::now();
    let taken = target.ingest(KEY, &Said::at_terminal(&id, &words))?;
    anyhow::ensure!(taken.code == 202, "the owner's message is answered {} {}", taken.code, taken.text());
    target.wait_for_message(KEY, "cli", |message| message["text"] == format!("re: {words}"))?;
    let answered = started.elapsed();
    let started = Instant::now();
    let health = target.ask(&Request::get("/health"))?;
    anyhow::ensure!(health.code == 200, "/health answers {}", health.code);
    Ok((answered, started.elapsed()))
}

/// Runs a flood on threads until the owner was answered often enough beside it; judges memory and waits.
pub(super) fn beside(
    target: &Target,
    judgement: &mut Judgement,
    threads: usize,
    flood: impl Fn(&AtomicBool, usize) + Send + Sync,
) -> Result<()> {
    let (before, _) = (memory_mib(target, "VmRSS:")?, owner_waits(target, 1_000)?);
    judgement.control(before > 0, || "no memory is told".to_owned());
    let stop = AtomicBool::new(false);
    let waits = std::thread::scope(|scope| {
        for number in 0..threads {
            let (flood, stop) = (&flood, &stop);
            scope.spawn(move || flood(stop, number));
        }
        // The flood gets a moment to rise.
        std::thread::sleep(Duration::from_secs(2));
        let waits: Result<Vec<_>> = (0..ASKED_BESIDE).map(|number| owner_waits(target, number)).collect();
        stop.store(true, Ordering::SeqCst);
        waits
    });
    let mut waits = match waits {
        Ok(waits) => waits,
        Err(error) => {
            judgement.demand(false, || format!("the owner is not answered: {error:#}"));
            return Ok(());
        }
    };
    waits.sort();
    let (answer, health) = waits[waits.len() / 2];
    judgement.demand(answer <= ANSWER_MAX, || format!("the owner waits {answer:?}"));
    judgement.demand(health <= ANSWER_MAX, || format!("/health takes {health:?}"));
    let growth = memory_mib(target, "VmHWM:")?.saturating_sub(before);
    judgement.demand(growth <= GROWTH_MIB_MAX, || format!("memory grew by {growth} MiB"));
    Ok(())
}

fn small_values(arena: &Arena, judgement: &mut Judgement, path: &str, mib: usize) -> Result<()> {
    let target = arena.server()?;
    let filler = "{\"\":0},".repeat((mib * 1024 * 1024 - 2_048) / 7);
    let body = match path {
        "/ingest" => format!(
            r#"{{"source":"x","externalMessageId":"1","idempotencyKey":"1","topicKey":"t","userId":"u","text":"t","occurredAt":"2026-02-15T20:30:00Z","metadata":{{"a":[{filler}0]}}}}"#
        ),
        _ => format!(r#"{{"model":"cortex","messages":[{{"role":"user","content":[{filler}{{}}]}}]}}"#),
    };
    let request = Request::new("POST", path).owner().header("content-type", "application/json").body(body);
    let port = target.port;
    beside(&target, judgement, 4, |stop, _| {
        while !stop.load(Ordering::SeqCst) {
            // Refused or taken: what counts is what it costs.
            drop(request.send(port));
        }
    })
}

fn half_messages(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let target = arena.server()?;
    let sessions: Vec<String> = (0..64)
        .map(|_| target.ask(&Request::get("/connector")))
        .filter_map(|answer| answer.ok().filter(|answer| answer.code == 200).map(|answer| answer.text()))
        .collect();
    judgement.control(!sessions.is_empty(), || "no session was opened".to_owned());
    let target_port = target.port;
    beside(&target, judgement, 4, |stop, number| {
        let mut open: Vec<TcpStream> = Vec::new();
        for session in sessions.iter().skip(number).step_by(4) {
            // Nearly all of a message that never ends, masked with zeros.
            if let Ok(mut stream) = upgraded(target_port, session) {
                let mut frame = vec![0x01, 0xff];
                frame.extend_from_slice(&HALF_BYTES.to_be_bytes());
                frame.extend_from_slice(&[0; 4]);
                frame.resize(HALF_BYTES as usize - 100_000, b'a');
                stream.write_all(&frame).unwrap_or_default();
                open.push(stream);
            }
        }
        while !stop.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(50));
        }
        drop(open);
    })
}

fn upgraded(port: u16, session: &str) -> Result<TcpStream> {
    let mut stream = connect(port)?;
    let head = format!(
        "GET /connector/{session} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    let mut answer = [0; 512];
    let count = std::io::Read::read(&mut stream, &mut answer)?;
    anyhow::ensure!(answer[..count].starts_with(b"HTTP/1.1 101"), "the socket did not open");
    Ok(stream)
}

fn unread_streams(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let deltas: Vec<String> = (0..400).map(|_| "long words ".repeat(100)).collect();
    let script = json!({"answers": [{"when": {"startsWith": "long"}, "deltas": deltas}], "otherwise": {"say": "re: {{user}}"}});
    let target = arena.server_with(&Setup { script, ..Setup::default() })?;
    let port = target.port;
    let key = target.connector_key("slack")?;
    beside(&target, judgement, 4, |stop, number| {
        let mut open: Vec<TcpStream> = Vec::new();
        for stream in 0..125 {
            let body = json!({"model": "cortex", "stream": true, "user": format!("{number}-{stream}"),
                "messages": [{"role": "user", "content": format!("long {number}-{stream}")}]});
            open.extend(Request::post("/v1/chat/completions", &body).key(KEY).start(port).ok());
        }
        while !stop.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(50));
        }
        drop((open, &key));
    })
}

fn slow_bodies(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let target = arena.server()?;
    let port = target.port;
    beside(&target, judgement, 4, |stop, _| {
        let mut open: Vec<TcpStream> = Vec::new();
        while !stop.load(Ordering::SeqCst) {
            if open.len() < 400 {
                let head = format!(
                    "POST /ingest HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-type: application/json\r\ncontent-length: 1000000\r\n\r\n{{"
                );
                if let Ok(mut stream) = connect(port) {
                    stream.write_all(head.as_bytes()).unwrap_or_default();
                    open.push(stream);
                }
            } else {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    })
}

fn waiting_polls(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let target = arena.server()?;
    let key = target.connector_key("slack")?;
    let port = target.port;
    let poll = Request::post("/outbox/poll", &json!({"source": "slack", "waitSeconds": 60})).key(&key);
    beside(&target, judgement, 4, |stop, _| {
        let mut open: Vec<TcpStream> = Vec::new();
        while !stop.load(Ordering::SeqCst) {
            if open.len() < 400 {
                open.extend(poll.start(port).ok());
            } else {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    })
}

fn bogus_sockets(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let target = arena.server()?;
    let port = target.port;
    beside(&target, judgement, 4, |stop, number| {
        let mut open: Vec<TcpStream> = Vec::new();
        while !stop.load(Ordering::SeqCst) {
            open.extend(upgraded(port, &format!("00000000-0000-4000-8000-00000000000{number}")).ok());
            if open.len() > 200 {
                open.clear();
            }
        }
    })?;
    // Honest connectors get in beside them.
    let stop = AtomicBool::new(false);
    let honest = std::thread::scope(|scope| {
        for number in 0..4 {
            let stop = &stop;
            scope.spawn(move || {
                while !stop.load(Ordering::SeqCst) {
                    drop(upgraded(port, &format!("00000000-0000-4000-8000-00000000000{number}")));
                }
            });
        }
        let honest = (0..20).filter(|_| Socket::open(&target, Some(KEY), "").is_ok()).count();
        stop.store(true, Ordering::SeqCst);
        honest
    });
    judgement.demand(honest >= 18, || format!("only {honest} of 20 honest connectors came through"));
    Ok(())
}

fn all_urgent(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let script = json!({"answers": [{"when": {"startsWith": "urgent"}, "say": "re: {{user}}", "delayMs": 200}],
        "otherwise": {"say": "re: {{user}}"}});
    let target = arena.server_with(&Setup { script, ..Setup::default() })?;
    let key = target.connector_key("slack")?;
    beside(&target, judgement, 2, |stop, thread| {
        let mut number = 0;
        while !stop.load(Ordering::SeqCst) && number < 400 {
            let (id, topic) = (format!("{thread}-{number}"), format!("t-{thread}-{number}"));
            let said = Said {
                source: "slack",
                topic: &topic,
                metadata: json!({"priority": "urgent"}),
                ..Said::at_terminal(&id, "urgent")
            };
            drop(target.ingest(&key, &said));
            number += 1;
        }
    })
}
