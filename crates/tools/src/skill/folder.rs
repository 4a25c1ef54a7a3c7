//! A skill's folder: read only below itself, and only when nobody else may write there.

use super::manifest::{MANIFEST_FILE, SkillManifest};
use super::problem::SkillProblem;
use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

const FILE_BYTES_MAX: u64 = 1024 * 1024;
const SKILLS_MAX: usize = 200;
const OTHERS_MAY_WRITE: u32 = 0o002;
const GROUP_MAY_WRITE: u32 = 0o020;
/// What root owns, only root can change.
const ROOT: u32 = 0;

/// A folder that holds one skill, already resolved to where it really is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SkillFolder {
    /// As the user wrote it, for messages.
    shown: PathBuf,
    real: PathBuf,
}

/// The folders below a configured skill directory, by name. Files and hidden folders are no skills.
pub(crate) fn skill_folders(dir: &Path) -> Result<Vec<SkillFolder>, Vec<SkillProblem>> {
    let missing = |error: std::io::Error| {
        let help = "create it, or take it out of skillDirs";
        vec![SkillProblem::error(dir, format!("the skill folder cannot be read: {error}"), help)]
    };
    let real_dir = fs::canonicalize(dir).map_err(missing)?;
    let entries = fs::read_dir(&real_dir).map_err(missing)?;
    if real_dir.join(MANIFEST_FILE).exists() {
        let help = "name the folder that it lies in";
        return Err(vec![SkillProblem::error(dir, "is a skill itself, not a folder of skills", help)]);
    }
    let mut names: Vec<PathBuf> = Vec::new();
    for entry in entries {
        let entry = entry.map_err(missing)?;
        let is_hidden = entry.file_name().to_string_lossy().starts_with('.');
        if !is_hidden && entry.path().is_dir() {
            names.push(entry.file_name().into());
        }
    }
    names.sort();
    if names.len() > SKILLS_MAX {
        let message = format!("{} skills in one folder", names.len());
        return Err(vec![SkillProblem::error(dir, message, format!("keep at most {SKILLS_MAX}"))]);
    }
    refuse_writable(dir, &real_dir).map_err(|problem| vec![problem])?;
    let (mut folders, mut problems) = (Vec::new(), Vec::new());
    for name in names {
        match SkillFolder::open(&dir.join(&name)) {
            Ok(folder) if folder.real.parent() == Some(real_dir.as_path()) => folders.push(folder),
            Ok(folder) => problems.push(escape(&folder.shown)),
            Err(problem) => problems.push(problem),
        }
    }
    if problems.is_empty() { Ok(folders) } else { Err(problems) }
}

impl SkillFolder {
    pub(crate) fn open(path: &Path) -> Result<Self, SkillProblem> {
        let real = fs::canonicalize(path).map_err(|error| {
            SkillProblem::error(path, format!("cannot be read: {error}"), "name a skill's folder")
        })?;
        if !real.is_dir() {
            return Err(SkillProblem::error(path, "not a folder", "name a skill's folder"));
        }
        refuse_writable(path, &real)?;
        Ok(Self { shown: path.to_owned(), real })
    }

    pub(crate) fn name(&self) -> String {
        self.real.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }

    pub(crate) fn shown(&self, file: &str) -> PathBuf {
        self.shown.join(file)
    }

    /// The manifest and its text, checked against the folder's own name.
    pub(crate) fn manifest(&self) -> Result<SkillManifest, Vec<SkillProblem>> {
        let path = self.shown(MANIFEST_FILE);
        let text = self.read(MANIFEST_FILE).map_err(|problem| vec![problem])?;
        let manifest = SkillManifest::parse(&path, &text)?;
        if manifest.id == self.name() {
            Ok(manifest)
        } else {
            let message = format!("id is {:?}, the folder is {:?}", manifest.id, self.name());
            let place = super::problem::Place::of_word(&text, &manifest.id);
            Err(vec![SkillProblem::error(&path, message, "give both the same name").at(place)])
        }
    }

    pub(crate) fn has(&self, file: &str) -> bool {
        self.real.join(file).is_file()
    }

    /// The text of a file of this folder, named relative to it.
    pub(crate) fn read(&self, file: &str) -> Result<String, SkillProblem> {
        let shown = self.shown(file);
        let is_below = Path::new(file).components().all(|part| matches!(part, Component::Normal(_)));
        if !is_below {
            return Err(escape(&shown));
        }
        let unreadable = |error: std::io::Error| {
            SkillProblem::error(
                &shown,
                format!("cannot be read: {error}"),
                "create the file or correct its name",
            )
        };
        let real = fs::canonicalize(self.real.join(file)).map_err(unreadable)?;
        if !real.starts_with(&self.real) {
            return Err(escape(&shown));
        }
        for folder in real.ancestors().take_while(|folder| *folder != self.real) {
            refuse_writable(&shown, folder)?;
        }
        let mut text = String::new();
        let opened = fs::File::open(&real).map_err(unreadable)?;
        opened.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(unreadable)?;
        if u64::try_from(text.len()).unwrap_or(u64::MAX) > FILE_BYTES_MAX {
            return Err(SkillProblem::error(
                &shown,
                format!("over {FILE_BYTES_MAX} bytes"),
                "split the file",
            ));
        }
        Ok(text)
    }
}

fn refuse_writable(shown: &Path, real: &Path) -> Result<(), SkillProblem> {
    let metadata = fs::metadata(real).map_err(|error| {
        SkillProblem::error(shown, format!("cannot be read: {error}"), "correct its name")
    })?;
    let owner = metadata.uid();
    if owner != ROOT && owner != rustix::process::geteuid().as_raw() {
        let message = "belongs to another user of this machine, who can change it";
        return Err(SkillProblem::error(shown, message, "make it your own with chown"));
    }
    if metadata.mode() & OTHERS_MAY_WRITE != 0 {
        let help = "take the right away with chmod o-w";
        return Err(SkillProblem::error(shown, "everybody on this machine may write it", help));
    }
    if metadata.mode() & GROUP_MAY_WRITE != 0 {
        let help = "take the right away with chmod g-w";
        return Err(SkillProblem::error(shown, "everybody in its group may write it", help));
    }
    Ok(())
}

fn escape(shown: &Path) -> SkillProblem {
    SkillProblem::error(
        shown,
        "leads out of the skill's folder",
        "keep every file inside the skill's own folder",
    )
}
