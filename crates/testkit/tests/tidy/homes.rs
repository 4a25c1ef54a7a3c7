//! What may be done where: SQL, environment, printing, processes, sockets and time each have a home.

use super::rust_source::{line_of, words};
use super::tree::{File, enforce, rust_files, shipped_files};

/// What only some crates may do in shipped code.
struct Home {
    what: &'static str,
    crates: &'static [&'static str],
    /// Code that does it, as whole names.
    code: &'static [&'static str],
}

const ENVIRONMENT: Home = Home {
    what: "reads the environment; take the value as an argument",
    crates: &["cli", "xtask"],
    code: &[
        "env::var",
        "env::vars",
        "env::var_os",
        "env::args",
        "env::args_os",
        "env::set_var",
        "env::remove_var",
    ],
};

const PRINTING: Home = Home {
    what: "prints; return the data or use tracing",
    crates: &["cli", "xtask", "bench"],
    code: &["println!", "print!", "eprintln!", "eprint!", "dbg!", "io::stdout", "io::stderr"],
};

const PROCESSES: Home = Home {
    what: "starts a process; only tools, agents, sidecar, cli and the developer's crates do",
    crates: &["cli", "tools", "agents", "sidecar", "bench", "xtask"],
    code: &["Command::new", "process::Command"],
};

const LISTENING: Home = Home {
    what: "listens; only server, bus, sidecar, cli and bench do",
    crates: &["server", "bus", "sidecar", "cli", "bench", "xtask"],
    code: &["TcpListener::bind", "UnixListener::bind", "TcpSocket::new"],
};

const TIME: Home = Home {
    what: "reads the machine's clock; take `now` or a `Clock`",
    crates: &["cli", "bench", "xtask"],
    code: &["SystemTime::now", "Timestamp::now", "Zoned::now", "Utc::now"],
};

/// `brain` decides and never acts: it is tested with data alone.
const ACTING: &[&str] = &[
    "tokio",
    "async",
    "std::fs",
    "std::net",
    "std::process",
    "std::thread",
    "std::env",
    "SystemTime",
    "Instant",
    "SystemClock",
    "rand",
];

const WRITING_SQL: &[&str] = &[
    "INSERT INTO",
    "INSERT OR",
    "REPLACE INTO",
    "DELETE FROM",
    "CREATE TABLE",
    "CREATE INDEX",
    "ALTER TABLE",
    "DROP TABLE",
];
const READING_SQL: &[&str] = &["SELECT ", "PRAGMA ", "BEGIN IMMEDIATE", "EXPLAIN "];

fn strays(tree: &[File], home: &Home) -> Vec<String> {
    let mut offences = Vec::new();
    for file in shipped_files(tree).filter(|file| !home.crates.contains(&file.crate_name())) {
        let code = file.source().shipped();
        for pattern in home.code {
            for offset in words(&code, pattern) {
                offences.push(format!("{}: `{pattern}` {}", file.at(line_of(&code, offset)), home.what));
            }
        }
    }
    offences
}

fn environment_home(tree: &[File]) -> Vec<String> {
    strays(tree, &ENVIRONMENT)
}

fn printing_home(tree: &[File]) -> Vec<String> {
    strays(tree, &PRINTING)
}

fn process_home(tree: &[File]) -> Vec<String> {
    strays(tree, &PROCESSES)
}

fn listening_home(tree: &[File]) -> Vec<String> {
    strays(tree, &LISTENING)
}

fn time_home(tree: &[File]) -> Vec<String> {
    let offences = strays(tree, &TIME);
    offences.into_iter().filter(|offence| !offence.starts_with("crates/types/src/clock.rs:")).collect()
}

fn brain_is_pure(tree: &[File]) -> Vec<String> {
    let mut offences = Vec::new();
    for file in shipped_files(tree).filter(|file| file.crate_name() == "brain") {
        let code = file.source().shipped();
        for name in ACTING {
            for offset in words(&code, name) {
                offences.push(format!(
                    "{}: `{name}` acts; the brain only decides",
                    file.at(line_of(&code, offset))
                ));
            }
        }
    }
    offences
}

/// What a file may do with a database.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum SqlRight {
    None,
    /// Looking at what the product wrote.
    Read,
    Write,
}

/// `store` owns the SQL and `bench` its baselines. Checkers (tests, testkit, the fault runs) may look at a database
/// that the product wrote, and hold its lock; what they put in goes through the product.
fn sql_right(file: &File) -> SqlRight {
    let is_checker =
        file.is_test() || file.crate_name() == "testkit" || file.path.starts_with("crates/xtask/src/faults");
    match file.crate_name() {
        "store" | "bench" => SqlRight::Write,
        // Plays somebody who does what nobody may.
        "testkit" if file.path == "crates/testkit/src/intruder.rs" => SqlRight::Write,
        _ if is_checker => SqlRight::Read,
        _ => SqlRight::None,
    }
}

