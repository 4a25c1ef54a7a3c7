//! Fetched calendars on disk, so that they are there without a net.

use super::fetch::Validators;
use cortex_types::Millis;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// What is known about a kept calendar.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CacheNote {
    /// When the server last said that this is its calendar.
    pub(super) fetched_at: Millis,
    pub(super) validators: Validators,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) note: CacheNote,
    pub(super) bytes: Vec<u8>,
}

/// Nothing where nothing whole is kept.
pub(super) fn read(folder: &Path, url: &str) -> Option<Kept> {
    let note = std::fs::read(place(folder, url, "json")).ok()?;
    let note = serde_json::from_slice(&note).ok()?;
    Some(Kept { note, bytes: std::fs::read(place(folder, url, "ics")).ok()? })
}

/// The calendar first: a note without its calendar would promise what is not there.
pub(super) fn write(folder: &Path, url: &str, kept: &Kept) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    replace(&place(folder, url, "ics"), &kept.bytes)?;
    write_note(folder, url, &kept.note)
}

pub(super) fn write_note(folder: &Path, url: &str, note: &CacheNote) -> io::Result<()> {
    replace(&place(folder, url, "json"), &serde_json::to_vec(note)?)
}

/// Named by a hash: an address may be a secret.
fn place(folder: &Path, url: &str, ending: &str) -> PathBuf {
    let hash = Sha256::digest(url.as_bytes());
    let name: String = hash.iter().take(12).map(|byte| format!("{byte:02x}")).collect();
    folder.join(format!("{name}.{ending}"))
}

fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let fresh = path.with_extension("new");
    let mut file =
        std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&fresh, path)
}
