//! Start, status, stop and restart of the real server.

use crate::cortex::Cortex;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

#[test]
fn a_server_is_started_seen_and_stopped() {
    let cortex = Cortex::quiet().started();
    let pid = cortex.pid();
    let status = cortex.run(&["status"]);
    assert_eq!(status.code, Some(0));
    assert!(status.stdout.contains(&format!("pid       {pid}\n")), "{}", status.stdout);
    assert_eq!(cortex.run(&["health"]).stdout, "healthy\n");
    assert_eq!(cortex.json(&["health", "--json"])["status"], "healthy");

    let again = cortex.run(&["start"]);
    assert_eq!((again.code, again.stderr), (Some(2), format!("cortex: already running, pid {pid}\n")));
    let serve = cortex.run(&["serve"]);
    assert_eq!(serve.code, Some(2));
    assert!(serve.stderr.ends_with(&format!("cortex: already running, pid {pid}\n")), "{}", serve.stderr);

    let stopped = cortex.run(&["stop"]);
    assert_eq!((stopped.code, stopped.stderr), (Some(0), format!("stopped, pid {pid}\n")));
    for arguments in [["stop"], ["status"], ["health"]] {
        assert_eq!(cortex.run(&arguments).code, Some(2), "{arguments:?}");
    }
}

