//! `cortex restore`.

use super::backup::{ASIDE, DATABASE, companion_of, is_database, is_never_held};
use crate::archive::{self, ArchiveError, ArchivedFile, Manifest};
use crate::context::Context;
use crate::daemon;
use crate::escape::one_line;
use crate::exit::{Exit, Failure};
use crate::home::{Home, HomeError};
use crate::staging::Staging;
use crate::terminal::talk;
use cortex_store::{HomeLock, HomeUse, check_copy, fold_log};
use cortex_types::{Clock, SystemClock};
use serde_json::json;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Longest time of an archive that is shown.
const STAMP_LETTERS_MAX: usize = 40;
/// Longest name of an archive that is shown.
const NAME_LETTERS_MAX: usize = 300;

/// Put a backup into this home
///
/// Stop the server first. Every byte of the backup is checked before anything changes, and each file that is replaced is kept
/// in a folder of the home. Messages that were delivered after the backup was made may be delivered again.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A file that `cortex backup` wrote
    file: PathBuf,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let home = context.home()?;
    // Before anything is made: a backup that cannot be used leaves no trace.
    read(&args.file, |_, _| Ok(()))?;
    make_folder(home.path())?;
    let _lock = HomeLock::acquire_for(HomeUse::Restore, home.path()).map_err(|error| {
        daemon::not_locked(error, &home, |pid| Failure::Coded {
            code: "server_runs",
            message: format!("a server uses this home (pid {pid}); `cortex stop` it first"),
        })
    })?;
    let staging = Staging::beside(&home.path().join("restore"))
        .map_err(|error| HomeError::from_io(home.path(), error))?;
    let manifest = unpack(&args.file, &staging)?;
    check_copy(&staging.path().join(DATABASE)).map_err(|error| refused(&args.file, &error.to_string()))?;
    refuse_companions(&args.file, &manifest, &staging, &home)?;
    refuse_obstacles(&manifest, &home)?;
    let aside = put_in_place(&manifest, &staging, &home)?;
    if context.terminal.json {
        let shown = json!({"home": home.path(), "files": manifest.files.len(), "createdAt": manifest.created_at, "aside": aside});
        context.terminal.print_json(&shown)?;
    } else {
        let (files, home) = (manifest.files.len(), home.path().display());
        let made_at = one_line(&manifest.created_at, STAMP_LETTERS_MAX);
        talk(&format!("restored {files} files of {made_at} into {home}"));
        if let Some(aside) = aside {
            talk(&format!("The files that were there before are in {}", aside.display()));
        }
    }
    Ok(Exit::Ok)
}

fn read(
    file: &Path,
    hand_on: impl FnMut(&ArchivedFile, &[u8]) -> std::io::Result<()>,
) -> Result<Manifest, Failure> {
    if file.is_dir() {
        return Err(refused(file, "it is a folder, not a backup"));
    }
    let archive = File::open(file).map_err(|error| Failure::Coded {
        code: "no_backup",
        message: format!("cannot read {}: {error}", file.display()),
    })?;
    let manifest = archive::read(archive, hand_on).map_err(|error| match error {
        ArchiveError::Io(error) => {
            Failure::Plain(format!("{}: {error}; nothing was changed", file.display()))
        }
        error @ (ArchiveError::NotOurs
        | ArchiveError::OtherFormat { .. }
        | ArchiveError::Manifest
        | ArchiveError::Clash(_)
        | ArchiveError::Block { .. }
        | ArchiveError::Cut { .. }
        | ArchiveError::Longer) => refused(file, &error.to_string()),
    })?;
    if !manifest.files.iter().any(|file| file.name == DATABASE) {
        return Err(refused(file, "it holds no database"));
    }
    if let Some(found) = manifest.files.iter().find(|archived| is_never_held(&archived.name)) {
        let reason = format!("it holds {}, which belongs into no backup", shown(&found.name));
        return Err(refused(file, &reason));
    }
    Ok(manifest)
}

fn refused(file: &Path, reason: &str) -> Failure {
    let message = format!("{}: {reason}; nothing was changed, use another backup", file.display());
    Failure::Coded { code: "backup_unusable", message }
}

fn shown(name: &str) -> String {
    one_line(name, NAME_LETTERS_MAX)
}

/// A log beside a database would be read into it, after it was checked without it.
fn refuse_companions(
    file: &Path,
    manifest: &Manifest,
    staging: &Staging,
    home: &Home,
) -> Result<(), Failure> {
    let is_companion = |archived: &&ArchivedFile| {
        companion_of(&archived.name).is_some_and(|database| {
            [staging.path(), home.path()].iter().any(|folder| is_database(&folder.join(database)))
        })
    };
    match manifest.files.iter().find(is_companion) {
        Some(found) => Err(refused(file, &format!("it holds {}, the log of a database", shown(&found.name)))),
        None => Ok(()),
    }
}

