//! Programs without a key that fill the disk: by saying the same again in other words, and by saying much.

use super::Attack;
use super::judgement::Judgement;
use super::socket::{Posing, Socket};
use super::target::{Arena, Said, Setup, Target};
use crate::faults::Extent;
use crate::faults::http::KEY;
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "one_event_in_ever_other_words_costs_no_disk",
        statement: "51, 57",
        extent: Extent::Short,
        run: other_words,
    },
    Attack {
        name: "strangers_leave_room_in_the_database",
        statement: "51, 57",
        extent: Extent::Short,
        run: strangers_fill,
    },
];

const ACCEPTED: &str = "assistant.message.accepted";
const ERROR: &str = "assistant.message.error";
const OUTBOUND: &str = "assistant.message.outbound";
const PATIENCE: Duration = Duration::from_secs(30);
/// How often the same event comes, and how many of them before their receipts are read.
const SAID: usize = 20_000;
const AT_ONCE: usize = 40;
const SAID_WITHIN: Duration = Duration::from_secs(180);
const MIB: u64 = 1024 * 1024;

const STRANGER: Posing<'static> =
    Posing { source: "urn:connector:hoarder", connector_id: "hoarder", conversation: "heap", user: None };

/// Everything that the database takes on the disk.
pub(super) fn database_bytes(home: &Path) -> u64 {
    ["cortex.db", "cortex.db-wal", "cortex.db-shm"]
        .iter()
        .filter_map(|name| fs::metadata(home.join(name)).ok())
        .map(|about| about.len())
        .sum()
}

/// Stops the server, so that its log is folded in, and says what is left on the disk.
fn folded(target: Target) -> Result<(Target, u64)> {
    let Target { home, server, .. } = target;
    server.terminate(PATIENCE)?.context("the server did not stop")?;
    let bytes = database_bytes(&home.path());
    let server = home.started()?;
    Ok((Target { port: server.port, server, home }, bytes))
}

fn other_words(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let target = arena.server()?;
    let mut socket = Socket::open(&target, None, "?receipts=1")?;
    socket.say(&STRANGER, "same", "the first words", &Value::Null)?;
    let first = socket.wait_for(|frame| frame["type"] == ACCEPTED)?;
    judgement.control(first["data"]["duplicate"] == false, || format!("the first is not taken: {first}"));
    target.wait_until_idle()?;
    let (target, before) = folded(target)?;
    let mut socket = Socket::open(&target, None, "?receipts=1")?;
    let (mut duplicates, mut number, started) = (0, 0, Instant::now());
    while duplicates < SAID && started.elapsed() < SAID_WITHIN {
        for _ in 0..AT_ONCE {
            number += 1;
            socket.say(&STRANGER, "same", &format!("other words, number {number}"), &Value::Null)?;
        }
        let mut waits = false;
        for _ in 0..AT_ONCE {
            let told = socket.wait_for(|frame| frame["type"] == ACCEPTED || frame["type"] == ERROR)?;
            duplicates += usize::from(told["data"]["duplicate"] == true);
            waits |= told["data"]["code"] == "too_many_requests";
        }
        if waits {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    judgement
        .control(duplicates >= SAID, || format!("only {duplicates} of {number} were told to be duplicates"));
    target.wait_until_idle()?;
    let (_target, after) = folded(target)?;
    let growth = after.saturating_sub(before);
    judgement.measured(format!("{duplicates} duplicates, +{} KiB", growth / 1024));
    judgement.demand(growth < MIB, || format!("the database grew by {growth} bytes"));
    Ok(())
}

/// Size of the words of one event, just below what a frame may have.
const LARGE: usize = 950_000;
const DATABASE_MIB: usize = 64;

fn strangers_fill(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let setup = Setup {
        settings: json!({"maxDatabaseMiB": DATABASE_MIB}),
        script: json!({"otherwise": {"say": "heard"}}),
        ..Setup::default()
    };
    let target = arena.server_with(&setup)?;
    let key = target.connector_key("slack")?;
    let mut socket = Socket::open(&target, None, "")?;
    let (words, mut taken, mut refusal) = ("x".repeat(LARGE), 0, Value::Null);
    // Far more than there is room for.
    for number in 0..2 * DATABASE_MIB {
        let id = format!("large-{number}");
        socket.say(&STRANGER, &id, &words, &Value::Null)?;
        let told = socket.wait_for(|frame| frame["type"] == OUTBOUND || frame["type"] == ERROR)?;
        if told["type"] == OUTBOUND {
            taken += 1;
        } else if told["data"]["code"] == "too_many_requests" {
            std::thread::sleep(Duration::from_millis(200));
        } else {
            refusal = told["data"].clone();
            break;
        }
    }
    judgement.control(taken > 0, || format!("not even the first was taken: {refusal}"));
    judgement.measured(format!("{taken} MB of strangers were taken"));
    let has_reason =
        ["code", "message"].iter().all(|name| refusal[name].as_str().is_some_and(|text| !text.is_empty()));
    judgement.demand(has_reason, || format!("strangers are not refused with a reason: {refusal}"));
    let by_key = target.ingest(&key, &Said { source: "slack", ..Said::at_terminal("by-key", "hello") })?;
    judgement.demand(by_key.code == 202, || {
        format!("a connector with a key is kept out: {} {}", by_key.code, by_key.text())
    });
    let own = target.ingest(KEY, &Said::at_terminal("own", "hello"))?;
    judgement.demand(own.code == 202, || format!("the owner is kept out: {} {}", own.code, own.text()));
    for (who, source) in [(key.as_str(), "slack"), (KEY, "cli")] {
        let answered = target.wait_for_message(who, source, |message| message["text"] == "heard");
        judgement.demand(answered.is_ok(), || format!("{source} is not answered"));
    }
    Ok(())
}