#[test]
fn status_as_json_has_the_server_and_the_sidecar() {
    let cortex = Cortex::quiet().started();
    let status = cortex.json(&["status", "--json"]);
    let server = &status["server"];
    assert_eq!(server["running"], true);
    assert_eq!(server["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(server["models"][0]["kind"], "offline");
    assert!(server["address"].as_str().unwrap().starts_with("127.0.0.1:"));
    assert!(server["uptimeMs"].is_u64() && server["inbox"].is_object() && server["outbox"].is_object());
    assert_eq!(status["sidecar"]["running"], false);
}

#[test]
fn a_restart_is_another_process_with_the_same_rows() {
    let cortex = Cortex::quiet().started();
    assert_eq!(cortex.run(&["send", "hello"]).code, Some(0));
    let (pid, rows) = (cortex.pid(), cortex.json(&["inbox", "list", "--json"]));
    assert_eq!(cortex.run(&["restart"]).code, Some(0));
    assert_ne!(cortex.pid(), pid);
    assert_eq!(cortex.json(&["inbox", "list", "--json"]), rows);
}

#[test]
fn a_killed_server_leaves_a_home_that_starts() {
    let cortex = Cortex::quiet().started();
    assert_eq!(cortex.run(&["stop", "--force"]).code, Some(0));
    assert!(cortex.path("run/address").exists(), "a killed server cleans nothing up");
    assert_eq!(cortex.run(&["status"]).code, Some(2));
    assert_eq!(cortex.run(&["restart"]).code, Some(0));
    assert_eq!(cortex.run(&["health"]).code, Some(0));
}

#[test]
fn serve_says_where_it_listens_and_ends_well_on_a_signal() {
    let cortex = Cortex::quiet();
    let mut child = cortex.command(&["serve"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let listens = lines.find(|line| line.starts_with("Cortex listens on http://127.0.0.1:"));
    assert!(listens.is_some());
    assert_eq!(lines.next().unwrap(), "Say something: cortex send \"hello\"");

    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let mut stdout = String::new();
    child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
    assert_eq!(stdout, "", "stdout is for data");
}

#[test]
fn the_first_start_fills_an_empty_home_for_its_owner_alone() {
    let cortex = Cortex::quiet();
    // The loosest mask there is: what is private must be private by itself.
    let mut shell = Command::new("/bin/sh");
    let program = cortex.command(&[]);
    shell.args(["-c", "umask 000; exec \"$0\" start"]).arg(program.get_program()).env_clear();
    shell.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
    assert!(shell.stderr(Stdio::null()).status().unwrap().success());

    let mode = |name: &str| std::fs::metadata(cortex.path(name)).unwrap().permissions().mode() & 0o777;
    for folder in ["", "logs", "run", "workspace"] {
        assert_eq!(mode(folder), 0o700, "{folder:?}");
    }
    let files =
        ["credentials", "cortex.db", "cortex.db-wal", "logs/cortex.log", "run/cortex.lock", "run/address"];
    let pages = ["workspace/SOUL.md", "workspace/IDENTITY.md", "workspace/USER.md", "workspace/MEMORY.md"];
    for file in files.iter().chain(&pages) {
        assert_eq!(mode(file), 0o600, "{file}");
    }
    let credentials: serde_json::Value =
        serde_json::from_slice(&std::fs::read(cortex.path("credentials")).unwrap()).unwrap();
    let profile = &credentials["profiles"]["default"];
    let address = cortex.json(&["status", "--json"])["server"]["address"].as_str().unwrap().to_owned();
    assert_eq!(profile["server_url"], format!("http://{address}"));
    assert!(profile["token"].as_str().unwrap().len() >= 64);
    let key = cortex.run(&["key", "show", "ingest"]).stdout;
    assert_eq!(credentials["ingest_api_key"], key.trim());
}

#[test]
fn what_the_owner_wrote_survives_a_start() {
    let cortex = Cortex::quiet();
    std::fs::create_dir_all(cortex.path("workspace")).unwrap();
    std::fs::write(cortex.path("workspace/SOUL.md"), "mine").unwrap();
    let cortex = cortex.started();
    assert_eq!(std::fs::read_to_string(cortex.path("workspace/SOUL.md")).unwrap(), "mine");
}

#[test]
fn a_port_that_is_taken_is_named_by_serve_and_by_start() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let port = address.port().to_string();
    let cortex = Cortex::quiet();
    let serve = cortex.run(&["serve", "--port", &port]);
    let reason = format!("cortex: cannot_listen: cannot listen on {address}: ");
    assert_eq!(serve.code, Some(1));
    assert!(serve.stderr.contains(&reason), "{}", serve.stderr);
    let start = cortex.run(&["start", "--port", &port]);
    assert_eq!(start.code, Some(1));
    assert!(
        start.stderr.starts_with("cortex: start_failed: ") && start.stderr.contains(&reason),
        "{}",
        start.stderr
    );
}

#[test]
fn a_model_that_cannot_be_put_together_is_a_wrong_configuration() {
    let cortex = Cortex::quiet().with("CORTEX_SCRIPTED_MODEL", "/nowhere/script.json");
    let ran = cortex.run(&["serve"]);
    assert_eq!(ran.code, Some(78));
    assert!(ran.stderr.contains("/nowhere/script.json"), "{}", ran.stderr);
}

#[test]
fn no_secret_reaches_the_log() {
    let secrets =
        ["canary-ingest-0123456789abcdefghij", "canary-profile-0123456789", "canary-token-0123456789"];
    let providers = r#"{"profiles":[{"name":"cli","kind":"cli","apiKey":"canary-profile-0123456789"}]}"#;
    let cortex = Cortex::quiet()
        .with("CORTEX_LOG_LEVEL", "trace")
        .with("CORTEX_INGEST_API_KEY", secrets[0])
        .with("CORTEX_PROVIDERS", providers)
        .with("SOME_TOKEN", secrets[2])
        .started();
    for secret in secrets {
        cortex.run(&["send", secret, "--topic", secret]);
        cortex.command(&["send", "x"]).env("CORTEX_TOKEN", format!("{secret}-wrong")).output().unwrap();
    }
    assert_eq!(cortex.run(&["stop"]).code, Some(0));
    let log = std::fs::read_to_string(cortex.path("logs/cortex.log")).unwrap();
    assert!(log.contains("The server listens"), "{log}");
    assert!(!log.contains("canary"), "{log}");
}

#[test]
fn a_restart_keeps_the_flags_of_the_start() {
    let cortex = Cortex::new().with("CORTEX_SYNAPSE_URL", "off").with("CORTEX_OLLAMA_URL", "off");
    let cortex = cortex.with("CORTEX_ENGRAM_URL", "off");
    let free = std::net::TcpListener::bind("127.0.0.2:0").unwrap().local_addr().unwrap();
    let port = free.port().to_string();
    let ran = cortex.run(&["start", "--host", "127.0.0.2", "--port", &port]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    for _ in 0..2 {
        let ran = cortex.run(&["restart"]);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        assert_eq!(cortex.json(&["status", "--json"])["server"]["address"], free.to_string());
    }
    let ran = cortex.run(&["restart", "--port", "0"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let address = cortex.json(&["status", "--json"])["server"]["address"].as_str().unwrap().to_owned();
    assert!(address.starts_with("127.0.0.2:") && address != free.to_string(), "{address}");
}

#[test]
fn a_restart_after_a_crash_keeps_the_flags_of_the_start() {
    let cortex = Cortex::new().with("CORTEX_SYNAPSE_URL", "off").with("CORTEX_OLLAMA_URL", "off");
    let cortex = cortex.with("CORTEX_ENGRAM_URL", "off");
    let free = std::net::TcpListener::bind("127.0.0.2:0").unwrap().local_addr().unwrap();
    let ran = cortex.run(&["start", "--host", "127.0.0.2", "--port", &free.port().to_string()]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(cortex.run(&["stop", "--force"]).code, Some(0));
    let ran = cortex.run(&["restart"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(cortex.json(&["status", "--json"])["server"]["address"], free.to_string());
}

#[test]
fn what_killed_sends_left_behind_is_gone_after_a_start() {
    let cortex = Cortex::quiet();
    let waiting = cortex.path("run/waiting");
    std::fs::create_dir_all(&waiting).unwrap();
    let [left, held] = ["01LEFT", "01HELD"].map(|name| waiting.join(name));
    std::fs::write(&left, "").unwrap();
    let holder = std::fs::File::create(&held).unwrap();
    holder.lock().unwrap();
    let _cortex = cortex.started();
    assert!(!left.exists() && held.exists());
}
