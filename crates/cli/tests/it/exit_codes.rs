//! How commands end when nothing runs, or when they are used wrongly.

use crate::cortex::Cortex;

const EVENT: &str = "evt_01ARZ3NDEKTSV4RRFFQ69G5FAV";
const APPROVAL: &str = "apv_01ARZ3NDEKTSV4RRFFQ69G5FAV";
const MESSAGE: &str = "out_01ARZ3NDEKTSV4RRFFQ69G5FAV";

#[test]
fn every_client_command_says_how_to_start_when_nothing_runs() {
    // Port 1 on loopback: nobody listens there.
    let cortex = Cortex::new().with("CORTEX_PORT", "1");
    let commands: [&[&str]; 25] = [
        &["status"],
        &["health"],
        &["send", "hello"],
        &["chat"],
        &["inbox", "list"],
        &["inbox", "show", EVENT],
        &["inbox", "retry", EVENT],
        &["outbox", "list"],
        &["outbox", "dead"],
        &["outbox", "retry", MESSAGE],
        &["outbox", "discard", MESSAGE],
        &["trace", EVENT],
        &["usage"],
        &["approvals", "list"],
        &["approvals", "show", APPROVAL],
        &["approvals", "approve", APPROVAL],
        &["approvals", "deny", APPROVAL],
        &["approvals", "grant", APPROVAL, "--for", "30m"],
        &["approvals", "grants"],
        &["schedule", "list"],
        &["schedule", "show", "1"],
        &["schedule", "create", "every day at 9", "stretch"],
        &["schedule", "preview", "every day at 9"],
        &["schedule", "run", "1"],
        &["stop"],
    ];
    for arguments in commands {
        let ran = cortex.run(arguments);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{arguments:?}: {}", ran.stderr);
        assert!(ran.stderr.contains("cortex start") && ran.stderr.lines().count() == 1, "{}", ran.stderr);
    }
    assert!(!cortex.home().exists(), "a client makes no home");
}

#[test]
fn wrong_usage_ends_with_64() {
    let cortex = Cortex::new();
    let cases: [&[&str]; 16] = [
        &[],
        &["fly"],
        &["send"],
        &["send", "x", "--wait", "soon"],
        &["trace", "evt_nonsense"],
        &["inbox", "list", "--status", "sent"],
        &["outbox", "list", "--limit", "0"],
        &["approvals", "show", "apv_nonsense"],
        &["approvals", "grant", APPROVAL],
        &["schedule", "show", "one"],
        &["schedule", "create", "--cron", "* * * * *", "--at", "2100-01-01T00:00:00Z", "x"],
        &["schedule", "preview"],
        &["skill", "run", "no-dot"],
        &["config"],
        &["config", "--server", "--list", "--schema"],
        &["man", "fly"],
    ];
    for arguments in cases {
        let ran = cortex.run(arguments);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(64), ""), "{arguments:?}: {}", ran.stderr);
        assert!(!ran.stderr.is_empty(), "{arguments:?}");
    }
}

#[test]
fn status_as_json_says_that_nothing_runs() {
    let ran = Cortex::new().with("CORTEX_PORT", "1").run(&["status", "--json"]);
    let status: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(ran.code, Some(2));
    assert_eq!(status["server"]["running"], false);
    assert_eq!(status["sidecar"]["running"], false);
}

#[test]
fn a_server_elsewhere_is_found_by_the_environment() {
    let ran = Cortex::new().with("CORTEX_SERVER_URL", "http://127.0.0.1:9").run(&["health"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("http://127.0.0.1:9;"), "{}", ran.stderr);
    let ran = Cortex::new().with("CORTEX_SERVER_URL", "ftp://x").run(&["health"]);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
}

#[test]
fn logs_without_a_log_say_where_it_would_be() {
    let ran = Cortex::new().run(&["logs"]);
    assert_eq!(ran.code, Some(1));
    assert_eq!(
        ran.stderr,
        "cortex: no_log: [HOME]/logs/cortex.log is not there yet; `cortex start` writes it\n"
    );
}

#[test]
fn logs_show_the_last_lines() {
    let cortex = Cortex::new();
    std::fs::create_dir_all(cortex.path("logs")).unwrap();
    std::fs::write(cortex.path("logs/cortex.log"), "one\ntwo\nthree\n").unwrap();
    assert_eq!(cortex.run(&["logs", "-n", "2"]).stdout, "two\nthree\n");
    assert_eq!(cortex.run(&["logs", "-n", "1", "--json"]).stdout, "{\"line\":\"three\"}\n");
}
