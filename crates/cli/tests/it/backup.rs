//! `backup` and `restore`: a home under load goes into one file, and comes out of it elsewhere or not at all.

use crate::bot_api::{BotApi, TOKEN, until};
use crate::cortex::{Cortex, Ran};
use cortex_store::{HomeLock, HomeUse};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

const BEFORE: usize = 60;
/// Answers that people have on telegram before the backup.
const ANSWERED: usize = 6;
const ADA: i64 = 42;
const PAGES: &str = "connectors/telegram/state.json";

fn event(number: usize) -> Value {
    json!({"source": "load", "externalMessageId": format!("m{number}"), "idempotencyKey": format!("m{number}"),
           "topicKey": format!("t{}", number % 7), "userId": "ada", "text": format!("message {number}"),
           "occurredAt": "2026-01-01T00:00:00Z"})
}

/// Runs in another, empty home, with the settings of a quiet server.
fn elsewhere() -> Cortex {
    Cortex::quiet()
}

fn restore(cortex: &Cortex, file: &Path) -> Ran {
    cortex.run(&["restore", file.to_str().unwrap()])
}

fn backed_up(cortex: &Cortex) -> PathBuf {
    let file = cortex.beside("b.cortex");
    let ran = cortex.run(&["backup", file.to_str().unwrap()]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), ""), "{}", ran.stderr);
    file
}

#[test]
fn a_backup_under_load_has_every_event_that_was_accepted_before_it() {
    let cortex = Cortex::scripted(&json!({"otherwise": {"say": "re: {{user}}"}})).started();
    let accepted: Mutex<Vec<(usize, String)>> = Mutex::new(Vec::new());
    let is_over = AtomicBool::new(false);
    let (file, before) = std::thread::scope(|scope| {
        for worker in 0..3 {
            let (cortex, accepted, is_over) = (&cortex, &accepted, &is_over);
            scope.spawn(move || {
                for number in (worker..).step_by(3) {
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                    let answer = cortex.post("/ingest", &event(number));
                    let id = answer["eventId"].as_str().unwrap().to_owned();
                    accepted.lock().unwrap().push((number, id));
                }
            });
        }
        while accepted.lock().unwrap().len() < BEFORE {
            std::thread::yield_now();
        }
        let before = accepted.lock().unwrap().clone();
        let file = backed_up(&cortex);
        is_over.store(true, Ordering::Relaxed);
        (file, before)
    });
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);

    let other = elsewhere();
    let ran = restore(&other, &file);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), ""), "{}", ran.stderr);
    let other = other.started();
    for (number, id) in before {
        let again = other.post("/ingest", &event(number));
        assert_eq!(again["eventId"].as_str(), Some(id.as_str()), "event {number} is not in the backup");
    }
}

/// A server whose skill keeps a note for each message, without asking, and whose telegram is this one.
fn with_notes(api: &BotApi) -> Cortex {
    let script = json!({
        "answers": [{"when": {"afterTool": "notes.keep"}, "say": "re: {{user}}"}],
        "otherwise": {"toolCalls": [{"name": "notes.keep", "arguments": {}}]},
    });
    let telegram = json!({"enabled": true, "token": TOKEN, "apiUrl": api.url, "allow": [ADA]});
    let cortex =
        Cortex::scripted(&script).with_file(&json!({"connectors": {"telegram": telegram}}).to_string());
    let folder = cortex.beside("skills/notes");
    std::fs::create_dir_all(&folder).unwrap();
    let manifest =
        json!({"id": "notes", "name": "N", "version": "1.0.0", "runtimeApiVersion": "1", "main": "main.ts"});
    std::fs::write(folder.join("skill.json"), manifest.to_string()).unwrap();
    std::fs::write(folder.join("main.ts"), include_str!("backup/notes.ts")).unwrap();
    let skills = cortex.beside("skills");
    cortex.with("CORTEX_SKILL_DIRS", skills.to_str().unwrap())
}

/// What the telegram connector of a home remembers: replaced whole, so it can be read at any time.
fn pages(cortex: &Cortex) -> Option<Value> {
    let bytes = std::fs::read(cortex.path(PAGES)).ok()?;
    Some(serde_json::from_slice(&bytes).unwrap())
}

