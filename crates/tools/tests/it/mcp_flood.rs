//! The MCP client and a server that never stops talking, in every way it can talk: what it costs is bounded.

use crate::mcp_parts::{call, faults, has_python, ready, settings};
use cortex_testkit::eventually;
use cortex_tools::{McpSet, McpSettings, McpState, ToolCallError};
use serde_json::json;
use std::path::Path;
use std::time::Duration;

/// What a flood may cost at its peak; each of them brings more.
const GROWTH_MIB_MAX: u64 = 100;
const PATIENT: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_secs(5);

fn memory_mib(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    line.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap() / 1024
}

async fn started(handshake: &str, call_timeout: Duration, folder: &Path) -> McpSet {
    let (servers, _) = faults(handshake, folder);
    let set = McpSet::connect(servers, McpSettings { call_timeout, ..settings() });
    ready(&set).await;
    set
}

/// One process for each test: the peak is that of this flood.
async fn check(tool: &str, longest: Duration, expected: impl Fn(&Result<String, ToolCallError>) -> bool) {
    if !has_python() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let set = started("initialize", longest, folder.path()).await;
    let before = memory_mib("VmRSS:");
    let ended = call(&set, tool, json!({})).await;
    assert!(expected(&ended), "{ended:?}");
    let growth = memory_mib("VmHWM:").saturating_sub(before);
    assert!(growth < GROWTH_MIB_MAX, "{tool}: memory grew by {growth} MiB");
    set.stop().await;
}

#[tokio::test]
async fn a_line_without_end_is_given_up() {
    check("faults.endless", SHORT, |ended| matches!(ended, Err(ToolCallError::Failed(_)))).await;
}

#[tokio::test]
async fn a_message_of_countless_values_ends_the_connection() {
    check("faults.crumbs", PATIENT, |ended| matches!(ended, Err(ToolCallError::Failed(_)))).await;
}

#[tokio::test]
async fn words_for_people_without_end_are_not_kept() {
    check("faults.errors", PATIENT, |ended| *ended == Ok("told".to_owned())).await;
}

#[tokio::test]
async fn a_server_that_asks_and_reads_no_answers_is_disconnected() {
    check("faults.nag", PATIENT, |ended| match ended {
        Err(ToolCallError::Failed(reason)) => reason.contains("went away"),
        Ok(_) | Err(_) => false,
    })
    .await;
}

#[tokio::test]
async fn a_list_of_tools_without_end_is_cut() {
    if !has_python() {
        return;
    }
    let before = memory_mib("VmRSS:");
    let folder = tempfile::tempdir().unwrap();
    let set = started("pages", PATIENT, folder.path()).await;
    let status = eventually("the list is read", async || {
        let status = set.status().remove(0);
        matches!(status.state, McpState::Ready { .. }).then_some(status)
    })
    .await;
    assert_eq!(status.state, McpState::Ready { tools: 1 }, "{status:?}");
    assert!(status.problems.iter().any(|problem| problem.contains("the schema is over")), "{status:?}");
    let growth = memory_mib("VmHWM:").saturating_sub(before);
    assert!(growth < GROWTH_MIB_MAX, "memory grew by {growth} MiB");
    set.stop().await;
}
