//! `cortex connector check`: what it prints and how it ends.

use crate::cortex::Cortex;
use serde_json::{Value, json};

fn address(cortex: &Cortex) -> String {
    let address = cortex.json(&["status", "--json"])["server"]["address"].as_str().unwrap().to_owned();
    if address.contains("://") { address } else { format!("http://{address}") }
}

#[test]
fn this_server_speaks_the_protocol_and_every_promise_is_a_line() {
    let cortex = Cortex::quiet().started();
    let ran = cortex.run(&["connector", "check", &address(&cortex), "--strict"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(ran.stderr, "failed: 0, extras that are not there: 0\n");
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert!(lines.len() == 22 && lines.iter().all(|line| line.starts_with("ok ")), "{}", ran.stdout);
    assert_eq!(lines[0], "ok         session              GET /connector answers 200 with a UUID");
    let status = cortex.json(&["connector", "status", "--json"]);
    assert_eq!(status.get("local"), None, "it leaves no stranger behind: {status}");
}

#[test]
fn a_server_that_is_not_there_is_exit_1_with_what_was_seen() {
    let ran = Cortex::new().run(&["connector", "check", "http://127.0.0.1:9", "--json"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((&report["failed"], &report["absent"]), (&json!(1), &json!(0)));
    let first = &report["checks"][0];
    assert_eq!(
        (&first["check"], &first["state"], &first["extra"]),
        (&json!("session"), &json!("failed"), &json!(false))
    );
    assert!(first["seen"].as_str().unwrap().contains("refused"), "{first}");
    assert_eq!(report["checks"][21]["state"], "skipped");
}

#[test]
fn what_is_no_address_is_wrong_usage_and_a_key_file_that_is_not_there_is_named() {
    for url in ["localhost", "ftp://localhost"] {
        assert_eq!(Cortex::new().run(&["connector", "check", url]).code, Some(64), "{url}");
    }
    let ran = Cortex::new().run(&["connector", "check", "http://127.0.0.1:9", "--key-file", "/nowhere/key"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("/nowhere/key cannot be read"), "{}", ran.stderr);
}
