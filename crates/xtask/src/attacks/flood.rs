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
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
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
    Attack {
        name: "half_messages_on_sockets_without_a_key",
        statement: "57",
        extent: Extent::Short,
        run: |arena, judgement| half_messages(arena, judgement, None),
    },
    Attack {
        name: "half_messages_on_sockets_of_one_key",
        statement: "57",
        extent: Extent::Short,
        run: |arena, judgement| half_messages(arena, judgement, Some("slack")),
    },
    Attack { name: "streams_that_nobody_reads", statement: "57", extent: Extent::Full, run: unread_streams },
    Attack { name: "pages_that_never_end", statement: "29, 57", extent: Extent::Short, run: endless_pages },
    Attack {
        name: "one_answer_reads_pages_that_never_end",
        statement: "29, 57",
        extent: Extent::Short,
        run: many_pages_at_once,
    },
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
/// Longest wait of the owner for any answer.
const ANSWER_MAX: Duration = Duration::from_secs(1);
/// Messages of the owner beside a flood; each of them must be answered in time.
const ASKED_BESIDE: usize = 20;
/// How long a message says it is that never comes to its end: as long as a whole one may be, so that it is listened to.
const HALF_BYTES: u64 = 1_000_000;
/// Sockets that are tried; together they would hold far more than may be held.
const HALF_SOCKETS: usize = 400;
/// How long a slow build on a busy machine may take for five hundred long answers.
const DRAINED_WITHIN: Duration = Duration::from_secs(180);
const PAUSE: Duration = Duration::from_millis(20);

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

/// A flood while it lasts.
#[derive(Default)]
pub(super) struct Tide {
    is_over: AtomicBool,
    deeds: AtomicUsize,
}

impl Tide {
    pub(super) fn goes_on(&self) -> bool {
        !self.is_over.load(Ordering::SeqCst)
    }

    /// One more request, stream or socket of the flood got as far as the server.
    pub(super) fn count(&self) {
        self.deeds.fetch_add(1, Ordering::SeqCst);
    }

    /// Holds on to what a thread has opened until the flood is over.
    pub(super) fn hold<T>(&self, open: Vec<T>) {
        while self.goes_on() {
            std::thread::sleep(PAUSE);
        }
        drop(open);
    }
}

/// Runs a flood on threads until the owner was answered often enough beside it; judges memory and the worst wait.
pub(super) fn beside(
    target: &Target,
    judgement: &mut Judgement,
    (threads, deeds_min): (usize, usize),
    flood: impl Fn(&Tide, usize) + Send + Sync,
) -> Result<()> {
    let (before, _) = (memory_mib(target, "VmRSS:")?, owner_waits(target, 1_000)?);
    judgement.control(before > 0, || "no memory is told".to_owned());
    let tide = Tide::default();
    let waits = std::thread::scope(|scope| {
        for number in 0..threads {
            let (flood, tide) = (&flood, &tide);
            scope.spawn(move || flood(tide, number));
        }
        // The flood gets a moment to rise.
        std::thread::sleep(Duration::from_secs(2));
        let waits: Result<Vec<_>> = (0..ASKED_BESIDE).map(|number| owner_waits(target, number)).collect();
        tide.is_over.store(true, Ordering::SeqCst);
        waits
    });
    let deeds = tide.deeds.into_inner();
    judgement.control(deeds >= deeds_min, || format!("the flood was only {deeds} of {deeds_min}"));
    let waits = match waits {
        Ok(waits) => waits,
        Err(error) => {
            judgement.demand(false, || format!("the owner is not answered: {error:#}"));
            return Ok(());
        }
    };
    let answer = waits.iter().map(|(answer, _)| *answer).max().unwrap_or_default();
    let health = waits.iter().map(|(_, health)| *health).max().unwrap_or_default();
    let growth = memory_mib(target, "VmHWM:")?.saturating_sub(before);
    judgement.measured(format!("{deeds} deeds, worst wait {} ms, +{growth} MiB", answer.as_millis()));
    judgement.demand(answer <= ANSWER_MAX, || format!("the owner waits {answer:?}"));
    judgement.demand(health <= ANSWER_MAX, || format!("/health takes {health:?}"));
    judgement.demand(growth <= GROWTH_MIB_MAX, || format!("memory grew by {growth} MiB"));
    Ok(())
}

