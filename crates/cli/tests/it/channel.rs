//! Channel modes at the command line: written to the file, in force at once.

use crate::cortex::Cortex;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::time::{Duration, Instant};

fn mode_of(cortex: &Cortex, channel: &str) -> String {
    let list = cortex.json(&["channel", "list", "--json"]);
    let items = list["items"].as_array().unwrap();
    let found = items.iter().find(|item| item["name"] == channel);
    found
        .map_or_else(|| list["defaultMode"].clone(), |item| item["mode"].clone())
        .as_str()
        .unwrap()
        .to_owned()
}

#[test]
fn a_mode_is_written_to_the_file_and_in_force_at_once() {
    let cortex = Cortex::quiet().with_file("{\n  // mine\n  \"drainSeconds\": 1,\n}\n").started();
    let set = cortex.run(&["channel", "mode", "cli", "off"]);
    assert_eq!((set.code, set.stderr.as_str()), (Some(0), "cli is off\n"));
    let refused = cortex.run(&["send", "hello"]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("channel_off: the channel cli is off"), "{}", refused.stderr);
    let file = std::fs::read_to_string(cortex.path("server.json")).unwrap();
    assert!(file.starts_with("{\n  // mine\n  \"drainSeconds\": 1,\n"), "{file}");
    assert_eq!((mode_of(&cortex, "cli"), mode_of(&cortex, "other")), ("off".into(), "live".into()));

    assert_eq!(cortex.run(&["channel", "mode", "cli", "shadow"]).code, Some(0));
    assert_eq!(cortex.run(&["send", "hello", "--wait", "0"]).code, Some(0));
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let report = cortex.json(&["shadow", "report", "--json"]);
        if let Some(item) = report["items"].as_array().unwrap().first() {
            assert_eq!(item["wouldHaveBeenSent"][0]["lastError"], "the target channel cli is shadow");
            break;
        }
        assert!(Instant::now() < deadline, "nothing was held back");
    }
    let table = cortex.run(&["shadow", "report"]).stdout;
    assert!(table.contains("the target channel cli is shadow"), "{table}");
}

#[test]
fn a_hang_up_has_the_server_read_its_modes_again_and_not_end() {
    let cortex = Cortex::quiet().started();
    let pid = cortex.pid();
    std::fs::write(cortex.path("server.json"), r#"{"channels": {"telegram": "shadow"}}"#).unwrap();
    assert_eq!(mode_of(&cortex, "telegram"), "live");
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), Signal::HUP).unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    while mode_of(&cortex, "telegram") != "shadow" {
        assert!(Instant::now() < deadline, "the modes were not read again");
    }
    assert_eq!((cortex.pid(), mode_of(&cortex, "cli").as_str()), (pid, "off"));
}

#[test]
fn a_hang_up_with_a_broken_file_leaves_the_modes_as_they_are() {
    let settings = r#"{"channels": {"telegram": "shadow"}}"#;
    let cortex = Cortex::quiet().with_file(settings).started();
    let pid = Pid::from_raw(i32::try_from(cortex.pid()).unwrap()).unwrap();
    for broken in [r#"{"channels": {"telegram": "#, r#"{"channels": {"telegram": "loud"}}"#] {
        std::fs::write(cortex.path("server.json"), broken).unwrap();
        let refusals = refusals_in_log(&cortex);
        kill_process(pid, Signal::HUP).unwrap();
        let deadline = Instant::now() + Duration::from_secs(30);
        while refusals_in_log(&cortex) == refusals {
            assert!(Instant::now() < deadline, "the file was not read again");
        }
        assert_eq!(mode_of(&cortex, "telegram"), "shadow", "after {broken}");
    }
    assert_eq!(cortex.run(&["channel", "mode", "telegram", "live"]).code, Some(78));
    assert_eq!(mode_of(&cortex, "telegram"), "shadow");
}

fn refusals_in_log(cortex: &Cortex) -> usize {
    let log = cortex.run(&["logs"]).stdout;
    log.matches("those before stay in force").count()
}

