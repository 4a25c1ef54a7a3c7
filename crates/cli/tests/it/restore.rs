//! `restore` of archives that somebody made up, and into homes that have something in the way: refused before anything changes.

use crate::cortex::{Cortex, Ran};
use serde_json::json;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

const SQLITE: &[u8] = b"SQLite format 3\0 and no more";

fn sum(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of a true database, as a backup holds them.
fn database() -> Vec<u8> {
    let cortex = Cortex::quiet().started();
    assert_eq!(cortex.run(&["stop"]).code, Some(0));
    std::fs::read(cortex.path("cortex.db")).unwrap()
}

/// A well-formed archive of these files.
fn archive(cortex: &Cortex, created_at: &str, files: &[(&str, &[u8])]) -> PathBuf {
    let entry = |(name, bytes): &(&str, &[u8])| {
        let blocks: Vec<String> = bytes.chunks(1024 * 1024).map(sum).collect();
        json!({"name": name, "bytes": bytes.len(), "blocks": blocks})
    };
    let entries: Vec<_> = files.iter().map(entry).collect();
    let head = json!({"createdAt": created_at, "version": "1", "schema": 1, "files": entries})
        .to_string()
        .into_bytes();
    let mut bytes = format!("cortex-backup 1 {} {}\n", head.len(), sum(&head)).into_bytes();
    bytes.extend(&head);
    files.iter().for_each(|(_, content)| bytes.extend(*content));
    let path = cortex.beside("made-up.cortex");
    std::fs::write(&path, bytes).unwrap();
    path
}

fn restore(cortex: &Cortex, file: &Path) -> Ran {
    cortex.run(&["restore", file.to_str().unwrap()])
}

/// Every file and link below a folder, with what is in it.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let (kind, path) = (entry.file_type().unwrap(), entry.path());
        // Taking the lock leaves its file behind.
        let is_lock = path.file_name().is_some_and(|name| name.to_string_lossy().contains("lock"));
        if kind.is_dir() {
            found.extend(contents(&path));
        } else if !is_lock {
            found.insert(path.clone(), std::fs::read(&path).unwrap_or_default());
        }
    }
    found
}

#[test]
fn an_archive_with_names_that_belong_into_no_backup_is_refused() {
    let database = database();
    for (name, told) in [
        ("cortex.db-wal", "it holds cortex.db-wal, which belongs into no backup"),
        ("cortex.db-journal", "it holds cortex.db-journal"),
        ("run/address", "it holds run/address"),
        ("logs/cortex.log", "it holds logs/cortex.log"),
        ("before-restore-x/a", "it holds before-restore-x/a"),
        ("data/x.db-wal", "it holds data/x.db-wal, the log of a database"),
        ("cortex.db/a", "it names cortex.db/a twice, or as a file and as a folder"),
        ("data/x.db", "it names data/x.db twice"),
    ] {
        let cortex = Cortex::quiet();
        let files = [("cortex.db", database.as_slice()), ("data/x.db", SQLITE), (name, b"x".as_slice())];
        let ran = restore(&cortex, &archive(&cortex, "now", &files));
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{name}: {}", ran.stderr);
        assert!(
            ran.stderr.contains(told) && ran.stderr.contains("nothing was changed"),
            "{name}: {}",
            ran.stderr
        );
        assert_eq!(contents(&cortex.home()), BTreeMap::new(), "{name}");
    }
    // A file that is only named like a log is a file.
    let cortex = Cortex::quiet();
    let files = [("cortex.db", database.as_slice()), ("notes-wal", b"mine".as_slice())];
    let ran = restore(&cortex, &archive(&cortex, "today\nall is well\u{1b}[2J", &files));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stderr.contains("of today all is well\\u{1b}[2J into"), "{}", ran.stderr);
    assert_eq!(std::fs::read(cortex.path("notes-wal")).unwrap(), b"mine");
}

