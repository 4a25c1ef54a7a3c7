//! The doors as a stranger finds them: addresses, routes, hosts, origins, sizes.

use super::Attack;
use super::judgement::Judgement;
use super::socket::Socket;
use super::target::{Arena, Said, Setup, Target};
use super::wire::{Request, connect};
use crate::faults::Extent;
use crate::faults::http::KEY;
use crate::faults::server::Home;
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::fs;
use std::io::{Read, Write};
use std::time::{Duration, Instant};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "only_loopback_is_listened_on",
        statement: "1",
        extent: Extent::Short,
        run: only_loopback,
    },
    Attack {
        name: "an_open_address_needs_more_than_a_setting",
        statement: "2",
        extent: Extent::Short,
        run: open_address,
    },
    Attack { name: "no_route_answers_without_a_key", statement: "3", extent: Extent::Short, run: no_route },
    Attack { name: "health_tells_strangers_nothing", statement: "4", extent: Extent::Short, run: health },
    Attack {
        name: "nearly_the_key_opens_nothing",
        statement: "5",
        extent: Extent::Short,
        run: nearly_the_key,
    },
    Attack {
        name: "a_name_of_another_host_is_refused",
        statement: "11",
        extent: Extent::Short,
        run: foreign_host,
    },
    Attack {
        name: "a_page_of_another_origin_is_refused",
        statement: "12",
        extent: Extent::Short,
        run: foreign_origin,
    },
    Attack { name: "too_much_of_anything_is_refused", statement: "15", extent: Extent::Short, run: too_much },
    Attack { name: "a_slow_head_is_cut_off", statement: "16", extent: Extent::Full, run: slow_head },
];

fn only_loopback(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let target = arena.server()?;
    let sockets = listening(target.server.pid())?;
    let is_ours = |socket: &Listening| socket.port == target.port;
    judgement
        .control(sockets.iter().any(is_ours), || format!("port {} is not among {sockets:?}", target.port));
    let open: Vec<&Listening> = sockets.iter().filter(|socket| !socket.is_loopback).collect();
    judgement.demand(open.is_empty(), || format!("others can reach {open:?}"));
    Ok(())
}

#[derive(Debug)]
struct Listening {
    port: u16,
    is_loopback: bool,
}

/// What a process listens on, as the kernel has it.
fn listening(pid: u32) -> Result<Vec<Listening>> {
    let links =
        fs::read_dir(format!("/proc/{pid}/fd"))?.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    let inodes: Vec<String> = links
        .filter_map(|link| Some(link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()))
        .collect();
    let mut found = Vec::new();
    for table in ["tcp", "tcp6"] {
        for line in fs::read_to_string(format!("/proc/{pid}/net/{table}"))?.lines().skip(1) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let (Some(local), Some(state), Some(inode)) = (fields.get(1), fields.get(3), fields.get(9))
            else {
                continue;
            };
            if *state != "0A" || !inodes.iter().any(|known| known == inode) {
                continue;
            }
            let (address, port) = local.split_once(':').context("an address has a port")?;
            let is_loopback = address == "0100007F" || address == "00000000000000000000000001000000";
            found.push(Listening { port: u16::from_str_radix(port, 16)?, is_loopback });
        }
    }
    Ok(found)
}

fn open_address(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let home = |host: &str, more: &[(&str, &str)]| -> Result<_> {
        let home = Home::with_script(&arena.program, &super::target::script())?.with("CORTEX_HOST", host);
        more.iter().fold(home, |home, (name, value)| home.with(name, value)).start()
    };
    judgement.control(home("127.0.0.1", &[])?.is_ok(), || "loopback does not start".to_owned());
    for (host, more) in [
        ("0.0.0.0", &[][..]),
        ("::", &[]),
        ("0.0.0.0", &[("CORTEX_ALLOW_REMOTE", "true"), ("CORTEX_INGEST_API_KEY", "short")]),
    ] {
        let refused = match home(host, more)? {
            Err(refused) => refused.stderr.contains("allowRemote") || refused.stderr.contains("ingestApiKey"),
            Ok(_) => false,
        };
        judgement.demand(refused, || format!("{host} with {more:?} starts, or does not say what is missing"));
    }
    Ok(())
}

