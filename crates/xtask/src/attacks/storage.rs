//! The database under attack: pages that a disk or a neighbour destroyed, and queues that somebody fills.

use super::Attack;
use super::judgement::Judgement;
use super::socket::{Posing, Socket};
use super::target::{Arena, Said, Setup, Target};
use super::wire::Request;
use crate::faults::Extent;
use crate::faults::database;
use crate::faults::http::KEY;
use crate::faults::server::{Home, Server};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "a_damaged_page_closes_every_door",
        statement: "I13",
        extent: Extent::Short,
        run: damaged_page,
    },
    Attack {
        name: "a_full_queue_keeps_the_owner_and_answers_in",
        statement: "I13",
        extent: Extent::Short,
        run: full_queue,
    },
    Attack {
        name: "made_up_answers_use_no_reserve",
        statement: "51, 57",
        extent: Extent::Short,
        run: made_up_answers,
    },
    Attack {
        name: "a_full_database_takes_no_more",
        statement: "I13",
        extent: Extent::Short,
        run: full_database,
    },
];

const PATIENCE: Duration = Duration::from_secs(30);
/// More than the reserve of answers has places.
const MADE_UP: usize = 1_100;
const LOOK_AGAIN: Duration = Duration::from_millis(50);

fn event(source: &str, id: &str) -> serde_json::Value {
    json!({"source": source, "externalMessageId": id, "idempotencyKey": id, "topicKey": id, "userId": "u",
           "text": "hello", "occurredAt": "2026-02-15T20:30:00Z"})
}

fn ingest(server: &Server, id: &str) -> Result<super::wire::Answer> {
    Request::post("/ingest", &event("load", id)).key(KEY).send(server.port)
}

fn damaged_page(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let home = Home::with_script(&arena.program, &super::target::script())?;
    let server = home.started()?;
    judgement.control(ingest(&server, "before")?.code == 202, || "a whole database takes nothing".to_owned());
    let ready = Request::get("/readyz").send(server.port)?;
    judgement.control(ready.code == 200, || format!("/readyz answers {}", ready.code));
    server.terminate(PATIENCE)?.context("the server did not stop")?;
    database::damage_first_page(&home.path(), "audit")?;
    let server = home.started()?;
    let started = Instant::now();
    while Request::get("/readyz").send(server.port)?.code == 200 && started.elapsed() < PATIENCE {
        std::thread::sleep(LOOK_AGAIN);
    }
    for round in 0..3 {
        let ready = Request::get("/readyz").send(server.port)?;
        judgement.demand(ready.code == 503 && ready.field("status") == "damaged", || {
            format!("round {round}: /readyz says {} {}", ready.code, ready.text())
        });
        let refused = ingest(&server, &format!("after {round}"))?;
        judgement.demand(refused.code == 503 && refused.field("error") == "storage_damaged", || {
            format!("round {round}: /ingest says {} {}", refused.code, refused.text())
        });
    }
    let kept = Request::get("/api/v2/inbox").owner().send(server.port)?;
    judgement.demand(kept.code == 200 && kept.text().contains("before"), || {
        format!("what can be read is not: {} {}", kept.code, kept.text())
    });
    let status = Request::get("/api/v2/status").owner().send(server.port)?;
    judgement
        .demand(status.text().contains("audit, page"), || format!("no place is named: {}", status.text()));
    Ok(())
}

fn full_queue(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let script = json!({"model": "script", "otherwise": {"error": {"kind": "hang"}}});
    let setup = Setup { settings: json!({"maxQueuedEvents": 50}), script, ..Setup::default() };
    let target = arena.server_with(&setup)?;
    let codes = fill(&target, 80)?;
    let taken = codes.iter().filter(|code| **code == 202).count();
    judgement.control(taken == 50, || format!("{taken} of 50 were taken"));
    judgement.demand(codes[50..].iter().all(|code| *code == 503), || format!("{codes:?}"));
    let refused = ingest(&target.server, "more")?;
    judgement.demand(refused.field("error") == "queue_full", || refused.text());
    let own = target.ingest(KEY, &Said::at_terminal("own", "hello"))?;
    judgement.demand(own.code == 202, || format!("the owner is kept out: {} {}", own.code, own.text()));
    let ready = target.ask(&Request::get("/readyz"))?;
    judgement.demand(ready.code == 200 && ready.field("status") == "full", || ready.text());
    Ok(())
}

/// Events of two sources in turn: one alone has no more than half of the queue.
fn fill(target: &Target, events: usize) -> Result<Vec<u16>> {
    let from = |number: usize| event(["load", "more"][number % 2], &format!("m{number}"));
    let sent = |number| Request::post("/ingest", &from(number)).key(KEY).send(target.port);
    (0..events).map(|number| sent(number).map(|answer| answer.code)).collect()
}

/// A tenth of the fifty that this server may queue.
const STRANGERS_PLACES: u64 = 5;

