//! Connectors as the server runs them, and by hand.

use crate::bot_api::{BotApi, TOKEN, until};
use crate::cortex::Cortex;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

const ADA: i64 = 42;

/// A home whose server runs a Telegram connector against this Bot API.
fn with_telegram(api: &BotApi, more: Value) -> Cortex {
    let mut telegram = json!({"enabled": true, "token": TOKEN, "apiUrl": api.url, "allow": [ADA]});
    telegram.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let file = json!({"connectors": {"telegram": telegram}}).to_string();
    Cortex::scripted(&json!({"otherwise": {"say": "You said: {{user}}"}})).with_file(&file)
}

fn row(cortex: &Cortex) -> Value {
    cortex.json(&["connector", "status", "--json"])["items"][0].clone()
}

fn running_pid(cortex: &Cortex) -> Pid {
    let pid = until("a running connector", || row(cortex)["pid"].as_i64());
    Pid::from_raw(i32::try_from(pid).unwrap()).unwrap()
}

fn is_gone(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    // A process whose parent was killed may wait for somebody to take note of its end.
    test_kill_process(pid).is_err() || stat.is_ok_and(|stat| stat.contains(") Z "))
}

#[test]
fn a_supervised_connector_answers_is_restarted_when_killed_and_ends_with_the_server() {
    let api = BotApi::start();
    let cortex = with_telegram(&api, json!({})).started();
    api.say(1, ADA, "hello");
    assert_eq!(api.sent(1), ["You said: hello"]);
    let first = running_pid(&cortex);
    assert_eq!(row(&cortex)["state"], "running");
    kill_process(first, Signal::KILL).unwrap();
    api.say(2, ADA, "still there?");
    assert_eq!(api.sent(2)[1], "You said: still there?");
    let second = running_pid(&cortex);
    assert_ne!(first, second);
    let shown = row(&cortex);
    assert_eq!(shown["restarts"], 1);
    assert!(shown["lastError"].as_str().unwrap().contains("signal: 9"), "{shown}");
    let keys = cortex.run(&["key", "list"]).stdout;
    assert!(keys.contains("connector telegram"), "it has a key of its own: {keys}");
    let table = cortex.run(&["connector", "status"]).stdout;
    assert!(table.contains("telegram") && table.contains("running"), "{table}");
    assert_eq!(cortex.run(&["stop"]).code, Some(0));
    assert!(is_gone(second));
    assert_eq!(api.sent(2).len(), 2, "nothing was sent twice");
    let log = std::fs::read_to_string(cortex.path("logs/cortex.log")).unwrap();
    assert!(log.contains("connector=\"telegram\""), "{log}");
    assert!(!log.contains(TOKEN), "{log}");
}

#[test]
fn a_supervised_connector_has_its_own_settings_and_nothing_else_of_the_environment() {
    let api = BotApi::start();
    let file = json!({
        "connectors": {
            "telegram": {"enabled": true, "token": "${BOT_TOKEN}", "apiUrl": api.url, "allow": [ADA]},
            "slack": {"enabled": false, "token": "xoxb-${A_KEY}"},
        },
        "providers": {"profiles": [{"name": "p", "kind": "openai", "apiKey": "${A_KEY}"}]},
    });
    let cortex = Cortex::scripted(&json!({"otherwise": {"say": "You said: {{user}}"}}))
        .with_file(&file.to_string())
        .with("BOT_TOKEN", TOKEN)
        .with("A_KEY", "hunter2hunter2")
        .with("CORTEX_INGEST_API_KEY", "an-ingest-key-of-the-owner-alone")
        .with("TZ", "UTC")
        .started();
    api.say(1, ADA, "hello");
    assert_eq!(api.sent(1), ["You said: hello"]);
    let pid = running_pid(&cortex).as_raw_nonzero();
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap();
    let environment = String::from_utf8(environment).unwrap();
    let names: Vec<&str> =
        environment.split('\0').filter_map(|pair| pair.split_once('=')).map(|(name, _)| name).collect();
    let mut sorted = names.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, ["CORTEX_CONNECTORS", "CORTEX_LOG_LEVEL", "CORTEX_SERVER_URL", "CORTEX_TOKEN", "TZ"]);
    assert!(!environment.contains("hunter2") && !environment.contains("an-ingest-key"), "{names:?}");
}