fn small_values(arena: &Arena, judgement: &mut Judgement, path: &str, mib: usize) -> Result<()> {
    let target = arena.server()?;
    let filler = "{\"\":0},".repeat((mib * 1024 * 1024 - 2_048) / 7);
    let (key, body) = match path {
        "/ingest" => (
            target.connector_key("x")?,
            format!(
                r#"{{"source":"x","externalMessageId":"1","idempotencyKey":"1","topicKey":"t","userId":"u","text":"t","occurredAt":"2026-02-15T20:30:00Z","metadata":{{"a":[{filler}0]}}}}"#
            ),
        ),
        _ => (
            KEY.to_owned(),
            format!(r#"{{"model":"cortex","messages":[{{"role":"user","content":[{filler}{{}}]}}]}}"#),
        ),
    };
    let filled = |body: String| {
        Request::new("POST", path).key(&key).header("content-type", "application/json").body(body)
    };
    // The same with few values, where the key and the door are in order.
    let few = body.replace(&filler, "").replace("[{}]", "\"hello\"");
    let few = target.ask(&filled(few))?;
    judgement.control(few.code < 300, || format!("few values: {} {}", few.code, few.text()));
    let (request, port) = (filled(body), target.port);
    beside(&target, judgement, (8, 8), |tide, _| {
        while tide.goes_on() {
            // Refused or taken: what counts is what it costs; but somebody without a key costs nothing.
            if request.send(port).is_ok_and(|answer| answer.code != 401) {
                tide.count();
            }
        }
    })
}

fn half_messages(arena: &Arena, judgement: &mut Judgement, source: Option<&str>) -> Result<()> {
    let target = arena.server()?;
    let key = source.map(|source| target.connector_key(source)).transpose()?;
    let ask = Request::get("/connector");
    let ask = key.iter().fold(ask, |ask, key| ask.key(key));
    let sessions: Vec<String> = (0..HALF_SOCKETS)
        .map(|_| target.ask(&ask))
        .filter_map(|answer| answer.ok().filter(|answer| answer.code == 200).map(|answer| answer.text()))
        .collect();
    judgement.control(!sessions.is_empty(), || "no session was opened".to_owned());
    let port = target.port;
    beside(&target, judgement, (4, 32), |tide, number| {
        let mut open: Vec<TcpStream> = Vec::new();
        for session in sessions.iter().skip(number).step_by(4) {
            // Nearly all of a message that never ends, masked with zeros.
            if let Ok(mut stream) = upgraded(port, session) {
                let mut frame = vec![0x01, 0xff];
                frame.extend_from_slice(&HALF_BYTES.to_be_bytes());
                frame.extend_from_slice(&[0; 4]);
                frame.resize(HALF_BYTES as usize - 100_000, b'a');
                tide.count();
                // One that is over the budget is closed.
                if stream.write_all(&frame).is_ok() {
                    open.push(stream);
                }
            }
        }
        tide.hold(open);
    })
}

pub(super) fn upgraded(port: u16, session: &str) -> Result<TcpStream> {
    let (stream, answer) = knocked(port, session)?;
    anyhow::ensure!(answer.starts_with("HTTP/1.1 101"), "the socket did not open: {answer}");
    Ok(stream)
}

/// Asks for the socket of a session, and gives what the server answered first.
fn knocked(port: u16, session: &str) -> Result<(TcpStream, String)> {
    let mut stream = connect(port)?;
    let head = format!(
        "GET /connector/{session} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    let mut answer = [0; 512];
    let count = std::io::Read::read(&mut stream, &mut answer)?;
    Ok((stream, String::from_utf8_lossy(&answer[..count]).into_owned()))
}

/// A connection that takes in next to nothing until it is read: otherwise the kernel holds whole answers for it.
fn narrow(port: u16) -> Result<TcpStream> {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)?;
    socket.set_recv_buffer_size(4 * 1024)?;
    // The far side's own buffer grows with the size of a segment.
    socket.set_tcp_mss(536)?;
    socket.connect(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)).into())?;
    let stream = TcpStream::from(socket);
    stream.set_write_timeout(Some(Duration::from_secs(20)))?;
    Ok(stream)
}

