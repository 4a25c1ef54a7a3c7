//! `cortex schedule`.

use crate::cortex::Cortex;
use expect_test::expect;
use serde_json::json;

fn told(cortex: &Cortex, arguments: &[&str]) -> String {
    let ran = cortex.run(arguments);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{arguments:?}");
    ran.stdout
}

#[test]
fn a_job_is_made_seen_changed_and_taken_away() {
    let cortex = Cortex::quiet().started();
    let none = cortex.run(&["schedule", "list"]);
    assert_eq!((none.code, none.stdout.as_str()), (Some(0), ""));
    assert!(none.stderr.starts_with("no schedules; say when and what"), "{}", none.stderr);

    let made = told(
        &cortex,
        &["schedule", "create", "every weekday at 9", "stretch", "--timezone", "Europe/Berlin"],
    );
    assert!(made.starts_with("created schedule 1; 0 9 * * 1-5 Europe/Berlin, next "), "{made}");
    let list = told(&cortex, &["schedule", "list"]);
    let row = list.lines().nth(1).unwrap();
    assert!(list.starts_with("JOB  NEXT ") && row.starts_with("1 ") && row.ends_with("stretch"), "{list}");
    assert!(row.contains(" 09:00  0 9 * * 1-5  Europe/Berlin  cli     main "), "{list}");

    assert_eq!(told(&cortex, &["schedule", "pause", "1"]), "paused schedule 1: stretch\n");
    assert!(told(&cortex, &["schedule", "list"]).contains("1    paused  0 9 * * 1-5"));
    assert_eq!(told(&cortex, &["schedule", "resume", "1"]), "resumed schedule 1: stretch\n");
    let changed = told(&cortex, &["schedule", "update", "1", "--what", "walk", "--catch-up", "skip"]);
    assert!(changed.starts_with("changed schedule 1; 0 9 * * 1-5 Europe/Berlin"), "{changed}");
    let job = cortex.json(&["schedule", "show", "1", "--json"]);
    assert_eq!((&job["description"], &job["catchUp"]), (&json!("walk"), &json!("skip")));
    assert_eq!((&job["source"], &job["topicKey"]), (&json!("cli"), &json!("main")));
    let shown = told(&cortex, &["schedule", "show", "1"]);
    assert_eq!(shown.matches("\nnext      ").count(), 3, "{shown}");

    assert_eq!(told(&cortex, &["schedule", "delete", "1"]), "deleted schedule 1: walk\n");
    assert_eq!(cortex.json(&["schedule", "list", "--json"]), json!({"items": []}));
}