#[test]
fn a_connector_does_not_outlive_a_killed_server() {
    let api = BotApi::start();
    let cortex = with_telegram(&api, json!({})).started();
    api.say(1, ADA, "hello");
    api.sent(1);
    let connector = running_pid(&cortex);
    assert_eq!(cortex.run(&["stop", "--force"]).code, Some(0));
    until("the connector to end", || is_gone(connector).then_some(()));
}

#[test]
fn a_connector_with_wrong_settings_is_shown_so_and_not_started_again() {
    let api = BotApi::start();
    let cortex = with_telegram(&api, json!({"token": "123:wrong"})).started();
    let shown = until("the verdict", || Some(row(&cortex)).filter(|row| row["state"] == "misconfigured"));
    assert_eq!((&shown["pid"], &shown["restarts"]), (&Value::Null, &json!(0)));
    assert!(shown["lastError"].as_str().unwrap().contains("check connectors.telegram.token"), "{shown}");
    assert_eq!(shown["refusals"]["count"], 1, "{shown}");
    let refusal = shown["refusals"]["lastError"].as_str().unwrap();
    assert!(refusal.contains("check connectors.telegram.token") && shown["refusals"]["lastAt"].is_string());
    let table = cortex.run(&["connector", "status"]).stdout;
    assert!(table.contains("LAST REFUSAL") && table.contains("Z: "), "{table}");
    assert_eq!(cortex.run(&["send", "hello"]).code, Some(0), "the server itself is well");
    let doctor = cortex.run(&["doctor"]);
    assert!(doctor.stdout.contains("telegram is misconfigured"), "{}", doctor.stdout);
}

#[test]
fn telegram_runs_by_hand_with_flags_though_it_is_not_enabled() {
    let api = BotApi::start();
    let cortex = with_telegram(
        &api,
        json!({"enabled": false, "token": "123:other", "apiUrl": "http://127.0.0.1:1",
        "allow": []}),
    )
    .started();
    std::fs::write(cortex.beside("token"), format!("{TOKEN}\n")).unwrap();
    let arguments =
        ["connector", "telegram", "--api-url", &api.url, "--token-file", "token", "--allow", "tg:42"];
    let mut connector = cortex.command(&arguments).stderr(Stdio::piped()).spawn().unwrap();
    api.say(1, ADA, "hello");
    assert_eq!(api.sent(1), ["You said: hello"]);
    let pid = Pid::from_raw(i32::try_from(connector.id()).unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    assert_eq!(connector.wait().unwrap().code(), Some(0), "a clean stop");
    assert_eq!(cortex.json(&["connector", "status", "--json"]), json!({"items": []}));
    let known = cortex.json(&["connector", "list", "--json"]);
    assert_eq!(known[0], json!({"name": "telegram", "configured": true, "enabled": false}));
}

#[test]
fn whoever_sends_the_printed_code_is_let_in() {
    let api = BotApi::start();
    let cortex = with_telegram(&api, json!({"allow": []})).started();
    running_pid(&cortex);
    let code = cortex.run(&["connector", "telegram", "pair"]);
    assert!(code.stderr.contains("within 10 minutes"), "{}", code.stderr);
    api.say(1, ADA, code.stdout.trim());
    assert_eq!(api.sent(1), ["Paired: from now on I listen to you here."]);
    api.say(2, ADA, "hello");
    assert_eq!(api.sent(2)[1], "You said: hello");
}

#[test]
fn a_wrong_block_stops_the_start_and_its_token_is_never_shown() {
    let unknown = json!({"connectors": {"telegram": {"tokn": TOKEN}}}).to_string();
    let ran = Cortex::quiet().with_file(&unknown).run(&["serve"]);
    assert_eq!(ran.code, Some(78));
    for part in ["server.json", "connectors", "unknown field `tokn`"] {
        assert!(ran.stderr.contains(part), "{}", ran.stderr);
    }
    let good = json!({"connectors": {"telegram": {"token": TOKEN}}}).to_string();
    let cortex = Cortex::quiet().with_file(&good);
    let listed = cortex.run(&["config", "--server", "--list"]);
    assert!(listed.stdout.contains("telegram") && !listed.stdout.contains(TOKEN), "{}", listed.stdout);
    let none = Cortex::quiet().with_file("{}").run(&["connector", "telegram"]);
    assert_eq!(none.code, Some(78));
    assert!(none.stderr.contains("connectors.telegram has no token"), "{}", none.stderr);
}

#[test]
fn every_platform_says_what_is_wrong_with_its_settings() {
    let api = BotApi::start();
    for (name, token) in [("matrix", "syt_s3cret"), ("discord", "s3cret"), ("slack", "xoxb-s3cret")] {
        let none = Cortex::quiet().with_file("{}").run(&["connector", name]);
        assert_eq!(none.code, Some(78), "{name}");
        assert!(none.stderr.contains(&format!("connectors.{name} has no token")), "{}", none.stderr);
        let mut block = json!({"token": token, "apiUrl": api.url});
        if name == "slack" {
            let file = json!({"connectors": {name: block}}).to_string();
            let half = Cortex::quiet().with_file(&file).run(&["connector", name]);
            assert_eq!(half.code, Some(78));
            assert!(half.stderr.contains("connectors.slack has no appToken"), "{}", half.stderr);
            block["appToken"] = json!("xapp-s3cret");
        }
        // This is no server of theirs: it refuses every token.
        let file = json!({"connectors": {name: block}}).to_string();
        let cortex = Cortex::quiet().with_file(&file);
        let refused = cortex.run(&["connector", name]);
        assert_eq!(refused.code, Some(78), "{name}: {}", refused.stderr);
        assert!(refused.stderr.contains(&format!("connectors.{name}.token")), "{}", refused.stderr);
        let listed = cortex.run(&["config", "--server", "--list"]).stdout;
        assert!(
            listed.contains(name) && !(listed + &refused.stderr).contains("s3cret"),
            "{}",
            refused.stderr
        );
    }
    let known = Cortex::quiet().json(&["connector", "list", "--json"]);
    let names: Vec<&str> =
        known.as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["telegram", "matrix", "discord", "slack", "stdio"]);
}

