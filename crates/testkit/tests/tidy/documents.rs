//! What the documents owe: a changelog, a glossary of exactly the words in use, every cited decision.

use super::rust_source::{is_name, line_of};
use super::tree::{File, enforce, rust_files, text_of};
use std::collections::BTreeSet;

/// The words for things; code, tables and documents use no others.
const WORDS: &[&str] = &[
    "approval",
    "artifact",
    "audit",
    "channel",
    "checkpoint",
    "connector",
    "draft",
    "event",
    "facet",
    "fact",
    "gardener",
    "grant",
    "inbox",
    "key",
    "lease",
    "mode",
    "observation",
    "op",
    "outbox",
    "run",
    "schedule",
    "share",
    "sidecar",
    "skill",
    "slot",
    "speaker",
    "step",
    "subcortex",
    "summary",
    "talent",
    "task",
    "thread",
    "tool",
    "topic",
    "turn",
    "usage",
    "watchdog",
];

fn glossary_defines_the_words(tree: &[File]) -> Vec<String> {
    let glossary = text_of(tree, "docs/glossary.md");
    let mut offences = Vec::new();
    let mut defined = Vec::new();
    for (index, line) in glossary.lines().enumerate() {
        let Some((word, definition)) = line.strip_prefix("**").and_then(|rest| rest.split_once("**")) else {
            continue;
        };
        if definition.split_whitespace().count() < 5 {
            offences.push(format!("docs/glossary.md:{}: say what `{word}` is", index + 1));
        }
        defined.push(word);
    }
    let wanted: BTreeSet<&str> = WORDS.iter().copied().collect();
    let found: BTreeSet<&str> = defined.iter().copied().collect();
    offences
        .extend(wanted.difference(&found).map(|word| format!("docs/glossary.md: `{word}` is not defined")));
    offences.extend(
        found.difference(&wanted).map(|word| format!("docs/glossary.md: `{word}` is not one of our words")),
    );
    if defined.len() > found.len() || !defined.is_sorted() {
        offences.push("docs/glossary.md: define each word once, in the order of the alphabet".to_owned());
    }
    offences
}

fn changelog_has_an_unreleased_section(tree: &[File]) -> Vec<String> {
    let changelog = text_of(tree, "CHANGELOG.md");
    let mut unreleased = changelog.lines().skip_while(|line| *line != "## Unreleased").skip(1);
    match unreleased.find(|line| line.starts_with("- ") || line.starts_with("## ")) {
        Some(line) if line.starts_with("- ") => Vec::new(),
        Some(_) | None => vec!["CHANGELOG.md: `## Unreleased` lists no change".to_owned()],
    }
}

/// Decision numbers such as `D6` in a text, with their places.
fn decision_numbers(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.match_indices('D').filter_map(|(offset, _)| {
        let digits =
            text[offset + 1..].find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len() - offset - 1);
        let number = &text[offset..=offset + digits];
        let before = text[..offset].chars().next_back();
        let after = text[offset + 1 + digits..].chars().next();
        let is_citation =
            (1..=2).contains(&digits) && !before.is_some_and(is_name) && !after.is_some_and(is_name);
        is_citation.then_some((offset, number))
    })
}

fn cited_decisions_are_written_down(tree: &[File]) -> Vec<String> {
    let written: BTreeSet<&str> = text_of(tree, "docs/decisions.md")
        .lines()
        .filter_map(|line| line.strip_prefix("- **D"))
        .filter_map(|rest| rest.split([' ', '*']).next())
        .collect();
    let mut offences = Vec::new();
    for file in rust_files(tree) {
        for (line, comment) in file.source().comments {
            for (offset, number) in decision_numbers(&comment) {
                if !written.contains(&number[1..]) {
                    let line = line + line_of(&comment, offset) - 1;
                    offences.push(format!("{}: {number} is not in docs/decisions.md", file.at(line)));
                }
            }
        }
    }
    offences
}

/// Paths such as `store/outbox.rs` in the indented lines of ARCHITECTURE.md.
fn the_walk_names_real_files(tree: &[File]) -> Vec<String> {
    let walk = text_of(tree, "ARCHITECTURE.md").lines().filter(|line| line.starts_with("    "));
    let named =
        walk.flat_map(str::split_whitespace).filter(|word| word.ends_with(".rs") && word.contains('/'));
    let mut offences = Vec::new();
    for name in named {
        let path = name
            .split_once('/')
            .map(|(krate, rest)| format!("crates/{krate}/src/{rest}"))
            .unwrap_or_default();
        if !tree.iter().any(|file| file.path == path) {
            offences.push(format!("ARCHITECTURE.md: {name} does not exist"));
        }
    }
    offences
}

#[test]
fn the_walk_of_an_event_names_files_that_exist() {
    const WALK: (&str, &str) =
        ("ARCHITECTURE.md", "    inbox      runtime/intake.rs → store/inbox.rs   durable\n");
    const INTAKE: (&str, &str) = ("crates/runtime/src/intake.rs", "");
    enforce(
        the_walk_names_real_files,
        &[&[WALK, INTAKE]],
        &[&[WALK, INTAKE, ("crates/store/src/inbox.rs", "")]],
    );
}

#[test]
fn the_glossary_defines_exactly_the_words_in_use() {
    let all: String = WORDS.iter().map(|word| format!("**{word}** is a thing with a meaning.\n\n")).collect();
    let extra = all.clone() + "**zebra** is a thing with a meaning.\n";
    let twice = all.clone() + "**usage** is a thing with a meaning.\n";
    let empty = all.replace("**lease** is a thing with a meaning.", "**lease**");
    let missing = all.replace("**lease**", "lease");
    enforce(
        glossary_defines_the_words,
        &[
            &[("docs/glossary.md", &extra)],
            &[("docs/glossary.md", &twice)],
            &[("docs/glossary.md", &empty)],
            &[("docs/glossary.md", &missing)],
        ],
        &[&[("docs/glossary.md", &all)]],
    );
}

#[test]
fn the_changelog_tells_what_is_unreleased() {
    enforce(
        changelog_has_an_unreleased_section,
        &[&[("CHANGELOG.md", "# Changelog\n")], &[("CHANGELOG.md", "## Unreleased\n\n## 0.1.0\n- Old.\n")]],
        &[&[("CHANGELOG.md", "## Unreleased\n\n### Added\n- New.\n")]],
    );
}

#[test]
fn every_decision_that_code_cites_is_written_down() {
    const DECISIONS: (&str, &str) = ("docs/decisions.md", "- **D6 Dedupe.** The first body wins.\n");
    enforce(
        cited_decisions_are_written_down,
        &[&[DECISIONS, ("crates/a/src/b.rs", "//! Dedupe (D7).\n")]],
        &[&[DECISIONS, ("crates/a/src/b.rs", "//! Dedupe (D6), `[3D1]`, D123, ID7.\nconst D9: u8 = 1;\n")]],
    );
}
