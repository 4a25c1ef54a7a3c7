//! A folder for what is not finished yet: private, beside its goal, and gone when it is left, whether it worked or not.

use rustix::process::Pid;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

const MARK: &str = ".partial.";

/// The folder; dropping it takes it away with all that is in it.
pub(crate) struct Staging {
    path: PathBuf,
}

impl Staging {
    /// Makes `<goal>.partial.<pid>`, and takes away what a killed process left there.
    pub(crate) fn beside(goal: &Path) -> std::io::Result<Self> {
        sweep(goal);
        let mut name = goal.as_os_str().to_owned();
        name.push(format!("{MARK}{}", std::process::id()));
        let path = PathBuf::from(name);
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self { path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // Nothing depends on it; the next one sweeps again.
        std::fs::remove_dir_all(&self.path).unwrap_or_default();
    }
}

/// Whether a name is that of a staging folder.
pub(crate) fn is_partial(name: &str) -> bool {
    pid_of(name).is_some()
}

fn pid_of(name: &str) -> Option<i32> {
    name.rsplit_once(MARK).and_then(|(_, pid)| pid.parse().ok())
}

fn sweep(goal: &Path) {
    let (Some(folder), Some(name)) = (goal.parent(), goal.file_name().and_then(|name| name.to_str())) else {
        return;
    };
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let found = entry.file_name().to_string_lossy().into_owned();
        let Some(pid) = found.strip_prefix(name).and_then(pid_of).and_then(Pid::from_raw) else { continue };
        let is_gone = rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::SRCH);
        if is_gone {
            std::fs::remove_dir_all(entry.path()).unwrap_or_default();
        }
    }
}
