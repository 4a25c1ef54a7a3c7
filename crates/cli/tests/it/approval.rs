//! Questions to a person: asked by `send` and `chat`, answered there or with `cortex approvals`.

use crate::cortex::Cortex;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

const NO_APPROVAL: &str = "apv_01ARZ3NDEKTSV4RRFFQ69G5FAV";
const NO_GRANT: &str = "grt_01ARZ3NDEKTSV4RRFFQ69G5FAV";

/// A model that makes a schedule when it is asked to remind.
fn reminding() -> Cortex {
    let create =
        json!({"name": "schedule.create", "arguments": {"when": "every weekday at 9", "what": "stretch"}});
    Cortex::scripted(&json!({"answers": [
        {"when": {"afterTool": "schedule.create"}, "say": "So be it."},
        {"when": {"startsWith": "remind"}, "toolCalls": [create]},
        {"when": {"equals": "stretch"}, "say": "Time to stretch!"},
    ], "otherwise": {"say": "You said: {{user}}"}}))
    .started()
}

/// Asks and gives the id of the question.
fn ask(cortex: &Cortex) -> String {
    let sent = cortex.json(&["send", "remind me", "--json"]);
    assert_eq!(sent["status"], "waiting", "{sent}");
    sent["replies"][0]["payload"]["approvalId"].as_str().unwrap().to_owned()
}

fn jobs(cortex: &Cortex) -> usize {
    cortex.json(&["schedule", "list", "--json"])["items"].as_array().unwrap().len()
}

#[test]
fn a_question_is_printed_with_how_to_answer_it() {
    let cortex = reminding();
    let sent = cortex.run(&["send", "remind me every weekday at 9 to stretch"]);
    assert_eq!(sent.code, Some(0), "{}", sent.stderr);
    assert!(
        sent.stdout.starts_with("May I add a reminder: stretch, weekdays at 09:00 (UTC)? Next: "),
        "{}",
        sent.stdout
    );
    assert!(
        sent.stdout.contains("  what: \"stretch\"\n") && sent.stdout.contains("cron 0 9 * * 1-5"),
        "{}",
        sent.stdout
    );
    let open = cortex.json(&["approvals", "list", "--json"]);
    let id = open["items"][0]["approvalId"].as_str().unwrap();
    assert_eq!(
        sent.stderr,
        format!("Answer with: cortex approvals approve {id}   (or: cortex approvals deny {id})\n")
    );
    let shown = cortex.run(&["approvals", "show", id]).stdout;
    assert!(
        shown.ends_with("\n\n  cron: \"0 9 * * 1-5\"\n  timezone: \"UTC\"\n  what: \"stretch\"\n"),
        "{shown}"
    );
    assert!(
        shown.contains("\ntool       schedule.create\nquestion   May I add a reminder: stretch, "),
        "{shown}"
    );
    assert!(!shown.contains("apr_"), "a token is nobody's business: {shown}");
    assert_eq!(jobs(&cortex), 0);
}

#[test]
fn an_approved_call_runs_once_and_its_reply_follows() {
    let cortex = reminding();
    let id = ask(&cortex);
    let approved = cortex.run(&["approvals", "approve", &id]);
    assert_eq!((approved.code, approved.stderr.as_str()), (Some(0), ""));
    assert_eq!(approved.stdout, "Approved: schedule.create runs now.\nSo be it.\n");
    assert_eq!(jobs(&cortex), 1);
    let again = cortex.run(&["approvals", "approve", &id]);
    assert_eq!((again.code, again.stdout.as_str()), (Some(1), ""));
    assert_eq!(again.stderr, format!("cortex: conflict: {id} is approved\n"));
    assert_eq!(jobs(&cortex), 1);
    let table = cortex.run(&["approvals", "list", "--all"]).stdout;
    assert!(table.lines().nth(1).unwrap().starts_with(&format!("{id}  approved  ")), "{table}");
    let none = cortex.run(&["approvals", "list"]);
    let why = "no open questions; --all shows answered ones, too\n";
    assert_eq!((none.code, none.stdout.as_str(), none.stderr.as_str()), (Some(0), "", why));
}

#[test]
fn a_denied_call_never_runs() {
    let cortex = reminding();
    let id = ask(&cortex);
    let denied = cortex.json(&["approvals", "deny", &id, "--json"]);
    assert_eq!((&denied["status"], &denied["resolvedBy"]), (&json!("denied"), &json!("owner")));
    assert_eq!(jobs(&cortex), 0);
    let shown = cortex.run(&["approvals", "show", &id]).stdout;
    assert!(shown.contains("status     denied\n") && shown.contains("\nby         owner\n"), "{shown}");
}

