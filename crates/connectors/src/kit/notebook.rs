//! The file behind what a connector remembers: replaced whole and durably, readable by its owner alone.

use super::pages::{Pages, Refusals};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// A connector's folder and what is written in it.
#[derive(Debug)]
pub struct Notebook {
    folder: PathBuf,
    pages: Mutex<Pages>,
    /// Held while we run: two processes would overwrite each other.
    _lock: File,
}

#[derive(Debug, thiserror::Error)]
pub enum NotebookError {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{} is damaged ({source}); move it away to start afresh", path.display())]
    Damaged { path: PathBuf, source: serde_json::Error },
    #[error("another process runs this connector already ({} is locked)", path.display())]
    InUse { path: PathBuf },
}

impl Notebook {
    /// Opens the notebook in this folder, which is made when it is missing.
    pub fn open(folder: &Path) -> Result<Self, NotebookError> {
        make_folder(folder)?;
        let path = folder.join("lock");
        let lock = private().create(true).truncate(false).write(true).open(&path).map_err(at(&path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(NotebookError::InUse { path }),
            Err(TryLockError::Error(source)) => return Err(NotebookError::Io { path, source }),
        }
        let path = folder.join("state.json");
        let pages = match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map_err(|source| NotebookError::Damaged { path: path.clone(), source })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Pages::default(),
            Err(source) => return Err(NotebookError::Io { path, source }),
        };
        Ok(Self { folder: folder.to_owned(), pages: Mutex::new(pages), _lock: lock })
    }

    /// How many people were let in by a pairing code.
    pub fn paired_people(&self) -> usize {
        self.read(|pages| pages.allowed.len())
    }

    /// What the platform refused, as the notes in this folder have it; also while a connector writes them.
    pub fn refusals(folder: &Path) -> Option<Refusals> {
        let bytes = fs::read(folder.join("state.json")).ok()?;
        serde_json::from_slice::<Pages>(&bytes).ok().map(|pages| pages.refusals)
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn read<T>(&self, look: impl FnOnce(&Pages) -> T) -> T {
        look(&self.pages.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Notes what has happened on the platform and cannot be undone: it holds even when it cannot be written.
    pub(crate) fn note(&self, change: impl FnOnce(&mut Pages)) {
        let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut pages);
        if let Err(error) = self.store(&pages) {
            tracing::error!(%error, "what was sent cannot be noted; after a crash now it may be sent again");
        }
    }

    /// Changes what is remembered; it holds once it is on disk, and not at all when that fails.
    pub(crate) fn write<T>(&self, change: impl FnOnce(&mut Pages) -> T) -> Result<T, NotebookError> {
        let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        let mut changed = pages.clone();
        let answer = change(&mut changed);
        if changed != *pages {
            self.store(&changed)?;
            *pages = changed;
        }
        Ok(answer)
    }

    fn store(&self, pages: &Pages) -> Result<(), NotebookError> {
        let path = self.folder.join("state.json");
        let text = serde_json::to_vec(pages)
            .map_err(|source| NotebookError::Damaged { path: path.clone(), source })?;
        replace(&path, &text)
    }
}

/// A folder for its owner alone.
pub(crate) fn make_folder(folder: &Path) -> Result<(), NotebookError> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(at(folder))
}

/// Puts a whole new file in the place of the old one; a crash leaves one of the two.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> Result<(), NotebookError> {
    let next = path.with_extension("next");
    let write = || -> io::Result<()> {
        let mut file = private().create(true).truncate(true).write(true).open(&next)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&next, path)?;
        match path.parent() {
            Some(folder) => File::open(folder)?.sync_all(),
            None => Ok(()),
        }
    };
    write().map_err(at(path))
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> NotebookError {
    let path = path.to_owned();
    |source| NotebookError::Io { path, source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn what_was_written_is_there_at_the_next_start_and_for_its_owner_alone() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("connectors/telegram");
        let notebook = Notebook::open(&folder).unwrap();
        notebook.write(|pages| pages.cursor = Some("7".to_owned())).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&folder.join("state.json")), 0o600);
        assert_eq!(mode(&folder), 0o700);
        assert!(matches!(Notebook::open(&folder), Err(NotebookError::InUse { .. })));
        drop(notebook);
        let again = Notebook::open(&folder).unwrap();
        assert_eq!(again.read(|pages| pages.cursor.clone()).as_deref(), Some("7"));
    }

    #[test]
    fn what_could_not_be_written_does_not_hold() {
        let home = tempfile::tempdir().unwrap();
        let notebook = Notebook::open(home.path()).unwrap();
        fs::create_dir(home.path().join("state.next")).unwrap();
        assert!(notebook.write(|pages| pages.cursor = Some("7".to_owned())).is_err());
        assert_eq!(notebook.read(|pages| pages.cursor.clone()), None);
    }

    #[test]
    fn what_has_happened_holds_unwritten_and_is_written_with_the_next_change() {
        let home = tempfile::tempdir().unwrap();
        let notebook = Notebook::open(home.path()).unwrap();
        fs::create_dir(home.path().join("state.next")).unwrap();
        notebook.note(|pages| pages.see("sent"));
        assert!(notebook.read(|pages| pages.has_seen("sent")));
        fs::remove_dir(home.path().join("state.next")).unwrap();
        notebook.write(|pages| pages.see("later")).unwrap();
        drop(notebook);
        assert!(Notebook::open(home.path()).unwrap().read(|pages| pages.has_seen("sent")));
    }

    #[test]
    fn a_damaged_file_is_told_and_left_alone() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("state.json"), "{").unwrap();
        let told = Notebook::open(home.path()).unwrap_err().to_string();
        assert!(told.contains("is damaged") && told.contains("move it away"), "{told}");
        assert_eq!(fs::read(home.path().join("state.json")).unwrap(), b"{");
    }
}
