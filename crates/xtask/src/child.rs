//! Child processes: no input, output into a log, the end of the log when one fails.

use anyhow::{Context, Result};
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Lines of a failed child that are shown.
const TAIL_LINES: usize = 60;

/// Where children run and where their output goes.
pub(crate) struct Workplace {
    pub(crate) root: PathBuf,
    /// `PATH` of the children.
    pub(crate) search_path: OsString,
}

/// How a child ended.
pub(crate) struct Ended {
    pub(crate) success: bool,
    pub(crate) took: Duration,
    pub(crate) log: PathBuf,
}

impl Workplace {
    /// Runs a command to its end. The child stays in our process group, so Ctrl-C ends it with us.
    pub(crate) fn run(&self, name: &str, command: &[&str]) -> Result<Ended> {
        self.run_with(name, command, &[])
    }

    /// As `run`, with more variables in the child's environment.
    pub(crate) fn run_with(&self, name: &str, command: &[&str], variables: &[(&str, &str)]) -> Result<Ended> {
        let folder = self.root.join("target/xtask");
        fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let log = folder.join(format!("{}.log", name.replace(' ', "-")));
        let output = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let started = Instant::now();
        let (program, arguments) = command.split_first().context("a command has at least a program")?;
        let mut child = Command::new(self.resolve(program));
        child.args(arguments).current_dir(&self.root).env("PATH", &self.search_path);
        child.envs(variables.iter().copied());
        child.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        forget_the_outer_cargo(&mut child);
        let status = child.status().with_context(|| format!("cannot start {program}"))?;
        Ok(Ended { success: status.success(), took: started.elapsed(), log })
    }

    /// The Cargo that runs us, so that its toolchain is the one that is tested; everything else by `PATH`.
    fn resolve(&self, program: &str) -> OsString {
        let outer_cargo = std::env::var_os("CARGO").filter(|_| program == "cargo");
        outer_cargo.or_else(|| self.find(program).map(OsString::from)).unwrap_or_else(|| program.into())
    }

    pub(crate) fn find(&self, program: &str) -> Option<PathBuf> {
        std::env::split_paths(&self.search_path)
            .map(|folder| folder.join(program))
            .find(|path| path.is_file())
    }
}

/// `cargo run` describes xtask in these; a build script that watches them would build its crate again.
fn forget_the_outer_cargo(child: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_"]
            .iter()
            .any(|start| text.starts_with(start))
        {
            child.env_remove(&name);
        }
    }
}

/// The last lines of a log.
pub(crate) fn tail(log: &Path) -> String {
    let text = fs::read(log)
        .map_or_else(|error| error.to_string(), |bytes| String::from_utf8_lossy(&bytes).into_owned());
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_child_leaves_its_last_words() {
        let root = tempfile::tempdir().unwrap();
        let workplace =
            Workplace { root: root.path().to_owned(), search_path: std::env::var_os("PATH").unwrap() };
        let ended = workplace.run("no such command", &["cargo", "no-such-command"]).unwrap();
        assert!(!ended.success);
        assert!(tail(&ended.log).contains("no-such-command"), "{}", tail(&ended.log));
    }

    #[test]
    fn only_the_end_of_a_long_log_is_shown() {
        let root = tempfile::tempdir().unwrap();
        let log = root.path().join("long.log");
        fs::write(&log, (1..=TAIL_LINES + 1).map(|line| format!("{line}\n")).collect::<String>()).unwrap();
        assert!(tail(&log).starts_with("2\n"));
        assert!(tail(&log).ends_with(&(TAIL_LINES + 1).to_string()));
    }
}
