//! Whether a database file is whole: what SQLite finds wrong, named by table or index and page.

use crate::StoreError;
use rusqlite::{Connection, ErrorCode};
use std::time::{Duration, Instant};

/// Findings that are read; the first few name the place, and a damaged file may have millions.
const FINDINGS_MAX: usize = 16;
const PLACES_NAMED: usize = 3;
/// Longest walk through a file or table: a large one is given up rather than keeping a snapshot or a person waiting.
const WALK_MAX: Duration = Duration::from_secs(60);
/// Steps of SQLite's machine between two looks at the clock.
const STEPS_A_LOOK: i32 = 100_000;

/// What a look at a file came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Look {
    Whole,
    /// Where, in words.
    Damaged(String),
    /// It took too long and found nothing until then.
    Unfinished,
}

/// Compares the whole file with itself, indexes with their tables too.
pub(crate) fn compare(connection: &mut Connection) -> Result<Look, StoreError> {
    findings(connection, "PRAGMA integrity_check(16)")
}

/// Walks every page of the file, for a bounded time.
pub(crate) fn walk(connection: &mut Connection) -> Result<Look, StoreError> {
    bounded(connection, "PRAGMA quick_check(16)")
}

/// The same, with a snapshot and a time of its own for each table.
pub(crate) fn walk_by_table(connection: &mut Connection) -> Result<Look, StoreError> {
    let tables = connection
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 0")?
        .query_map([], |row| row.get(0))?
        .collect::<Result<Vec<String>, _>>()?;
    let mut all = Look::Whole;
    for table in tables {
        let sql = format!("PRAGMA quick_check('{}')", table.replace('\'', "''"));
        match bounded(connection, &sql)? {
            Look::Whole => {}
            damaged @ Look::Damaged(_) => return Ok(damaged),
            Look::Unfinished => all = Look::Unfinished,
        }
    }
    Ok(all)
}

fn bounded(connection: &mut Connection, sql: &str) -> Result<Look, StoreError> {
    let started = Instant::now();
    connection.progress_handler(STEPS_A_LOOK, Some(move || started.elapsed() > WALK_MAX))?;
    let looked = findings(connection, sql);
    connection.progress_handler(0, None::<fn() -> bool>)?;
    looked
}

fn findings(connection: &Connection, sql: &str) -> Result<Look, StoreError> {
    let mut found: Vec<String> = Vec::new();
    let mut ended = Ok(());
    let mut statement = connection.prepare(sql)?;
    for finding in statement.query_map([], |row| row.get::<_, String>(0))?.take(FINDINGS_MAX) {
        match finding {
            Ok(finding) => found.push(finding),
            Err(error) => ended = Err(error),
        }
    }
    let is_whole = found.iter().all(|finding| finding == "ok");
    match ended {
        Ok(()) if is_whole => Ok(Look::Whole),
        Err(error) if is_whole && error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted) => {
            Ok(Look::Unfinished)
        }
        Err(error) if is_whole => Err(error.into()),
        Ok(()) | Err(_) => Ok(Look::Damaged(places(connection, &found))),
    }
}

/// The places that findings name, each once.
fn places(connection: &Connection, found: &[String]) -> String {
    let mut places: Vec<String> = Vec::new();
    let lines = found.iter().flat_map(|finding| finding.lines());
    for line in lines.map(str::trim).filter(|line| !line.starts_with("***") && *line != "ok") {
        let place = match tree_and_page(line) {
            Some((tree, page, what)) => format!("{}, page {page} ({what})", name_of(connection, tree)),
            None => line.to_owned(),
        };
        if !places.contains(&place) {
            places.push(place);
        }
    }
    let more = if places.len() > PLACES_NAMED { " and more" } else { "" };
    places.truncate(PLACES_NAMED);
    format!("{}{more}", places.join("; "))
}

/// `Tree 12 page 40 cell 3: what` as SQLite words it.
fn tree_and_page(line: &str) -> Option<(i64, i64, &str)> {
    let (place, what) = line.split_once(": ")?;
    let mut words = place.split(' ');
    if words.next() != Some("Tree") {
        return None;
    }
    let tree = words.next()?.parse().ok()?;
    let page = match words.next() {
        Some("page") => words.next()?.parse().ok()?,
        Some(_) | None => tree,
    };
    Some((tree, page, what))
}

/// A tree of pages is known by its root; a person knows it by the name of its table or index.
fn name_of(connection: &Connection, root: i64) -> String {
    let sql = "SELECT type || ' ' || name FROM sqlite_schema WHERE rootpage = ?1";
    let named = connection.query_row(sql, [root], |row| row.get::<_, String>(0));
    named.unwrap_or_else(|_| match root {
        1 => "the list of tables".to_owned(),
        other => format!("tree {other}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_names_its_tree_and_page() {
        let found = tree_and_page("Tree 12 page 40 cell 3: 2nd reference to page 7");
        assert_eq!(found, Some((12, 40, "2nd reference to page 7")));
        let found = tree_and_page("Tree 12 page 12: btreeInitPage() returns error code 11");
        assert_eq!(found, Some((12, 12, "btreeInitPage() returns error code 11")));
        assert_eq!(tree_and_page("row 7 missing from index outbox_event"), None);
    }
}
