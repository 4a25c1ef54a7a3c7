//! Memory, the gardener and ops at the command line.

use crate::cortex::Cortex;
use serde_json::json;
use std::os::unix::fs::PermissionsExt;

const NO_FACT: &str = "fct_01ARZ3NDEKTSV4RRFFQ69G5FAV";
const NO_OP: &str = "op_01ARZ3NDEKTSV4RRFFQ69G5FAV";

#[test]
fn what_was_said_is_remembered_found_changed_and_forgotten() {
    let cortex = Cortex::quiet().started();
    cortex.run(&["send", "My name is Ada. I like green tea."]);
    let ran = cortex.run(&["gardener", "run", "extractor"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    assert!(ran.stdout.starts_with("2 facts from 1 messages"), "{}", ran.stdout);
    let list = cortex.json(&["memory", "list", "--json"]);
    assert_eq!(list["items"].as_array().unwrap().len(), 2);
    let found = cortex.json(&["memory", "search", "green tea", "--json"]);
    let fact = found["items"].as_array().unwrap().iter().find(|hit| hit["kind"] == "fact").unwrap();
    let id = fact["id"].as_str().unwrap();
    let pinned = cortex.json(&["memory", "pin", id, "--json"]);
    assert_eq!((&pinned["pinned"], &pinned["text"]), (&json!(true), &json!("The user likes green tea")));
    assert_eq!(cortex.json(&["memory", "pin", id, "--off", "--json"])["pinned"], false);
    assert!(cortex.run(&["memory", "edit", id, "The user likes black tea"]).stdout.contains("black tea"));
    assert!(cortex.run(&["memory", "show", id]).stdout.contains("from      turn evt_"));
    assert_eq!(cortex.run(&["memory", "forget", id]).code, Some(0));
    let gone = cortex.run(&["memory", "show", id]);
    assert_eq!(gone.code, Some(1));
    assert_eq!(
        gone.stderr,
        format!("cortex: not_found: there is no fact {id}; `cortex memory list` shows them\n")
    );
}

#[test]
fn one_pinned_fact_too_many_is_refused_with_what_to_do() {
    let cortex = Cortex::quiet().started();
    let file = cortex.beside("pinned.ndjson");
    let line =
        |number| format!("{{\"content\": \"box {number} holds {} keys\", \"pinned\": true}}\n", number * 7);
    std::fs::write(&file, (0..51).map(line).collect::<String>()).unwrap();
    let imported = cortex.run(&["memory", "import", file.to_str().unwrap()]);
    assert_eq!(imported.stdout, "51 new, 0 merged, 0 known\n");
    assert_eq!(imported.stderr, "1 not pinned here: as many as fit are pinned already\n");
    let pinned = cortex.json(&["memory", "list", "--pinned", "-n", "100", "--json"]);
    assert_eq!(pinned["items"].as_array().unwrap().len(), 50);
    let newest = cortex.json(&["memory", "list", "-n", "1", "--json"])["items"][0]["factId"].clone();
    let refused = cortex.run(&["memory", "pin", newest.as_str().unwrap()]);
    let why = "cortex: conflict: 50 facts are pinned already; unpin one first: `cortex memory list --pinned` shows \
               them, `cortex memory pin <fact> --off` unpins one\n";
    assert_eq!((refused.code, refused.stderr.as_str()), (Some(1), why));
}

#[test]
fn memory_shows_its_numbers() {
    let cortex = Cortex::quiet().started();
    cortex.run(&["send", "I live in Paris"]);
    cortex.run(&["gardener", "run", "extractor"]);
    assert_eq!(cortex.json(&["memory", "search", "Paris", "--json"])["items"].as_array().unwrap().len(), 3);
    let expected = "kept      in this home\nfacts     1 hot, 0 cold (0 pinned)\nturns     2 of 2 indexed\n\
                    embedder  cortex-static-1 (256 dimensions)\nvectors   3 of 3\n";
    let shown = cortex.run(&["memory", "status"]);
    assert_eq!((shown.code, shown.stdout.as_str()), (Some(0), expected), "{}", shown.stderr);
    assert_eq!(cortex.run(&["memory"]).stdout, expected, "the same without a word more");
    let status = cortex.json(&["memory", "status", "--json"]);
    assert_eq!(status["engramUrl"], json!(null));
    assert_eq!(status["reembedding"], json!({"isRunning": false, "lastError": null}));
}

#[test]
fn memory_says_that_an_engram_service_keeps_it() {
    let url = "http://127.0.0.1:1/engram";
    let cortex = Cortex::quiet().with("CORTEX_ENGRAM_URL", url).started();
    let kept =
        format!("kept      by the Engram service at {url}; the facts below are those kept here before\n");
    for shown in [cortex.run(&["memory"]), cortex.run(&["memory", "status"])] {
        assert!(shown.stdout.starts_with(&kept), "{} {}", shown.stdout, shown.stderr);
    }
    let said = format!("memory is kept by the Engram service at {url}; this is what is kept here\n");
    for arguments in [&["memory", "list"][..], &["memory", "search", "tea"]] {
        let shown = cortex.run(arguments);
        assert!(shown.stderr.starts_with(&said), "{arguments:?}: {}", shown.stderr);
    }
}

#[test]
fn an_export_is_taken_in_once() {
    let cortex = Cortex::quiet().started();
    cortex.run(&["send", "I live in Paris"]);
    cortex.run(&["gardener", "run", "extractor"]);
    let file = cortex.beside("memory.ndjson");
    let file = file.to_str().unwrap();
    assert_eq!(cortex.run(&["memory", "export", file]).stderr, format!("1 facts in {file}\n"));
    let mode = || std::fs::metadata(file).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(), 0o600, "facts are personal");
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(cortex.run(&["memory", "export", file]).code, Some(0));
    assert_eq!(mode(), 0o600, "in a file that was there, too");
    assert_eq!(cortex.run(&["memory", "import", file]).stdout, "0 new, 0 merged, 1 known\n");
    let other = Cortex::quiet().started();
    assert_eq!(other.run(&["memory", "import", file]).stdout, "1 new, 0 merged, 0 known\n");
    assert_eq!(other.run(&["memory", "export"]).stdout.lines().count(), 1);
}

#[test]
fn the_gardener_shows_its_tasks() {
    let cortex = Cortex::quiet().started();
    let status = cortex.run(&["gardener", "status"]);
    let tasks: Vec<&str> =
        status.stdout.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(tasks, ["compactor", "extractor", "evictor", "harvester"]);
    assert_eq!(cortex.run(&["gardener", "run", "weeder"]).code, Some(64));
}

#[test]
fn ops_are_listed_and_an_unknown_one_is_not_found() {
    let cortex = Cortex::quiet().started();
    assert_eq!(cortex.json(&["ops", "list", "--json"])["items"], json!([]));
    for action in ["show", "cancel"] {
        let ran = cortex.run(&["ops", action, NO_OP]);
        let expected = format!("cortex: not_found: there is no op {NO_OP}; `cortex ops list` shows them\n");
        assert_eq!((ran.code, ran.stderr), (Some(1), expected), "{action}");
    }
    assert_eq!(cortex.run(&["memory", "forget", NO_FACT]).code, Some(1));
}