fn unread_streams(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let deltas: Vec<String> = (0..400).map(|_| "long words ".repeat(100)).collect();
    let script = json!({"answers": [{"when": {"startsWith": "long"}, "deltas": deltas}], "otherwise": {"say": "re: {{user}}"}});
    let target = arena.server_with(&Setup { script, ..Setup::default() })?;
    let port = target.port;
    beside(&target, judgement, (4, 500), |tide, number| {
        let mut open: Vec<TcpStream> = Vec::new();
        for stream in 0..125 {
            let body = json!({"model": "cortex", "stream": true, "user": format!("{number}-{stream}"),
                "messages": [{"role": "user", "content": format!("long {number}-{stream}")}]});
            let request = Request::post("/v1/chat/completions", &body).key(KEY);
            if let Ok(mut connection) = narrow(port)
                && connection.write_all(&request.bytes(port)).is_ok()
            {
                tide.count();
                open.push(connection);
            }
        }
        tide.hold(open);
    })?;
    // Now that nobody holds them up, every one of the turns comes to its end.
    target.wait_until_idle_within(DRAINED_WITHIN)
}

/// A page that goes on for as long as it is read; its threads end with us.
fn endless_page() -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::new(127, 0, 0, 2), 0))?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let chunk = format!("10000\r\n{}\r\n", "word ".repeat(13_108).split_at(65_536).0);
                let head =
                    "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ntransfer-encoding: chunked\r\n\r\n";
                let mut goes_on = stream.write_all(head.as_bytes()).is_ok();
                while goes_on {
                    goes_on = stream.write_all(chunk.as_bytes()).is_ok();
                }
            });
        }
    });
    Ok(address)
}

fn endless_pages(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let page = endless_page()?;
    let script = json!({"answers": [
        {"when": {"afterTool": "http.get"}, "say": "it is long"},
        {"when": {"startsWith": "read"}, "toolCalls": [{"name": "http.get", "arguments": {"url": format!("http://{page}/")}}]},
    ], "otherwise": {"say": "re: {{user}}"}});
    let settings = json!({"egressAllow": [page.to_string()]});
    let target = arena.server_with(&Setup { settings, script, ..Setup::default() })?;
    let key = target.connector_key("slack")?;
    let (target_beside, key) = (&target, key.as_str());
    beside(&target, judgement, (2, 20), |tide, thread| {
        for number in 0..200 {
            let (id, topic) = (format!("{thread}-{number}"), format!("t-{thread}-{number}"));
            let said = Said { source: "slack", topic: &topic, ..Said::at_terminal(&id, "read it") };
            let taken = target_beside.ingest(key, &said);
            if !tide.goes_on() {
                break;
            }
            if taken.is_ok_and(|taken| taken.code == 202) {
                tide.count();
            }
        }
    })?;
    let told = target.wait_for_message(KEY, "slack", |message| message["text"] == "it is long");
    judgement.control(told.is_ok(), || "no page was read at all".to_owned());
    Ok(())
}

/// One answer of the model asks for as many pages as are looked at, in several conversations.
fn many_pages_at_once(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let page = endless_page()?;
    let calls: Vec<_> = (0..32)
        .map(|number| json!({"id": format!("c{number}"), "name": "http.get", "arguments": {"url": format!("http://{page}/{number}")}}))
        .collect();
    let script = json!({"answers": [
        {"when": {"afterTool": "http.get"}, "say": "they are long"},
        {"when": {"startsWith": "read"}, "toolCalls": calls},
    ], "otherwise": {"say": "re: {{user}}"}});
    let settings = json!({"egressAllow": [page.to_string()]});
    let target = arena.server_with(&Setup { settings, script, ..Setup::default() })?;
    let key = target.connector_key("slack")?;
    let (target_beside, key) = (&target, key.as_str());
    beside(&target, judgement, (1, 3), |tide, _| {
        for number in 0..3 {
            let (id, topic) = (format!("m-{number}"), format!("t-{number}"));
            let said = Said { source: "slack", topic: &topic, ..Said::at_terminal(&id, "read them") };
            if target_beside.ingest(key, &said).is_ok_and(|taken| taken.code == 202) {
                tide.count();
            }
        }
        tide.hold::<()>(Vec::new());
    })?;
    target.wait_until_idle_within(DRAINED_WITHIN)?;
    let told = target.wait_for_message(KEY, "slack", |message| message["text"] == "they are long");
    judgement.control(told.is_ok(), || "no page was read at all".to_owned());
    Ok(())
}

