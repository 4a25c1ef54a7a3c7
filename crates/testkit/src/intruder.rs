//! Somebody who writes to the database past the product, so that a test sees what that comes to.

#![expect(clippy::expect_used, reason = "tests fail by panicking")]

use rusqlite::Connection;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;

const PAGE_BYTES: u64 = 4_096;

/// Overwrites the head of the first page of a table or index with zeros, as a failing disk would; gives the page. What is
/// still in the log comes from there, so that must be folded in before.
pub fn damage_first_page(database: &Path, name: &str) -> u64 {
    let connection = Connection::open(database).expect("the database opens beside the product");
    let sql = "SELECT rootpage FROM sqlite_schema WHERE name = ?1";
    let page: u64 = connection.query_row(sql, [name], |row| row.get(0)).expect("the table is there");
    drop(connection);
    let file = OpenOptions::new().write(true).open(database).expect("the file can be written");
    file.write_all_at(&[0; 64], (page - 1) * PAGE_BYTES).expect("the page can be overwritten");
    page
}

/// Puts other arguments under every question, as if they had been asked about; gives how many there are.
pub fn change_asked_arguments(database: &Path, arguments_json: &str) -> usize {
    let connection = Connection::open(database).expect("the database opens beside the product");
    connection
        .execute("UPDATE pending_approvals SET tool_arguments_json = ?1", [arguments_json])
        .expect("a row can be changed")
}

/// Marks a pending event as taken for the last time, as if whoever took it had vanished; gives how many there were.
pub fn lose_turn(database: &Path, text: &str) -> usize {
    let connection = Connection::open(database).expect("the database opens beside the product");
    connection.busy_timeout(std::time::Duration::from_secs(30)).expect("a timeout can be set");
    connection
        .execute(
            "UPDATE topics SET in_flight = head_seq, head_seq = NULL, head_priority = NULL WHERE head_seq IN
               (SELECT seq FROM inbox_messages WHERE text = ?1 AND status = 'pending')",
            [text],
        )
        .expect("a topic can be held");
    connection
        .execute(
            "UPDATE inbox_messages SET status = 'processing', attempts = 1000 WHERE text = ?1 AND status = 'pending'
               AND seq IN (SELECT in_flight FROM topics)",
            [text],
        )
        .expect("a row can be changed")
}

/// Flips a bit in the words of a pending event, as a failing disk would; gives how many there were.
pub fn damage_event(database: &Path, text: &str) -> usize {
    let connection = Connection::open(database).expect("the database opens beside the product");
    connection.busy_timeout(std::time::Duration::from_secs(30)).expect("a timeout can be set");
    connection
        .execute(
            "UPDATE inbox_messages SET text = '!' || substr(text, 2) WHERE text = ?1 AND status = 'pending'",
            [text],
        )
        .expect("a row can be changed")
}

/// Damages the checksum of a fact and leaves its words whole; gives how many there were.
pub fn damage_fact(database: &Path, text: &str) -> usize {
    let connection = Connection::open(database).expect("the database opens beside the product");
    connection.busy_timeout(std::time::Duration::from_secs(30)).expect("a timeout can be set");
    connection
        .execute("UPDATE facts SET checksum = checksum + 1 WHERE text = ?1", [text])
        .expect("a row can be changed")
}

/// Damages what a schedule does, or where its words go, as a failing disk would; gives how many there were.
pub fn damage_job(database: &Path, id: i64, column: &str) -> usize {
    let connection = Connection::open(database).expect("the database opens beside the product");
    connection.busy_timeout(std::time::Duration::from_secs(30)).expect("a timeout can be set");
    let sql = format!("UPDATE scheduler_jobs SET {column} = CAST(x'ff' AS TEXT) WHERE id = ?1");
    connection.execute(&sql, [id]).expect("a row can be changed")
}

/// Damages a question, as a failing disk would; gives how many there were.
pub fn damage_question(database: &Path, place: i64, change: &str) -> usize {
    change_row(database, &format!("UPDATE pending_approvals SET {change} WHERE rowid = ?1"), place)
}

/// Damages when a message was delivered, as a failing disk would; gives how many there were.
pub fn damage_delivery(database: &Path, seq: i64) -> usize {
    change_row(database, "UPDATE outbox_messages SET delivered_at = CAST(x'ff' AS TEXT) WHERE seq = ?1", seq)
}

fn change_row(database: &Path, sql: &str, place: i64) -> usize {
    let connection = Connection::open(database).expect("the database opens beside the product");
    connection.busy_timeout(std::time::Duration::from_secs(30)).expect("a timeout can be set");
    connection.execute_batch("PRAGMA foreign_keys = 0").expect("a pragma can be set");
    connection.execute(sql, [place]).expect("a row can be changed")
}