/// Whether a path is on the list of those that need no credential, or have one of their own.
fn is_open(path: &str) -> bool {
    let whole = ["/health", "/healthz", "/readyz", "/connector", "/api/cortex-m/v1/connector"];
    let starts = ["/approve/", "/hooks/", "/connector/", "/api/cortex-m/v1/connector/"];
    whole.contains(&path) || starts.iter().any(|start| path.starts_with(start))
}

/// Every route of the document, with something in each of its places.
pub(super) fn routes(target: &Target) -> Result<Vec<(&'static str, String)>> {
    let document = target.owner_get("/openapi.json")?;
    let paths = document["paths"].as_object().context("the document has paths")?;
    let mut routes = Vec::new();
    for (path, methods) in paths {
        let filled = path.split('/').map(|part| if part.starts_with('{') { "x" } else { part });
        let filled = filled.collect::<Vec<_>>().join("/");
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE"] {
            if methods.get(method.to_ascii_lowercase()).is_some() {
                routes.push((method, filled.clone()));
            }
        }
    }
    Ok(routes)
}

fn no_route(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let target = arena.server()?;
    let routes = routes(&target)?;
    judgement.control(routes.len() > 50, || format!("the document has only {} routes", routes.len()));
    let status = target.ask(&Request::get("/api/v2/status").owner())?;
    judgement.control(status.code == 200, || format!("the owner gets {}", status.code));
    for (method, path) in routes.into_iter().filter(|(_, path)| !is_open(path)) {
        let answer = target.ask(&Request::new(method, path.as_str()))?;
        judgement.demand(answer.code == 401, || format!("{method} {path} answers {}", answer.code));
    }
    Ok(())
}

fn health(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let target = arena.server()?;
    let open = target.ask(&Request::get("/health"))?;
    judgement.control(open.code == 200, || format!("/health answers {}", open.code));
    let home = target.home.path().display().to_string();
    for path in ["/health", "/healthz", "/readyz"] {
        let text = target.ask(&Request::get(path))?.text();
        let tells = [home.as_str(), "version", "0.1.", "count", "pending", "pid"];
        let told: Vec<&&str> = tells.iter().filter(|word| text.contains(**word)).collect();
        judgement.demand(told.is_empty(), || format!("{path} tells {told:?}: {text}"));
    }
    Ok(())
}

fn nearly_the_key(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let target = arena.server()?;
    let at = || Request::get("/api/v2/status");
    judgement.control(target.ask(&at().owner())?.code == 200, || "the key does not open".to_owned());
    let tries = [
        ("none", at()),
        ("one more byte", at().key(&format!("{KEY}x"))),
        ("one byte less", at().key(&KEY[1..])),
        ("an empty one", at().key("")),
        ("another scheme", at().header("authorization", format!("Basic {KEY}"))),
        ("two of them", at().owner().owner()),
        ("in the query", Request::get(format!("/api/v2/status?key={KEY}&token={KEY}&access_token={KEY}"))),
        ("in a cookie", at().header("cookie", format!("key={KEY}; token={KEY}"))),
    ];
    for (what, request) in tries {
        let code = target.ask(&request)?.code;
        judgement.demand(code == 401, || format!("{what}: {code}"));
    }
    Ok(())
}

fn foreign_host(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let target = arena.server()?;
    for good in ["localhost", "127.0.0.1", "[::1]"] {
        let code = target.ask(&Request::get("/api/v2/status").host(good).owner())?.code;
        judgement.control(code == 200, || format!("{good}: {code}"));
    }
    for bad in
        ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:7751", "169.254.169.254", ""]
    {
        for path in ["/api/v2/status", "/health", "/connector", "/connector/x", "/v1/models", "/approve/x"] {
            let code = target.ask(&Request::get(path).host(bad).owner())?.code;
            judgement.demand(matches!(code, 400 | 403 | 421), || format!("Host {bad:?} at {path}: {code}"));
        }
    }
    Ok(())
}