/// A program without a key writes what looks like an answer to a question, more often than any reserve is large.
fn made_up_answers(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let script = json!({"model": "script", "otherwise": {"error": {"kind": "hang"}}});
    let setup = Setup { settings: json!({"maxQueuedEvents": 50}), script, ..Setup::default() };
    let target = arena.server_with(&setup)?;
    let mut socket = Socket::open(&target, None, "")?;
    let mut say = |id: &str, text: &str, metadata: &Value| {
        let posing = Posing { source: "urn:nobody", connector_id: "nobody", conversation: id, user: None };
        socket.say(&posing, id, text, metadata)
    };
    // What they may have is taken by words that no model answers.
    for number in 0..50 {
        say(&format!("words-{number}"), "hello", &Value::Null)?;
    }
    let waiting = || -> Result<u64> {
        let status = target.owner_get("/api/v2/status")?;
        Ok(status["storage"]["queuedEvents"].as_u64().unwrap_or_default())
    };
    let started = Instant::now();
    while waiting()? < STRANGERS_PLACES && started.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(20));
    }
    judgement.control(waiting()? > 0, || "nothing was taken".to_owned());
    let made_up = json!({"approvalToken": "apr_x", "approvalDecision": "approve"});
    for number in 0..MADE_UP {
        say(&format!("made-up-{number}"), "apr_x:approve", &made_up)?;
    }
    let last = format!("made-up-{}", MADE_UP - 1);
    let refused = socket.wait_for(|frame| frame["causationid"] == last)?;
    judgement.demand(refused["data"]["code"] == "queue_full", || refused.to_string());
    let taken = waiting()?;
    judgement
        .demand(taken == STRANGERS_PLACES, || format!("programs without a key have {taken} of 50 places"));
    let codes = fill(&target, 80)?;
    judgement.control(codes.last() == Some(&503), || format!("{codes:?}"));
    let own = target.ingest(KEY, &Said::at_terminal("own", "hello"))?;
    judgement.demand(own.code == 202, || format!("the owner is kept out: {} {}", own.code, own.text()));
    Ok(())
}

/// What the database may hold.
const FULL_MIB: u64 = 4;
/// What it may take once its log is folded in, with what was on its way when it was full and with history, which repeats the
/// words that were accepted.
const FOLDED_BYTES_MAX: u64 = 10 * 1024 * 1024;
/// The log has words as often as a row that holds them was written: when they came, were claimed, ended and became history.
const WRITTEN_TIMES: u64 = 4;
const WORDS: usize = 500_000;
/// How soon the log is folded in while nobody writes.
const FOLDED_WITHIN: Duration = Duration::from_secs(10);

fn full_database(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    // Short answers: what was accepted is still answered, and that may take more than the limit.
    let script = json!({"model": "script", "otherwise": {"say": "heard"}});
    let setup = Setup { settings: json!({"maxDatabaseMiB": FULL_MIB}), script, ..Setup::default() };
    let target = arena.server_with(&setup)?;
    let large = |number: usize| {
        let id = format!("m{number}");
        let mut event = event("load", &id);
        event["text"] = json!("x".repeat(WORDS));
        Request::post("/ingest", &event).key(KEY).send(target.port)
    };
    let first = large(0)?;
    judgement.control(first.code == 202, || first.text());
    let (mut last, mut accepted) = (first, 1);
    for number in 1..200 {
        last = large(number)?;
        if last.code != 202 {
            break;
        }
        accepted += 1;
    }
    judgement.demand(last.code == 503 && last.field("error") == "storage_full", || {
        format!("{} {}", last.code, last.text())
    });
    // With its log, which holds what is not folded in yet.
    let bytes = super::hoard::database_bytes(&target.home.path());
    judgement.measured(format!("{} KiB on disk for a limit of {FULL_MIB} MiB", bytes / 1024));
    let most = FOLDED_BYTES_MAX + accepted * WRITTEN_TIMES * WORDS as u64;
    judgement.demand(bytes < most, || format!("the database has {bytes} bytes after {accepted} events"));
    let own = target.ingest(KEY, &Said::at_terminal("own", "hello"))?;
    judgement.demand(own.code == 202, || format!("the owner is kept out: {} {}", own.code, own.text()));
    target.wait_until_idle()?;
    let idle_since = Instant::now();
    let mut bytes = super::hoard::database_bytes(&target.home.path());
    while bytes >= FOLDED_BYTES_MAX && idle_since.elapsed() < FOLDED_WITHIN {
        std::thread::sleep(LOOK_AGAIN);
        bytes = super::hoard::database_bytes(&target.home.path());
    }
    judgement.measured(format!("{} KiB once it is folded, while the server runs", bytes / 1024));
    judgement.demand(bytes < FOLDED_BYTES_MAX, || format!("folded, the database has {bytes} bytes"));
    Ok(())
}
