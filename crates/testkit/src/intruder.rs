//! Somebody who writes to the database past the product, so that a test sees what that comes to.

#![expect(clippy::expect_used, reason = "tests fail by panicking")]

use rusqlite::Connection;
use std::path::Path;

/// Puts other arguments under every question, as if they had been asked about; gives how many there are.
pub fn change_asked_arguments(database: &Path, arguments_json: &str) -> usize {
    let connection = Connection::open(database).expect("the database opens beside the product");
    connection
        .execute("UPDATE pending_approvals SET tool_arguments_json = ?1", [arguments_json])
        .expect("a row can be changed")
}
