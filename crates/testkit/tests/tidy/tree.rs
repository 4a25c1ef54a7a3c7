//! The tree as the rules see it: a list of paths and texts, and the one way to enforce a rule on it.

use super::rust_source::RustSource;
use std::fs;
use std::path::{Path, PathBuf};

/// Folders that hold no text of the project.
const FOREIGN_FOLDERS: &[&str] = &[".git", "target", "node_modules"];

/// A text file of the project; the path is relative to the workspace, with `/`.
pub(super) struct File {
    pub(super) path: String,
    pub(super) text: String,
}

/// Reads the tree and answers one line per offence: `path:line: what is wrong; what to do`.
pub(super) type Rule = fn(&[File]) -> Vec<String>;

/// A small tree written down in a test.
pub(super) type Sample<'a> = &'a [(&'a str, &'a str)];

impl File {
    pub(super) fn is_rust(&self) -> bool {
        self.path.starts_with("crates/") && self.path.ends_with(".rs")
    }

    /// The folder under `crates/`, or nothing for a file elsewhere.
    pub(super) fn crate_name(&self) -> &str {
        self.path.strip_prefix("crates/").and_then(|rest| rest.split('/').next()).unwrap_or_default()
    }

    pub(super) fn stem(&self) -> &str {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        name.split('.').next().unwrap_or_default()
    }

    /// Test code by its place; test modules inside a shipped file are cut by `RustSource::shipped`.
    pub(super) fn is_test(&self) -> bool {
        self.path.contains("/tests/") || self.path.ends_with("/tests.rs")
    }

    pub(super) fn source(&self) -> RustSource {
        RustSource::read(&self.text)
    }

    /// Where an offence is, in the form editors jump to.
    pub(super) fn at(&self, line: usize) -> String {
        format!("{}:{line}", self.path)
    }
}

pub(super) fn rust_files(tree: &[File]) -> impl Iterator<Item = &File> {
    tree.iter().filter(|file| file.is_rust())
}

/// Code that a user runs: no test folders.
pub(super) fn shipped_files(tree: &[File]) -> impl Iterator<Item = &File> {
    rust_files(tree).filter(|file| !file.is_test() && file.crate_name() != "testkit")
}

pub(super) fn text_of<'a>(tree: &'a [File], path: &str) -> &'a str {
    tree.iter().find(|file| file.path == path).map_or("", |file| file.text.as_str())
}

pub(super) fn workspace_root() -> PathBuf {
    let manifest_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest_folder.ancestors().nth(2).expect("crates/testkit lies two folders below the root").to_owned()
}

/// Every text file of the project.
pub(super) fn project() -> Vec<File> {
    let root = workspace_root();
    let mut files = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap().map(Result::unwrap) {
            let kind = entry.file_type().unwrap();
            if kind.is_dir() && !FOREIGN_FOLDERS.iter().any(|foreign| entry.file_name() == *foreign) {
                folders.push(entry.path());
            } else if kind.is_file()
                && let Ok(text) = fs::read_to_string(entry.path())
            {
                let path = entry.path().strip_prefix(&root).unwrap().to_string_lossy().replace('\\', "/");
                files.push(File { path, text });
            }
        }
    }
    files.sort_by(|left, right| left.path.cmp(&right.path));
    assert!(files.iter().any(|file| file.path == "Cargo.toml"), "no workspace in {}", root.display());
    files
}

pub(super) fn sample(files: Sample) -> Vec<File> {
    files.iter().map(|(path, text)| File { path: (*path).to_owned(), text: (*text).to_owned() }).collect()
}

/// Proves that the rule reports every bad sample and no fine one, then that the tree keeps it.
pub(super) fn enforce(rule: Rule, bad: &[Sample], fine: &[Sample]) {
    for files in bad {
        assert!(!rule(&sample(files)).is_empty(), "the rule is blind: it passed {files:#?}");
    }
    for files in fine {
        assert_eq!(rule(&sample(files)), Vec::<String>::new(), "the rule is wrong: it refused {files:#?}");
    }
    let offences = rule(&project());
    assert!(offences.is_empty(), "{} offences:\n{}", offences.len(), offences.join("\n"));
}
