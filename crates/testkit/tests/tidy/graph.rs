//! The crate graph: what ARCHITECTURE.md allows, against what the manifests say.

use super::tree::{File, enforce, text_of};
use std::collections::BTreeMap;
use toml::Table;

const TABLE_HEAD: &str = "| crate | what it is for | may use |";

/// A row per crate, in the words of ARCHITECTURE.md.
fn allowed_uses(architecture: &str) -> BTreeMap<String, Vec<String>> {
    let rows = architecture.lines().skip_while(|line| *line != TABLE_HEAD).skip(2);
    rows.take_while(|line| line.starts_with('|'))
        .filter_map(|line| {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let uses = cells.get(3)?.split_whitespace().map(str::to_owned).collect();
            Some((cells[1].to_owned(), uses))
        })
        .collect()
}

fn manifests(tree: &[File]) -> impl Iterator<Item = &File> {
    tree.iter().filter(|file| file.path.starts_with("crates/") && file.path.ends_with("/Cargo.toml"))
}

fn house_dependencies(manifest: &Table, section: &str) -> Vec<String> {
    let dependencies = manifest.get(section).and_then(|section| section.as_table());
    let names = dependencies.into_iter().flat_map(Table::keys);
    names.filter_map(|name| name.strip_prefix("cortex-")).map(str::to_owned).collect()
}

fn manifests_follow_the_table(tree: &[File]) -> Vec<String> {
    let allowed = allowed_uses(text_of(tree, "ARCHITECTURE.md"));
    let mut offences = Vec::new();
    for file in manifests(tree) {
        let name = file.crate_name();
        let manifest: Table = file.text.parse().unwrap();
        let Some(may_use) = allowed.get(name) else {
            offences.push(format!("{}: {name} has no row in ARCHITECTURE.md", file.path));
            continue;
        };
        for section in ["dependencies", "build-dependencies"] {
            for used in house_dependencies(&manifest, section) {
                if used == "testkit" {
                    offences.push(format!("{}: testkit is for dev-dependencies only", file.path));
                } else if !may_use.contains(&used) {
                    offences.push(format!("{}: {name} may not use {used}", file.path));
                }
            }
        }
    }
    for name in allowed.keys() {
        if !manifests(tree).any(|file| file.crate_name() == name) {
            offences.push(format!("ARCHITECTURE.md: {name} does not exist"));
        }
    }
    offences
}

fn every_manifest_takes_the_house_lints(tree: &[File]) -> Vec<String> {
    let takes_lints = |file: &&File| {
        let manifest: Table = file.text.parse().unwrap();
        let lints = manifest.get("lints").and_then(|lints| lints.get("workspace"));
        lints.and_then(toml::Value::as_bool) != Some(true)
    };
    manifests(tree)
        .filter(takes_lints)
        .map(|file| format!("{}: add `lints.workspace = true`", file.path))
        .collect()
}

/// A feature multiplies what has to be tested, so each one says above itself why it exists.
fn every_feature_is_explained(tree: &[File]) -> Vec<String> {
    let mut offences = Vec::new();
    for file in manifests(tree) {
        let lines: Vec<&str> = file.text.lines().collect();
        let mut in_features = false;
        for (index, line) in lines.iter().enumerate() {
            if line.starts_with('[') {
                in_features = *line == "[features]";
            } else if in_features
                && line.contains('=')
                && !line.starts_with('#')
                && !line.starts_with("default = []")
                && !lines[index - 1].starts_with("# ")
            {
                offences
                    .push(format!("{}: say in a comment above why this feature exists", file.at(index + 1)));
            }
        }
    }
    offences
}

#[test]
fn crates_use_only_what_architecture_md_allows() {
    const TABLE: &str = "| crate | what it is for | may use |\n| --- | --- | --- |\n| brain | decides | types |\n| types | ids | |\n";
    const TYPES: (&str, &str) = ("crates/types/Cargo.toml", "[package]\nname = \"cortex-types\"\n");
    let brain = |manifest| [("ARCHITECTURE.md", TABLE), TYPES, ("crates/brain/Cargo.toml", manifest)];
    enforce(
        manifests_follow_the_table,
        &[
            &brain("[dependencies]\ncortex-store = { path = \"../store\" }\n"),
            &brain("[dependencies]\ncortex-testkit.workspace = true\n"),
            &[("ARCHITECTURE.md", TABLE), TYPES],
            &[("crates/extra/Cargo.toml", "[package]\nname = \"cortex-extra\"\n")],
        ],
        &[
            &brain("[dependencies]\ncortex-types.workspace = true\n"),
            &brain("[dev-dependencies]\ncortex-testkit.workspace = true\n"),
        ],
    );
}

#[test]
fn every_crate_takes_the_lints_of_the_workspace() {
    enforce(
        every_manifest_takes_the_house_lints,
        &[&[("crates/a/Cargo.toml", "[package]\nname = \"a\"\n")]],
        &[&[("crates/a/Cargo.toml", "[lints]\nworkspace = true\n")]],
    );
}

#[test]
fn every_cargo_feature_says_why_it_exists() {
    enforce(
        every_feature_is_explained,
        &[&[("crates/a/Cargo.toml", "[features]\nfaults = []\n")]],
        &[&[(
            "crates/a/Cargo.toml",
            "[features]\n# Fault points, for the tests that stop the server.\nfaults = []\n",
        )]],
    );
}
