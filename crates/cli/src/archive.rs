//! The file that `cortex backup` writes: one line with the manifest's length and checksum, the manifest, then the bytes
//! of each file. Every block has a checksum, so that one flipped bit is found and its place can be named.

use cortex_types::limits::{BACKUP_FILES_MAX, BACKUP_MANIFEST_BYTES_MAX};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path};

/// The first bytes of every backup.
pub(crate) const MAGIC: &str = "cortex-backup ";
const FORMAT: u32 = 1;
const HEAD_LINE_BYTES_MAX: u64 = 128;
const BLOCK_BYTES: usize = 1024 * 1024;

/// What a backup holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Manifest {
    pub(crate) created_at: String,
    /// The program that made it.
    pub(crate) version: String,
    /// The version of the database's schema.
    pub(crate) schema: usize,
    pub(crate) files: Vec<ArchivedFile>,
}

/// One file, by its path below the home.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ArchivedFile {
    pub(crate) name: String,
    pub(crate) bytes: u64,
    /// Whether its owner may run it.
    #[serde(default, rename = "executable", skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_executable: bool,
    /// SHA-256 of each block.
    blocks: Vec<String>,
}

/// Why a backup could not be written or read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ArchiveError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("it is not a Cortex backup, or its first bytes are damaged")]
    NotOurs,
    #[error("its format is {found}, this program knows {FORMAT}; use the program that wrote it")]
    OtherFormat { found: u32 },
    #[error("its table of contents is damaged")]
    Manifest,
    #[error("it names {0} twice, or as a file and as a folder")]
    Clash(String),
    #[error("{name} is damaged: byte {from} to {to} of the backup changed since it was written")]
    Block { name: String, from: u64, to: u64 },
    #[error("it ends in the middle of {name}")]
    Cut { name: String },
    #[error("more bytes follow after its end")]
    Longer,
}