/// Every path of the home that is written to must lead there by folders of its own: a link would lead out of it, and what is
/// a file here and a folder there would end the restore halfway.
fn refuse_obstacles(manifest: &Manifest, home: &Home) -> Result<(), Failure> {
    let obstacle = |path: &Path, what: &str| {
        let message = format!(
            "{} is {what}; nothing was changed. Move it away, or restore into another --home",
            path.display()
        );
        Failure::Coded { code: "in_the_way", message }
    };
    for file in &manifest.files {
        let mut path = home.path().to_owned();
        let mut parts = Path::new(&file.name).components().peekable();
        while let Some(part) = parts.next() {
            path.push(part);
            let is_last = parts.peek().is_none();
            let kind = match std::fs::symlink_metadata(&path) {
                Ok(found) => found.file_type(),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => break,
                Err(error) => return Err(HomeError::from_io(&path, error).into()),
            };
            match (kind.is_symlink(), kind.is_dir(), is_last) {
                (true, _, _) => return Err(obstacle(&path, "a symbolic link")),
                (false, true, true) => return Err(obstacle(&path, "a folder, and a file in the backup")),
                (false, false, false) => return Err(obstacle(&path, "a file, and a folder in the backup")),
                (false, true, false) | (false, false, true) => {}
            }
        }
    }
    Ok(())
}

/// Writes the files of the backup into the staging folder, each checked and on disk.
fn unpack(file: &Path, staging: &Staging) -> Result<Manifest, Failure> {
    let mut open: Option<(String, File)> = None;
    let manifest = read(file, |archived, block| {
        let is_next = open.as_ref().is_none_or(|(name, _)| *name != archived.name);
        if is_next {
            if let Some((_, done)) = open.take() {
                done.sync_all()?;
            }
            let path = staging.path().join(&archived.name);
            if let Some(folder) = path.parent() {
                DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
            }
            let mode = if archived.is_executable { 0o700 } else { 0o600 };
            let fresh = OpenOptions::new().write(true).create_new(true).mode(mode).open(&path)?;
            open = Some((archived.name.clone(), fresh));
        }
        match &mut open {
            Some((_, target)) => target.write_all(block),
            None => Ok(()),
        }
    })?;
    if let Some((_, done)) = open.take() {
        done.sync_all().map_err(|error| HomeError::from_io(staging.path(), error))?;
    }
    Ok(manifest)
}

/// Keeps what is there aside, then renames each file of the backup over it; the folder of what was kept, if there was any.
fn put_in_place(manifest: &Manifest, staging: &Staging, home: &Home) -> Result<Option<PathBuf>, Failure> {
    let stamp = SystemClock::start().now().to_rfc3339().replace(':', "-");
    let aside = home.path().join(format!("{ASIDE}{stamp}"));
    let mut kept = false;
    for file in &manifest.files {
        let (old, new) = (home.path().join(&file.name), staging.path().join(&file.name));
        if let Some(folder) = old.parent() {
            make_folder(folder)?;
        }
        // The log of a database that somebody took away would be read into the new one.
        if ["", "-wal", "-shm"].iter().any(|ending| beside(&old, ending).exists()) {
            let kept_as = aside.join(&file.name);
            make_folder(kept_as.parent().unwrap_or(&aside))?;
            keep(&old, &kept_as).map_err(|error| HomeError::from_io(&old, error))?;
            kept = true;
        }
        std::fs::rename(&new, &old).map_err(|error| HomeError::from_io(&old, error))?;
        sync_folder_of(&old)?;
    }
    Ok(kept.then_some(aside))
}

/// Keeps a file under a second name. Its log goes into it first: left beside the new database, it would be read into that.
fn keep(old: &Path, kept_as: &Path) -> std::io::Result<()> {
    let has_log = old.exists() && beside(old, "-wal").exists();
    // A database that is too damaged for it is kept with its log as they are.
    if has_log && fold_log(old).is_err() {
        std::fs::rename(old, kept_as)?;
    }
    for ending in ["-wal", "-shm"].into_iter().filter(|ending| beside(old, ending).exists()) {
        std::fs::rename(beside(old, ending), beside(kept_as, ending))?;
        close(&beside(kept_as, ending))?;
    }
    if old.exists() && std::fs::hard_link(old, kept_as).is_err() {
        std::fs::copy(old, kept_as)?;
    }
    if kept_as.exists() { close(kept_as) } else { Ok(()) }
}

/// What is kept aside is for its owner alone, whatever it was before.
fn close(path: &Path) -> std::io::Result<()> {
    let mode = std::fs::metadata(path)?.permissions().mode() & 0o700;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

fn make_folder(path: &Path) -> Result<(), HomeError> {
    if path.exists() && !path.is_dir() {
        return Err(HomeError::NotAFolder(path.to_owned()));
    }
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|error| HomeError::from_io(path, error))
}

fn sync_folder_of(path: &Path) -> Result<(), HomeError> {
    let Some(folder) = path.parent() else { return Ok(()) };
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(|error| HomeError::from_io(folder, error))
}
