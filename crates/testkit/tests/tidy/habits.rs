//! Habits that cost readers: string states, silenced lints, banners, mocks, owed work, texts of one machine.

use super::rust_source::{is_name, line_of, words};
use super::tree::{File, enforce, rust_files, shipped_files};

/// Fields that name a state.
const STATE_NAMES: &[&str] = &["status", "state", "phase", "stage", "mode", "outcome"];
const STRING_TYPES: &[&str] =
    &["String", "Option<String>", "&'static str", "Option<&'static str>", "Box<str>", "Arc<str>", "Cow<"];

/// Files of foreign wires, where a status is whatever the other side says.
const FOREIGN_STATES: &[(&str, &str)] = &[
    ("crates/models/src/google.rs", "Google adds words to `status` at will; only some of them matter here"),
    ("crates/models/src/probe.rs", "whatever answers on the port is asked who it is"),
];

/// Assembled here so that this file does not hold the texts it forbids.
const FORBIDDEN_TEXTS: &[&str] = &[
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("crates", ".io"),
    concat!("npm", "js."),
    concat!("py", "pi.org"),
    concat!("python", "hosted"),
    concat!("deb.", "debian"),
    concat!("rust", "up.rs"),
];

fn states_are_enums(tree: &[File]) -> Vec<String> {
    let mut offences = Vec::new();
    for file in shipped_files(tree) {
        if FOREIGN_STATES.iter().any(|(path, _)| file.path == *path) {
            continue;
        }
        let code = file.source().shipped();
        for name in STATE_NAMES {
            for offset in words(&code, name) {
                // A local is a word on its way into its enum.
                let is_local = code[..offset].ends_with("let ");
                let Some(after) = code[offset + name.len()..].strip_prefix(':').filter(|_| !is_local) else {
                    continue;
                };
                if STRING_TYPES.iter().any(|string| starts_with_type(after.trim_start(), string)) {
                    let line = line_of(&code, offset);
                    offences.push(format!("{}: `{name}` is a string; make the state an enum", file.at(line)));
                }
            }
        }
    }
    offences
}

fn starts_with_type(code: &str, name: &str) -> bool {
    code.strip_prefix(name).is_some_and(|rest| name.ends_with('<') || !rest.starts_with(is_name))
}

fn lints_are_never_allowed(tree: &[File]) -> Vec<String> {
    code_offences(
        tree,
        &[concat!("#[", "allow("), concat!("#![", "allow(")],
        "use #[expect(lint, reason = \"…\")]",
    )
}

fn tests_are_never_switched_off(tree: &[File]) -> Vec<String> {
    code_offences(tree, &[concat!("#[", "ignore")], "mend the test or delete it")
}

fn work_is_not_owed(tree: &[File]) -> Vec<String> {
    let mut offences = code_offences(
        tree,
        &[concat!("to", "do!("), concat!("unimple", "mented!(")],
        "finish it or leave it out",
    );
    for file in rust_files(tree) {
        for (line, comment) in file.source().comments {
            if [concat!("FIX", "ME"), concat!("TO", "DO"), concat!("XX", "X")]
                .iter()
                .any(|mark| comment.contains(mark))
            {
                offences.push(format!("{}: a comment owes work; do it or open an issue", file.at(line)));
            }
        }
    }
    offences
}

fn code_offences(tree: &[File], patterns: &[&str], advice: &str) -> Vec<String> {
    let mut offences = Vec::new();
    for file in rust_files(tree) {
        let code = file.source().code;
        for pattern in patterns {
            for (offset, _) in code.match_indices(pattern) {
                offences.push(format!("{}: {advice}", file.at(line_of(&code, offset))));
            }
        }
    }
    offences
}

fn no_mock_library(tree: &[File]) -> Vec<String> {
    const MOCKS: &[&str] = &["mockall", "mockito", "faux", "double"];
    let manifests = tree.iter().filter(|file| file.path.ends_with("Cargo.toml"));
    let lines = manifests
        .flat_map(|file| file.text.lines().enumerate().map(move |(index, line)| (file, index, line)));
    lines
        .filter(|(_, _, line)| {
            let name = line.split(['=', '.', ' ']).next().unwrap_or_default();
            MOCKS.contains(&name)
        })
        .map(|(file, index, _)| {
            format!("{}: use real parts, fake only the far side of a wire", file.at(index + 1))
        })
        .collect()
}

