//! How files are laid out: small, introduced, mapped by `lib.rs`, one test binary a crate.

use super::rust_source::{declared, line_of, words};
use super::tree::{File, enforce, rust_files};

const LINES_MAX: usize = 500;

/// Public modules of a `lib.rs`; everything else is a private module with a `pub use`.
const PUBLIC_MODULES: &[(&str, &str)] = &[("crates/types/src/lib.rs", "limits")];

fn files_are_small(tree: &[File]) -> Vec<String> {
    rust_files(tree)
        .map(|file| (file, file.text.lines().count()))
        .filter(|(_, lines)| *lines > LINES_MAX)
        .map(|(file, lines)| format!("{}: {lines} lines; split it by noun", file.path))
        .collect()
}

fn files_say_what_they_are_for(tree: &[File]) -> Vec<String> {
    let is_introduced = |file: &&File| {
        let first = file.text.lines().next().unwrap_or_default();
        first.strip_prefix("//! ").is_some_and(|purpose| purpose.split_whitespace().count() >= 2)
    };
    rust_files(tree)
        .filter(|file| !is_introduced(file))
        .map(|file| format!("{}: start with `//! what it is for`", file.at(1)))
        .collect()
}

fn no_mod_rs(tree: &[File]) -> Vec<String> {
    rust_files(tree)
        .filter(|file| file.stem() == "mod")
        .map(|file| format!("{}: use `name.rs` beside the folder `name/`", file.path))
        .collect()
}

fn lib_is_a_map(tree: &[File]) -> Vec<String> {
    let mut offences = Vec::new();
    for file in rust_files(tree).filter(|file| file.path.ends_with("/src/lib.rs")) {
        let code = file.source().shipped();
        for keyword in ["fn", "struct", "enum", "trait", "impl"] {
            for offset in words(&code, keyword) {
                let line = line_of(&code, offset);
                offences
                    .push(format!("{}: `{keyword}` in the map; move it to its noun's file", file.at(line)));
            }
        }
        for (offset, module) in declared(&code, "mod") {
            let is_public = code[..offset].trim_end().ends_with("pub");
            if is_public && !PUBLIC_MODULES.contains(&(file.path.as_str(), module)) {
                let line = line_of(&code, offset);
                offences.push(format!("{}: make `{module}` private and re-export its names", file.at(line)));
            }
        }
    }
    offences
}

/// Linking is what makes tests slow, so a crate links its integration tests once.
fn one_test_binary_a_crate(tree: &[File]) -> Vec<String> {
    let is_extra_binary = |file: &&File| {
        let parts: Vec<&str> = file.path.split('/').collect();
        let is_binary = matches!(parts[..], ["crates", _, "tests", _] | ["crates", _, "tests", _, "main.rs"]);
        is_binary && !file.path.ends_with("/tests/it/main.rs") && file.path != "crates/testkit/tests/tidy.rs"
    };
    rust_files(tree)
        .filter(is_extra_binary)
        .map(|file| format!("{}: make it a module of tests/it/main.rs", file.path))
        .collect()
}

#[test]
fn no_rust_file_is_longer_than_500_lines() {
    let long = "x\n".repeat(LINES_MAX + 1);
    let just_fits = "x\n".repeat(LINES_MAX);
    enforce(
        files_are_small,
        &[&[("crates/a/src/b.rs", &long)], &[("crates/a/tests/it/b.rs", &long)]],
        &[&[("crates/a/src/b.rs", &just_fits)], &[("docs/long.md", &long)]],
    );
}

#[test]
fn every_rust_file_starts_by_saying_what_it_is_for() {
    enforce(
        files_say_what_they_are_for,
        &[
            &[("crates/a/src/b.rs", "use std::fs;\n")],
            &[("crates/a/src/b.rs", "")],
            &[("crates/a/src/b.rs", "//! placeholder\n")],
            &[("crates/a/tests/it/b.rs", "// plain comment on the file\n")],
        ],
        &[&[("crates/a/src/b.rs", "//! The inbox: durable, ordered by arrival.\n")]],
    );
}

#[test]
fn no_file_is_called_mod_rs() {
    enforce(
        no_mod_rs,
        &[&[("crates/a/src/b/mod.rs", "")]],
        &[&[("crates/a/src/b.rs", ""), ("crates/a/src/b/c.rs", "")]],
    );
}

#[test]
fn every_lib_rs_is_a_map_of_private_modules() {
    enforce(
        lib_is_a_map,
        &[
            &[("crates/a/src/lib.rs", "//! A map of it.\npub fn run() {}\n")],
            &[("crates/a/src/lib.rs", "//! A map of it.\npub mod inbox;\n")],
        ],
        &[&[("crates/a/src/lib.rs", "//! A map; fn stays out.\nmod inbox;\npub use inbox::Inbox;\n")]],
    );
}

#[test]
fn every_crate_links_its_integration_tests_once() {
    enforce(
        one_test_binary_a_crate,
        &[&[("crates/a/tests/extra.rs", "")], &[("crates/a/tests/extra/main.rs", "")]],
        &[&[("crates/a/tests/it/main.rs", ""), ("crates/a/tests/it/inbox.rs", "")]],
    );
}
