//! Where the private database of a skill lies: in a folder of its own, so that a skill's process gets that folder alone.

use super::SkillOptions;
use super::manifest::SkillManifest;
use super::problem::SkillProblem;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// What SQLite keeps beside a database, and the database itself. The last one is moved last: until then a move that was
/// cut short goes on where it stopped, and no database is ever opened without what belongs to it.
const PARTS: [&str; 4] = ["-journal", "-wal", "-shm", ""];

/// Makes the folder of all databases, and moves those that lie side by side into folders of their own. Only a starting
/// server does this: nobody else has them open then.
pub(super) fn prepare(data_dir: &Path) -> Result<(), SkillProblem> {
    create(data_dir)?;
    let separated = || -> io::Result<()> {
        for entry in std::fs::read_dir(data_dir)? {
            let path = entry?.path();
            let id = path.file_stem().filter(|_| path.extension().is_some_and(|kind| kind == "db"));
            if let Some(id) = id
                && path.is_file()
            {
                separate(data_dir, &id.to_string_lossy())?;
            }
        }
        Ok(())
    };
    separated().map_err(|error| {
        let told = format!("the databases of skills cannot be moved into folders of their own: {error}");
        SkillProblem::error(data_dir, told, "make it and everything in it writable")
    })
}

/// The database of a skill, or nothing when its manifest renounces one. An absolute path: a child process works in
/// another folder.
pub(super) fn place(
    manifest: &SkillManifest,
    options: &SkillOptions,
) -> Result<Option<PathBuf>, SkillProblem> {
    if !manifest.permissions.db {
        return Ok(None);
    }
    let data_dir = std::path::absolute(&options.data_dir).map_err(|error| {
        SkillProblem::error(&options.data_dir, error.to_string(), "name a folder for the skills' databases")
    })?;
    let own = inside(&data_dir, &manifest.id);
    let beside = data_dir.join(file(&manifest.id));
    // Not moved yet: no server has started since it was written.
    if beside.is_file() && !own.exists() {
        return Ok(Some(beside));
    }
    // Whoever only looks at skills leaves no folders behind.
    if data_dir.is_dir()
        && let Some(folder) = own.parent()
    {
        create(folder)?;
    }
    Ok(Some(own))
}

fn file(id: &str) -> String {
    format!("{id}.db")
}

fn inside(data_dir: &Path, id: &str) -> PathBuf {
    data_dir.join(id).join(file(id))
}

fn separate(data_dir: &Path, id: &str) -> io::Result<()> {
    let (from, to) = (data_dir.join(file(id)), inside(data_dir, id));
    if to.exists() {
        let told = format!("both {} and {} are there; remove one", from.display(), to.display());
        return Err(io::Error::other(told));
    }
    DirBuilder::new().recursive(true).mode(0o700).create(data_dir.join(id))?;
    for part in PARTS {
        let with = |path: &Path| PathBuf::from(format!("{}{part}", path.display()));
        match std::fs::rename(with(&from), with(&to)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

fn create(path: &Path) -> Result<(), SkillProblem> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|error| {
        SkillProblem::error(
            path,
            format!("the folder of the skills' databases cannot be made: {error}"),
            "make it writable",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_move_that_was_cut_short_goes_on_and_loses_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("notes")).unwrap();
        std::fs::write(at("notes.db"), "database").unwrap();
        std::fs::write(at("notes/notes.db-wal"), "log").unwrap();
        std::fs::write(at("other.txt"), "").unwrap();
        prepare(folder.path()).unwrap();
        prepare(folder.path()).unwrap();
        assert_eq!(std::fs::read_to_string(at("notes/notes.db")).unwrap(), "database");
        assert_eq!(std::fs::read_to_string(at("notes/notes.db-wal")).unwrap(), "log");
        assert!(!at("notes.db").exists() && at("other.txt").exists());
        std::fs::write(at("notes.db"), "another").unwrap();
        assert!(prepare(folder.path()).unwrap_err().to_string().contains("remove one"));
    }
}