fn no_banner_comments(tree: &[File]) -> Vec<String> {
    let mut offences = Vec::new();
    for file in tree {
        let marker = match file.path.rsplit('.').next() {
            Some("rs") => "//",
            Some("toml" | "sh") => "#",
            Some("sql") => "--",
            _ => continue,
        };
        for (index, line) in file.text.lines().enumerate() {
            if line.trim_start().strip_prefix(marker).is_some_and(is_banner) {
                offences
                    .push(format!("{}: a banner; a file that needs one wants to be two", file.at(index + 1)));
            }
        }
    }
    offences
}

fn is_banner(comment: &str) -> bool {
    let text = comment.trim();
    ["---", "===", "***", "###", "///", "~~~", "___", "──", "═══"].iter().any(|rule| text.starts_with(rule))
}

fn no_text_of_one_machine(tree: &[File]) -> Vec<String> {
    let mut offences = Vec::new();
    // Cargo writes the registry into its lock file itself.
    for file in tree.iter().filter(|file| file.path != "Cargo.lock") {
        for forbidden in FORBIDDEN_TEXTS {
            for (offset, _) in file.text.match_indices(forbidden) {
                let before = file.text[..offset].chars().next_back();
                let is_path_inside_another =
                    before.is_some_and(|c| is_name(c) || matches!(c, '.' | '-' | '}' | '/'));
                if !(forbidden.starts_with('/') && is_path_inside_another) {
                    let line = line_of(&file.text, offset);
                    offences.push(format!("{}: `{forbidden}` is true on one machine only", file.at(line)));
                }
            }
        }
    }
    offences
}

#[test]
fn states_are_enums_and_not_strings() {
    enforce(
        states_are_enums,
        &[
            &[("crates/a/src/b.rs", "struct Row { status: String }")],
            &[("crates/a/src/b.rs", "struct Row { pub mode: Option<String> }")],
            &[("crates/a/src/b.rs", "struct Row { state: &'static str }")],
        ],
        &[
            &[("crates/a/src/b.rs", "struct Row { status: OutboxStatus, status_line: String }")],
            &[("crates/a/src/b.rs", "fn a() { let status: String = row.get(1); }")],
            &[("crates/a/tests/it/b.rs", "struct Seen { status: String }")],
        ],
    );
}

#[test]
fn lints_are_expected_with_a_reason_and_never_allowed() {
    enforce(
        lints_are_never_allowed,
        &[
            &[("crates/a/src/b.rs", concat!("#[", "allow(dead_code)]\nfn a() {}"))],
            &[("crates/a/tests/it/main.rs", concat!("#![", "allow(clippy::all)]"))],
        ],
        &[&[("crates/a/src/b.rs", "#[expect(dead_code, reason = \"read by a derive\")]\nstruct A;")]],
    );
}

#[test]
fn no_test_is_switched_off() {
    enforce(
        tests_are_never_switched_off,
        &[&[("crates/a/src/b.rs", concat!("#[test]\n#[", "ignore = \"slow\"]\nfn a() {}"))]],
        &[&[("crates/a/src/b.rs", "#[test]\nfn a() {}")]],
    );
}

#[test]
fn no_code_owes_work() {
    enforce(
        work_is_not_owed,
        &[
            &[("crates/a/src/b.rs", concat!("fn a() { to", "do!() }"))],
            &[("crates/a/src/b.rs", concat!("// FIX", "ME: later"))],
        ],
        &[&[("crates/a/src/b.rs", "// Why it is so.\nfn a() {}")]],
    );
}

#[test]
fn no_manifest_has_a_mock_library() {
    enforce(
        no_mock_library,
        &[&[("Cargo.toml", "[workspace.dependencies]\nmockall = \"1\"\n")]],
        &[&[("Cargo.toml", "[workspace.dependencies]\nwiremock = \"1\"\n")]],
    );
}

#[test]
fn no_comment_is_a_banner() {
    enforce(
        no_banner_comments,
        &[
            &[("crates/a/src/b.rs", concat!("    // -", "--- types ----\n"))],
            &[("crates/a/src/b.rs", concat!("//", "//////////\n"))],
            &[("deny.toml", concat!("# ==", "== sources\n"))],
        ],
        &[&[("crates/a/src/b.rs", "/// A lease - and its end.\n//! - a list\n// a --- b\n")]],
    );
}

#[test]
fn no_text_is_true_on_one_machine_only() {
    enforce(
        no_text_of_one_machine,
        &[
            &[("docs/a.md", concat!("see /wo", "rk/notes"))],
            &[("crates/a/src/b.rs", concat!("const A: &str = \"https://crates", ".io/x\";"))],
        ],
        &[&[("docs/a.md", concat!("see docs/wo", "rk/notes and $HOME/wo", "rk/notes"))]],
    );
}
