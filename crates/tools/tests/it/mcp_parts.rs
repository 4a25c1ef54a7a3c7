//! What the MCP tests share: where the third party's server is, settings that hurry, and calls.

use cortex_testkit::eventually;
use cortex_tools::{
    CallContext, ChildHost, HostPolicy, McpServers, McpSet, McpSettings, McpState, ToolCallError, ToolRunner,
};
use cortex_types::{Millis, TopicRef};
use rustix::process::Pid;
use serde_json::{Value, json};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The program of npm's `@modelcontextprotocol/server-everything`, or nothing where it is not installed.
/// With `CORTEX_REQUIRE_ALL=1` that is a failure.
pub(crate) fn everything() -> Option<PathBuf> {
    let installed = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/npm/mcp-server-everything");
    let folder = std::env::var_os("CORTEX_MCP_EVERYTHING").map_or_else(installed, PathBuf::from);
    let program = folder.join("node_modules/.bin/mcp-server-everything");
    if program.exists() && starts("node") {
        return Some(program);
    }
    left_out("npm");
    None
}

/// Whether our own server with faults can run; without Python its tests are left out.
pub(crate) fn has_python() -> bool {
    let is_there = starts("python3");
    if !is_there {
        left_out("python3");
    }
    is_there
}

fn starts(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

#[expect(clippy::print_stderr, reason = "whoever runs the tests reads what was left out")]
fn left_out(missing: &str) {
    let is_required = std::env::var_os("CORTEX_REQUIRE_ALL").is_some_and(|value| value == "1");
    assert!(!is_required, "{missing} is missing");
    eprintln!("SKIPPED mcp: {missing}");
}

/// Short waits; this process's environment, keys and all.
pub(crate) fn settings() -> McpSettings {
    let text = |name: &str| std::env::var(name).ok().map(|value| (name.to_owned(), value));
    let mut environment: std::collections::BTreeMap<String, String> =
        ["PATH", "HOME", "LANG", "TZ", "TMPDIR"].into_iter().filter_map(text).collect();
    environment.insert("CORTEX_SECRET_KEY".to_owned(), "k".to_owned());
    McpSettings {
        environment,
        host: Some(host(Vec::new())),
        first_backoff: Duration::from_millis(50),
        longest_backoff: Duration::from_millis(200),
        ..McpSettings::default()
    }
}

/// What stands between us and every server, as it does in `cortex`.
pub(crate) fn host(closed: Vec<PathBuf>) -> ChildHost {
    ChildHost {
        program: env!("CARGO_BIN_EXE_skill-child").into(),
        args: vec!["child-host".to_owned()],
        closed,
    }
}

/// Our own server with faults, which shakes hands like this, and the file that counts its calls.
pub(crate) fn faults(handshake: &str, folder: &Path) -> (McpServers, PathBuf) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/mcp_fault_server.py");
    let calls = folder.join("calls");
    std::fs::write(&calls, "").unwrap();
    let servers = json!({"faults": {
        "command": python(),
        "args": ["-u", script, handshake, calls],
        "env": {"GIVEN": "1"},
    }});
    (serde_json::from_value(servers).unwrap(), calls)
}

/// The interpreter itself: what is first on the path may be a script that sets variables.
pub(crate) fn python() -> String {
    let output = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

pub(crate) async fn ready(set: &McpSet) {
    eventually("every server is ready", async || {
        let states: Vec<McpState> = set.status().into_iter().map(|server| server.state).collect();
        states.iter().all(|state| matches!(state, McpState::Ready { .. })).then_some(())
    })
    .await;
}

pub(crate) fn context() -> CallContext {
    CallContext {
        topic: TopicRef { source: "test".to_owned(), topic_key: "t".to_owned() },
        sight: cortex_types::Sight::Everything,
        event: None,
        user_id: "u".to_owned(),
        now: Millis(0),
        reach: HostPolicy::AnyPublic,
        cancel: CancellationToken::new(),
    }
}

pub(crate) async fn call(set: &McpSet, tool: &str, arguments: Value) -> Result<String, ToolCallError> {
    run(set, tool, &arguments.to_string()).await
}

pub(crate) async fn run(set: &McpSet, tool: &str, arguments: &str) -> Result<String, ToolCallError> {
    let outcome = set.run(&tool.parse().unwrap(), arguments, &context()).await;
    outcome.map(|outcome| outcome.text)
}

pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).unwrap().port()
}

/// Gone, or dead and not yet fetched by whoever adopted it.
pub(crate) fn is_gone(process: Pid) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{}/stat", process.as_raw_pid())) else {
        return true;
    };
    stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z'))
}
