//! Modes and names: no message waits for ever because a source has another name than its channel, or a mode changed.

use super::Attack;
use super::judgement::Judgement;
use super::socket::{Posing, Socket};
use super::target::{Arena, Said, Setup, Target};
use crate::faults::Extent;
use crate::faults::http::KEY;
use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::fs;
use std::time::{Duration, Instant};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "no_message_waits_for_ever_behind_a_turn",
        statement: "F-I9",
        extent: Extent::Short,
        run: behind_a_turn,
    },
    Attack {
        name: "no_message_is_lost_while_its_channel_is_off",
        statement: "F-I9",
        extent: Extent::Short,
        run: off_and_on,
    },
];

const SOURCE: &str = "urn:connector:matrix-1";
const CHANNEL: &str = "matrix-1";
const PATIENCE: Duration = Duration::from_secs(20);

/// Only one channel is listed, by a name that is not the name of its source.
fn server(arena: &Arena) -> Result<Target> {
    let script = json!({"answers": [
        {"when": {"startsWith": "fails"}, "error": {"kind": "rateLimited", "retryAfterSeconds": 1}, "times": 1},
    ], "otherwise": {"say": "re: {{user}}", "delayMs": 200}});
    arena.server_with(&Setup { settings: settings("live"), script, ..Setup::default() })
}

fn settings(mode: &str) -> Value {
    json!({"defaultMode": "off", "channels": {CHANNEL: mode, "cli": "live"}})
}

/// The answers to so many messages, in the order in which they came.
fn answers(socket: &mut Socket, count: usize) -> Result<Vec<String>> {
    (0..count)
        .map(|_| {
            let frame = socket.wait_for(|frame| frame["type"] == "assistant.message.outbound")?;
            Ok(frame["data"]["text"].as_str().unwrap_or_default().to_owned())
        })
        .collect()
}

fn say_all(socket: &mut Socket, words: &[&str]) -> Result<()> {
    let posing = Posing { source: SOURCE, connector_id: CHANNEL, conversation: "room", user: Some("ada") };
    words.iter().try_for_each(|words| socket.say(&posing, words, words, &Value::Null))
}

fn behind_a_turn(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let target = server(arena)?;
    for words in ["one", "two", "three"] {
        target.ingest(KEY, &Said::at_terminal(words, words))?;
    }
    for words in ["one", "two", "three"] {
        let answered =
            target.wait_for_message(KEY, "cli", |message| message["text"] == format!("re: {words}"));
        judgement.control(answered.is_ok(), || format!("{words} is not answered where names are equal"));
    }
    let key = target.connector_key(SOURCE)?;
    let mut socket = Socket::open(&target, Some(&key), &format!("?connectorId={CHANNEL}"))?;
    // The second waits behind a turn that is tried again, the third behind both.
    for words in [["one", "two", "three"], ["fails", "five", "six"]] {
        say_all(&mut socket, &words)?;
        let expected: Vec<String> = words.iter().map(|words| format!("re: {words}")).collect();
        let heard = answers(&mut socket, words.len());
        judgement.demand(heard.as_ref().is_ok_and(|heard| *heard == expected), || {
            format!("{words:?} are answered by {heard:?}; {}", waiting(&target))
        });
    }
    Ok(())
}

fn waiting(target: &Target) -> String {
    let inbox = target.owner_get("/api/v2/inbox?limit=20").unwrap_or_default();
    let rows = inbox["items"].as_array().cloned().unwrap_or_default();
    let open = rows.iter().filter(|row| !matches!(row["status"].as_str(), Some("done" | "failed")));
    let open: Vec<String> = open.map(|row| format!("{} is {}", row["text"], row["status"])).collect();
    format!("of the inbox {open:?}")
}

/// Has the server read its settings again and waits until they hold.
fn set(target: &Target, mode: &str) -> Result<()> {
    fs::write(target.home.path().join("server.json"), settings(mode).to_string())?;
    let pid = i32::try_from(target.server.pid()).ok().and_then(Pid::from_raw).context("a pid is positive")?;
    kill_process(pid, Signal::HUP)?;
    let started = Instant::now();
    while started.elapsed() < PATIENCE {
        let channels = target.owner_get("/api/v2/channels")?;
        let rows =
            channels["items"].as_array().or(channels["channels"].as_array()).cloned().unwrap_or_default();
        let is_set = rows.iter().any(|row| {
            let name = row["channel"].as_str().or(row["name"].as_str());
            name == Some(CHANNEL) && row["mode"] == mode
        });
        if is_set {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    anyhow::bail!("the mode did not change to {mode}: {}", target.owner_get("/api/v2/channels")?)
}

fn off_and_on(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let target = server(arena)?;
    let key = target.connector_key(SOURCE)?;
    let mut socket = Socket::open(&target, Some(&key), &format!("?connectorId={CHANNEL}"))?;
    say_all(&mut socket, &["hello"])?;
    let heard = answers(&mut socket, 1)?;
    judgement.control(heard == ["re: hello"], || format!("{heard:?}"));
    say_all(&mut socket, &["one", "two", "three"])?;
    // Accepted before the mode changes: each of them has its row.
    let started = Instant::now();
    while target.owner_get("/api/v2/inbox?limit=20")?["items"].as_array().map_or(0, Vec::len) < 4 {
        anyhow::ensure!(started.elapsed() < PATIENCE, "the messages did not arrive");
        std::thread::sleep(Duration::from_millis(10));
    }
    set(&target, "off")?;
    std::thread::sleep(Duration::from_millis(600));
    set(&target, "live")?;
    // What was said while the mode was off is held back by it; every message still has its turn, and in order.
    target.wait_until_idle()?;
    let inbox = target.owner_get("/api/v2/inbox?limit=20")?;
    let rows = inbox["items"].as_array().cloned().unwrap_or_default();
    let status = |words: &str| {
        let row = rows.iter().find(|row| row["text"] == words);
        row.and_then(|row| row["status"].as_str()).unwrap_or("gone").to_owned()
    };
    for words in ["one", "two", "three"] {
        judgement.demand(status(words) == "done", || format!("{words} is {}", status(words)));
    }
    Ok(())
}
