//! `cortex backup`.

use crate::archive::{self, Manifest};
use crate::context::Context;
use crate::daemon;
use crate::escape::one_line;
use crate::exit::{Exit, Failure};
use crate::home::{Home, HomeError};
use crate::staging::{Staging, is_partial};
use crate::terminal::talk;
use cortex_store::{
    CopyProgress, HomeHolder, HomeLock, HomeUse, LockError, MigrateError, check_copy, check_whole,
    copy_database,
};
use cortex_types::limits::{BACKUP_DEPTH_MAX, BACKUP_FILES_MAX};
use cortex_types::{Clock, SystemClock};
use indicatif::{HumanBytes, ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The database in a home and in a backup.
pub(super) const DATABASE: &str = "cortex.db";
/// Folders of a home that belong to a running process or to the past.
const LEFT_OUT: [&str; 2] = ["logs", "run"];
/// How the folder with what a restore replaced begins.
pub(super) const ASIDE: &str = "before-restore-";
/// Files that SQLite keeps beside a database; a copy of the database has what is in them.
const COMPANIONS: [&str; 3] = ["-wal", "-shm", "-journal"];
/// Longest name of something left out that is shown.
const NAME_LETTERS_MAX: usize = 300;
const SQLITE: &[u8] = b"SQLite format 3\0";

/// Write this home into one file, also while the server runs
///
/// The backup holds the database and everything else in the home: settings, keys, workspace, the databases of skills and
/// what connectors remember. Logs are left out, and so are skills that live outside of the home. The file is checked before
/// it gets its name, and only you can read it: keep it as safe as the home itself.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The file to write
    file: PathBuf,
    /// Replace the file if it is there
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let home = context.home()?;
    let file = &args.file;
    if !home.database().exists() {
        let message = format!("{} has no database yet; there is nothing to back up", home.path().display());
        return Err(Failure::Coded { code: "no_database", message });
    }
    if file.is_dir() {
        let message = format!("{} is a folder; name a file", file.display());
        return Err(Failure::Coded { code: "is_a_folder", message });
    }
    let folder = folder_of(file);
    if !folder.is_dir() {
        let message = format!("there is no folder {}; make it, or choose another file", folder.display());
        return Err(Failure::Coded { code: "no_folder", message });
    }
    if file.exists() && !args.force {
        let message = format!("{} is there already; choose another name, or give --force", file.display());
        return Err(Failure::Coded { code: "exists", message });
    }
    // With no server to share the home with, none may start in the middle and change schema or files.
    let _lock = match HomeLock::acquire_for(HomeUse::Backup, home.path()) {
        Ok(lock) => Some(lock),
        // Half of a restored home is no home.
        Err(error @ LockError::InUse(HomeHolder { held_for: HomeUse::Restore, .. })) => {
            return Err(daemon::not_locked(error, &home, daemon::not_answering));
        }
        Err(LockError::AlreadyRunning { .. } | LockError::InUse(_) | LockError::Unusable { .. }) => None,
    };
    let staging = Staging::beside(file).map_err(|error| not_written(file, &error))?;
    let bar = bar();
    let (manifest, left_out) = collect(&home, &staging, &bar)?;
    seal(&manifest, &staging, file)?;
    bar.finish_and_clear();
    if context.terminal.json {
        let (files, bytes) = (manifest.files.len(), manifest.bytes());
        let left_out: Vec<_> =
            left_out.iter().map(|left| json!({"name": left.name, "reason": left.reason.words()})).collect();
        let shown = json!({"file": file, "files": files, "bytes": bytes, "schema": manifest.schema,
                           "leftOut": left_out});
        context.terminal.print_json(&shown)?;
    } else {
        let size = HumanBytes(manifest.bytes());
        talk(&format!("backed up {} files, {size}, into {}", manifest.files.len(), file.display()));
        for left in &left_out {
            talk(&format!(
                "not in the backup: {} ({})",
                one_line(&left.name, NAME_LETTERS_MAX),
                left.reason.words()
            ));
        }
        talk(&format!("Restore it with: cortex --home <folder> restore {}", file.display()));
    }
    Ok(Exit::Ok)
}

