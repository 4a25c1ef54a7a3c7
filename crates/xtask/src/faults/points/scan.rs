//! Finds the fault points in the sources, so that the list cannot be forgotten.

use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The names of all fault points in shipped code.
pub(crate) fn fault_points(root: &Path) -> Result<Vec<String>> {
    let mut names = BTreeSet::new();
    for crate_folder in children(&root.join("crates"))? {
        let sources = crate_folder.join("src");
        if sources.is_dir() && !crate_folder.ends_with("xtask") {
            for file in rust_files(&sources)? {
                let text = fs::read_to_string(&file)?;
                names.extend(names_in(&text));
            }
        }
    }
    Ok(names.into_iter().collect())
}

fn rust_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in children(folder)? {
        if path.is_dir() {
            files.extend(rust_files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(files)
}

fn children(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    Ok(entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?)
}

/// The first argument of every call, wherever the line breaks stand.
fn names_in(text: &str) -> impl Iterator<Item = String> {
    text.split("fail_point!(").skip(1).filter_map(|rest| {
        let name = rest.trim_start().strip_prefix('"')?;
        name.split('"').next().map(str::to_owned)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_is_a_point_on_one_line_or_on_two() {
        let text = "fn a() { fail_point!(\"one.a\"); b(); fail::fail_point!(\n    \"two.b\", |_| 1); }";
        assert_eq!(names_in(text).collect::<Vec<_>>(), ["one.a", "two.b"]);
        assert_eq!(names_in("use fail::fail_point;").count(), 0);
    }

    #[test]
    fn the_points_of_this_project_are_found() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
        let points = fault_points(root).unwrap();
        assert!(points.contains(&"store.before_commit".to_owned()) && points.len() > 10, "{points:?}");
    }
}
