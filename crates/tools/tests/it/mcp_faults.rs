//! The MCP client and a server that dies, hangs, changes and floods.

use crate::mcp_parts::{call, context, everything, faults, has_python, is_gone, python, ready, settings};
use cortex_testkit::eventually;
use cortex_tools::{McpServers, McpSet, McpSettings, McpState, ToolCallError, ToolRunner};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

fn start(handshake: &str, folder: &Path) -> (McpSet, std::path::PathBuf) {
    let (servers, calls) = faults(handshake, folder);
    (McpSet::connect(servers, settings()), calls)
}

fn pid(text: &str) -> Pid {
    Pid::from_raw(text.parse().unwrap()).unwrap()
}

async fn about(set: &McpSet) -> Value {
    serde_json::from_str(&call(set, "faults.whoami", json!({})).await.unwrap()).unwrap()
}

async fn gone(process: Pid) {
    eventually("the process is gone", async || is_gone(process).then_some(())).await;
}

#[tokio::test]
async fn a_child_has_a_scrubbed_environment_its_own_group_and_no_descriptors_of_ours() {
    if !has_python() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let _ours = std::fs::File::open(folder.path()).unwrap();
    let (set, _) = start("initialize", folder.path());
    ready(&set).await;
    let about = about(&set).await;
    let names: Vec<&str> = about["env"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    // Python itself adds the one about its locale.
    let passed = ["GIVEN", "HOME", "LANG", "LC_CTYPE", "PATH", "TMPDIR", "TZ"];
    assert!(names.contains(&"GIVEN") && names.iter().all(|name| passed.contains(name)), "{names:?}");
    assert_eq!(about["group"], true);
    // 3 is the folder it reads to see them.
    assert_eq!(about["fds"], json!([0, 1, 2, 3]));
    set.stop().await;
}

#[tokio::test]
async fn a_killed_server_is_restarted_and_offers_its_tools_again() {
    if !has_python() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (set, _) = start("initialize", folder.path());
    ready(&set).await;
    let offered = set.definitions();
    let first = about(&set).await["pid"].to_string();
    kill_process(pid(&first), Signal::KILL).unwrap();
    gone(pid(&first)).await;
    assert_eq!(set.definitions(), offered, "the tools of a server that restarts stay");
    eventually("another process", async || {
        let asked = call(&set, "faults.whoami", json!({})).await;
        let now: Value = serde_json::from_str(&asked.ok()?).unwrap();
        let process = now["pid"].to_string();
        (process != first).then_some(())
    })
    .await;
    assert_eq!(set.definitions(), offered);
    set.stop().await;
}

#[tokio::test]
async fn a_killed_real_server_is_restarted_and_callable_again() {
    if !has_python() {
        return;
    }
    let Some(program) = everything() else { return };
    // Its own children tell the process apart: a shell-free way to learn its number.
    let folder = tempfile::tempdir().unwrap();
    let wrapper =
        "import os, sys; open(sys.argv[1], 'w').write(str(os.getpid())); os.execv(sys.argv[2], sys.argv[2:])";
    let note = folder.path().join("pid");
    let entry = json!({"e": {"command": python(), "args": ["-c", wrapper, note, program, "stdio"]}});
    let set = McpSet::connect(serde_json::from_value(entry).unwrap(), settings());
    ready(&set).await;
    let first = std::fs::read_to_string(&note).unwrap();
    kill_process(pid(&first), Signal::KILL).unwrap();
    eventually("another process", async || {
        let now = std::fs::read_to_string(&note).unwrap();
        (!now.is_empty() && now != first).then_some(())
    })
    .await;
    assert_eq!(call(&set, "e.echo", json!({"message": "back"})).await.unwrap(), "Echo: back");
    set.stop().await;
}

#[tokio::test]
async fn a_death_during_a_call_is_unknown_for_a_tool_that_changes_things() {
    if !has_python() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (set, calls) = start("initialize", folder.path());
    ready(&set).await;
    let read = call(&set, "faults.die", json!({})).await;
    assert!(matches!(read, Err(ToolCallError::Failed(_))), "{read:?}");
    let written = call(&set, "faults.die_write", json!({})).await;
    assert!(matches!(written, Err(ToolCallError::Unknown(_))), "{written:?}");
    eventually("it says how it ended", async || match &set.status()[0].state {
        McpState::Down { error, .. } => {
            assert!(error.contains("exit status: 3") || error.contains("about to die"), "{error}");
            Some(())
        }
        McpState::Connecting | McpState::Ready { .. } | McpState::Stopped => None,
    })
    .await;
    ready(&set).await;
    assert_eq!(
        std::fs::read_to_string(calls).unwrap(),
        "die\ndie.write\n",
        "nothing is called again by itself"
    );
    set.stop().await;
}

#[tokio::test]
async fn a_call_is_given_up_by_time_or_by_the_caller_and_the_server_is_told() {
    if !has_python() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (servers, calls) = faults("initialize", folder.path());
    let set =
        McpSet::connect(servers, McpSettings { call_timeout: Duration::from_millis(100), ..settings() });
    ready(&set).await;
    let read = call(&set, "faults.hang", json!({})).await;
    assert_eq!(read, Err(ToolCallError::Failed("timed out after 100 ms".to_owned())));
    let cancelled = context();
    cancelled.cancel.cancel();
    let written = set.run(&"faults.hang_write".parse().unwrap(), "{}", &cancelled).await;
    assert!(matches!(written, Err(ToolCallError::Unknown(_))), "{written:?}");
    eventually("the server was told", async || {
        std::fs::read_to_string(&calls).unwrap().contains("cancelled").then_some(())
    })
    .await;
    set.stop().await;
}

#[tokio::test]
async fn errors_of_a_tool_are_told_apart() {
    if !has_python() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (servers, _) = faults("initialize", folder.path());
    let set = McpSet::connect(servers, McpSettings { call_timeout: Duration::from_secs(5), ..settings() });
    ready(&set).await;
    assert_eq!(call(&set, "faults.fail", json!({})).await, Err(ToolCallError::Failed("no luck".to_owned())));
    assert_eq!(
        call(&set, "faults.refuse", json!({})).await,
        Err(ToolCallError::NotRun("odd arguments".to_owned()))
    );
    for (tool, arguments) in [("faults.whoami", "[1]"), ("faults.nothing", "{}"), ("other.tool", "{}")] {
        let result = set.run(&tool.parse().unwrap(), arguments, &context()).await;
        assert!(matches!(result, Err(ToolCallError::NotRun(_))), "{tool}: {result:?}");
    }
    let flood = call(&set, "faults.flood", json!({})).await;
    assert!(matches!(flood, Err(ToolCallError::Failed(_))), "an answer over the bound is dropped: {flood:?}");
    assert!(about(&set).await["pid"].is_number(), "the server is still there");
    set.stop().await;
}

#[tokio::test]
async fn a_changed_list_of_tools_is_offered_in_both_eras_of_the_protocol() {
    if !has_python() {
        return;
    }
    for handshake in ["initialize", "discover"] {
        let folder = tempfile::tempdir().unwrap();
        let (set, _) = start(handshake, folder.path());
        ready(&set).await;
        let mut changes = set.changes();
        changes.mark_unchanged();
        assert_eq!(call(&set, "faults.grow", json!({})).await.unwrap(), "grown", "{handshake}");
        changes.changed().await.unwrap();
        assert_eq!(call(&set, "faults.grown", json!({})).await.unwrap(), "new", "{handshake}");
        set.stop().await;
    }
}

#[tokio::test]
async fn a_server_that_dies_of_the_newest_words_gets_the_older_ones() {
    if !has_python() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (set, _) = start("deaf", folder.path());
    ready(&set).await;
    assert!(about(&set).await["pid"].is_number());
    set.stop().await;
}

#[tokio::test]
async fn a_server_ends_with_all_its_children() {
    if !has_python() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (set, _) = start("initialize", folder.path());
    ready(&set).await;
    let server = pid(&about(&set).await["pid"].to_string());
    let grandchild = pid(&call(&set, "faults.outlive", json!({})).await.unwrap());
    // It left its group, its session and its parent.
    let runaway = pid(&call(&set, "faults.leave", json!({})).await.unwrap());
    drop(set);
    gone(server).await;
    gone(grandchild).await;
    gone(runaway).await;
}

#[tokio::test]
async fn a_server_that_cannot_start_says_why_and_leaves_the_others_alone() {
    if !has_python() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/mcp_fault_server.py");
    let servers: McpServers = serde_json::from_value(json!({
        "good": {"command": python(), "args": [script, "initialize", folder.path().join("calls")]},
        "missing": {"command": "no-such-program-here"},
        "talks": {"command": python(), "args": ["-c", "import sys; sys.exit('a key is missing')"]},
    }))
    .unwrap();
    let set = McpSet::connect(servers, settings());
    let state = |name: &str| {
        let found = set.status().into_iter().find(|server| server.name == name);
        found.unwrap().state
    };
    for (name, reason) in [("missing", "no-such-program-here"), ("talks", "a key is missing")] {
        eventually(format!("{name} says {reason}"), async || match state(name) {
            McpState::Down { error, .. } => error.contains(reason).then_some(()),
            McpState::Connecting | McpState::Ready { .. } | McpState::Stopped => None,
        })
        .await;
    }
    eventually("the good one is ready", async || {
        matches!(state("good"), McpState::Ready { tools: 17 }).then_some(())
    })
    .await;
    assert!(set.definitions().iter().all(|definition| definition.name.skill() == "good"));
    set.stop().await;
}
