//! `send` and `chat` as mini connectors.

use crate::cortex::Cortex;
use serde_json::json;

#[test]
fn send_prints_the_reply_of_the_offline_model() {
    let cortex = Cortex::quiet().started();
    let ran = cortex.run(&["send", "hello"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    assert!(ran.stdout.contains("offline model"), "{}", ran.stdout);
}

#[test]
fn send_as_json_names_event_and_message() {
    let cortex = Cortex::scripted(&json!({"otherwise": {"say": "hi there"}})).started();
    let sent = cortex.json(&["send", "hello", "--json"]);
    assert_eq!(sent["status"], "done");
    assert!(sent["eventId"].as_str().unwrap().starts_with("evt_"));
    let reply = &sent["replies"][0];
    assert_eq!(
        (&reply["text"], &reply["topicKey"], &reply["payload"]),
        (&json!("hi there"), &json!("main"), &json!(null))
    );
    let row = cortex.json(&["outbox", "show", reply["messageId"].as_str().unwrap(), "--json"]);
    assert_eq!((&row["status"], &row["eventId"]), (&json!("delivered"), &sent["eventId"]));
}

#[test]
fn send_reads_its_text_from_stdin() {
    let cortex =
        Cortex::scripted(&json!({"answers": [{"when": {"equals": "two\nlines"}, "say": "both"}]})).started();
    assert_eq!(cortex.run_with_input(&["send", "-"], "two\nlines\n").stdout, "both\n");
}

#[test]
fn a_reply_that_comes_too_late_waits_and_is_shown_with_the_next() {
    let slow = json!({"when": {"equals": "slow"}, "say": "slow reply", "delayMs": 1_500});
    let fast = json!({"when": {"equals": "fast"}, "say": "fast reply"});
    let cortex = Cortex::scripted(&json!({"answers": [slow, fast]})).started();
    let late = cortex.run(&["send", "slow", "--wait", "50ms"]);
    assert_eq!((late.code, late.stdout.as_str()), (Some(1), ""));
    assert!(
        late.stderr.starts_with("cortex: no_reply_yet: no reply within 50 ms; it will wait in the outbox"),
        "{}",
        late.stderr
    );
    let next = cortex.run(&["send", "fast"]);
    assert_eq!((next.code, next.stdout.as_str()), (Some(0), "fast reply\n"));
    assert_eq!(next.stderr, "(earlier, in main)\nslow reply\n");
}

#[test]
fn a_send_that_does_not_wait_only_queues() {
    let cortex = Cortex::scripted(&json!({"otherwise": {"say": "later"}})).started();
    let sent = cortex.json(&["send", "hello", "--wait", "0", "--json"]);
    assert_eq!((&sent["status"], &sent["replies"]), (&json!("queued"), &json!([])));
    let ran = cortex.run(&["send", "hello", "--wait", "0"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    assert_eq!(cortex.run(&["inbox", "show", ran.stdout.trim()]).code, Some(0), "{}", ran.stdout);
}

#[test]
fn words_need_no_quotes() {
    let cortex = Cortex::scripted(&json!({"otherwise": {"say": "re: {{user}}"}})).started();
    assert_eq!(cortex.run(&["send", "one", "two", "--topic", "t", "three"]).stdout, "re: one two three\n");
    assert_eq!(cortex.run(&["send"]).code, Some(64));
}

#[test]
fn whoever_waits_long_is_told_what_for() {
    let slow = json!({"when": {"equals": "slow"}, "say": "slow reply", "delayMs": 9_000});
    let cortex = Cortex::scripted(&json!({"answers": [slow], "otherwise": {"say": "fast reply"}})).started();
    std::thread::scope(|scope| {
        let first = scope.spawn(|| cortex.run(&["send", "slow"]));
        while cortex.json(&["status", "--json"])["server"]["inbox"]["processing"] != 1 {}
        let second = scope.spawn(|| cortex.run(&["send", "fast"]));
        let (first, second) = (first.join().unwrap(), second.join().unwrap());
        assert_eq!((first.code, first.stdout.as_str()), (Some(0), "slow reply\n"), "{}", first.stderr);
        assert_eq!(first.stderr, "(waiting for the model's answer)\n");
        assert_eq!((second.code, second.stdout.as_str()), (Some(0), "fast reply\n"), "{}", second.stderr);
        let queued = "(waiting: the message is in the queue, behind others)\n";
        assert!(second.stderr.starts_with(queued), "{}", second.stderr);
        assert!(!second.stderr.contains("slow reply"), "it is the other's: {}", second.stderr);
    });
}

#[test]
fn a_command_that_a_chat_does_not_know_is_an_error_and_no_message() {
    let cortex = Cortex::scripted(&json!({"otherwise": {"say": "re: {{user}}"}})).started();
    let ran = cortex.run_with_input(&["chat"], "/foo bar\n/etc/hosts is broken\n//foo\n");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "re: /etc/hosts is broken\nre: /foo\n"));
    assert_eq!(ran.stderr, "cortex: /foo bar is not a command; there are /approve, /deny, /help and /quit\n");
    let ran = cortex.run_with_input(&["chat"], "/foo\n");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
    assert_eq!(cortex.json(&["inbox", "list", "--json"])["items"].as_array().unwrap().len(), 2);
}

#[test]
fn many_sends_at_once_each_get_their_own_reply() {
    let answers: Vec<_> =
        (0..8).map(|n| json!({"when": {"equals": format!("q{n}")}, "say": format!("a{n}")})).collect();
    let cortex = Cortex::scripted(&json!({"answers": answers})).started();
    std::thread::scope(|scope| {
        for n in 0..8 {
            let cortex = &cortex;
            scope.spawn(move || {
                // Half of them share a topic, half have their own.
                let topic = if n % 2 == 0 { "shared".to_owned() } else { format!("own-{n}") };
                let ran = cortex.run(&["send", &format!("q{n}"), "--topic", &topic]);
                assert_eq!((ran.code, ran.stdout), (Some(0), format!("a{n}\n")), "{}", ran.stderr);
                assert!(!ran.stderr.contains("earlier"), "q{n} shows what others asked: {}", ran.stderr);
            });
        }
    });
}

#[test]
fn silence_is_no_reply_and_no_error() {
    let cortex = Cortex::quiet().with("CORTEX_MODEL", "stub").started();
    let ran = cortex.run(&["send", "hello"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), ""));
    assert_eq!(ran.stderr, "(no reply: the assistant chose silence)\n");
}

#[test]
fn a_failed_event_is_told_and_ends_with_1() {
    let cortex = Cortex::scripted(&json!({"otherwise": {"error": {"kind": "rejected"}}})).started();
    let ran = cortex.run(&["send", "hello"]);
    assert_eq!(ran.code, Some(1));
    assert!(!ran.stdout.is_empty(), "the user is told");
    assert!(ran.stderr.starts_with("cortex: the event failed; `cortex trace evt_"), "{}", ran.stderr);
    let failed = cortex.json(&["inbox", "list", "--status", "failed", "--json"]);
    assert_eq!(failed["items"].as_array().unwrap().len(), 1);
}

#[test]
fn a_wrong_token_is_told_without_the_token() {
    let cortex = Cortex::quiet().started().with("CORTEX_TOKEN", "hunter2hunter2");
    let ran = cortex.run(&["send", "hello"]);
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.stderr.starts_with("cortex: unauthorized: ") && !ran.stderr.contains("hunter2"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_piped_chat_answers_line_by_line_until_quit() {
    let answers = json!([
        {"when": {"equals": "one"}, "say": "first"},
        {"when": {"equals": "two"}, "deltas": ["sec", "ond"]},
    ]);
    let cortex = Cortex::scripted(&json!({"answers": answers})).started();
    let ran = cortex.run_with_input(&["chat"], "one\n\ntwo\n/quit\nthree\n");
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(0), "first\nsecond\n", ""));
    let ran = cortex.run_with_input(&["chat", "--json"], "one\n");
    assert_eq!(serde_json::from_str::<serde_json::Value>(&ran.stdout).unwrap()["text"], "first");
}

#[test]
fn a_reply_outlives_a_killed_server() {
    let cortex = Cortex::scripted(&json!({"otherwise": {"say": "after all", "delayMs": 300}})).started();
    let sent = cortex.json(&["send", "hello", "--wait", "0", "--json"]);
    assert_eq!(cortex.run(&["restart", "--force"]).code, Some(0));
    let ran = cortex.run(&["send", "again"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "after all\n"));
    assert_eq!(ran.stderr, "(earlier, in main)\nafter all\n");
    let row = cortex.json(&["inbox", "show", sent["eventId"].as_str().unwrap(), "--json"]);
    assert_eq!(row["status"], "done");
}
