//! Developer commands, as `cargo xtask <command>`.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "talking to the developer is what this binary is for"
)]

mod attacks;
mod child;
mod eval;
mod faults;
mod suite;
mod summary;
mod test;
mod tool;

use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// A word after `cargo xtask`.
struct Command {
    name: &'static str,
    about: &'static str,
    run: fn(root: &Path, arguments: &[String]) -> Result<ExitCode>,
}

const COMMANDS: &[Command] = &[
    Command {
        name: "test",
        about: "everything a change must pass; --quick for format, lints and tests alone",
        run: test::run,
    },
    Command {
        name: "faults",
        about: "break the server in every way it must survive; --short, --layer, --control",
        run: faults::run,
    },
    Command {
        name: "attacks",
        about: "do what strangers would, and count what got through; --short, --only, --program",
        run: attacks::run,
    },
    Command { name: "eval", about: "how good recall is on a data set: locomo --data FOLDER", run: eval::run },
];

/// The same code as the product's usage errors.
const USAGE_ERROR: u8 = 64;

fn main() -> Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let known = arguments.first().and_then(|word| COMMANDS.iter().find(|command| command.name == *word));
    match known {
        Some(command) => (command.run)(&workspace_root()?, &arguments[1..]),
        None => Ok(usage_error()),
    }
}

fn usage_error() -> ExitCode {
    eprintln!("usage: cargo xtask <command>");
    for command in COMMANDS {
        eprintln!("  {:<8} {}", command.name, command.about);
    }
    ExitCode::from(USAGE_ERROR)
}

fn workspace_root() -> Result<PathBuf> {
    let manifest_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = manifest_folder.ancestors().nth(2).context("xtask lies two folders below the workspace")?;
    Ok(root.to_owned())
}