/// What connectors remember of their platforms.
const CONNECTORS: &str = "connectors/";

/// Copies what a backup holds into the staging folder, and checks every database there.
///
/// The pages of connectors come first: a cursor moves on once the messages before it are in the database, so an older cursor
/// has them heard again, and the database knows them. A cursor that is newer than the database would skip them for good.
fn collect(home: &Home, staging: &Staging, bar: &ProgressBar) -> Result<(Manifest, Vec<LeftOut>), Failure> {
    let created_at = SystemClock::start().now().to_rfc3339();
    let is_page = |name: &String| name.starts_with(CONNECTORS);
    let pages = files_of(home.path())?.names.into_iter().filter(is_page);
    let mut names = copied(pages, home, staging)?;
    let copy = staging.path().join(DATABASE);
    let moved = |progress: CopyProgress| {
        bar.set_length(progress.of);
        bar.set_position(progress.pages);
    };
    copy_database(&home.database(), &copy, moved)
        .map_err(|error| not_copied(DATABASE, &error.to_string()))?;
    bar.set_message("checking");
    let schema = check_copy(&copy).map_err(|error| match error {
        MigrateError::Store(error) => {
            not_copied(DATABASE, &format!("{error}; `cortex doctor` says more, and no backup was written"))
        }
        MigrateError::Newer { .. } | MigrateError::Foreign(_) | MigrateError::Backup { .. } => {
            not_copied(DATABASE, &error.to_string())
        }
    })?;
    names.insert(0, DATABASE.to_owned());
    bar.set_message("copying files");
    let found = files_of(home.path())?;
    names.extend(copied(found.names.into_iter().filter(|name| !is_page(name)), home, staging)?);
    bar.set_message("summing");
    let manifest = Manifest::of(staging.path(), &names, created_at, schema)
        .map_err(|error| not_copied(DATABASE, &error.to_string()))?;
    Ok((manifest, found.left_out))
}

/// Copies these files, and gives those that were there.
fn copied(
    names: impl Iterator<Item = String>,
    home: &Home,
    staging: &Staging,
) -> Result<Vec<String>, Failure> {
    let mut copied = Vec::new();
    for name in names {
        let (from, to) = (home.path().join(&name), staging.path().join(&name));
        match copy_file(&from, &to) {
            Ok(()) => copied.push(name),
            // A file that went away meanwhile is not part of this moment.
            Err(_) if !from.exists() => {}
            Err(reason) => return Err(not_copied(&name, &reason)),
        }
    }
    Ok(copied)
}

fn not_copied(name: &str, reason: &str) -> Failure {
    Failure::Coded { code: "backup_failed", message: format!("{name}: {reason}") }
}

/// The home is fine; it is the place of the file that is not.
fn not_written(file: &Path, error: &std::io::Error) -> Failure {
    let message = format!("{} cannot be written: {error}; choose another file", file.display());
    Failure::Coded { code: "backup_failed", message }
}