#[test]
fn a_log_that_would_be_read_into_a_database_of_the_home_is_refused() {
    let cortex = Cortex::quiet();
    std::fs::create_dir_all(cortex.path("data")).unwrap();
    std::fs::write(cortex.path("data/skill.db"), SQLITE).unwrap();
    let before = contents(&cortex.home());
    let database = database();
    let files = [("cortex.db", database.as_slice()), ("data/skill.db-wal", b"x".as_slice())];
    let ran = restore(&cortex, &archive(&cortex, "now", &files));
    assert!(ran.stderr.contains("data/skill.db-wal, the log of a database"), "{}", ran.stderr);
    assert_eq!(contents(&cortex.home()), before);
}

#[test]
fn nothing_in_the_way_of_a_restore_is_followed_or_ends_it_halfway() {
    let database = database();
    let files: [(&str, &[u8]); 4] =
        [("cortex.db", &database), ("a.md", b"new"), ("skills/note/x.ts", b"new"), ("z.md", b"new")];
    let check = |prepare: &dyn Fn(&Cortex), told: &str| {
        let cortex = Cortex::quiet();
        std::fs::create_dir_all(cortex.home()).unwrap();
        std::fs::create_dir_all(cortex.beside("outside/note")).unwrap();
        std::fs::write(cortex.beside("outside/note/x.ts"), "old").unwrap();
        std::fs::write(cortex.path("a.md"), "old").unwrap();
        prepare(&cortex);
        let before = (contents(&cortex.home()), contents(&cortex.beside("outside")));
        let ran = restore(&cortex, &archive(&cortex, "now", &files));
        assert_eq!(ran.code, Some(1), "{}", ran.stderr);
        assert!(ran.stderr.contains(told) && ran.stderr.contains("nothing was changed"), "{}", ran.stderr);
        assert_eq!((contents(&cortex.home()), contents(&cortex.beside("outside"))), before, "{told}");
    };
    check(
        &|cortex| symlink(cortex.beside("outside"), cortex.path("skills")).unwrap(),
        "[HOME]/skills is a symbolic link",
    );
    check(
        &|cortex| symlink(cortex.beside("outside/note/x.ts"), cortex.path("z.md")).unwrap(),
        "[HOME]/z.md is a symbolic link",
    );
    check(
        &|cortex| std::fs::write(cortex.path("skills"), "a file").unwrap(),
        "[HOME]/skills is a file, and a folder in the backup",
    );
    check(
        &|cortex| std::fs::create_dir(cortex.path("z.md")).unwrap(),
        "[HOME]/z.md is a folder, and a file in the backup",
    );
}

#[test]
fn what_a_restore_keeps_aside_is_for_its_owner_alone() {
    let cortex = Cortex::quiet().with_file("{}").started();
    assert_eq!(cortex.run(&["stop"]).code, Some(0));
    std::fs::set_permissions(cortex.path("server.json"), PermissionsExt::from_mode(0o644)).unwrap();
    let file = cortex.beside("b.cortex");
    assert_eq!(cortex.run(&["backup", file.to_str().unwrap()]).code, Some(0));
    let ran = restore(&cortex, &file);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let aside = std::fs::read_dir(cortex.home()).unwrap().flatten();
    let aside =
        aside.map(|entry| entry.path()).find(|path| path.to_string_lossy().contains("before-restore-"));
    let kept = aside.unwrap().join("server.json");
    assert_eq!(std::fs::metadata(kept).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_place_that_cannot_be_used_is_blamed_itself() {
    let cortex = Cortex::quiet().started();
    assert_eq!(cortex.run(&["stop"]).code, Some(0));
    let ran = cortex.run(&["backup", "/no-such-folder/a"]);
    let told = "cortex: no_folder: there is no folder /no-such-folder; make it, or choose another file\n";
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(1), told));
    let ran = cortex.run(&["restore", "/tmp"]);
    let told = "cortex: backup_unusable: /tmp: it is a folder, not a backup; nothing was changed, use another backup\n";
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(1), told));
}