fn cursor(pages: &Value) -> i64 {
    pages["cursor"].as_str().unwrap().parse().unwrap()
}

fn texts<'a>(pages: &'a Value, name: &str) -> Vec<&'a str> {
    pages[name].as_array().unwrap().iter().map(|id| id.as_str().unwrap()).collect()
}

/// How many notes the skill has; its two tables agree, or its database was torn.
fn notes(cortex: &Cortex) -> u64 {
    let found = cortex.json(&["skill", "run", "notes.all", "--json"]);
    let found: Value = serde_json::from_str(found["content"].as_str().unwrap()).unwrap();
    assert_eq!((&found["rows"], &found["whole"]), (&found["kept"], &found["kept"]), "{found}");
    found["kept"].as_u64().unwrap()
}

/// What was true before the backup began.
struct Before {
    accepted: Vec<(usize, String)>,
    pages: Value,
    notes: u64,
}

/// Backs up while people write on telegram and programs to `/ingest`; every message makes the skill write.
fn backed_up_under_load(cortex: &Cortex, api: &BotApi) -> (PathBuf, Before) {
    let accepted: Mutex<Vec<(usize, String)>> = Mutex::new(Vec::new());
    let is_over = AtomicBool::new(false);
    let goes_on = || !is_over.load(Ordering::Relaxed);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in (1..).take_while(|_| goes_on()) {
                api.say(i64::try_from(number).unwrap(), ADA, &format!("telegram {number}."));
                api.sent(number);
            }
        });
        scope.spawn(|| {
            for number in (0..).take_while(|_| goes_on()) {
                let answer = cortex.post("/ingest", &event(number));
                accepted.lock().unwrap().push((number, answer["eventId"].as_str().unwrap().to_owned()));
            }
        });
        let pages = until("delivered answers", || {
            pages(cortex).filter(|pages| texts(pages, "delivered").len() >= ANSWERED)
        });
        let notes = notes(cortex);
        let before = Before { accepted: accepted.lock().unwrap().clone(), pages, notes };
        let file = backed_up(cortex);
        is_over.store(true, Ordering::Relaxed);
        (file, before)
    })
}

#[test]
fn a_backup_under_load_has_what_connectors_and_skills_remember() {
    let api = BotApi::start();
    let cortex = with_notes(&api).started();
    let (file, before) = backed_up_under_load(&cortex, &api);
    assert!(before.notes >= ANSWERED as u64 && !before.accepted.is_empty());
    assert_eq!(cortex.run(&["stop", "--force"]).code, Some(0));
    let sent = api.sent(ANSWERED).len();

    let whole = std::fs::read(&file).unwrap();
    for at in [whole.len() / 3, whole.len() / 2, whole.len() - 2] {
        let flipped = cortex.beside("flipped.cortex");
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        std::fs::write(&flipped, bytes).unwrap();
        let other = elsewhere();
        let ran = restore(&other, &flipped);
        assert_eq!(ran.code, Some(1), "byte {at}");
        assert!(ran.stderr.starts_with("cortex: backup_unusable: "), "byte {at}: {}", ran.stderr);
        assert!(!other.home().exists(), "byte {at}");
    }

    let other = with_notes(&api);
    std::fs::remove_dir_all(other.home()).unwrap();
    let ran = restore(&other, &file);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let restored = pages(&other).expect("what the connector remembers is in the backup");
    assert!(cursor(&restored) >= cursor(&before.pages), "{restored}");
    for name in ["delivered", "seen"] {
        let kept = texts(&restored, name);
        let lost: Vec<_> = texts(&before.pages, name).into_iter().filter(|id| !kept.contains(id)).collect();
        assert!(lost.is_empty(), "{name} has no {lost:?}");
    }
    let kept = notes(&other);
    assert!(kept >= before.notes, "{kept} notes, {} were written before the backup", before.notes);

    let other = other.started();
    for (number, id) in &before.accepted {
        let again = other.post("/ingest", &event(*number));
        assert_eq!(again["eventId"].as_str(), Some(id.as_str()), "event {number} is not in the backup");
    }
    // It goes on where it was: the next message is answered, and no answer that people had comes again.
    api.say(1_000_000, ADA, "the next one.");
    let later = until("the answer to the next one", || {
        let later = api.sent(sent).split_off(sent);
        later.iter().any(|text| text.contains("the next one.")).then_some(later)
    });
    for number in 1..=ANSWERED {
        let answer = format!("telegram {number}.");
        assert!(!later.iter().any(|text| text.contains(&answer)), "{answer} was answered again: {later:?}");
    }
    assert!(notes(&other) > kept);
}

