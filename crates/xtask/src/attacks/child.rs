//! What the server starts for others: with what it may see, and for how long it lives.

use super::Attack;
use super::judgement::Judgement;
use super::target::{Arena, Said, Setup};
use crate::faults::Extent;
use crate::faults::http::KEY;
use anyhow::{Context, Result};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "children_have_nothing_of_the_server",
        statement: "38, 59",
        extent: Extent::Short,
        run: nothing,
    },
    Attack { name: "no_child_outlives_the_server", statement: "59", extent: Extent::Short, run: outlives },
];

/// An MCP server of one tool, as small as the wire allows.
const MCP_SERVER: &str = r#"
import json, os, subprocess, sys, time
for line in sys.stdin:
    try:
        request = json.loads(line)
    except ValueError:
        continue
    if "id" not in request:
        continue
    method, result = request.get("method"), {}
    if method == "initialize":
        version = request["params"].get("protocolVersion", "2025-06-18")
        result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": {"name": "small", "version": "1"}}
    elif method == "tools/list":
        look = {"description": "Looks.", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}
        result = {"tools": [{"name": "look", **look}, {"name": "stall", **look}]}
    elif method == "tools/call" and request["params"]["name"] == "stall":
        # One that leaves its group, its session and its parent; and then nothing is read any more.
        leave = "import os, subprocess, sys; os.setsid(); subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])"
        subprocess.run([sys.executable, "-c", leave], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        time.sleep(600)
    elif method == "tools/call":
        result = {"content": [{"type": "text", "text": "looked"}]}
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
time.sleep(600)
"#;

const MANIFEST: &str =
    r#"{"id": "notes", "name": "notes", "version": "0.1.0", "runtimeApiVersion": "1", "main": "main.js"}"#;
const MAIN: &str = "export default { listTools() { return [{ name: 'notes.list', description: 'Lists notes.', \
    inputSchema: { type: 'object' }, mutatesState: false }]; }, async execute() { return { content: 'none' }; } };";

pub(super) fn python() -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join("python3")).find(|path| path.is_file());
    found.context("python3 is not on this machine")
}

fn setup() -> Result<Setup> {
    let mcp = json!({"command": python()?, "args": ["-u", "-c", MCP_SERVER]});
    Ok(Setup {
        settings: json!({"skillDirs": ["skills"], "skillIsolation": "process", "mcpServers": {"small": mcp}}),
        script: json!({"answers": [
            {"when": {"afterTool": "small.look"}, "say": "looked"},
            {"when": {"afterTool": "notes.list"}, "say": "listed"},
            {"when": {"equals": "look"}, "toolCalls": [{"name": "small.look", "arguments": {}}]},
            {"when": {"equals": "stall"}, "toolCalls": [{"name": "small.stall", "arguments": {}}]},
            {"when": {"equals": "stuff"}, "toolCalls": [{"name": "small.look", "arguments": {"a": "x".repeat(200_000)}}]},
            {"when": {"equals": "list"}, "toolCalls": [{"name": "notes.list", "arguments": {}}]},
        ], "otherwise": {"say": "re: {{user}}"}}),
        files: vec![
            ("skills/notes/skill.json".to_owned(), MANIFEST.to_owned()),
            ("skills/notes/main.js".to_owned(), MAIN.to_owned()),
        ],
    })
}

/// Everything that descends from a process.
pub(super) fn descendants(pid: u32) -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids: Vec<u32> =
        entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    let parents: Vec<(u32, u32)> = pids.into_iter().filter_map(|pid| Some((pid, parent(pid)?))).collect();
    let mut found = vec![pid];
    let mut at = 0;
    while at < found.len() {
        let above = found[at];
        found.extend(parents.iter().filter(|(_, parent)| *parent == above).map(|(pid, _)| *pid));
        at += 1;
    }
    found.split_off(1)
}

fn parent(pid: u32) -> Option<u32> {
    status(pid, "PPid:")?.parse().ok()
}

fn status(pid: u32, field: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    Some(text.lines().find_map(|line| line.strip_prefix(field))?.trim().to_owned())
}