#[test]
fn a_program_that_speaks_json_lines_is_bridged() {
    let cortex = Cortex::scripted(&json!({"otherwise": {"say": "You said: {{user}}"}})).started();
    let mut bridge = cortex
        .command(&["connector", "stdio", "--source", "door"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = bridge.stdin.take().unwrap();
    let mut lines = BufReader::new(bridge.stdout.take().unwrap()).lines();
    let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    writeln!(input, "not json").unwrap();
    let error = next();
    assert_eq!(error["line"], 1);
    assert!(error["error"].as_str().unwrap().starts_with("not JSON"), "{error}");
    let event =
        json!({"id": 1, "topic": "hall", "user": "ada", "text": "hello", "metadata": {"room": "hall"}});
    writeln!(input, "{event}").unwrap();
    let message = next();
    assert_eq!((&message["topic"], &message["text"]), (&json!("hall"), &json!("You said: hello")));
    writeln!(input, "{}", json!({"ack": message["messageId"]})).unwrap();
    let delivered = || cortex.json(&["outbox", "list", "--json"])["items"][0]["status"] == "delivered";
    until("the delivery", || delivered().then_some(()));
    drop(input);
    assert_eq!(bridge.wait().unwrap().code(), Some(0));
    let row = &cortex.json(&["inbox", "list", "--json"])["items"][0];
    assert_eq!((&row["source"], &row["userId"]), (&json!("door"), &json!("ada")));
}

#[test]
fn a_second_bridge_of_a_source_is_refused() {
    let cortex = Cortex::quiet().started();
    let bridge = |source: &str| {
        let mut command = cortex.command(&["connector", "stdio", "--source", source]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let mut first = bridge("door");
    writeln!(first.stdin.as_mut().unwrap(), "not json").unwrap();
    let mut answer = String::new();
    BufReader::new(first.stdout.as_mut().unwrap()).read_line(&mut answer).unwrap();
    let second = bridge("door").wait_with_output().unwrap();
    let told = String::from_utf8(second.stderr).unwrap();
    assert_eq!(second.status.code(), Some(1), "{told}");
    assert!(told.contains("bridge_runs: another bridge serves the source door; end it first"), "{told}");
    assert_eq!(bridge("window").wait_with_output().unwrap().status.code(), Some(0), "another source is free");
    drop(first.stdin.take());
    assert_eq!(first.wait().unwrap().code(), Some(0));
    assert_eq!(bridge("door").wait_with_output().unwrap().status.code(), Some(0), "and so is this one now");
}
