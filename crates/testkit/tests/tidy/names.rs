//! One word per thing: no vague names, and no type that two crates define.

use super::rust_source::{declared, line_of};
use super::tree::{File, enforce, rust_files, sample, shipped_files};
use std::collections::BTreeMap;

/// Words that say nothing about what a thing is.
const VAGUE: &[&str] = &["util", "utils", "helper", "helpers", "common", "manager", "misc", "stuff"];
const VERSIONED: &[&str] = &["v2", "new", "old"];

/// Names that two crates may both define, and why it is not the same type twice.
const SHARED_TYPE_NAMES: &[(&str, &str)] = &[];

fn names_say_something(tree: &[File]) -> Vec<String> {
    let mut offences = Vec::new();
    for file in rust_files(tree) {
        for part in file.path.split(['/', '.']).filter(|part| is_vague(part)) {
            offences.push(format!("{}: `{part}` says nothing; name the noun", file.path));
        }
        let code = file.source().code;
        for keyword in ["fn", "mod", "struct", "enum", "trait", "type"] {
            for (offset, name) in declared(&code, keyword).filter(|(_, name)| is_vague(name)) {
                let line = line_of(&code, offset);
                offences.push(format!("{}: `{name}` says nothing; name the noun", file.at(line)));
            }
        }
    }
    offences
}

fn is_vague(name: &str) -> bool {
    let words = words_of(name);
    let is_versioned =
        words.len() > 1 && name.contains('_') && VERSIONED.contains(&words[words.len() - 1].as_str());
    is_versioned || words.iter().any(|word| VAGUE.contains(&word.as_str()))
}

/// `LeaseManager` and `lease_manager` are both `lease`, `manager`.
fn words_of(name: &str) -> Vec<String> {
    let mut words: Vec<String> = vec![String::new()];
    for c in name.chars() {
        if c == '_' || c.is_uppercase() {
            words.push(String::new());
        }
        if c != '_' {
            words.last_mut().unwrap().extend(c.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

fn types_have_one_home(tree: &[File]) -> Vec<String> {
    let mut homes: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    for file in shipped_files(tree) {
        let code = file.source().shipped();
        for keyword in ["struct", "enum", "trait"] {
            for (offset, name) in declared(&code, keyword) {
                if code[..offset].ends_with("pub ") {
                    let place = file.at(line_of(&code, offset));
                    homes.entry(name.to_owned()).or_default().insert(file.crate_name().to_owned(), place);
                }
            }
        }
    }
    let is_excused = |name: &str| SHARED_TYPE_NAMES.iter().any(|(shared, _)| *shared == name);
    homes
        .into_iter()
        .filter(|(name, places)| places.len() > 1 && !is_excused(name))
        .map(|(name, places)| format!("{name} is defined twice: {places:?}; use one, or name them apart"))
        .collect()
}

/// An excuse that nothing needs any more goes away.
fn stale_excuses(tree: &[File]) -> Vec<String> {
    let defined = |name: &str| {
        let is_definition = |file: &&File| {
            let code = file.source().shipped();
            ["struct", "enum", "trait"]
                .iter()
                .any(|keyword| declared(&code, keyword).any(|(_, found)| found == name))
        };
        shipped_files(tree).filter(is_definition).count()
    };
    let stale = SHARED_TYPE_NAMES.iter().filter(|(name, reason)| defined(name) < 2 || reason.is_empty());
    stale.map(|(name, _)| format!("{name} is not defined twice any more; take it off the list")).collect()
}

#[test]
fn names_of_files_and_items_say_something() {
    enforce(
        names_say_something,
        &[
            &[("crates/a/src/utils.rs", "")],
            &[("crates/a/src/common/b.rs", "")],
            &[("crates/a/src/b.rs", "struct LeaseManager;")],
            &[("crates/a/src/b.rs", "fn poll_v2() {}")],
        ],
        &[
            &[("crates/a/src/lease.rs", "struct Lease; fn commonly_used() {} fn new() {}")],
            &[("crates/a/src/b.rs", "// a manager in a comment")],
        ],
    );
}

#[test]
fn no_type_is_defined_in_two_crates() {
    enforce(
        types_have_one_home,
        &[&[("crates/a/src/b.rs", "pub struct Lease;"), ("crates/c/src/d.rs", "pub enum Lease {}")]],
        &[
            &[("crates/a/src/b.rs", "pub struct Lease;"), ("crates/c/src/d.rs", "pub use a::Lease;")],
            &[("crates/a/src/b.rs", "struct Row;"), ("crates/c/src/d.rs", "struct Row;")],
        ],
    );
    assert_eq!(stale_excuses(&super::tree::project()), Vec::<String>::new());
    assert_eq!(stale_excuses(&sample(&[])).len(), SHARED_TYPE_NAMES.len());
}