#[test]
fn when_can_be_english_cron_or_a_moment() {
    let cortex = Cortex::quiet().started();
    // Without quotes the last word is what, and those before it are when.
    let made = told(&cortex, &["schedule", "create", "every", "2", "hours", "drink"]);
    assert!(made.starts_with("created schedule 1; 0 */2 * * * UTC"), "{made}");
    let made = told(&cortex, &["schedule", "create", "--cron", "5 4 * * *", "water", "the", "plants"]);
    assert!(made.starts_with("created schedule 2; 5 4 * * * UTC"), "{made}");
    assert_eq!(cortex.json(&["schedule", "show", "2", "--json"])["description"], "water the plants");
    let made = told(
        &cortex,
        &["schedule", "create", "--at", "2100-01-01T09:00:00+02:00", "call", "--topic", "work"],
    );
    expect![[r#"
        created schedule 3; once at 2100-01-01T07:00:00.000Z UTC, next Fri 2100-01-01 07:00
    "#]]
    .assert_eq(&made);
    expect![[r#"
        job       3
        what      call
        when      once, Fri 2100-01-01 07:00
        zone      UTC
        missed    runs once for all that were missed
        speaks    cli work
        next      Fri 2100-01-01 07:00
    "#]]
    .assert_eq(&told(&cortex, &["schedule", "show", "3"]));
    // What needs a flag elsewhere is understood without it, too.
    let made = told(&cortex, &["schedule", "preview", "0 9 * * 1-5"]);
    assert!(made.starts_with("cron 0 9 * * 1-5"), "{made}");
    let made = told(&cortex, &["schedule", "preview", "2100-01-01T09:00:00Z"]);
    assert!(made.contains("2100-01-01"), "{made}");
    for (words, wanted) in [
        ("60 9 * * *", "60"),
        ("2020-01-01T00:00:00Z", "that time has passed"),
        ("every day at 2:30", "02:30 or 14:30"),
        ("whenever you like", "Five cron fields such as 0 9 * * 1-5"),
    ] {
        let refused = cortex.run(&["schedule", "create", words, "x"]);
        assert_eq!(refused.code, Some(1), "{words}");
        assert!(refused.stderr.contains(wanted), "{words}: {}", refused.stderr);
        let is_for_a_model = refused.stderr.contains("ask the user") || refused.stderr.contains("runAt");
        assert!(!is_for_a_model, "{words}: {}", refused.stderr);
    }
    let preview = told(&cortex, &["schedule", "preview", "first monday of the month at 8"]);
    assert!(preview.starts_with("cron ") && preview.contains("\nnext: Mon "), "{preview}");
    assert_eq!(cortex.json(&["schedule", "list", "--json"])["items"].as_array().unwrap().len(), 3);
}

#[test]
fn a_job_that_is_run_now_speaks_where_it_belongs() {
    let cortex = Cortex::scripted(&json!({"answers": [
        {"when": {"equals": "stretch"}, "say": "Time to stretch!"},
    ], "otherwise": {"say": "hello"}}))
    .started();
    told(&cortex, &["schedule", "create", "every day at 9", "stretch"]);
    let ran = cortex.json(&["schedule", "run", "1", "--json"]);
    wait_until_done(&cortex, ran["eventId"].as_str().unwrap());
    // Nobody asked for it, so it is talk beside the reply, and never lost.
    let sent = cortex.run(&["send", "hi"]);
    assert_eq!(
        (sent.stdout.as_str(), sent.stderr.as_str()),
        ("hello\n", "(earlier, in main)\nTime to stretch!\n")
    );
    let ran = cortex.json(&["schedule", "run", "1", "--json"]);
    wait_until_done(&cortex, ran["eventId"].as_str().unwrap());
    let sent = cortex.json(&["send", "hi", "--json"]);
    assert_eq!(
        (&sent["replies"][0]["text"], &sent["others"][0]["text"]),
        (&json!("hello"), &json!("Time to stretch!"))
    );
}

/// The turn runs by itself; it is done when it is done.
fn wait_until_done(cortex: &Cortex, event: &str) {
    for _ in 0..500 {
        if cortex.json(&["inbox", "show", event, "--json"])["status"] == "done" {
            return;
        }
    }
    assert_eq!(event, "done in time");
}

#[test]
fn what_cannot_be_is_one_line() {
    let cortex = Cortex::quiet().started();
    let cases: [(&[&str], i32, &str); 10] = [
        (&["show", "7"], 1, "cortex: not_found: there is no schedule 7; `cortex schedule list` shows them"),
        (&["pause", "7"], 1, "cortex: not_found: there is no schedule 7;"),
        (&["run", "7"], 1, "cortex: not_found: there is no schedule 7;"),
        (&["update", "7", "--what", "x"], 1, "cortex: not_found: there is no schedule 7;"),
        (&["update", "7"], 64, "cortex: nothing to change; give --when, --what or another flag"),
        (&["create", "stretch"], 64, "cortex: say when and what, such as: cortex schedule create"),
        (
            &["create", "when pigs fly", "x"],
            1,
            "cortex: invalid_request: \"when pigs fly\" is not understood",
        ),
        (
            &["create", "--cron", "61 * * * *", "x"],
            1,
            "cortex: invalid_request: \"61 * * * *\" is no schedule",
        ),
        (
            &["create", "--at", "2001-01-01T00:00:00Z", "x"],
            1,
            "cortex: invalid_request: that time has passed",
        ),
        (
            &["preview", "every day at 9", "--timezone", "Mars/Base"],
            1,
            "cortex: invalid_request: there is no time zone",
        ),
    ];
    for (arguments, code, why) in cases {
        let ran = cortex.run(&[&["schedule"], arguments].concat());
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(code), ""), "{arguments:?}: {}", ran.stderr);
        assert!(
            ran.stderr.starts_with(why) && ran.stderr.lines().count() == 1,
            "{arguments:?}: {}",
            ran.stderr
        );
    }
}