fn foreign_origin(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let target = arena.server()?;
    let own = format!("http://127.0.0.1:{}", target.port);
    let event = |id: &str| {
        json!({"source": "web", "externalMessageId": id, "idempotencyKey": id, "topicKey": "t", "userId": "u",
            "text": "hello", "occurredAt": "2026-02-15T20:30:00Z"})
    };
    let good = target.ask(&Request::post("/ingest", &event("1")).owner().header("origin", own))?;
    judgement.control(good.code == 202, || format!("our own page gets {}", good.code));
    for origin in ["https://evil.example", "null", "http://127.0.0.1:1", "http://localhost.evil.example"] {
        let posted =
            target.ask(&Request::post("/ingest", &event(origin)).owner().header("origin", origin))?;
        judgement.demand(posted.code == 403, || format!("{origin} posts: {}", posted.code));
        let opened = target.ask(&Request::get("/connector").header("origin", origin))?;
        judgement.demand(opened.code != 200, || format!("{origin} opens a session"));
        let allowed = posted.header("access-control-allow-origin");
        judgement.demand(allowed.is_none(), || format!("{origin} is told it may read: {allowed:?}"));
    }
    // A picture or a form of a foreign page has no Origin on GET, but says where it comes from.
    let picture =
        Request::get("/connector").header("sec-fetch-site", "cross-site").header("sec-fetch-mode", "no-cors");
    let code = target.ask(&picture)?.code;
    judgement.demand(code == 403, || format!("a picture of a foreign page opens a session: {code}"));
    Ok(())
}

fn too_much(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let target = arena.server()?;
    let with_text = |text: String| {
        let mut said = Said::at_terminal("", "");
        said.text = &text;
        target.ingest(KEY, &said).map(|answer| answer.code)
    };
    let padded = |id: &'static str, bytes: usize| {
        let text = "a".repeat(bytes);
        target.ingest(KEY, &Said { text: &text, ..Said::at_terminal(id, "") })
    };
    let fits = padded("fits", 1024 * 1024 - 1_024)?.code;
    judgement.control(fits == 202, || format!("a body just below the limit: {fits}"));
    let empty = with_text(String::new())?;
    judgement.demand(empty == 400, || format!("an empty text: {empty}"));
    let big = padded("big", 1024 * 1024 + 1)?.code;
    judgement.demand(big == 413, || format!("a body over the limit: {big}"));
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let deep = Request::new("POST", "/ingest").owner().header("content-type", "application/json").body(deep);
    let code = target.ask(&deep)?.code;
    judgement.demand(code == 400, || format!("a deep body: {code}"));
    let long = target.ask(&Request::get("/health").header("x-long", "a".repeat(20 * 1024)))?.code;
    judgement.demand(matches!(long, 400 | 431), || format!("a head of 20 KiB: {long}"));
    let mut socket = Socket::open(&target, Some(KEY), "")?;
    let as_whom = super::socket::Posing { source: "urn:x", connector_id: "x", conversation: "c", user: None };
    socket.say(&as_whom, "1", "hello", &Value::Null)?;
    judgement.control(socket.wait_for(|frame| frame["type"] == "assistant.message.outbound").is_ok(), || {
        "a small frame is not answered".to_owned()
    });
    // The socket may close while it is still being written to.
    let sent = socket.say(&as_whom, "2", &"a".repeat(2 * 1024 * 1024), &Value::Null);
    let heard = socket.overhear();
    judgement
        .demand(sent.is_err() || !heard.contains("\"causationid\":\"2\",\"data\":{\"connectorId\""), || {
            format!("a frame over the limit was answered: {}", heard.chars().take(200).collect::<String>())
        });
    Ok(())
}

fn slow_head(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let target = arena.server_with(&Setup::default())?;
    judgement.control(target.ask(&Request::get("/health"))?.code == 200, || "no health".to_owned());
    let mut stream = connect(target.port)?;
    stream.write_all(b"GET /health HTTP/1.1\r\nhost: 127")?;
    let started = Instant::now();
    // It ends by the server's hand or by ours, after twenty seconds.
    let mut rest = Vec::new();
    let ended = stream.read_to_end(&mut rest);
    let took = started.elapsed();
    judgement.demand(ended.is_ok() && took < Duration::from_secs(18), || {
        format!("half a head lives for {took:?}")
    });
    Ok(())
}