fn folder_of(file: &Path) -> &Path {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// What is in a home besides its database, by the path below it, in order.
#[derive(Default)]
struct Found {
    names: Vec<String>,
    left_out: Vec<LeftOut>,
}

/// Something of a home that a backup cannot hold.
struct LeftOut {
    /// As far as it can be written.
    name: String,
    reason: Reason,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Reason {
    Name,
    Link,
    Depth,
    Kind,
}

impl Reason {
    fn words(self) -> &'static str {
        match self {
            Self::Name => "its name is not UTF-8",
            Self::Link => "it is a symbolic link",
            Self::Depth => "its folder is nested too deeply",
            Self::Kind => "it is no regular file",
        }
    }
}

fn files_of(home: &Path) -> Result<Found, Failure> {
    let mut found = Found::default();
    walk(home, "", 0, &mut found).map_err(|error| HomeError::from_io(home, error))?;
    found.names.sort();
    found.left_out.sort_by(|left, right| left.name.cmp(&right.name));
    if found.names.len() + found.left_out.len() >= BACKUP_FILES_MAX {
        let message = format!("the home has more than {BACKUP_FILES_MAX} files; move some out of it");
        return Err(Failure::Coded { code: "too_many_files", message });
    }
    Ok(found)
}

fn walk(folder: &Path, below: &str, depth: usize, found: &mut Found) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        let shown = entry.file_name().to_string_lossy().into_owned();
        if is_partial(&shown) || (below.is_empty() && is_left_out(&shown)) {
            continue;
        }
        let path = format!("{below}{shown}");
        if found.names.len() + found.left_out.len() >= BACKUP_FILES_MAX {
            return Ok(());
        }
        let reason = match entry.file_name().to_str() {
            None => Reason::Name,
            Some(_) if kind.is_dir() && depth < BACKUP_DEPTH_MAX => {
                walk(&entry.path(), &format!("{path}/"), depth + 1, found)?;
                continue;
            }
            Some(name) if kind.is_file() => {
                if belongs(&entry.path(), name) {
                    found.names.push(path);
                }
                continue;
            }
            Some(_) if kind.is_dir() => Reason::Depth,
            Some(_) if kind.is_symlink() => Reason::Link,
            Some(_) => Reason::Kind,
        };
        found.left_out.push(LeftOut { name: path, reason });
    }
    Ok(())
}

/// Whether a path of a home, by its first part, is none that a backup holds: the database alone has its name.
pub(super) fn is_never_held(path: &str) -> bool {
    let first = path.split('/').next().unwrap_or_default();
    path != DATABASE && (is_left_out(first) || path.split('/').any(is_partial))
}

fn is_left_out(name: &str) -> bool {
    LEFT_OUT.contains(&name) || name.starts_with(ASIDE) || name.starts_with(DATABASE)
}

/// No other backup, and nothing that a database's copy already has.
fn belongs(path: &Path, name: &str) -> bool {
    let is_companion = companion_of(name).is_some_and(|database| is_database(&path.with_file_name(database)));
    !is_companion && !starts_with(path, archive::MAGIC.as_bytes())
}

/// The database that a file of this name would belong to.
pub(super) fn companion_of(name: &str) -> Option<&str> {
    COMPANIONS.iter().find_map(|ending| name.strip_suffix(ending))
}

pub(super) fn is_database(path: &Path) -> bool {
    starts_with(path, SQLITE)
}

fn starts_with(path: &Path, beginning: &[u8]) -> bool {
    let mut bytes = vec![0; beginning.len()];
    File::open(path).and_then(|mut file| file.read_exact(&mut bytes)).is_ok() && bytes == beginning
}

fn copy_file(from: &Path, to: &Path) -> Result<(), String> {
    if let Some(folder) = to.parent() {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(|error| error.to_string())?;
    }
    if is_database(from) {
        copy_database(from, to, |_| {}).map_err(|error| error.to_string())?;
        return check_whole(to).map_err(|error| error.to_string());
    }
    std::fs::copy(from, to).map(drop).map_err(|error| error.to_string())
}

/// Writes the backup under another name, reads it back, and gives it its name once it is on disk.
fn seal(manifest: &Manifest, staging: &Staging, file: &Path) -> Result<(), Failure> {
    let sealed = staging.path().join(".sealed");
    let failed = |error: std::io::Error| not_written(file, &error);
    let mut target =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&sealed).map_err(failed)?;
    let broken = |error: archive::ArchiveError| not_copied(&file.display().to_string(), &error.to_string());
    archive::write(manifest, staging.path(), &mut target).map_err(broken)?;
    target.sync_all().map_err(failed)?;
    drop(target);
    let read_back = archive::read(File::open(&sealed).map_err(failed)?, |_, _| Ok(())).map_err(broken)?;
    if read_back != *manifest {
        return Err(not_copied(&file.display().to_string(), "it does not read back as it was written"));
    }
    std::fs::rename(&sealed, file).map_err(failed)?;
    File::open(folder_of(file)).and_then(|folder| folder.sync_all()).map_err(failed)
}

/// A bar on stderr; draws nothing where no terminal reads.
fn bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_message("copying pages");
    match ProgressStyle::with_template("{msg:14} {bar:30} {pos}/{len} {elapsed}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
