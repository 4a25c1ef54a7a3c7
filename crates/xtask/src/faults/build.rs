//! The two builds that the fault runs use: the one that ships, and the same with fault points compiled in.

use super::Programs;
use crate::child::{Workplace, tail};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};

const FAULT_POINTS: &[&str] =
    &["cargo", "build", "--release", "--package", "cortex-cli", "--features", "fault-points"];
const SHIPPED: &[&str] = &["cargo", "build", "--release", "--package", "cortex-cli"];

/// Builds both and copies them aside: the next build of either would replace the other.
pub(crate) fn programs(workplace: &Workplace) -> Result<Programs> {
    let with_points = build(workplace, FAULT_POINTS, "cortex-with-fault-points")?;
    let shipped = build(workplace, SHIPPED, "cortex")?;
    Ok(Programs { shipped, with_points })
}

fn build(workplace: &Workplace, command: &[&str], name: &str) -> Result<PathBuf> {
    println!("build   {}", command.join(" "));
    let ended = workplace.run(&format!("build {name}"), command)?;
    ensure!(ended.success, "the build failed; the end of {}:\n{}", ended.log.display(), tail(&ended.log));
    let folder = workplace.root.join("target/faults");
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let copy = folder.join(name);
    replace(&workplace.root.join("target/release/cortex"), &copy)
        .with_context(|| format!("cannot copy the program to {}", copy.display()))?;
    Ok(copy)
}

/// A program that still runs somewhere cannot be overwritten, only replaced.
fn replace(from: &Path, to: &Path) -> std::io::Result<()> {
    let fresh = to.with_extension("new");
    fs::copy(from, &fresh)?;
    fs::rename(fresh, to)
}
