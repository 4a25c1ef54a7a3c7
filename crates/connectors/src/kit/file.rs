//! Files that come with a message: fetched up to a size, kept in the connector's folder, and described to the model.

use super::notebook::make_folder;
use super::platform::{Platform, PlatformError, RemoteFile, Said};
use super::run::{Connector, Stopped};
use serde::Serialize;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

const FILES_MAX: usize = 10;
const FETCH_TRIES: u32 = 3;
const NAME_CHARS_MAX: usize = 80;
/// What all kept files may take; the oldest go first.
const FOLDER_BYTES_MAX: u64 = 1024 * 1024 * 1024;

/// A file as `metadata.attachments` tells of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Attachment {
    /// For a file that was not fetched it says so: the name is what the model reads.
    name: String,
    #[serde(rename = "type")]
    kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<PathBuf>,
}

impl<P: Platform> Connector<P> {
    /// A stop leaves the message for the next start: handed in now, it would lack its files for ever.
    pub(super) async fn fetch_files(&self, said: &Said) -> Result<Vec<Attachment>, Stopped> {
        let mut attachments = Vec::new();
        for (index, file) in said.files.iter().take(FILES_MAX).enumerate() {
            let name = format!("{}-{index}-{}", safe_name(&said.external_id), safe_name(&file.name));
            attachments.push(self.fetch_file(file, &name).await?);
        }
        Ok(attachments)
    }

    async fn fetch_file(&self, file: &RemoteFile, stored_name: &str) -> Result<Attachment, Stopped> {
        let most = self.platform.rules().file_bytes_max;
        if file.bytes.is_some_and(|bytes| bytes > most) {
            return Ok(not_fetched(file, &too_big(most)));
        }
        for round in 1..=FETCH_TRIES {
            let fetched = tokio::select! {
                () = self.stop.cancelled() => return Err(Stopped),
                fetched = self.platform.fetch(file, most) => fetched,
            };
            match fetched {
                Ok(bytes) => return Ok(self.kept(file, stored_name, &bytes)),
                Err(PlatformError::TooBig) => return Ok(not_fetched(file, &too_big(most))),
                Err(PlatformError::Transient(_) | PlatformError::RetryAfter { .. })
                    if round < FETCH_TRIES =>
                {
                    self.pause(Duration::from_secs(1)).await?;
                }
                Err(error) => {
                    tracing::warn!(%error, "a file could not be fetched");
                    break;
                }
            }
        }
        Ok(not_fetched(file, "the platform did not give it"))
    }

    fn kept(&self, file: &RemoteFile, stored_name: &str, bytes: &[u8]) -> Attachment {
        match keep(&self.notebook.folder().join("files"), stored_name, bytes) {
            Ok(path) => Attachment {
                name: file.name.clone(),
                kind: file.kind.clone(),
                bytes: Some(bytes.len() as u64),
                path: Some(path),
            },
            Err(error) => {
                tracing::warn!(%error, "a file could not be kept");
                not_fetched(file, "it could not be stored")
            }
        }
    }
}

fn too_big(most: u64) -> String {
    format!("larger than {} MB", most / 1_000_000)
}

fn not_fetched(file: &RemoteFile, reason: &str) -> Attachment {
    let name = format!("{}, not fetched: {reason}", file.name);
    Attachment { name, kind: file.kind.clone(), bytes: file.bytes, path: None }
}

/// Letters that mean nothing to a file system.
fn safe_name(name: &str) -> String {
    let is_safe = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-' | '_');
    let safe: String = name.chars().map(|letter| if is_safe(letter) { letter } else { '_' }).collect();
    safe.trim_start_matches('.').chars().take(NAME_CHARS_MAX).collect()
}

fn keep(folder: &Path, name: &str, bytes: &[u8]) -> Result<PathBuf, io::Error> {
    make_folder(folder).map_err(io::Error::other)?;
    make_room(folder, bytes.len() as u64)?;
    let path = folder.join(name);
    let mut file =
        std::fs::OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&path)?;
    io::Write::write_all(&mut file, bytes)?;
    file.sync_all()?;
    Ok(path)
}

/// Removes the oldest files until there is room.
fn make_room(folder: &Path, wanted: u64) -> io::Result<()> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        files.push((metadata.modified()?, metadata.len(), entry.path()));
    }
    files.sort();
    let mut total: u64 = files.iter().map(|(_, bytes, _)| bytes).sum();
    for (_, bytes, path) in files {
        if total + wanted <= FOLDER_BYTES_MAX {
            break;
        }
        std::fs::remove_file(path)?;
        total -= bytes;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_from_outside_leads_nowhere_else() {
        assert_eq!(safe_name("../../etc/passwd"), "_.._etc_passwd");
        assert_eq!(safe_name("Rechnung März.pdf"), "Rechnung_M_rz.pdf");
        assert_eq!(safe_name(&"x".repeat(500)).len(), NAME_CHARS_MAX);
    }

    #[test]
    fn a_file_that_was_not_fetched_says_so_to_the_model() {
        let file = RemoteFile {
            id: "1".to_owned(),
            name: "film.mp4".to_owned(),
            kind: "video/mp4".to_owned(),
            bytes: Some(30_000_000),
        };
        let told = serde_json::to_value(not_fetched(&file, &too_big(20_000_000))).unwrap();
        let expected = serde_json::json!({"name": "film.mp4, not fetched: larger than 20 MB", "type": "video/mp4",
            "bytes": 30_000_000});
        assert_eq!(told, expected);
    }
}