#[test]
fn a_grant_covers_the_same_call_until_it_is_revoked() {
    let cortex = reminding();
    let none = cortex.run(&["approvals", "grants"]);
    assert_eq!((none.code, none.stdout.as_str()), (Some(0), ""));
    assert!(none.stderr.starts_with("no grants; "), "{}", none.stderr);
    let id = ask(&cortex);
    cortex.run(&["approvals", "approve", &id]);
    let grant = cortex.run(&["approvals", "grant", &id, "--for", "30m"]).stdout.trim().to_owned();
    assert!(grant.starts_with("grt_"), "{grant}");
    assert_eq!(cortex.run(&["send", "remind me"]).stdout, "So be it.\n");
    assert_eq!(jobs(&cortex), 2);
    let table = cortex.run(&["approvals", "grants"]).stdout;
    assert!(table.lines().nth(1).unwrap().starts_with(&grant), "{table}");
    assert_eq!(cortex.run(&["approvals", "revoke", &grant]).stdout, format!("revoked {grant}\n"));
    assert_ne!(ask(&cortex), id, "it asks again");
    let revoked = cortex.json(&["approvals", "grants", "--json"])["items"][0]["revokedAt"].clone();
    assert_ne!(revoked, Value::Null);
}

#[test]
fn a_chat_answers_its_newest_question() {
    let cortex = reminding();
    let ran = cortex.run_with_input(&["chat"], "remind me\nyes\n/approve\n/approve\n");
    assert_eq!(ran.code, Some(1), "the last line had nothing to answer");
    let (prompt, rest) = ran.stdout.split_once("Asked by cli:owner").unwrap();
    assert!(prompt.starts_with("May I add a reminder: stretch, weekdays at 09:00 (UTC)? Next: "), "{prompt}");
    let (verbatim, rest) = rest.split_once("  what: \"stretch\"\n").unwrap();
    assert!(verbatim.contains("\n\n    cron 0 9 * * 1-5 in UTC\n"), "{verbatim}");
    let (told, rest) = rest.split_once("type /approve or /deny.\n").unwrap();
    let asks =
        "I am still waiting for your answer: May I add a reminder: stretch, weekdays at 09:00 (UTC)? Next: ";
    let (next, how) = told.strip_prefix(asks).unwrap().split_once('\n').unwrap();
    assert!(next.ends_with('.') && next.len() < 20, "{told}");
    let id =
        how.split('`').nth(1).and_then(|command| command.strip_prefix("cortex approvals approve ")).unwrap();
    let expected = format!(
        "A plain yes or no does not decide it. Run `cortex approvals approve {id}` or `cortex approvals deny {id}`; \
         in `cortex chat`, "
    );
    assert_eq!(how, expected);
    assert_eq!(cortex.json(&["approvals", "show", id, "--json"])["status"], "approved", "the words work");
    assert_eq!(rest, "Approved: schedule.create runs now.\nSo be it.\n");
    assert_eq!(
        ran.stderr,
        "(/approve or /deny)\n(no question is open in this conversation; `cortex approvals list` shows all)\n"
    );
    assert_eq!(jobs(&cortex), 1);
}

#[test]
fn a_chat_answers_what_was_asked_elsewhere_in_its_conversation() {
    let cortex = reminding();
    let id = ask(&cortex);
    let other = cortex.run_with_input(&["chat", "--topic", "other"], "/deny\n");
    assert_eq!((other.code, other.stdout.as_str()), (Some(1), ""), "a question of another conversation");
    let ran = cortex.run_with_input(&["chat"], "/deny\n");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stdout.starts_with("Denied: schedule.create will not run.\n"), "{}", ran.stdout);
    let row = cortex.json(&["approvals", "show", &id, "--json"]);
    assert_eq!((&row["status"], &row["resolvedBy"]), (&json!("denied"), &json!("owner")));
    assert_eq!(jobs(&cortex), 0);
}