fn sql_home(tree: &[File]) -> Vec<String> {
    let mut offences = Vec::new();
    // The samples of this folder are SQL in the wrong place on purpose.
    for file in rust_files(tree).filter(|file| !file.path.starts_with("crates/testkit/tests/tidy/")) {
        let source = file.source();
        let right = sql_right(file);
        if right == SqlRight::None {
            let code = source.shipped();
            for offset in words(&code, "rusqlite") {
                offences.push(format!("{}: rusqlite belongs to store", file.at(line_of(&code, offset))));
            }
        }
        for (line, text) in source.shipped_strings() {
            if needed_right(text) > right {
                offences.push(format!("{}: SQL belongs to store", file.at(*line)));
            }
        }
    }
    offences
}

fn needed_right(text: &str) -> SqlRight {
    let statement = text.split_whitespace().collect::<Vec<_>>().join(" ") + " ";
    let is_update = statement.contains("UPDATE ") && statement.contains(" SET ");
    if is_update || WRITING_SQL.iter().any(|words| statement.contains(words)) {
        SqlRight::Write
    } else if READING_SQL.iter().any(|words| statement.contains(words)) {
        SqlRight::Read
    } else {
        SqlRight::None
    }
}

#[test]
fn sql_lives_in_store_and_bench_alone() {
    enforce(
        sql_home,
        &[
            &[("crates/server/src/a.rs", "fn a() { run(\"SELECT id FROM turns\"); }")],
            &[("crates/runtime/src/a.rs", "use rusqlite::Connection;")],
            &[("crates/server/tests/it/a.rs", "const FILL: &str = \"INSERT\n  INTO turns VALUES (1)\";")],
            &[("crates/xtask/src/faults.rs", "const A: &str = \"UPDATE turns SET id = 1\";")],
        ],
        &[
            &[("crates/store/src/a.rs", "const A: &str = \"UPDATE turns SET id = 1\";")],
            &[("crates/store/tests/it/a.rs", "const A: &str = \"DELETE FROM turns\";")],
            &[("crates/server/tests/it/a.rs", "const COUNT: &str = \"SELECT count(*) FROM turns\";")],
            &[("crates/xtask/src/faults/power.rs", "const CHECK: &str = \"PRAGMA integrity_check\";")],
            &[("crates/server/src/a.rs", "// SELECT in a comment\nconst A: &str = \"Select a channel\";")],
        ],
    );
}

#[test]
fn only_the_cli_reads_the_environment() {
    enforce(
        environment_home,
        &[&[("crates/models/src/a.rs", "fn a() { std::env::var(\"KEY\"); }")]],
        &[
            &[("crates/cli/src/a.rs", "fn a() { std::env::var(\"KEY\"); }")],
            &[("crates/models/src/a.rs", "#[cfg(test)]\nmod tests { fn a() { std::env::var(\"KEY\"); } }")],
            &[("crates/models/src/a.rs", "const A: &str = env!(\"CARGO_PKG_VERSION\");")],
        ],
    );
}

#[test]
fn only_the_cli_and_the_developer_commands_print() {
    enforce(
        printing_home,
        &[
            &[("crates/server/src/a.rs", "fn a() { println!(\"x\"); }")],
            &[("crates/store/src/a.rs", "fn a() { std::io::stderr(); }")],
        ],
        &[&[("crates/cli/src/a.rs", "fn a() { println!(\"x\"); }")]],
    );
}

#[test]
fn only_named_crates_start_processes() {
    enforce(
        process_home,
        &[&[("crates/server/src/a.rs", "fn a() { Command::new(\"sh\"); }")]],
        &[
            &[("crates/cli/src/a.rs", "fn a() { Command::new(\"sh\"); }")],
            &[("crates/server/tests/it/a.rs", "fn a() { Command::new(\"sh\"); }")],
        ],
    );
}

#[test]
fn only_named_crates_listen() {
    enforce(
        listening_home,
        &[&[("crates/runtime/src/a.rs", "fn a() { TcpListener::bind(0); }")]],
        &[&[("crates/server/src/a.rs", "fn a() { TcpListener::bind(0); }")]],
    );
}

#[test]
fn time_comes_from_the_clock_of_types() {
    enforce(
        time_home,
        &[&[("crates/runtime/src/a.rs", "fn a() { SystemTime::now(); }")]],
        &[&[("crates/types/src/clock.rs", "fn a() { SystemTime::now(); }")]],
    );
}

#[test]
fn the_brain_decides_and_never_acts() {
    enforce(
        brain_is_pure,
        &[
            &[("crates/brain/src/a.rs", "use tokio::sync::mpsc;")],
            &[("crates/brain/src/a.rs", "async fn a() {}")],
            &[("crates/brain/src/a.rs", "fn a() { let now = Instant::now(); }")],
        ],
        &[
            &[("crates/brain/src/a.rs", "fn a(now: Millis) {} // no Instant here")],
            &[("crates/runtime/src/a.rs", "use tokio::sync::mpsc;")],
        ],
    );
}