/// Both tools were called, so that both children are there.
fn call_both(target: &super::target::Target, judgement: &mut Judgement) -> Result<()> {
    let started = Instant::now();
    while !target.owner_get("/api/v2/tools")?.to_string().contains("small.look") {
        anyhow::ensure!(
            started.elapsed() < Duration::from_secs(20),
            "the MCP server did not come up: {}",
            target.log()
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    for (word, answer) in [("look", "looked"), ("list", "listed")] {
        target.ingest(KEY, &Said { topic: word, ..Said::at_terminal(word, word) })?;
        let answered = target.wait_for_message(KEY, "cli", |message| message["topicKey"] == word)?;
        judgement.control(answered["text"] == answer, || format!("{word}: {}", answered["text"]));
    }
    Ok(())
}

fn nothing(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let target = arena.server_with(&setup()?)?;
    call_both(&target, judgement)?;
    let home = target.home.path();
    let children = descendants(target.server.pid());
    judgement.control(children.len() >= 2, || format!("only {} children", children.len()));
    for pid in children {
        let name = status(pid, "Name:").unwrap_or_default();
        let privileges = status(pid, "NoNewPrivs:").unwrap_or_default();
        judgement.demand(privileges == "1", || format!("{name}: NoNewPrivs is {privileges:?}"));
        let foreign = foreign_descriptors(pid, &home);
        judgement.demand(foreign.is_empty(), || format!("{name} has {foreign:?}"));
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let environment = String::from_utf8_lossy(&environment).into_owned();
        judgement
            .demand(!environment.contains(KEY), || format!("{name} has the owner's key in its environment"));
        let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap_or_default();
        let core =
            limits.lines().find(|line| line.starts_with("Max core file size")).unwrap_or_default().to_owned();
        judgement.demand(core.split_whitespace().nth(4) == Some("0"), || format!("{name}: {core}"));
    }
    Ok(())
}

/// What a child holds open beyond its own three, of the server's: its database, its sockets, its log.
fn foreign_descriptors(pid: u32, home: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else { return Vec::new() };
    let links = entries.flatten().filter_map(|entry| {
        let number: u32 = entry.file_name().to_str()?.parse().ok()?;
        Some((number, fs::read_link(entry.path()).ok()?))
    });
    let is_foreign = |number: u32, link: &Path| {
        let text = link.to_string_lossy();
        let is_of_home = link.starts_with(home) && text.contains("cortex.db");
        // A child's own event loop is not the server's, and neither is what it opens itself.
        number > 2 && (text.starts_with("socket:") || is_of_home)
    };
    links
        .filter(|(number, link)| is_foreign(*number, link))
        .map(|(number, link)| format!("{number} {}", link.display()))
        .collect()
}

fn outlives(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let target = arena.server_with(&setup()?)?;
    call_both(&target, judgement)?;
    // The program starts one that runs away, and reads no more; what is said to it then fills every pipe.
    for word in ["stall", "stuff"] {
        target.ingest(KEY, &Said { topic: word, ..Said::at_terminal(word, word) })?;
    }
    let started = Instant::now();
    let mut children = descendants(target.server.pid());
    let runaways = |pids: &[u32]| {
        pids.iter().filter(|pid| words(**pid).ends_with("import time; time.sleep(600)\0")).count()
    };
    while runaways(&children) < 1 && started.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(50));
        children = descendants(target.server.pid());
    }
    std::thread::sleep(Duration::from_secs(1));
    let children = descendants(target.server.pid());
    judgement.control(children.len() >= 4, || format!("only {} children", children.len()));
    // A skill that hears nothing does not see its input end.
    for pid in children.iter().filter(|pid| words(**pid).contains("skill-host")) {
        signal(*pid, rustix::process::Signal::STOP);
    }
    target.server.kill()?;
    let started = Instant::now();
    let mut left = children;
    while !left.is_empty() && started.elapsed() < Duration::from_secs(10) {
        left.retain(|pid| status(*pid, "State:").is_some_and(|state| !state.starts_with('Z')));
        std::thread::sleep(Duration::from_millis(50));
    }
    judgement.demand(left.is_empty(), || {
        let names: Vec<String> = left.iter().filter_map(|pid| status(*pid, "Name:")).collect();
        format!("still there after a kill: {names:?}")
    });
    for pid in left {
        signal(pid, rustix::process::Signal::KILL);
    }
    Ok(())
}

/// To a process that a server started which we started.
fn signal(pid: u32, signal: rustix::process::Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw) {
        rustix::process::kill_process(pid, signal).unwrap_or_default();
    }
}

/// What a process was started with.
fn words(pid: u32) -> String {
    String::from_utf8_lossy(&fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default()).into_owned()
}