/// A connector's page is replaced whole, as its notebook does.
fn turn_page(cortex: &Cortex, cursor: usize) {
    let (page, next) = (cortex.path("connectors/hand/state.json"), cortex.path("connectors/hand/state.next"));
    std::fs::write(&next, json!({ "cursor": cursor }).to_string()).unwrap();
    std::fs::rename(next, page).unwrap();
}

#[test]
fn a_restored_cursor_is_never_ahead_of_the_messages_before_it() {
    let cortex = Cortex::scripted(&json!({"otherwise": {"say": "NO_REPLY"}})).started();
    std::fs::create_dir_all(cortex.path("connectors/hand")).unwrap();
    // A database that takes its time to be copied and checked.
    let words = "many words ".repeat(20_000);
    for number in 0..100 {
        let mut large = event(1_000_000 + number);
        large["text"] = json!(words);
        cortex.post("/ingest", &large);
    }
    let accepted: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let is_over = AtomicBool::new(false);
    let file = std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in (0..).take_while(|_| !is_over.load(Ordering::Relaxed)) {
                let answer = cortex.post("/ingest", &event(number));
                accepted.lock().unwrap().push(answer["eventId"].as_str().unwrap().to_owned());
                // As a connector does: what it heard is in the inbox before its cursor moves on.
                turn_page(&cortex, number);
            }
        });
        until("a page", || (accepted.lock().unwrap().len() > 3).then_some(()));
        let file = backed_up(&cortex);
        is_over.store(true, Ordering::Relaxed);
        file
    });
    let other = elsewhere();
    assert_eq!(restore(&other, &file).code, Some(0));
    let page: Value =
        serde_json::from_slice(&std::fs::read(other.path("connectors/hand/state.json")).unwrap()).unwrap();
    let cursor = usize::try_from(page["cursor"].as_u64().unwrap()).unwrap();
    let other = other.started();
    let again = other.post("/ingest", &event(cursor));
    let first = accepted.into_inner().unwrap().swap_remove(cursor);
    assert_eq!(again["eventId"].as_str(), Some(first.as_str()), "event {cursor} would be skipped for good");
}

