//! A skill's private database: what it keeps, what it cannot reach, and where it ends.

use cortex_store::{SkillDb, SkillDbChange, SkillDbError, SkillDbValue};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::TempDir;

fn open(folder: &TempDir) -> SkillDb {
    SkillDb::open(&folder.path().join("skill.db"), || false).unwrap()
}

fn integer(db: &mut SkillDb, sql: &str) -> SkillDbValue {
    db.query(sql, Vec::new()).unwrap().rows[0][0].clone()
}

#[test]
fn rows_come_back_as_they_went_in() {
    let folder = TempDir::new().unwrap();
    let mut db = open(&folder);
    db.run("CREATE TABLE kept (id INTEGER PRIMARY KEY, value)", Vec::new()).unwrap();
    let values = [
        SkillDbValue::Null,
        SkillDbValue::Integer(i64::MIN),
        SkillDbValue::Real(0.5),
        SkillDbValue::Text("gr\u{fc}n".to_owned()),
        SkillDbValue::Blob(vec![0, 255]),
    ];
    for (index, value) in (1..).zip(&values) {
        let changed = db.run("INSERT INTO kept (value) VALUES (?1)", vec![value.clone()]).unwrap();
        assert_eq!(changed, SkillDbChange { changes: 1, last_insert_rowid: index });
    }
    drop(db);
    let found = open(&folder).query("SELECT value AS v FROM kept ORDER BY id", Vec::new()).unwrap();
    assert_eq!(found.columns, ["v"]);
    assert_eq!(found.rows.concat(), values);
}

#[test]
fn nothing_but_its_own_file_can_be_reached() {
    let folder = TempDir::new().unwrap();
    let mut db = open(&folder);
    for sql in [
        "ATTACH 'other.db' AS other",
        "VACUUM INTO 'copy.db'",
        "PRAGMA journal_mode = delete",
        "PRAGMA max_page_count = 999999999",
        "PRAGMA writable_schema = 1",
        "CREATE TEMP TABLE t (a)",
        "CREATE VIRTUAL TABLE t USING dbstat",
        "SELECT load_extension('x')",
    ] {
        assert!(db.run(sql, Vec::new()).is_err(), "{sql}");
        assert!(db.query(sql, Vec::new()).is_err(), "{sql}");
    }
    let files: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert!(files.iter().all(|name| name.to_string_lossy().starts_with("skill.db")), "{files:?}");
    db.run("CREATE VIRTUAL TABLE found USING fts5(text)", Vec::new()).unwrap();
    db.run("PRAGMA user_version = 3", Vec::new()).unwrap();
    assert_eq!(integer(&mut db, "PRAGMA user_version"), SkillDbValue::Integer(3));
}

#[test]
fn one_call_is_one_statement() {
    let folder = TempDir::new().unwrap();
    let mut db = open(&folder);
    let refused = db.run("CREATE TABLE a (x); CREATE TABLE b (x)", Vec::new());
    assert!(matches!(refused, Err(SkillDbError::Statement(_))), "{refused:?}");
    let count = "SELECT count(*) FROM sqlite_schema";
    assert_eq!(integer(&mut db, count), SkillDbValue::Integer(0));
}

#[test]
fn the_file_stops_growing_at_its_cap() {
    let folder = TempDir::new().unwrap();
    let mut db = open(&folder);
    db.run("CREATE TABLE kept (value BLOB)", Vec::new()).unwrap();
    let mut kept = 0;
    let full = loop {
        match db.run("INSERT INTO kept VALUES (zeroblob(4000000))", Vec::new()) {
            Ok(_) => kept += 1,
            Err(error) => break error,
        }
        assert!(kept < 100, "there is no cap");
    };
    assert!(full.to_string().contains("full"), "{full}");
    assert_eq!(kept, 16, "16 of 4 MB fit into 64 MiB");
    assert_eq!(integer(&mut db, "SELECT count(*) FROM kept"), SkillDbValue::Integer(16));
}

#[test]
fn a_result_that_is_too_large_is_refused_and_not_cut() {
    let folder = TempDir::new().unwrap();
    let mut db = open(&folder);
    let many =
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10001) SELECT i FROM n";
    assert_eq!(db.query(many, Vec::new()), Err(SkillDbError::TooLarge));
    assert!(db.query("SELECT zeroblob(9000000)", Vec::new()).is_err(), "no value is larger than 4 MiB");
}

#[test]
fn a_statement_ends_when_nobody_waits_for_it() {
    let folder = TempDir::new().unwrap();
    let stopped = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&stopped);
    let mut db =
        SkillDb::open(&folder.path().join("skill.db"), move || asked.load(Ordering::SeqCst)).unwrap();
    db.run("CREATE TABLE kept (value)", Vec::new()).unwrap();
    stopped.store(true, Ordering::SeqCst);
    let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";
    assert_eq!(db.query(endless, Vec::new()), Err(SkillDbError::Stopped));
}

#[test]
fn a_transaction_that_a_call_left_open_is_rolled_back() {
    let folder = TempDir::new().unwrap();
    let mut db = open(&folder);
    db.run("CREATE TABLE kept (value)", Vec::new()).unwrap();
    db.run("BEGIN IMMEDIATE", Vec::new()).unwrap();
    db.run("INSERT INTO kept VALUES (1)", Vec::new()).unwrap();
    db.end_call().unwrap();
    assert_eq!(integer(&mut db, "SELECT count(*) FROM kept"), SkillDbValue::Integer(0));
}

#[test]
fn a_file_that_is_no_database_is_told_and_kept() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("skill.db");
    std::fs::write(
        &path,
        "these are somebody's notes, not a database at all, and they are long enough to look like one",
    )
    .unwrap();
    let opened =
        SkillDb::open(&path, || false).and_then(|mut db| db.query("SELECT 1 FROM sqlite_schema", Vec::new()));
    assert!(matches!(opened, Err(SkillDbError::Unavailable(_))), "{opened:?}");
    assert!(SkillDb::open(Path::new("/nowhere/skill.db"), || false).is_err());
    assert!(std::fs::read_to_string(&path).unwrap().starts_with("these are"), "it is not touched");
}
