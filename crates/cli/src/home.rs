//! The home: where it is, what is in it, and what the first start puts there.

use crate::environment::Environment;
use rustix::fs::Access;
use rustix::io::Errno;
use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The pages of the assistant's own mind, written once and then the owner's.
const WORKSPACE: [(&str, &str); 4] = [
    ("SOUL.md", include_str!("workspace/SOUL.md")),
    ("IDENTITY.md", include_str!("workspace/IDENTITY.md")),
    ("USER.md", include_str!("workspace/USER.md")),
    ("MEMORY.md", include_str!("workspace/MEMORY.md")),
];

/// The folder of one Cortex: settings, keys, database, logs.
#[derive(Debug, Clone)]
pub(crate) struct Home {
    path: PathBuf,
}

/// Why a home cannot be used; each line has a code, the path and the fix.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HomeError {
    #[error("home_unset: neither CORTEX_HOME nor HOME is set; set one, or give --home")]
    Unset,
    #[error("home_not_a_folder: {} is not a folder; move it away, or give another --home", .0.display())]
    NotAFolder(PathBuf),
    #[error("home_not_writable: {} cannot be written by this user; fix its permissions, or give another --home", .0.display())]
    NotWritable(PathBuf),
    #[error("home_read_only: {} is on a read-only file system; mount it writable, or give another --home", .0.display())]
    ReadOnly(PathBuf),
    #[error("home_foreign: {} belongs to user id {owner}, not to this one; run as its owner, or give another --home", path.display())]
    Foreign { path: PathBuf, owner: u32 },
    #[error("disk_full: no room to write {}; free some space, or give another --home", .0.display())]
    Full(PathBuf),
    #[error("home_unusable: {}: {source}; fix it, or give another --home", path.display())]
    Unusable { path: PathBuf, source: io::Error },
}

impl HomeError {
    pub(crate) fn from_io(path: &Path, error: io::Error) -> Self {
        use io::ErrorKind as Kind;
        let (kind, path) = (error.kind(), path.to_owned());
        if kind == Kind::PermissionDenied {
            Self::NotWritable(path)
        } else if kind == Kind::ReadOnlyFilesystem {
            Self::ReadOnly(path)
        } else if kind == Kind::StorageFull || kind == Kind::QuotaExceeded {
            Self::Full(path)
        } else if kind == Kind::NotADirectory || kind == Kind::AlreadyExists {
            Self::NotAFolder(path)
        } else {
            Self::Unusable { path, source: error }
        }
    }
}

impl Home {
    /// `--home`, then `CORTEX_HOME`, then `~/.cortex`.
    pub(crate) fn choose(flag: Option<&Path>, environment: &Environment) -> Result<Self, HomeError> {
        let path = match (flag, environment.get_filled("CORTEX_HOME"), environment.get_filled("HOME")) {
            (Some(flag), _, _) => flag.to_owned(),
            (None, Some(home), _) => PathBuf::from(home),
            (None, None, Some(home)) => Path::new(home).join(".cortex"),
            (None, None, None) => return Err(HomeError::Unset),
        };
        let path = std::path::absolute(&path).map_err(|error| HomeError::from_io(&path, error))?;
        Ok(Self { path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn log_file(&self) -> PathBuf {
        self.path.join("logs").join("cortex.log")
    }

    /// What a connector remembers.
    pub(crate) fn connector(&self, name: &str) -> PathBuf {
        self.path.join("connectors").join(name)
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.path.join("cortex.db")
    }

    /// What tools keep: each skill's database, fetched calendars.
    pub(crate) fn data(&self) -> PathBuf {
        self.path.join("data")
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.path.join("workspace")
    }

    pub(crate) fn chat_history(&self) -> PathBuf {
        self.path.join("chat_history")
    }

    /// Makes the home and everything in it that is missing; changes nothing that is there.
    pub(crate) fn prepare(&self) -> Result<(), HomeError> {
        make_folder(&self.path)?;
        self.check_usable()?;
        for folder in ["logs", "run", "workspace"] {
            make_folder(&self.path.join(folder))?;
        }
        for (name, text) in WORKSPACE {
            write_if_missing(&self.workspace().join(name), text)?;
        }
        Ok(())
    }

    fn check_usable(&self) -> Result<(), HomeError> {
        let metadata =
            std::fs::metadata(&self.path).map_err(|error| HomeError::from_io(&self.path, error))?;
        if metadata.uid() != rustix::process::geteuid().as_raw() {
            return Err(HomeError::Foreign { path: self.path.clone(), owner: metadata.uid() });
        }
        match rustix::fs::access(&self.path, Access::WRITE_OK | Access::EXEC_OK) {
            Ok(()) => Ok(()),
            Err(Errno::ROFS) => Err(HomeError::ReadOnly(self.path.clone())),
            Err(_) => Err(HomeError::NotWritable(self.path.clone())),
        }
    }
}

/// Replaces a file as a whole, readable by its owner only; a crash leaves the old or the new one.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> Result<(), HomeError> {
    let fresh = path.with_extension(format!("new.{}", std::process::id()));
    let write = || -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&fresh, path)
    };
    write().map_err(|error| {
        // What is left of a failed write is of no use; that it could not be removed is not worth a second error.
        std::fs::remove_file(&fresh).unwrap_or_default();
        HomeError::from_io(path, error)
    })
}

fn make_folder(path: &Path) -> Result<(), HomeError> {
    if path.exists() && !path.is_dir() {
        return Err(HomeError::NotAFolder(path.to_owned()));
    }
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|error| HomeError::from_io(path, error))
}

fn write_if_missing(path: &Path, text: &str) -> Result<(), HomeError> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(mut file) => file.write_all(text.as_bytes()).map_err(|error| {
            // Half a page would never be completed: the next start must find it missing.
            std::fs::remove_file(path).unwrap_or_default();
            HomeError::from_io(path, error)
        }),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(HomeError::from_io(path, error)),
    }
}