#[test]
fn a_reminder_shows_in_an_open_chat_while_nobody_types() {
    let cortex = reminding();
    cortex.run(&["schedule", "create", "every day at 9", "stretch"]);
    let mut chat = cortex.command(&["chat"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(chat.stdout.take().unwrap()).lines();
    let mut input = chat.stdin.take().unwrap();
    writeln!(input, "hi").unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "You said: hi");
    cortex.json(&["schedule", "run", "1", "--json"]);
    assert_eq!(lines.next().unwrap().unwrap(), "Time to stretch!");
    drop(input);
    assert_eq!(chat.wait().unwrap().code(), Some(0));
    assert_eq!(cortex.run(&["send", "hi"]).stderr, "", "it was delivered once");
}

#[test]
fn without_a_key_a_reminder_is_asked_for_made_and_arrives() {
    let cortex = Cortex::quiet().with("CORTEX_SCHEDULER_TICK_SECONDS", "1").started();
    let sent = cortex.json(&["send", "remind me every weekday at 9 to stretch", "--json"]);
    let id = sent["replies"][0]["payload"]["approvalId"].as_str().unwrap();
    let approved = cortex.run(&["approvals", "approve", id]);
    assert!(approved.stdout.starts_with("Approved: schedule.create runs now.\n"), "{}", approved.stdout);
    assert_eq!(cortex.json(&["schedule", "show", "1", "--json"])["cron"], "0 9 * * 1-5");
    // The same reminder a moment from now, so that the scheduler itself fires it.
    let soon = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(3);
    let soon = cortex.run(&["schedule", "update", "1", "--at", &soon.to_string()]);
    assert_eq!(soon.code, Some(0), "{}", soon.stderr);
    let mut chat = cortex.command(&["chat"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let input = chat.stdin.take().unwrap();
    let said = BufReader::new(chat.stdout.take().unwrap()).lines().next().unwrap().unwrap();
    assert!(said.contains("stretch"), "{said}");
    drop(input);
    assert_eq!(chat.wait().unwrap().code(), Some(0));
    let slots = cortex.json(&["schedule", "show", "1", "--json"])["slots"].clone();
    assert_eq!(slots[0]["outcome"], "fired", "{slots}");
}

#[test]
fn what_is_not_there_is_told_by_its_name() {
    let cortex = Cortex::quiet().started();
    let approval = format!(
        "cortex: not_found: there is no approval {NO_APPROVAL}; `cortex approvals list --all` shows them\n"
    );
    let grant = format!(
        "cortex: not_found: there is no grant {NO_GRANT} in force; `cortex approvals grants` shows them\n"
    );
    let cases: [(&[&str], &str); 5] = [
        (&["show", NO_APPROVAL], &approval),
        (&["approve", NO_APPROVAL], &approval),
        (&["deny", NO_APPROVAL], &approval),
        (&["grant", NO_APPROVAL, "--for", "1h"], &approval),
        (&["revoke", NO_GRANT], &grant),
    ];
    for (arguments, why) in cases {
        let ran = cortex.run(&[&["approvals"], arguments].concat());
        assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(1), "", why), "{arguments:?}");
    }
    for time in ["0", "500ms", "soon"] {
        let ran = cortex.run(&["approvals", "grant", NO_APPROVAL, "--for", time]);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(64), ""), "{time}: {}", ran.stderr);
    }
    let ran = cortex.run(&["approvals", "grant", NO_APPROVAL, "--for", "2d"]);
    assert!(ran.stderr.starts_with("cortex: invalid_request: seconds must be "), "{}", ran.stderr);
}

#[test]
fn questions_and_grants_come_in_pages() {
    let cortex = reminding();
    let asked = [ask(&cortex), ask(&cortex), ask(&cortex)];
    for id in &asked {
        assert_eq!(cortex.run(&["approvals", "grant", id, "--for", "30m"]).code, Some(0));
    }
    let ids = |page: &Value, name: &str| -> Vec<String> {
        page["items"].as_array().unwrap().iter().map(|row| row[name].as_str().unwrap().to_owned()).collect()
    };
    for (listing, name) in [("list", "approvalId"), ("grants", "grantId")] {
        let first = cortex.json(&["approvals", listing, "-n", "2", "--json"]);
        let cursor = first["nextCursor"].as_str().unwrap();
        let rest = cortex.json(&["approvals", listing, "-n", "2", "--before", cursor, "--json"]);
        let both = [ids(&first, name), ids(&rest, name)].concat();
        assert_eq!((both.len(), rest.get("nextCursor")), (3, None), "{listing}: {both:?}");
        let whole = cortex.json(&["approvals", listing, "--json"]);
        assert_eq!(both, ids(&whole, name), "{listing}");
        let table = cortex.run(&["approvals", listing, "-n", "2"]);
        assert_eq!(table.stderr, format!("more: --before {cursor}\n"), "{listing}");
        let wrong = cortex.run(&["approvals", listing, "--before", "x"]);
        let why = "cortex: invalid_request: before must be the nextCursor of a page\n";
        assert_eq!((wrong.code, wrong.stderr.as_str()), (Some(1), why), "{listing}");
    }
}

#[test]
fn a_wrong_id_is_one_line_that_says_where_ids_are() {
    // No server is needed to see that it is no id.
    let cortex = Cortex::quiet();
    for arguments in [&["show", "x"][..], &["approve", "x"], &["deny", "x"], &["grant", "x", "--for", "1h"]] {
        let ran = cortex.run(&[&["approvals"], arguments].concat());
        let why = "cortex: invalid value 'x' for '<APPROVAL>': an approval id is apv_ and 26 letters and digits; \
                   `cortex approvals list --all` shows them\n";
        assert_eq!(
            (ran.code, ran.stdout.as_str(), ran.stderr.as_str()),
            (Some(64), "", why),
            "{arguments:?}"
        );
    }
    let ran = cortex.run(&["approvals", "revoke", "x\u{1b}[2J\ny"]);
    let why = "a grant id is grt_ and 26 letters and digits; `cortex approvals grants` shows them\n";
    assert_eq!((ran.code, ran.stderr.lines().count()), (Some(64), 1), "{}", ran.stderr);
    assert!(ran.stderr.starts_with("cortex: ") && ran.stderr.ends_with(why), "{}", ran.stderr);
    assert!(!ran.stderr.contains('\u{1b}'), "{:?}", ran.stderr);
    // The same for every value of every command.
    let ran = cortex.run(&["inbox", "show", "x"]);
    let why = "cortex: invalid value 'x' for '<EVENT>': \"x\" is not an id of the form evt_<ULID>\n";
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(64), why));
}