#[test]
fn a_word_that_is_no_mode_stops_the_start_and_the_command() {
    let cortex = Cortex::quiet().with_file(r#"{"channels": {"telegram": "loud"}}"#);
    let ran = cortex.run(&["serve"]);
    assert_eq!(ran.code, Some(78));
    assert!(
        ran.stderr.contains("channels has a wrong telegram: \"loud\" is not one of off"),
        "{}",
        ran.stderr
    );
    let cortex = Cortex::quiet().with_file(r#"{"defaultMode": "on"}"#);
    assert_eq!(cortex.run(&["serve"]).code, Some(78));
    assert_eq!(Cortex::quiet().run(&["channel", "mode", "x", "loud"]).code, Some(64));
}

#[test]
fn a_compacted_context_is_taken_back_to_the_same_bytes() {
    let cortex = Cortex::quiet().started();
    for number in 0..12 {
        let text = format!("the gate number {number} squeaks");
        assert_eq!(cortex.run(&["send", &text, "--topic", "garden"]).code, Some(0));
    }
    // Each look is a message of its own moment.
    let is_timeless = |line: &&str| !line.starts_with("Received: ");
    let show = || {
        let shown = cortex.run(&["context", "show", "--topic", "garden"]).stdout;
        shown.lines().filter(is_timeless).collect::<Vec<_>>().join("\n")
    };
    let before = show();
    assert!(!before.contains("## Earlier in this conversation"));
    let compacted = cortex.run(&["context", "compact", "--topic", "garden"]);
    assert_eq!(compacted.code, Some(0), "{}", compacted.stderr);
    assert!(compacted.stderr.contains("a summary stands for"), "{}", compacted.stderr);
    assert!(show().contains("## Earlier in this conversation"), "{}", show());
    assert_eq!(cortex.run(&["context", "undo", "--topic", "garden"]).code, Some(0));
    assert_eq!(show(), before);
    assert_eq!(cortex.run(&["context", "compact", "--topic", "nowhere"]).code, Some(1));
}

#[test]
fn the_context_of_a_topic_can_be_seen() {
    let cortex = Cortex::quiet().started();
    assert_eq!(cortex.run(&["send", "hello", "--topic", "garden"]).code, Some(0));
    let shown = cortex.run(&["context", "show", "--topic", "garden"]);
    assert_eq!(shown.code, Some(0), "{}", shown.stderr);
    for part in ["--- soul, ", "--- foreground, ", "user: hello", "--- message, ", "tokens, estimated"] {
        assert!(shown.stdout.contains(part), "{part} in\n{}", shown.stdout);
    }
    assert_eq!(cortex.run(&["context", "undo", "--topic", "garden"]).code, Some(0));
    assert_eq!(cortex.run(&["context", "show", "--topic", "unknown"]).code, Some(1));
}

#[test]
fn what_a_shadow_channel_would_have_said_is_not_shown_at_the_command_line() {
    let cortex = Cortex::scripted(&json!({"otherwise": {"say": "a secret plan"}})).started();
    assert_eq!(cortex.run(&["channel", "mode", "cli", "shadow"]).code, Some(0));
    let line = "(nothing was sent: the target channel cli is shadow; `cortex shadow report` shows what would have been)";
    let sent = cortex.run(&["send", "hello"]);
    assert_eq!((sent.code, sent.stdout.as_str(), sent.stderr), (Some(0), "", format!("{line}\n")));
    let chat = cortex.run_with_input(&["chat"], "hello\n");
    assert_eq!((chat.code, chat.stdout.as_str(), chat.stderr), (Some(0), "", format!("{line}\n")));
    let sent = cortex.json(&["send", "hello", "--json"]);
    assert_eq!(
        (&sent["replies"], &sent["heldBack"]),
        (&json!([]), &json!(["the target channel cli is shadow"]))
    );
    let report = cortex.run(&["shadow", "report"]).stdout;
    assert!(report.contains("a secret plan"), "{report}");
}

#[test]
fn the_shadow_report_has_what_was_sent_beside_what_was_not() {
    let settings = r#"{"defaultMode": "live", "channels": {"phone": {"mode": "shadow", "topic": "1"}}}"#;
    let script = json!({"otherwise": {"say": "[[send_to:phone]][[reply_to_current]] Dinner."}});
    let cortex = Cortex::scripted(&script).with_file(settings).started();
    let sent = cortex.run(&["send", "tell them"]);
    let held = "(nothing was sent: the target channel phone is shadow; `cortex shadow report` shows what would have been)";
    assert_eq!((sent.code, sent.stdout.as_str(), sent.stderr), (Some(0), "Dinner.\n", format!("{held}\n")));
    let report = cortex.json(&["shadow", "report", "--json"]);
    let item = &report["items"][0];
    let places = |rows: &serde_json::Value| -> Vec<String> {
        let place = |row: &serde_json::Value| format!("{}: {}", row["source"], row["text"]);
        rows.as_array().unwrap().iter().map(place).collect()
    };
    assert_eq!(places(&item["wouldHaveBeenSent"]), [r#""phone": "Dinner.""#]);
    assert_eq!(places(&item["sent"]), [r#""cli": "Dinner.""#]);
    let table = cortex.run(&["shadow", "report"]).stdout;
    assert!(table.contains("cli: Dinner."), "{table}");
}

#[test]
fn an_answer_for_another_channel_is_told_and_not_waited_for() {
    let settings = r#"{"defaultMode": "live", "channels": {"phone": {"mode": "live", "topic": "1"}}}"#;
    let both = json!({"when": {"equals": "both"}, "say": "[[send_to:phone]][[reply_to_current]] Dinner."});
    let script = json!({"answers": [both], "otherwise": {"say": "[[send_to:phone]] Dinner."}});
    let cortex = Cortex::scripted(&script).with_file(settings).started();
    let sent = cortex.run(&["send", "tell them"]);
    assert_eq!(
        (sent.code, sent.stdout.as_str(), sent.stderr.as_str()),
        (Some(0), "", "(sent to channel phone: queued)\n")
    );
    let both = cortex.run(&["send", "both"]);
    assert_eq!(
        (both.code, both.stdout.as_str(), both.stderr.as_str()),
        (Some(0), "Dinner.\n", "(sent to channel phone: queued)\n")
    );
    let sent = cortex.json(&["send", "tell them", "--json"]);
    let elsewhere = &sent["elsewhere"][0];
    assert_eq!(
        (&sent["replies"], &elsewhere["channel"], &elsewhere["status"]),
        (&json!([]), &json!("phone"), &json!("pending"))
    );
}

#[test]
fn a_topic_key_that_several_sources_have_needs_its_source() {
    let cortex = Cortex::scripted(&json!({"otherwise": {"say": "You said: {{user}}"}})).started();
    assert_eq!(cortex.run(&["send", "from the shell", "--topic", "garden"]).code, Some(0));
    let event = json!({
        "source": "phone", "externalMessageId": "1", "idempotencyKey": "phone:1", "topicKey": "garden",
        "userId": "ada", "text": "from the phone", "occurredAt": "2026-02-15T20:30:00Z",
    });
    let id = cortex.post("/ingest", &event)["eventId"].as_str().unwrap().to_owned();
    let deadline = Instant::now() + Duration::from_secs(30);
    while cortex.json(&["inbox", "show", &id, "--json"])["status"] != "done" {
        assert!(Instant::now() < deadline, "the event was not answered");
    }
    let unclear = cortex.run(&["context", "show", "--topic", "garden"]);
    assert_eq!((unclear.code, unclear.stdout.as_str()), (Some(1), ""));
    let told = "several sources have a topic garden: cli, phone; say which with --source";
    assert!(unclear.stderr.contains(told), "{}", unclear.stderr);
    for (source, own, other) in [
        ("cli", "user: from the shell", "user: from the phone"),
        ("phone", "user: from the phone", "user: from the shell"),
    ] {
        let shown = cortex.run(&["context", "show", "--topic", "garden", "--source", source]);
        assert!(shown.stdout.contains(own) && !shown.stdout.contains(other), "{source}:\n{}", shown.stdout);
    }
}

#[test]
fn an_op_can_be_seen_and_given_up_at_the_command_line() {
    let cortex = Cortex::scripted(&json!({"otherwise": {"say": "You said: {{user}}"}})).started();
    let work = json!({
        "type": "router_job", "description": "find flights", "source": "phone", "topicKey": "trip", "userId": "ada",
    });
    let op = cortex.post("/api/v2/ops", &work)["opId"].as_str().unwrap().to_owned();
    let shown = cortex.run(&["ops", "show", &op]);
    assert_eq!(shown.code, Some(0), "{}", shown.stderr);
    for line in ["status       pending\n", "asked by     ada in phone trip\n", "description  find flights\n"]
    {
        assert!(shown.stdout.contains(line), "{}", shown.stdout);
    }
    let cancelled = cortex.run(&["ops", "cancel", &op]);
    assert!(
        cancelled.stdout.contains("result       Error: cancelled by the owner\n"),
        "{}",
        cancelled.stdout
    );
    let again = cortex.run(&["ops", "cancel", &op]);
    assert_eq!(again.code, Some(1));
    assert!(again.stderr.contains(&format!("{op} is failed")), "{}", again.stderr);
    let listed = cortex.json(&["ops", "list", "--status", "failed", "--json"]);
    assert_eq!(listed["items"][0]["opId"], json!(op));
}
