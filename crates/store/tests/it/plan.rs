//! What a claim and a poll cost at any size: no statement on their way walks a table, as SQLite itself plans it.
//!
//! The statements are read from the sources, so that a new one is judged without being listed here.

use cortex_testkit::TempStore;
use rusqlite::Connection;
use std::fs;
use std::path::Path;

/// Where the statements of accept, claim, finish, poll, ack and nack live.
const HOT_FILES: &[&str] = &[
    "flow/topic.rs",
    "flow/topic/claim.rs",
    "flow/inbox.rs",
    "flow/inbox/admission.rs",
    "flow/channel/mode.rs",
    "flow/channel/name.rs",
    "flow/step.rs",
    "flow/turn.rs",
    "flow/trace.rs",
    "flow/outbox/claim.rs",
    "flow/outbox/hand_over.rs",
    "flow/outbox/settle.rs",
];

/// Statements that may walk, because nobody waits for them on the way of a message.
const MAY_WALK: &[(&str, &str)] = &[
    ("SELECT count(*) FROM inbox_messages", "a person asked for the counts; it walks an index"),
    (
        "SELECT 1 FROM channel_modes WHERE mode <> 'live'",
        "it has a row for each channel that the owner listed",
    ),
];

/// What stands for a placeholder of a formatted statement; each statement is tried with each value.
const PLACEHOLDERS: &[(&str, &[&str])] = &[
    ("{EVENT_COLUMNS}", &["*"]),
    ("{QUEUED_COLUMNS}", &["*"]),
    ("{filter}", &["", "AND status = 'failed'"]),
    ("{status}", &["pending", "leased"]),
    ("{free}", &["1", "lease_expires_at <= ?2"]),
];

/// The string literals of a source that are statements, filled in.
fn statements(source: &str) -> Vec<String> {
    literals(source).iter().flat_map(|literal| filled_in(literal)).collect()
}

/// Good enough for this crate: no raw strings, no quotes in comments.
fn literals(source: &str) -> Vec<String> {
    let shipped = source.split("#[cfg(test)]").next().unwrap_or_default();
    let code: Vec<&str> = shipped.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let code = code.join("\n").replace("\\\"", "'");
    let literals = code.split('"').skip(1).step_by(2);
    let verbs = ["SELECT ", "INSERT ", "UPDATE ", "DELETE "];
    literals
        .map(|literal| literal.replace("\\\n", ""))
        .filter(|literal| verbs.iter().any(|verb| literal.starts_with(verb)))
        .collect()
}

fn filled_in(statement: &str) -> Vec<String> {
    let mut filled = vec![statement.to_owned()];
    for (name, values) in PLACEHOLDERS.iter().filter(|(name, _)| statement.contains(name)) {
        filled = filled
            .iter()
            .flat_map(|statement| values.iter().map(move |value| statement.replace(name, value)))
            .collect();
    }
    filled
}

/// Plan lines that walk a table or sort it. A partial index holds only what is open, so walking it is the work itself.
fn walks(connection: &Connection, statement: &str) -> Vec<String> {
    let partial: Vec<String> = connection
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'index' AND sql LIKE '% WHERE %'")
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    let mut plan = connection.prepare(&format!("EXPLAIN QUERY PLAN {statement}")).unwrap();
    let lines =
        plan.raw_query().mapped(|row| row.get::<_, String>(3)).collect::<Result<Vec<_>, _>>().unwrap();
    lines
        .into_iter()
        .filter(|line| {
            let walks = line.starts_with("SCAN ") && !partial.iter().any(|index| line.ends_with(index));
            walks && line != "SCAN CONSTANT ROW" || line.contains("TEMP B-TREE")
        })
        .collect()
}

#[test]
fn no_statement_on_the_way_of_a_message_walks_a_table() {
    let store = TempStore::create();
    let connection = Connection::open(store.path()).unwrap();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut judged = 0;
    let mut offences = Vec::new();
    for file in HOT_FILES {
        let source = fs::read_to_string(folder.join(file)).unwrap();
        for statement in statements(&source) {
            judged += 1;
            let found = walks(&connection, &statement);
            if !found.is_empty() && !MAY_WALK.iter().any(|(allowed, _)| statement == *allowed) {
                offences.push(format!("{file}: {found:?}: {statement}"));
            }
        }
    }
    assert!(offences.is_empty(), "{}", offences.join("\n"));
    assert!(judged > 40, "only {judged} statements were found; has the code moved?");
}

#[test]
fn a_statement_that_walks_is_noticed() {
    let store = TempStore::create();
    let connection = Connection::open(store.path()).unwrap();
    for statement in [
        "SELECT * FROM inbox_messages WHERE text = ?1",
        "SELECT * FROM inbox_messages WHERE status = 'done' LIMIT 1",
        "SELECT seq FROM outbox_messages WHERE source = ?1 AND status = 'pending' ORDER BY text LIMIT 1",
        "UPDATE topics SET head_due_at = 0 WHERE topic_key = ?1",
    ] {
        assert!(!walks(&connection, statement).is_empty(), "{statement}");
    }
}

#[test]
fn no_statement_for_the_lines_of_other_channels_walks_a_table() {
    let store = TempStore::create();
    let connection = Connection::open(store.path()).unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/flow/channel.rs");
    let of_accounts = literals(&fs::read_to_string(source).unwrap());
    let of_accounts: Vec<&String> =
        of_accounts.iter().filter(|statement| statement.contains("{filter}")).collect();
    assert_eq!(of_accounts.len(), 3, "the next channel, its newest line, its newest topic");
    for statement in of_accounts {
        for filter in ["?1 = '' AND", "user_id = ?1 AND"] {
            let statement = statement.replace("{filter}", filter);
            assert_eq!(walks(&connection, &statement), Vec::<String>::new(), "{statement}");
        }
    }
}