#[test]
fn a_program_in_the_home_can_be_started_after_a_restore() {
    let cortex = Cortex::quiet().started();
    let (program, text) = ("workspace/bin/hello", "workspace/bin/readme");
    std::fs::create_dir_all(cortex.path("workspace/bin")).unwrap();
    std::fs::write(cortex.path(program), "#!/bin/sh\nexit 7\n").unwrap();
    std::fs::set_permissions(cortex.path(program), std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::write(cortex.path(text), "no program").unwrap();
    let file = backed_up(&cortex);
    let other = elsewhere();
    assert_eq!(restore(&other, &file).code, Some(0));
    let mode = |name: &str| std::fs::metadata(other.path(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(program), mode(text)), (0o700, 0o600), "its owner's alone, as everything in a home");
    let ended = std::process::Command::new(other.path(program)).status().unwrap();
    assert_eq!(ended.code(), Some(7));
}

#[test]
fn a_backup_or_restore_that_runs_is_not_taken_for_the_server() {
    let cortex = Cortex::quiet().started();
    assert_eq!(cortex.run(&["stop"]).code, Some(0));
    for (held_for, name) in [(HomeUse::Backup, "backup"), (HomeUse::Restore, "restore")] {
        // Held by this test: a `stop` that takes it for the server would end the test.
        let _lock = HomeLock::acquire_for(held_for, &cortex.home()).unwrap();
        let pid = std::process::id();
        let told = format!(
            "cortex: home_in_use: `cortex {name}` uses this home (pid {pid}); try again when it is done\n"
        );
        for arguments in
            [&["stop", "--force"][..], &["stop"], &["start"], &["restart"], &["serve"], &["status"]]
        {
            let ran = cortex.run(arguments);
            assert_eq!((ran.code, ran.stderr.as_str()), (Some(1), told.as_str()), "{arguments:?}");
        }
    }
    {
        let _lock = HomeLock::acquire_for(HomeUse::Restore, &cortex.home()).unwrap();
        let ran = cortex.run(&["backup", cortex.beside("half.cortex").to_str().unwrap()]);
        assert_eq!(ran.code, Some(1));
        assert!(
            ran.stderr.starts_with("cortex: home_in_use: `cortex restore` uses this home"),
            "{}",
            ran.stderr
        );
    }
    assert_eq!(cortex.run(&["start"]).code, Some(0));
}

#[test]
fn a_flipped_byte_is_found_and_nothing_is_changed() {
    let cortex = Cortex::quiet().started();
    cortex.run(&["send", "hello"]);
    let file = backed_up(&cortex);
    let whole = std::fs::read(&file).unwrap();
    let mut places: Vec<usize> = vec![0, 14, 20, 100, whole.len() - 1];
    // Anywhere, and the same places each time.
    let mut place = 12_345_usize;
    places.extend(
        std::iter::repeat_with(|| {
            place = place.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            place % whole.len()
        })
        .take(12),
    );
    for at in places {
        let mut flipped = whole.clone();
        flipped[at] ^= 0x10;
        std::fs::write(&file, flipped).unwrap();
        let other = elsewhere();
        let ran = restore(&other, &file);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "byte {at}: {}", ran.stderr);
        assert!(ran.stderr.starts_with("cortex: backup_unusable: "), "byte {at}: {}", ran.stderr);
        assert!(!other.home().exists(), "byte {at}");
    }
    let damaged = restore(&elsewhere(), &file).stderr;
    assert!(damaged.contains(" is damaged: byte ") && damaged.contains("nothing was changed"), "{damaged}");
    std::fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    let cut = restore(&elsewhere(), &file).stderr;
    assert!(cut.contains("it ends in the middle of "), "{cut}");
}

#[test]
fn a_restore_keeps_what_was_there_and_needs_a_stopped_server() {
    let cortex = Cortex::scripted(&json!({"otherwise": {"say": "re: {{user}}"}})).started();
    let first = cortex.json(&["send", "one", "--json"])["eventId"].as_str().unwrap().to_owned();
    std::fs::write(cortex.path("workspace/USER.md"), "likes tea").unwrap();
    let file = backed_up(&cortex);
    let second = cortex.json(&["send", "two", "--json"])["eventId"].as_str().unwrap().to_owned();
    std::fs::write(cortex.path("workspace/USER.md"), "likes coffee").unwrap();

    let refused = restore(&cortex, &file);
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.stderr.starts_with("cortex: server_runs: a server uses this home (pid "),
        "{}",
        refused.stderr
    );
    assert_eq!(cortex.run(&["stop", "--force"]).code, Some(0));
    let done: Value = cortex.json(&["restore", file.to_str().unwrap(), "--json"]);
    let aside = cortex.path(done["aside"].as_str().unwrap().strip_prefix("[HOME]/").unwrap());
    assert_eq!(std::fs::read_to_string(aside.join("workspace/USER.md")).unwrap(), "likes coffee");
    assert!(aside.join("cortex.db").exists());
    assert_eq!(std::fs::read_to_string(cortex.path("workspace/USER.md")).unwrap(), "likes tea");

    let cortex = cortex.started();
    assert_eq!(cortex.run(&["inbox", "show", &first]).code, Some(0));
    assert_eq!(cortex.run(&["inbox", "show", &second]).code, Some(1), "it came after the backup");
    assert_eq!(cortex.run(&["stop"]).code, Some(0));
    // What was kept is a whole database, with what came last.
    std::fs::copy(aside.join("cortex.db"), cortex.path("cortex.db")).unwrap();
    assert_eq!(cortex.started().run(&["inbox", "show", &second]).code, Some(0));
}

