//! Counts that may only fall: loose JSON away from the wire, and locks that several owners share.

use super::rust_source::line_of;
use super::tree::{File, enforce, shipped_files};

/// Crates that stand at a wire, a file or a terminal, where JSON has no type of ours yet.
const WIRE_CRATES: &[&str] = &["api", "models", "connectors", "server", "cli", "bench", "xtask"];

/// Uses of `serde_json::Value` deep inside that are left: path and count.
const LOOSE_JSON: &[(&str, usize)] = &[];

const SHARED_LOCKS: &[&str] =
    &["Arc<Mutex<", "Arc<RwLock<", "Arc<std::sync::Mutex<", "Arc<tokio::sync::Mutex<"];

/// Locks behind an `Arc` in shipped code. A service owns its state and is spoken to through a channel.
const SHARED_LOCKS_MAX: usize = 1;

fn json_has_a_type_inside(tree: &[File]) -> Vec<String> {
    let mut offences = Vec::new();
    for file in shipped_files(tree).filter(|file| !WIRE_CRATES.contains(&file.crate_name())) {
        let code = file.source().shipped();
        let lines: Vec<usize> = loose_json_uses(&code).map(|offset| line_of(&code, offset)).collect();
        let allowed = LOOSE_JSON.iter().find(|(path, _)| *path == file.path).map_or(0, |(_, count)| *count);
        if lines.len() > allowed {
            offences.push(format!("{}: loose JSON inside, lines {lines:?}; give it a type", file.path));
        } else if lines.len() < allowed {
            offences.push(format!("{}: only {} uses left; lower LOOSE_JSON", file.path, lines.len()));
        }
    }
    offences
}

fn loose_json_uses(code: &str) -> impl Iterator<Item = usize> {
    code.match_indices("serde_json::").filter_map(|(offset, path)| {
        let rest = &code[offset + path.len()..];
        let names = match rest.strip_prefix('{') {
            Some(group) => group.split('}').next().unwrap_or_default(),
            None => rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default(),
        };
        let is_loose = names.split(',').map(str::trim).any(|name| matches!(name, "Value" | "Map" | "json"));
        is_loose.then_some(offset)
    })
}

fn shared_locks_stay_few(tree: &[File]) -> Vec<String> {
    let mut places = Vec::new();
    for file in shipped_files(tree) {
        let code: String = file.source().shipped();
        for pattern in SHARED_LOCKS {
            places.extend(code.match_indices(pattern).map(|(offset, _)| file.at(line_of(&code, offset))));
        }
    }
    if places.len() > SHARED_LOCKS_MAX {
        places.push(format!("more than {SHARED_LOCKS_MAX} shared locks; let one task own the state"));
        places
    } else {
        Vec::new()
    }
}

#[test]
fn json_without_a_type_stays_at_the_wire() {
    enforce(
        json_has_a_type_inside,
        &[
            &[("crates/brain/src/a.rs", "fn a(value: serde_json::Value) {}")],
            &[("crates/store/src/a.rs", "use serde_json::{Map, from_str};")],
            &[("crates/runtime/src/a.rs", "fn a() { serde_json::json!({}); }")],
        ],
        &[
            &[("crates/api/src/a.rs", "use serde_json::Value;")],
            &[("crates/store/src/a.rs", "use serde_json::to_string; use rusqlite::types::Value;")],
        ],
    );
}

#[test]
fn locks_with_several_owners_stay_few() {
    let many = "struct A { a: Arc<Mutex<u8>> }\n".repeat(SHARED_LOCKS_MAX + 1);
    enforce(
        shared_locks_stay_few,
        &[&[("crates/a/src/b.rs", &many)]],
        &[&[("crates/a/src/b.rs", "struct A { a: Arc<Mutex<u8>>, b: Mutex<u8> }")]],
    );
}
