//! Proof that can fail: test names are sentences, tests assert, and every promise names its tests.

use super::rust_source::{Function, is_name, words};
use super::tree::{File, enforce, rust_files, text_of};
use std::collections::{BTreeMap, BTreeSet};

/// The promises with the tests that keep them; the README is for users and names no test.
const PROMISES: &str = "docs/promises.md";

/// What makes a function able to fail a test, as the start of a name.
const ASSERTIONS: &[&str] =
    &["assert", "prop_assert", "debug_assert", "panic!", "expect_err", "unwrap_err", "unreachable!"];

fn functions(tree: &[File]) -> impl Iterator<Item = (&File, Function)> {
    rust_files(tree)
        .flat_map(|file| file.source().functions().into_iter().map(move |function| (file, function)))
}

fn test_names_are_sentences(tree: &[File]) -> Vec<String> {
    functions(tree)
        .filter(|(_, function)| function.is_test)
        .filter(|(_, test)| test.name.starts_with("test_") || test.name.split('_').count() < 3)
        .map(|(file, test)| format!("{}: `{}` is not a sentence", file.at(test.line), test.name))
        .collect()
}

/// A test asserts itself or calls something in its crate, or in testkit, that does.
fn tests_assert_something(tree: &[File]) -> Vec<String> {
    let mut by_crate: BTreeMap<&str, Vec<(&File, Function)>> = BTreeMap::new();
    for (file, function) in functions(tree) {
        by_crate.entry(file.crate_name()).or_default().push((file, function));
    }
    let nothing = Vec::new();
    let from_testkit = checking_names(by_crate.get("testkit").unwrap_or(&nothing), &BTreeSet::new());
    let mut offences = Vec::new();
    for functions in by_crate.values() {
        let checking = checking_names(functions, &from_testkit);
        for (file, test) in functions.iter().filter(|(_, function)| function.is_test) {
            if !can_fail(&test.body, &checking) {
                offences.push(format!("{}: `{}` asserts nothing", file.at(test.line), test.name));
            }
        }
    }
    offences
}

fn checking_names(functions: &[(&File, Function)], known: &BTreeSet<String>) -> BTreeSet<String> {
    let mut checking = known.clone();
    loop {
        let before = checking.len();
        let more = functions.iter().filter(|(_, function)| can_fail(&function.body, &checking));
        let names: Vec<String> = more.map(|(_, function)| function.name.clone()).collect();
        checking.extend(names);
        if checking.len() == before {
            return checking;
        }
    }
}

fn can_fail(body: &str, checking: &BTreeSet<String>) -> bool {
    let asserts = ASSERTIONS.iter().any(|assertion| body.contains(assertion));
    let calls = |name: &String| words(body, name).any(|offset| body[offset + name.len()..].starts_with('('));
    asserts || checking.iter().any(calls)
}

/// Bullets of a page, each as one line.
fn claims(page: &str) -> Vec<String> {
    let mut claims: Vec<String> = Vec::new();
    for line in page.lines() {
        if line.starts_with("- ") {
            claims.push(line.to_owned());
        } else if let Some(claim) = claims.last_mut().filter(|_| line.starts_with("  ")) {
            claim.push_str(line);
        }
    }
    claims
}

/// The names in backticks between the brackets that end a claim; `None` when it ends in anything else.
fn proofs_of(claim: &str) -> Option<Vec<&str>> {
    let (_, proofs) = claim.trim_end().strip_suffix(')')?.rsplit_once('(')?;
    proofs.split(',').map(|proof| proof.trim().strip_prefix('`')?.strip_suffix('`')).collect()
}

fn names_of_tests(tree: &[File]) -> BTreeSet<String> {
    functions(tree).filter(|(_, function)| function.is_test).map(|(_, test)| test.name).collect()
}

fn promises_have_tests(tree: &[File]) -> Vec<String> {
    let claims = claims(text_of(tree, PROMISES));
    if claims.is_empty() {
        return vec![format!("{PROMISES}: no line is a promise")];
    }
    let tests = names_of_tests(tree);
    claims
        .iter()
        .filter(|claim| !proofs_of(claim).is_some_and(|names| names.iter().all(|name| tests.contains(*name))))
        .map(|claim| format!("{PROMISES}: end with the names of tests that exist: {claim}"))
        .collect()
}

fn readme_names_no_test(tree: &[File]) -> Vec<String> {
    let tests = names_of_tests(tree);
    let mut offences = Vec::new();
    for (index, line) in text_of(tree, "README.md").lines().enumerate() {
        for name in line.split(|c| !is_name(c)).filter(|word| tests.contains(*word)) {
            offences.push(format!("README.md:{}: `{name}` is a test; name it in {PROMISES}", index + 1));
        }
    }
    offences
}

#[test]
fn the_name_of_a_test_is_a_sentence() {
    enforce(
        test_names_are_sentences,
        &[
            &[("crates/a/src/b.rs", "#[test]\nfn test_that_it_works_well() { assert!(x); }")],
            &[("crates/a/src/b.rs", "#[tokio::test]\nasync fn roundtrip() { assert!(x); }")],
        ],
        &[&[("crates/a/src/b.rs", "#[test]\nfn an_expired_lease_is_lost() { assert!(x); }\nfn new() {}")]],
    );
}

#[test]
fn every_test_asserts_something() {
    enforce(
        tests_assert_something,
        &[
            &[("crates/a/src/b.rs", "#[test]\nfn it_runs_to_the_end() { run(); }")],
            &[("crates/a/src/b.rs", "fn run() { go(); }\n#[test]\nfn it_runs_to_the_end() { run(); }")],
        ],
        &[
            &[("crates/a/src/b.rs", "#[test]\nfn it_runs_to_the_end() { assert_eq!(run(), 1); }")],
            &[(
                "crates/a/src/b.rs",
                "fn check() { assert!(x); }\n#[test]\nfn it_runs_to_the_end() { check(); }",
            )],
        ],
    );
}

/// The only test of the samples below.
const TEST: (&str, &str) = ("crates/a/tests/it/b.rs", "#[test]\nfn it_is_so() { assert!(x); }");

#[test]
fn every_promise_names_tests_that_exist() {
    enforce(
        promises_have_tests,
        &[
            &[(PROMISES, "## A\n\n- It is so.\n"), TEST],
            &[(PROMISES, "## A\n\n- It is so (`it_is_not_so`)\n"), TEST],
            &[(PROMISES, "## A\n\n- It is so (`it_is_not_so`, `it_is_so`)\n"), TEST],
            &[(PROMISES, "## A\n\n- It is so (`it_is_so`), or not\n"), TEST],
            &[(PROMISES, "## A\n"), TEST],
            &[("README.md", "- It is so (`it_is_so`)\n"), TEST],
        ],
        &[&[
            (
                PROMISES,
                "## A\n\n- It is so (`it_is_so`)\n- It is\n  so (`it_is_so`,\n  `it_is_so`)\n\n## B\n",
            ),
            TEST,
        ]],
    );
}

#[test]
fn the_readme_names_no_test_at_all() {
    enforce(
        readme_names_no_test,
        &[&[("README.md", "It is so (`it_is_so`).\n"), TEST], &[("README.md", "See it_is_so.\n"), TEST]],
        &[&[
            ("README.md", "It is so; `it_is_so_too` is no test.\n"),
            TEST,
            (PROMISES, "- So (`it_is_so`)\n"),
        ]],
    );
}