impl Manifest {
    /// Reads the files of `folder` by their names and says what an archive of them holds.
    pub(crate) fn of(
        folder: &Path,
        names: &[String],
        created_at: String,
        schema: usize,
    ) -> Result<Self, ArchiveError> {
        let files = names.iter().map(|name| summed(folder, name)).collect::<Result<_, _>>()?;
        Ok(Self { created_at, version: env!("CARGO_PKG_VERSION").to_owned(), schema, files })
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    fn is_sound(&self) -> bool {
        let block_count = |file: &ArchivedFile| file.bytes.div_ceil(BLOCK_BYTES as u64);
        self.files.len() <= BACKUP_FILES_MAX
            && self.files.iter().all(|file| {
                stays_below(Path::new(&file.name)) && block_count(file) == file.blocks.len() as u64
            })
    }
}

/// A name that cannot be written beside the others: it is there twice, or is also the folder of another.
fn clash(files: &[ArchivedFile]) -> Option<&str> {
    let mut names = BTreeSet::new();
    let twice = files.iter().find(|file| !names.insert(Path::new(&file.name)));
    let inside = || {
        files.iter().find(|file| Path::new(&file.name).ancestors().skip(1).any(|path| names.contains(path)))
    };
    twice.or_else(inside).map(|file| file.name.as_str())
}

/// Whether a path stays inside the folder that it is relative to.
fn stays_below(path: &Path) -> bool {
    path.file_name().is_some() && path.components().all(|part| matches!(part, Component::Normal(_)))
}

fn summed(folder: &Path, name: &str) -> Result<ArchivedFile, ArchiveError> {
    let mut file = File::open(folder.join(name))?;
    let is_executable = file.metadata()?.permissions().mode() & 0o100 != 0;
    let (mut bytes, mut blocks) = (0, Vec::new());
    let mut block = Vec::new();
    loop {
        block.clear();
        let count = (&mut file).take(BLOCK_BYTES as u64).read_to_end(&mut block)?;
        if count == 0 {
            return Ok(ArchivedFile { name: name.to_owned(), bytes, is_executable, blocks });
        }
        bytes += count as u64;
        blocks.push(sum_of(&block));
    }
}

fn sum_of(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Writes an archive of the files that the manifest names.
pub(crate) fn write(manifest: &Manifest, folder: &Path, target: &mut impl Write) -> Result<(), ArchiveError> {
    let head = serde_json::to_vec(manifest).map_err(io::Error::from)?;
    writeln!(target, "{MAGIC}{FORMAT} {} {}", head.len(), sum_of(&head))?;
    target.write_all(&head)?;
    for file in &manifest.files {
        io::copy(&mut File::open(folder.join(&file.name))?, target)?;
    }
    Ok(())
}

/// Reads an archive to its end, checks every byte of it and hands each block of each file on.
pub(crate) fn read(
    archive: File,
    mut hand_on: impl FnMut(&ArchivedFile, &[u8]) -> io::Result<()>,
) -> Result<Manifest, ArchiveError> {
    let mut archive = BufReader::with_capacity(BLOCK_BYTES, archive);
    let (manifest, mut at) = read_head(&mut archive)?;
    let mut block = Vec::with_capacity(BLOCK_BYTES);
    for file in &manifest.files {
        let mut left = file.bytes;
        if file.blocks.is_empty() {
            hand_on(file, &[])?;
        }
        for sum in &file.blocks {
            let wanted = left.min(BLOCK_BYTES as u64);
            block.clear();
            let count = (&mut archive).take(wanted).read_to_end(&mut block)? as u64;
            if count < wanted {
                return Err(ArchiveError::Cut { name: file.name.clone() });
            }
            if sum_of(&block) != *sum {
                let (from, to) = (at, at + wanted);
                return Err(ArchiveError::Block { name: file.name.clone(), from, to });
            }
            hand_on(file, &block)?;
            left -= wanted;
            at += wanted;
        }
    }
    if archive.read(&mut [0])? > 0 {
        return Err(ArchiveError::Longer);
    }
    Ok(manifest)
}

fn read_head(archive: &mut impl BufRead) -> Result<(Manifest, u64), ArchiveError> {
    let mut line = Vec::new();
    archive.take(HEAD_LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
    let head_bytes = line.len() as u64;
    let line = String::from_utf8(line).map_err(|_| ArchiveError::NotOurs)?;
    let line = line.strip_suffix('\n').ok_or(ArchiveError::NotOurs)?;
    let words: Vec<&str> = line.strip_prefix(MAGIC).ok_or(ArchiveError::NotOurs)?.split(' ').collect();
    let [format, length, sum] = words[..] else { return Err(ArchiveError::NotOurs) };
    let format: u32 = format.parse().map_err(|_| ArchiveError::NotOurs)?;
    if format != FORMAT {
        return Err(ArchiveError::OtherFormat { found: format });
    }
    let length: u64 = length.parse().map_err(|_| ArchiveError::Manifest)?;
    if length > BACKUP_MANIFEST_BYTES_MAX {
        return Err(ArchiveError::Manifest);
    }
    let mut head = Vec::new();
    archive.take(length).read_to_end(&mut head)?;
    if sum_of(&head) != sum {
        return Err(ArchiveError::Manifest);
    }
    let manifest: Manifest = serde_json::from_slice(&head).map_err(|_| ArchiveError::Manifest)?;
    if !manifest.is_sound() {
        return Err(ArchiveError::Manifest);
    }
    if let Some(name) = clash(&manifest.files) {
        return Err(ArchiveError::Clash(name.to_owned()));
    }
    Ok((manifest, head_bytes + length))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An archive of two files, one of them longer than a block.
    fn archived(folder: &Path) -> Vec<u8> {
        std::fs::write(folder.join("empty"), "").unwrap();
        std::fs::write(folder.join("long"), vec![9; BLOCK_BYTES + 77]).unwrap();
        let names = ["empty".to_owned(), "long".to_owned()];
        let manifest = Manifest::of(folder, &names, "now".to_owned(), 7).unwrap();
        let mut archive = Vec::new();
        write(&manifest, folder, &mut archive).unwrap();
        archive
    }

    fn read_bytes(folder: &Path, bytes: &[u8]) -> Result<Vec<(String, usize)>, ArchiveError> {
        let path = folder.join("archive");
        std::fs::write(&path, bytes).unwrap();
        let mut seen = Vec::new();
        read(File::open(&path).unwrap(), |file, block| {
            seen.push((file.name.clone(), block.len()));
            Ok(())
        })?;
        Ok(seen)
    }

    #[test]
    fn an_archive_gives_back_what_went_in() {
        let folder = tempfile::tempdir().unwrap();
        let archive = archived(folder.path());
        let seen = read_bytes(folder.path(), &archive).unwrap();
        let wanted = [("empty", 0), ("long", BLOCK_BYTES), ("long", 77)];
        assert_eq!(seen, wanted.map(|(name, bytes)| (name.to_owned(), bytes)));
    }

    #[test]
    fn a_flipped_bit_is_found_wherever_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let archive = archived(folder.path());
        let head = archive.len() - BLOCK_BYTES - 77;
        let everywhere = (0..head).chain((head..archive.len()).step_by(40_009)).chain([archive.len() - 1]);
        for at in everywhere {
            let mut flipped = archive.clone();
            flipped[at] ^= 1 << (at % 8);
            assert!(read_bytes(folder.path(), &flipped).is_err(), "byte {at} of {}", archive.len());
        }
    }

    #[test]
    fn the_place_of_the_damage_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let mut archive = archived(folder.path());
        let (end, start) = (archive.len(), archive.len() - 77);
        archive[end - 1] ^= 1;
        let told = read_bytes(folder.path(), &archive).unwrap_err().to_string();
        let wanted =
            format!("long is damaged: byte {start} to {end} of the backup changed since it was written");
        assert_eq!(told, wanted);
        let told = read_bytes(folder.path(), &archive[..end - 1]).unwrap_err().to_string();
        assert_eq!(told, "it ends in the middle of long");
    }

    #[test]
    fn no_name_stands_in_the_way_of_another() {
        let files = |names: &[&str]| -> Vec<ArchivedFile> {
            let file = |name: &&str| ArchivedFile {
                name: (*name).to_owned(),
                bytes: 0,
                is_executable: false,
                blocks: Vec::new(),
            };
            names.iter().map(file).collect()
        };
        assert_eq!(clash(&files(&["a", "b/a", "b/c", "ab"])), None);
        assert_eq!(clash(&files(&["a", "b", "a"])), Some("a"));
        assert_eq!(clash(&files(&["a/b/c", "x", "a"])), Some("a/b/c"));
        assert_eq!(clash(&files(&["a", "a//b"])), Some("a//b"));
    }

    #[test]
    fn no_name_leads_out_of_the_home() {
        for name in ["../x", "/etc/passwd", "a/../../x", "", ".", "a/.."] {
            assert!(!stays_below(Path::new(name)), "{name}");
        }
        assert!(stays_below(Path::new("data/skills/a.db")));
    }
}