fn slow_bodies(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let target = arena.server()?;
    let port = target.port;
    let head = format!(
        "POST /ingest HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-type: application/json\r\ncontent-length: 1000000\r\n\r\n{{"
    );
    beside(&target, judgement, (4, 400), |tide, _| {
        let mut open: Vec<TcpStream> = Vec::new();
        while tide.goes_on() && open.len() < 400 {
            if let Ok(mut stream) = connect(port)
                && stream.write_all(head.as_bytes()).is_ok()
            {
                tide.count();
                open.push(stream);
            }
        }
        tide.hold(open);
    })
}

fn waiting_polls(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let target = arena.server()?;
    let key = target.connector_key("slack")?;
    let port = target.port;
    let poll = Request::post("/outbox/poll", &json!({"source": "slack", "waitSeconds": 60})).key(&key);
    let mut first = poll.start(port)?;
    first.set_read_timeout(Some(Duration::from_millis(500)))?;
    let answered = std::io::Read::read(&mut first, &mut [0; 64]);
    judgement.control(answered.is_err(), || "a single poll does not wait".to_owned());
    beside(&target, judgement, (4, 400), |tide, _| {
        let mut open: Vec<TcpStream> = Vec::new();
        while tide.goes_on() && open.len() < 400 {
            if let Ok(stream) = poll.start(port) {
                tide.count();
                open.push(stream);
            }
        }
        tide.hold(open);
    })
}

fn bogus_sockets(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let target = arena.server()?;
    let port = target.port;
    let knock = |number: usize| knocked(port, &format!("00000000-0000-4000-8000-00000000000{number}"));
    let session = target.ask(&Request::get("/connector"))?.text();
    judgement
        .control(upgraded(port, &session).is_ok(), || "a socket with a session does not open".to_owned());
    beside(&target, judgement, (4, 100), |tide, number| {
        let mut open: Vec<TcpStream> = Vec::new();
        while tide.goes_on() {
            // Let in or turned away, it was answered; what was not heard at all costs nothing.
            if let Ok((stream, answer)) = knock(number)
                && answer.starts_with("HTTP/1.1 ")
            {
                tide.count();
                open.push(stream);
            }
            if open.len() > 200 {
                open.clear();
            }
        }
    })?;
    // Honest connectors get in beside them.
    let tide = Tide::default();
    let honest = std::thread::scope(|scope| {
        for number in 0..4 {
            let tide = &tide;
            scope.spawn(move || {
                while tide.goes_on() {
                    drop(knock(number));
                }
            });
        }
        let honest = (0..20).filter(|_| Socket::open(&target, Some(KEY), "").is_ok()).count();
        tide.is_over.store(true, Ordering::SeqCst);
        honest
    });
    judgement.demand(honest == 20, || format!("only {honest} of 20 honest connectors came through"));
    Ok(())
}

fn all_urgent(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let script = json!({"answers": [{"when": {"startsWith": "urgent"}, "say": "re: {{user}}", "delayMs": 200}],
        "otherwise": {"say": "re: {{user}}"}});
    let target = arena.server_with(&Setup { script, ..Setup::default() })?;
    let key = target.connector_key("slack")?;
    let (target_beside, key) = (&target, key.as_str());
    beside(&target, judgement, (2, 50), |tide, thread| {
        for number in 0..400 {
            let (id, topic) = (format!("{thread}-{number}"), format!("t-{thread}-{number}"));
            let said = Said {
                source: "slack",
                topic: &topic,
                metadata: json!({"priority": "urgent"}),
                ..Said::at_terminal(&id, "urgent")
            };
            let taken = target_beside.ingest(key, &said);
            if !tide.goes_on() {
                break;
            }
            if taken.is_ok_and(|taken| taken.code == 202) {
                tide.count();
            }
        }
    })
}
