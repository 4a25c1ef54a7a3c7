//! `cargo xtask eval locomo --data DIR`: how good recall is, measured by the program itself in a release build.

use crate::USAGE_ERROR;
use anyhow::{Context, Result};
use std::path::Path;
use std::process::{Command, ExitCode};

pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<ExitCode> {
    let [data_set, flag, data] = arguments else {
        return Ok(usage());
    };
    if data_set != "locomo" || flag != "--data" {
        return Ok(usage());
    }
    let data = std::path::absolute(data)?;
    let ended = Command::new("cargo")
        .args(["run", "--quiet", "--release", "--package", "cortex-cli", "--", "eval", data_set, flag])
        .arg(data)
        .current_dir(root)
        .status()
        .context("cargo cannot be started")?;
    Ok(if ended.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn usage() -> ExitCode {
    eprintln!("usage: cargo xtask eval locomo --data FOLDER");
    ExitCode::from(USAGE_ERROR)
}
