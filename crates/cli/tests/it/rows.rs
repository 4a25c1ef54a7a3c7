//! The commands that look at rows: inbox, outbox, trace, usage.

use crate::cortex::Cortex;
use serde_json::json;

const NO_EVENT: &str = "evt_01ARZ3NDEKTSV4RRFFQ69G5FAV";
const NO_MESSAGE: &str = "out_01ARZ3NDEKTSV4RRFFQ69G5FAV";

#[test]
fn the_trace_of_a_message_shows_its_whole_way() {
    let cortex = Cortex::quiet().started();
    let sent = cortex.json(&["send", "hello", "--json"]);
    let event = sent["eventId"].as_str().unwrap();
    let trace = cortex.json(&["trace", event, "--json"]);
    let whats: Vec<&str> =
        trace["entries"].as_array().unwrap().iter().map(|e| e["what"].as_str().unwrap()).collect();
    assert_eq!(whats, ["received", "claimed", "step", "finished", "queued", "leased", "acked"]);
    let table = cortex.run(&["trace", event]).stdout;
    assert!(table.starts_with(&format!("{event}  done  hello\n")), "{table}");
    assert_eq!(table.lines().count(), 2 + whats.len(), "{table}");
}

#[test]
fn a_failed_event_can_be_tried_again() {
    let answers = json!([{"times": 1, "error": {"kind": "rejected"}}, {"say": "better now"}]);
    let cortex = Cortex::scripted(&json!({"answers": answers})).started();
    assert_eq!(cortex.run(&["send", "hello"]).code, Some(1));
    let failed = cortex.json(&["inbox", "list", "--json"]);
    let event = failed["items"][0]["eventId"].as_str().unwrap();
    let retried = cortex.run(&["inbox", "retry", event]);
    assert_eq!(retried.code, Some(0), "{}", retried.stderr);
    assert_eq!(cortex.run(&["send", "and now"]).stdout, "better now\n");
    assert_eq!(cortex.json(&["inbox", "show", event, "--json"])["status"], "done");
    let again = cortex.run(&["inbox", "retry", event]);
    assert_eq!(again.code, Some(1));
    assert!(again.stderr.starts_with("cortex: conflict: "), "{}", again.stderr);
}

#[test]
fn a_message_can_be_given_up_and_taken_back() {
    let cortex = Cortex::quiet().started();
    cortex.json(&["send", "hello", "--wait", "0", "--json"]);
    let list = wait_for_message(&cortex);
    let message = list["items"][0]["messageId"].as_str().unwrap();
    assert_eq!(cortex.json(&["outbox", "discard", message, "--json"])["status"], "discarded");
    assert_eq!(cortex.json(&["outbox", "dead", "--json"])["items"], json!([]));
    assert_eq!(cortex.run(&["send", "again"]).stderr, "", "what was given up is not delivered");
    assert_eq!(cortex.json(&["outbox", "retry", message, "--json"])["status"], "pending");
    assert!(cortex.run(&["send", "again"]).stderr.starts_with("(earlier, in main)\n"));
}

/// The turn runs by itself; its message is there when it is there.
fn wait_for_message(cortex: &Cortex) -> serde_json::Value {
    for _ in 0..500 {
        let list = cortex.json(&["outbox", "list", "--status", "pending", "--json"]);
        if !list["items"].as_array().unwrap().is_empty() {
            return list;
        }
    }
    json!({"items": []})
}

#[test]
fn usage_is_summed_by_model_day_and_provider() {
    let cortex = Cortex::quiet().started();
    cortex.run(&["send", "hello"]);
    for by in ["model", "day", "provider"] {
        let usage = cortex.json(&["usage", "--by", by, "--since", "1d", "--json"]);
        assert_eq!((&usage["by"], &usage["total"]["calls"]), (&json!(by), &json!(1)));
        assert_eq!(usage["rows"].as_array().unwrap().len(), 1);
    }
    let table = cortex.run(&["usage"]).stdout;
    assert!(table.lines().last().unwrap().starts_with("total "), "{table}");
}

#[test]
fn what_is_not_there_is_not_found() {
    let cortex = Cortex::quiet().started();
    let cases: [&[&str]; 6] = [
        &["inbox", "show", NO_EVENT],
        &["inbox", "retry", NO_EVENT],
        &["outbox", "show", NO_MESSAGE],
        &["outbox", "retry", NO_MESSAGE],
        &["outbox", "discard", NO_MESSAGE],
        &["trace", NO_EVENT],
    ];
    for arguments in cases {
        let ran = cortex.run(arguments);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{arguments:?}");
        assert!(ran.stderr.starts_with("cortex: not_found: there is no "), "{arguments:?}: {}", ran.stderr);
    }
}

#[test]
fn long_lists_come_in_pages() {
    let cortex = Cortex::quiet().started();
    for text in ["one", "two", "three"] {
        cortex.json(&["send", text, "--wait", "0", "--json"]);
    }
    let first = cortex.json(&["inbox", "list", "-n", "2", "--json"]);
    let cursor = first["nextCursor"].as_str().unwrap();
    let rest = cortex.json(&["inbox", "list", "-n", "2", "--before", cursor, "--json"]);
    let texts = |page: &serde_json::Value| -> Vec<String> {
        page["items"].as_array().unwrap().iter().map(|row| row["text"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!((texts(&first), texts(&rest)), (vec!["three".into(), "two".into()], vec!["one".into()]));
    assert!(rest.get("nextCursor").is_none());
    let table = cortex.run(&["inbox", "list", "-n", "2"]);
    assert_eq!(table.stderr, format!("more: --before {cursor}\n"));
}
