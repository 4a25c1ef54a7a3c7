//! Migrations are added and never edited: their checksums are written down beside them.

use super::tree::{File, enforce, text_of};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

const FOLDER: &str = "crates/store/migrations/";
const CHECKSUMS: &str = "crates/store/migrations/CHECKSUMS";

fn migrations_keep_their_checksums(tree: &[File]) -> Vec<String> {
    let mut written: BTreeMap<&str, &str> = text_of(tree, CHECKSUMS)
        .lines()
        .filter_map(|line| line.split_once("  "))
        .map(|(sum, name)| (name, sum))
        .collect();
    let mut offences = Vec::new();
    for file in tree.iter().filter(|file| file.path.starts_with(FOLDER) && file.path != CHECKSUMS) {
        let name = &file.path[FOLDER.len()..];
        let sum = hexadecimal(&Sha256::digest(&file.text));
        match written.remove(name) {
            Some(known) if known == sum => {}
            Some(_) => offences.push(format!("{}: was edited; add a new migration instead", file.path)),
            None => offences.push(format!("{}: new; add `{sum}  {name}` to {CHECKSUMS}", file.path)),
        }
    }
    offences.extend(
        written.into_keys().map(|name| format!("{FOLDER}{name}: was removed; databases still need it")),
    );
    offences
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn migrations_are_added_and_never_edited() {
    const FIRST: &str = "crates/store/migrations/0001_first.sql";
    const SUM_OF_ABC: &str =
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  0001_first.sql\n";
    enforce(
        migrations_keep_their_checksums,
        &[
            &[(FIRST, "abc edited"), (CHECKSUMS, SUM_OF_ABC)],
            &[(FIRST, "abc"), (CHECKSUMS, "")],
            &[(CHECKSUMS, SUM_OF_ABC)],
        ],
        &[&[(FIRST, "abc"), (CHECKSUMS, SUM_OF_ABC)]],
    );
}
