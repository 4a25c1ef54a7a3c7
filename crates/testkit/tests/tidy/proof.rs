//! Proof that can fail: test names are sentences, tests assert, and README claims name their test.

use super::rust_source::{Function, words};
use super::tree::{File, enforce, rust_files, text_of};
use std::collections::{BTreeMap, BTreeSet};

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

/// Bullets of `## What works`, each as one line.
fn claims(readme: &str) -> Vec<String> {
    let section = readme.lines().skip_while(|line| *line != "## What works").skip(1);
    let mut claims: Vec<String> = Vec::new();
    for line in section.take_while(|line| !line.starts_with("## ")) {
        if line.starts_with("- ") {
            claims.push(line.to_owned());
        } else if let Some(claim) = claims.last_mut().filter(|_| line.starts_with("  ")) {
            claim.push_str(line);
        }
    }
    claims
}

/// The name in the backticks that end a claim.
fn proof_of(claim: &str) -> Option<&str> {
    let claim = claim.trim_end_matches(['.', ')', ' ']);
    claim.strip_suffix('`')?.rsplit('`').next()
}

fn readme_claims_have_a_test(tree: &[File]) -> Vec<String> {
    let readme = text_of(tree, "README.md");
    if claims(readme).is_empty() {
        return vec!["README.md: `## What works` has no claim".to_owned()];
    }
    let tests: BTreeSet<String> =
        functions(tree).filter(|(_, function)| function.is_test).map(|(_, test)| test.name).collect();
    claims(readme)
        .iter()
        .filter(|claim| !proof_of(claim).is_some_and(|name| tests.contains(name)))
        .map(|claim| format!("README.md: no such test at the end of: {claim}"))
        .collect()
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

#[test]
fn every_claim_of_the_readme_names_its_test() {
    const TEST: (&str, &str) = ("crates/a/tests/it/b.rs", "#[test]\nfn it_is_so() { assert!(x); }");
    enforce(
        readme_claims_have_a_test,
        &[
            &[("README.md", "## What works\n\n- It is so.\n"), TEST],
            &[("README.md", "## What works\n\n- It is so (`it_is_not_so`)\n"), TEST],
            &[("README.md", "## Nothing\n"), TEST],
        ],
        &[&[
            (
                "README.md",
                "## What works\n\n- It is so (`it_is_so`)\n- It is\n  so. `it_is_so`\n\n## End\n- x\n",
            ),
            TEST,
        ]],
    );
}
