//! What nobody needs any more: dependencies that no code names, and what test tools leave behind.

use super::tree::{File, enforce, rust_files};
use toml::Table;

/// What insta writes when a snapshot was not looked at yet.
const PENDING: &[&str] = &[".snap.new", ".pending-snap"];

fn names_of(manifest: &Table, section: &str) -> Vec<String> {
    let dependencies = manifest.get(section).and_then(|section| section.as_table());
    dependencies.into_iter().flat_map(Table::keys).cloned().collect()
}

/// Whether some code of a crate has a name in it, as a whole word.
fn is_named(tree: &[File], crate_name: &str, may_be_test: bool, name: &str) -> bool {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    tree.iter()
        .filter(|file| file.is_rust() && file.crate_name() == crate_name)
        .filter(|file| may_be_test || !file.path.contains("/tests/"))
        .any(|file| {
            file.text.match_indices(name).any(|(at, found)| {
                let (before, after) = (&file.text[..at], &file.text[at + found.len()..]);
                !before.ends_with(is_part) && !after.starts_with(is_part)
            })
        })
}

fn every_dependency_is_used(tree: &[File]) -> Vec<String> {
    let mut offences = Vec::new();
    for file in
        tree.iter().filter(|file| file.path.starts_with("crates/") && file.path.ends_with("/Cargo.toml"))
    {
        let manifest: Table = file.text.parse().unwrap();
        for (section, may_be_test) in
            [("dependencies", false), ("build-dependencies", false), ("dev-dependencies", true)]
        {
            for name in names_of(&manifest, section) {
                if !is_named(tree, file.crate_name(), may_be_test, &name.replace('-', "_")) {
                    offences.push(format!("{}: nothing uses {name}; take it out of [{section}]", file.path));
                }
            }
        }
    }
    offences
}

fn no_snapshot_is_pending(tree: &[File]) -> Vec<String> {
    let is_pending = |file: &&File| PENDING.iter().any(|ending| file.path.ends_with(ending));
    tree.iter()
        .filter(is_pending)
        .map(|file| format!("{}: look at the snapshot, then accept it or delete this file", file.path))
        .collect()
}

/// Nothing runs examples in comments, so there are none: a fence there says what else it holds.
fn comments_hold_no_code_to_run(tree: &[File]) -> Vec<String> {
    let mut offences = Vec::new();
    for file in rust_files(tree) {
        let mut is_open = false;
        for (index, line) in file.text.lines().enumerate() {
            let line = line.trim_start();
            let comment = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
            let Some(language) = comment.and_then(|comment| comment.trim_start().strip_prefix("```")) else {
                continue;
            };
            if !is_open
                && matches!(language.split([',', ' ']).next(), Some("" | "rust" | "should_panic" | "no_run"))
            {
                offences.push(format!("{}: make it a test, or say ```text", file.at(index + 1)));
            }
            is_open = !is_open;
        }
    }
    offences
}

#[test]
fn no_comment_holds_a_test_that_nobody_runs() {
    enforce(
        comments_hold_no_code_to_run,
        &[
            &[("crates/a/src/lib.rs", "/// ```\n/// a();\n/// ```\nfn a() {}")],
            &[("crates/a/src/lib.rs", "//! ```rust\n//! a();\n//! ```\n")],
        ],
        &[&[("crates/a/src/lib.rs", "/// ```text\n/// a\n/// ```\nfn a() {}")]],
    );
}

#[test]
fn no_dependency_is_left_over() {
    const MANIFEST: (&str, &str) = ("crates/a/Cargo.toml", "[dependencies]\nserde-json.workspace = true\n");
    const DEV: (&str, &str) = ("crates/a/Cargo.toml", "[dev-dependencies]\ninsta.workspace = true\n");
    enforce(
        every_dependency_is_used,
        &[
            &[MANIFEST],
            &[MANIFEST, ("crates/a/src/lib.rs", "use my_serde_json::Value;")],
            &[MANIFEST, ("crates/a/tests/it/main.rs", "use serde_json::Value;")],
            &[MANIFEST, ("crates/b/src/lib.rs", "use serde_json::Value;")],
            &[DEV],
        ],
        &[
            &[MANIFEST, ("crates/a/src/lib.rs", "use serde_json::Value;")],
            &[DEV, ("crates/a/tests/it/main.rs", "insta::assert_snapshot!(1);")],
        ],
    );
}

#[test]
fn nobody_forgets_to_look_at_a_snapshot() {
    enforce(
        no_snapshot_is_pending,
        &[
            &[("crates/a/tests/it/snapshots/it__a.snap.new", "")],
            &[("crates/a/tests/it/.a.rs.pending-snap", "")],
        ],
        &[&[("crates/a/tests/it/snapshots/it__a.snap", "")]],
    );
}
