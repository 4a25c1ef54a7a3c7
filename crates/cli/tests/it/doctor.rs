//! `cortex doctor`: what it sees in a home, with the server stopped and running.

use crate::cortex::{Cortex, Ran};
use expect_test::{Expect, expect};
use serde_json::{Value, json};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;

/// A table of a run without what differs from run to run.
#[track_caller]
fn check_table(ran: &Ran, code: i32, expected: &Expect) {
    assert_eq!(ran.code, Some(code), "{ran:?}");
    let shown = ran.stdout.lines().map(|line| match (line.split_once("pid "), line.split_once(" schema ")) {
        (Some((before, _)), _) => format!("{before}pid [PID]\n"),
        (None, Some((before, _))) => format!("{before} schema [N]\n"),
        (None, None) => format!("{line}\n"),
    });
    expected.assert_eq(&format!("{}{}", shown.collect::<String>(), ran.stderr));
}

/// State and message of one check.
pub(crate) fn found(cortex: &Cortex, check: &str) -> (String, String) {
    let ran = cortex.run(&["doctor", "--json"]);
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    let of_state = |state: &str| {
        report["checks"].as_array().unwrap().iter().filter(|found| found["state"] == state).count() as u64
    };
    assert_eq!(report["problems"], of_state("problem"));
    assert_eq!(report["warnings"], of_state("warning"));
    assert_eq!(ran.code, Some(i32::from(of_state("problem") > 0)));
    let found = report["checks"].as_array().unwrap().iter().find(|found| found["check"] == check);
    assert!(found.is_some(), "no check {check} in {report}");
    let text = |key: &str| found.unwrap()[key].as_str().unwrap().to_owned();
    (text("state"), text("message"))
}

#[track_caller]
pub(crate) fn check_found(cortex: &Cortex, check: &str, state: &str, part: &str) {
    let (seen, message) = found(cortex, check);
    assert!(seen == state && message.contains(part), "{check}: {seen}: {message}");
}

fn say_as(cortex: &Cortex, user: &str) {
    let key = cortex.run(&["key", "show", "ingest"]).stdout;
    let address = cortex.json(&["status", "--json"])["server"]["address"].as_str().unwrap().to_owned();
    let event = json!({"source": "webchat", "externalMessageId": user, "idempotencyKey": user, "topicKey": user,
        "userId": user, "text": "hello", "occurredAt": "2026-01-01T00:00:00Z"});
    post(&address, key.trim(), &event.to_string());
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while cortex.json(&["inbox", "list", "--json"])["items"][0]["status"] != "done" {
        assert!(std::time::Instant::now() < deadline, "the event was not answered");
    }
}

fn post(address: &str, key: &str, body: &str) {
    use std::io::{Read, Write};
    let mut connection = std::net::TcpStream::connect(address).unwrap();
    let length = body.len();
    write!(
        connection,
        "POST /ingest HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {key}\r\ncontent-length: {length}\r\n\
         connection: close\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 202"), "{answer}");
}