#[test]
fn a_backup_replaces_no_file_and_holds_no_logs_and_no_other_backup() {
    let cortex = Cortex::quiet().started();
    std::fs::create_dir(cortex.path("data")).unwrap_or_default();
    let inside = cortex.path("data/first.cortex");
    let ran = cortex.run(&["backup", inside.to_str().unwrap()]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let again = cortex.run(&["backup", inside.to_str().unwrap()]);
    let why =
        "cortex: exists: [HOME]/data/first.cortex is there already; choose another name, or give --force\n";
    assert_eq!((again.code, again.stderr.as_str()), (Some(1), why));
    assert_eq!(cortex.run(&["backup", inside.to_str().unwrap(), "--force"]).code, Some(0));

    let other = elsewhere();
    assert_eq!(restore(&other, &inside).code, Some(0));
    let left: Vec<String> = std::fs::read_dir(other.home())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(!left.iter().any(|name| name == "logs" || name.contains("partial")), "{left:?}");
    assert!(!other.path("data/first.cortex").exists());
    for private in ["cortex.db", "credentials"] {
        assert_eq!(
            std::fs::metadata(other.path(private)).unwrap().permissions().mode() & 0o777,
            0o600,
            "{private}"
        );
    }
    let beside: Vec<_> = std::fs::read_dir(cortex.path("data")).unwrap().collect();
    assert!(
        beside.iter().all(|entry| !entry.as_ref().unwrap().file_name().to_string_lossy().contains("partial"))
    );
}

#[test]
fn what_is_no_backup_or_no_home_is_told() {
    let cortex = Cortex::new();
    let none = cortex.run(&["backup", "b"]);
    let why = "cortex: no_database: [HOME] has no database yet; there is nothing to back up\n";
    assert_eq!((none.code, none.stderr.as_str()), (Some(1), why));
    std::fs::write(cortex.beside("letter.txt"), "dear all\n").unwrap();
    let ran = cortex.run(&["restore", "letter.txt"]);
    let why = "cortex: backup_unusable: letter.txt: it is not a Cortex backup, or its first bytes are damaged; \
               nothing was changed, use another backup\n";
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(1), why));
    assert!(!cortex.home().exists());
    assert!(
        cortex.run(&["restore", "nowhere"]).stderr.starts_with("cortex: no_backup: cannot read nowhere: ")
    );
}

#[test]
fn what_a_backup_cannot_hold_is_named() {
    use std::os::unix::ffi::OsStrExt;
    let cortex = Cortex::quiet().started();
    assert_eq!(cortex.run(&["stop"]).code, Some(0));
    let deep = cortex.path(&format!("data/{}", "d/".repeat(20)));
    std::fs::create_dir_all(&deep).unwrap();
    std::fs::write(deep.join("note"), "x").unwrap();
    let odd = cortex.path("data").join(std::ffi::OsStr::from_bytes(b"odd-\xff"));
    std::fs::write(odd, "x").unwrap();
    std::os::unix::fs::symlink("/etc/hostname", cortex.path("workspace/link")).unwrap();

    let file = cortex.beside("b.cortex");
    let report = cortex.json(&["backup", file.to_str().unwrap(), "--json"]);
    let depth = format!("data{}", "/d".repeat(16));
    let left_out = json!([
        { "name": depth, "reason": "its folder is nested too deeply" },
        { "name": "data/odd-\u{fffd}", "reason": "its name is not UTF-8" },
        { "name": "workspace/link", "reason": "it is a symbolic link" },
    ]);
    assert_eq!(report["leftOut"], left_out);
    let told = cortex.run(&["backup", file.to_str().unwrap(), "--force"]).stderr;
    for line in [
        format!("not in the backup: {depth} (its folder is nested too deeply)"),
        "not in the backup: workspace/link (it is a symbolic link)".to_owned(),
    ] {
        assert!(told.lines().any(|found| found == line), "{told}");
    }
}