#[test]
fn an_empty_place_is_no_problem_and_is_told_how_to_begin() {
    let cortex = Cortex::quiet();
    check_table(
        &cortex.run(&["doctor"]),
        0,
        &expect![[r#"
            CHECK     STATE    WHAT
            home      warning  [HOME] is not there yet; `cortex start` makes it
            settings  ok       there is no server.json; the defaults hold
            server    warning  it does not run; `cortex start` starts it
            database  ok       there is none yet; the first start makes it
            model     warning  the offline model answers; set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY, or synapseUrl, and start again
            memory    ok       kept in this home
            openings  ok       connectors on this machine need no key (connector.allowLocal); every other door does, and only this machine reaches it
            children  ok       skills and MCP servers are kept from this home and its keys
            channels  ok       all are live
            problems: 0, warnings: 3
        "#]],
    );
    assert!(!cortex.home().exists(), "a look makes nothing");
}

#[test]
fn programs_get_the_same_as_json() {
    let ran = Cortex::quiet().run(&["doctor", "--json"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    expect![[r#"
        {
          "checks": [
            {
              "check": "home",
              "state": "warning",
              "message": "[HOME] is not there yet; `cortex start` makes it"
            },
            {
              "check": "settings",
              "state": "ok",
              "message": "there is no server.json; the defaults hold"
            },
            {
              "check": "server",
              "state": "warning",
              "message": "it does not run; `cortex start` starts it"
            },
            {
              "check": "database",
              "state": "ok",
              "message": "there is none yet; the first start makes it"
            },
            {
              "check": "model",
              "state": "warning",
              "message": "the offline model answers; set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY, or synapseUrl, and start again"
            },
            {
              "check": "memory",
              "state": "ok",
              "message": "kept in this home"
            },
            {
              "check": "openings",
              "state": "ok",
              "message": "connectors on this machine need no key (connector.allowLocal); every other door does, and only this machine reaches it"
            },
            {
              "check": "children",
              "state": "ok",
              "message": "skills and MCP servers are kept from this home and its keys"
            },
            {
              "check": "channels",
              "state": "ok",
              "message": "all are live"
            }
          ],
          "problems": 0,
          "warnings": 3
        }
    "#]].assert_eq(&ran.stdout);
}

#[test]
fn hooks_whose_answers_nothing_fetches_are_told() {
    let hook = json!({"key": "key-of-a-hook-0123456789", "text": "x"});
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let settings = json!({
        "hooks": {"ci": hook, "house": hook, "door": {"key": hook["key"], "text": "x", "to": {"source": "a", "topic": "b"}}},
        "webhooks": {"out": {"source": "hook:house", "url": "http://127.0.0.1:9/", "secret": secret}},
    });
    let cortex = Cortex::quiet().with_file(&settings.to_string());
    check_found(&cortex, "hooks", "warning", "answers of hook:ci wait until a connector polls them");
    let (_, message) = found(&cortex, "hooks");
    assert!(!message.contains("house") && !message.contains("door"), "{message}");
}

#[test]
fn a_running_home_and_the_same_home_stopped() {
    let cortex = Cortex::quiet().started();
    assert_eq!(cortex.run(&["send", "hello"]).code, Some(0));
    check_table(
        &cortex.run(&["doctor"]),
        0,
        &expect![[r#"
            CHECK     STATE    WHAT
            home      ok       [HOME] is its owner's alone
            files     ok       database and credentials are their owner's alone
            settings  ok       there is no server.json; the defaults hold
            server    ok       runs and is well, pid [PID]
            storage   ok       events that wait: 0 of 100000 (maxQueuedEvents), MiB of the database: 1 of 8192 (maxDatabaseMiB)
            database  ok       schema [N]
            model     warning  the offline model answers; set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY, or synapseUrl, and start again
            memory    ok       kept in this home
            openings  ok       connectors on this machine need no key (connector.allowLocal); every other door does, and only this machine reaches it
            users     ok       who talks and whose accounts belong together is clear
            children  ok       skills and MCP servers are kept from this home and its keys
            channels  ok       all are live
            vectors   ok       0 of 0 texts have a vector of cortex-static-1
            outbox    ok       no message is dead
            inbox     ok       no event failed
            problems: 0, warnings: 1
        "#]],
    );
    assert_eq!(cortex.run(&["stop"]).code, Some(0));
    let files = || {
        let mut names: Vec<_> =
            std::fs::read_dir(cortex.home()).unwrap().map(|file| file.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = files();
    check_table(
        &cortex.run(&["doctor"]),
        0,
        &expect![[r#"
            CHECK     STATE    WHAT
            home      ok       [HOME] is its owner's alone
            files     ok       database and credentials are their owner's alone
            settings  ok       there is no server.json; the defaults hold
            server    warning  it does not run; `cortex start` starts it
            database  ok       schema [N]
            storage   ok       events that wait: 0 of 100000 (maxQueuedEvents), MiB of the database: 1 of 8192 (maxDatabaseMiB)
            model     warning  the offline model answers; set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY, or synapseUrl, and start again
            memory    ok       kept in this home
            openings  ok       connectors on this machine need no key (connector.allowLocal); every other door does, and only this machine reaches it
            users     ok       who talks and whose accounts belong together is clear
            children  ok       skills and MCP servers are kept from this home and its keys
            channels  ok       all are live
            vectors   ok       0 of 0 texts have a vector of cortex-static-1
            outbox    ok       no message is dead
            inbox     ok       no event failed
            problems: 0, warnings: 2
        "#]],
    );
    assert_eq!(files(), before, "a look leaves nothing behind");
}

#[test]
fn two_users_without_identities_are_named_until_identities_are_set() {
    let cortex = Cortex::quiet().started();
    say_as(&cortex, "tg:1");
    check_found(&cortex, "users", "ok", "");
    say_as(&cortex, "web:ada");
    check_found(&cortex, "users", "warning", "tg:1, web:ada count as one owner");
    for number in 2..7 {
        say_as(&cortex, &format!("tg:{number}"));
    }
    check_found(&cortex, "users", "warning", "tg:1, tg:2, tg:3, tg:4, tg:5 and more count as one owner");
    assert_eq!(cortex.run(&["stop"]).code, Some(0));
    check_found(&cortex, "users", "warning", "count as one owner");
    let cortex = cortex.with_file(r#"{"identities": {"ada": ["tg:1", "ada"]}}"#);
    check_found(&cortex, "users", "warning", "ada in identities names no source");
    let cortex = cortex.with_file(r#"{"identities": {"ada": ["tg:1", "web:ada"]}}"#);
    check_found(&cortex, "users", "ok", "");
}

#[test]
fn what_others_could_read_is_a_problem_with_its_fix() {
    let cortex = Cortex::quiet().started();
    assert_eq!(cortex.run(&["stop"]).code, Some(0));
    let set = |name: &str, mode: u32| {
        std::fs::set_permissions(cortex.path(name), std::fs::Permissions::from_mode(mode)).unwrap();
    };
    set("", 0o755);
    check_found(&cortex, "home", "problem", "chmod 700 [HOME]");
    set("", 0o700);
    std::fs::write(cortex.path("data/note"), "x").unwrap();
    set("data/note", 0o600);
    for file in ["cortex.db", "credentials", "logs/cortex.log", "data/note"] {
        set(file, 0o644);
        check_found(&cortex, "files", "problem", file);
        set(file, 0o600);
        check_found(&cortex, "files", "ok", "");
    }
    set("workspace/SOUL.md", 0o622);
    check_found(&cortex, "files", "problem", "workspace/SOUL.md");
    set("workspace/SOUL.md", 0o644);
    check_found(&cortex, "files", "ok", "");
    let cortex = cortex.with_file("{}");
    set_mode(&cortex, "server.json", 0o644);
    check_found(&cortex, "files", "ok", "");
    let cortex = cortex.with_file(r#"{"ingestApiKey": "hunter2hunter2"}"#);
    set_mode(&cortex, "server.json", 0o644);
    check_found(&cortex, "files", "problem", "server.json");
}

fn set_mode(cortex: &Cortex, name: &str, mode: u32) {
    std::fs::set_permissions(cortex.path(name), std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_model_that_fails_is_a_problem_with_its_last_error() {
    let script = json!({"answers": [{"when": {"equals": "break"}, "error": {"kind": "unauthorized"}}],
                        "otherwise": {"say": "well"}});
    let cortex = Cortex::scripted(&script).started();
    cortex.run(&["send", "hello"]);
    check_found(&cortex, "model", "ok", "scripted");
    cortex.run(&["send", "break"]);
    let told: Vec<Value> = all_found(&cortex, "model");
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!(told[1]["state"], "problem");
    assert!(
        told[1]["message"].as_str().unwrap().contains("failed when it was last asked, at 20"),
        "{told:?}"
    );
    cortex.run(&["stop"]);
    assert_eq!(all_found(&cortex, "model").len(), 2, "also when no server runs");
}

#[test]
fn what_is_held_back_and_what_cannot_be_read_is_told() {
    let cortex = Cortex::quiet();
    let (good, bad) = (cortex.beside("good.ics"), cortex.beside("bad.ics"));
    std::fs::write(&good, "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nEND:VCALENDAR\r\n").unwrap();
    std::fs::write(&bad, "this is no calendar").unwrap();
    let calendars = json!({"good": good, "bad": bad, "gone": cortex.beside("gone.ics")});
    let servers = json!({"gone": {"command": "/nowhere/at-all"}});
    let cortex = cortex
        .with("CORTEX_CALENDARS", &calendars.to_string())
        .with("CORTEX_MCP_SERVERS", &servers.to_string())
        .started();
    let state_of = |part: &str| {
        let told = all_found(&cortex, "calendars");
        let line = told.iter().find(|check| check["message"].as_str().unwrap().contains(part));
        line.unwrap_or_else(|| panic!("no {part} in {told:?}"))["state"].as_str().unwrap().to_owned()
    };
    assert_eq!(
        [state_of("good can be read"), state_of("bad.ics"), state_of("gone cannot be read")],
        ["ok", "problem", "problem"]
    );
    let is_down = || {
        let told = all_found(&cortex, "tools");
        told.iter().any(|check| {
            check["state"] == "problem" && check["message"].as_str().unwrap().starts_with("mcp gone: is down")
        })
    };
    assert!((0..500).any(|_| is_down()), "{:?}", all_found(&cortex, "tools"));
}

#[test]
fn a_skill_that_is_held_back_is_told_with_the_way_to_trust_it() {
    let cortex = Cortex::quiet();
    let skills = cortex.beside("skills");
    std::fs::create_dir_all(skills.join("notes")).unwrap();
    let manifest =
        r#"{"id": "notes", "name": "N", "version": "1.0.0", "runtimeApiVersion": "1", "main": "main.js"}"#;
    let main = |says: &str| {
        format!(
            "export const listTools = () => [{{ name: 'notes.say', description: 'd', \
             inputSchema: {{ type: 'object' }}, mutatesState: false }}];\n\
             export const execute = async () => ({{ content: '{says}' }});\n"
        )
    };
    std::fs::write(skills.join("notes/skill.json"), manifest).unwrap();
    std::fs::write(skills.join("notes/main.js"), main("first")).unwrap();
    let cortex = cortex.with("CORTEX_SKILL_DIRS", skills.to_str().unwrap()).started();
    assert!(all_found(&cortex, "tools").iter().all(|check| check["state"] != "problem"));
    cortex.run(&["stop"]);
    std::fs::write(skills.join("notes/main.js"), main("second")).unwrap();
    cortex.run(&["start"]);
    let told = all_found(&cortex, "tools");
    let is_told = |check: &Value| {
        let message = check["message"].as_str().unwrap();
        check["state"] != "ok" && message.contains("notes") && message.contains("cortex skill trust")
    };
    assert!(told.iter().any(is_told), "{told:?}");
    cortex.run(&["skill", "trust", "notes"]);
    assert!(!all_found(&cortex, "tools").iter().any(is_told), "once it is trusted, it is not held back");
}

#[test]
fn what_the_watchdog_found_is_told() {
    let script = json!({"answers": [{"when": {"equals": "hold"}, "deltas": ["a", "b"], "delayMs": 3_600_000}],
                        "otherwise": {"say": "well"}});
    let cortex = Cortex::scripted(&script).with("CORTEX_MAX_PARALLEL_TOPICS", "1").started();
    let hold = ["send", "--topic", "hold", "--wait", "0", "hold"];
    assert_eq!(cortex.run(&hold).code, Some(0));
    assert_eq!(cortex.run(&["send", "--topic", "lost", "--wait", "0", "lost"]).code, Some(0));
    assert_eq!(cortex_testkit::lose_turn(&cortex.home().join("cortex.db"), "lost"), 1);
    let is_told = || {
        let told = all_found(&cortex, "watchdog");
        told.iter().any(|check| {
            let message = check["message"].as_str().unwrap();
            check["state"] == "warning" && message.contains("0 events were put back and 1 failed")
        })
    };
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !is_told() {
        assert!(std::time::Instant::now() < deadline, "{:?}", all_found(&cortex, "watchdog"));
    }
}

/// Every line of one check.
fn all_found(cortex: &Cortex, check: &str) -> Vec<Value> {
    let report: Value = serde_json::from_str(&cortex.run(&["doctor", "--json"]).stdout).unwrap();
    let all = report["checks"].as_array().unwrap().iter();
    all.filter(|found| found["check"] == check).cloned().collect()
}

#[test]
fn wrong_settings_a_foreign_and_a_newer_database_are_problems() {
    let cortex = Cortex::quiet().with_file(r#"{"prot": 1}"#);
    check_found(&cortex, "settings", "problem", "server.json:1: ");
    let cortex = Cortex::quiet().with("CORTEX_HOST", "0.0.0.0");
    check_found(&cortex, "settings", "problem", "allowRemote is false");
    let cortex = Cortex::quiet().with_file("{}");
    std::fs::write(cortex.path("cortex.db"), "this is no database, whatever its name says it is").unwrap();
    check_found(&cortex, "database", "problem", "restore a backup");
    let cortex = Cortex::quiet().started();
    assert_eq!(cortex.run(&["stop"]).code, Some(0));
    check_found(&cortex, "database", "ok", "schema ");
    // The number of the schema stands at byte 60 of a database.
    let mut bytes = std::fs::read(cortex.path("cortex.db")).unwrap();
    bytes[60..64].copy_from_slice(&4_000_u32.to_be_bytes());
    std::fs::write(cortex.path("cortex.db"), &bytes).unwrap();
    check_found(&cortex, "database", "problem", "schema 4000 is newer than this program's");
    bytes[60..64].copy_from_slice(&1_u32.to_be_bytes());
    std::fs::write(cortex.path("cortex.db"), &bytes).unwrap();
    check_found(&cortex, "database", "warning", "schema 1; the next start makes a backup");
}

#[test]
fn every_opening_is_a_warning() {
    let cortex = Cortex::quiet();
    check_found(&cortex, "openings", "ok", "");
    let cortex = cortex.with_file(
        r#"{"engram": {"allowLocal": true}, "allowRemote": true, "allowedOrigins": ["https://ui.lan"],
            "egressAllow": ["127.0.0.1:9000"], "channels": {"telegram": "shadow", "web": "live"}}"#,
    );
    check_found(&cortex, "engram.allowLocal", "warning", "every program on this machine");
    check_found(&cortex, "allowRemote", "warning", "set it to false");
    check_found(&cortex, "allowedOrigins", "warning", "https://ui.lan");
    check_found(&cortex, "egressAllow", "warning", "1 addresses");
    check_found(&cortex, "channels", "warning", "telegram is shadow, every other is off");
    let cortex = cortex.with("CORTEX_HOST", "0.0.0.0").with("CORTEX_INGEST_API_KEY", &"k".repeat(32));
    check_found(&cortex, "allowRemote", "warning", "other machines reach 0.0.0.0");
    check_found(&cortex, "engram.allowLocal", "warning", "it opens nothing");
}

#[test]
fn a_memory_service_that_does_not_answer_is_a_problem() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let cortex = Cortex::quiet().with("CORTEX_ENGRAM_URL", &format!("http://{nobody}"));
    check_found(&cortex, "memory", "problem", "nothing is recalled until it does");
    check_found(&Cortex::quiet(), "memory", "ok", "kept in this home");
    let scripted = Cortex::scripted(&json!({"otherwise": {"say": "hi"}}));
    check_found(&scripted, "model", "ok", "scripted");
}

#[test]
fn dead_letters_failed_events_and_vectors_of_another_model_are_counted() {
    let cortex = Cortex::scripted(&json!({"otherwise": {"error": {"kind": "rejected"}}}))
        .with("CORTEX_INBOX_MAX_ATTEMPTS", "1")
        .started();
    assert_ne!(cortex.run(&["send", "hello", "--wait", "0"]).code, None);
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while found(&cortex, "inbox").0 != "warning" {
        assert!(std::time::Instant::now() < deadline, "the event did not fail");
    }
    check_found(&cortex, "inbox", "warning", "failed events: 1; `cortex inbox list --status failed`");
    check_found(&cortex, "outbox", "ok", "");
    let import = r#"{"content": "The lighthouse is red"}"#;
    assert_eq!(cortex.run_with_input(&["memory", "import"], import).code, Some(0));
    check_found(&cortex, "vectors", "ok", "1 of 1 texts have a vector of cortex-static-1");
    assert_eq!(cortex.run(&["stop"]).code, Some(0));
    let cortex = cortex.with("CORTEX_EMBEDDING", r#"{"baseUrl": "http://127.0.0.1:9", "model": "letters"}"#);
    check_found(
        &cortex,
        "vectors",
        "warning",
        "0 of 1 texts have a vector of letters; the rest is made while",
    );
}

#[test]
fn a_damaged_page_is_named_with_and_without_a_server() {
    let cortex = Cortex::quiet().started();
    check_found(&cortex, "database", "ok", "no page is damaged");
    check_found(&cortex, "storage", "ok", "of 100000 (maxQueuedEvents)");
    assert_eq!(cortex.run(&["stop"]).code, Some(0));
    let page = cortex_testkit::damage_first_page(&cortex.path("cortex.db"), "audit");
    let place = format!("table audit, page {page}");
    check_found(&cortex, "database", "problem", &place);
    check_found(&cortex, "database", "problem", "restore a backup with `cortex restore`");
    let cortex = cortex.started();
    check_found(&cortex, "database", "problem", &place);
    let told = || found(&cortex, "server").1;
    assert!((0..500).any(|_| told().contains(&place)), "{}", told());
    let ran = cortex.run(&["send", "hello"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("storage_damaged") && ran.stderr.contains("cortex doctor"), "{}", ran.stderr);
    let health = cortex.run(&["health"]);
    assert_eq!((health.code, health.stdout.trim()), (Some(1), "damaged"));
}
