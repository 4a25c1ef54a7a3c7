//! The two builds that the fault runs use: the one that ships, and the same with fault points compiled in.

use super::Programs;
use crate::child::{Workplace, tail};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};

const FAULT_POINTS: &[&str] =
    &["cargo", "build", "--release", "--package", "cortex-cli", "--features", "fault-points"];
/// The variable that only the build with fault points knows.
const FAULT_VARIABLE: &[u8] = b"CORTEX_FAULT";
const SHIPPED: &[&str] = &["cargo", "build", "--release", "--package", "cortex-cli"];

/// Builds both and copies them aside: the next build of either would replace the other.
pub(crate) fn programs(workplace: &Workplace) -> Result<Programs> {
    let programs = places(workplace);
    build(workplace, FAULT_POINTS, &programs.with_points)?;
    build(workplace, SHIPPED, &programs.shipped)?;
    let is_right = has_fault_points(&programs.with_points)? && !has_fault_points(&programs.shipped)?;
    ensure!(is_right, "another build came between a build and its copy; run it again");
    Ok(programs)
}

/// Builds the program that ships alone.
pub(crate) fn shipped(workplace: &Workplace) -> Result<PathBuf> {
    let place = places(workplace).shipped;
    build(workplace, SHIPPED, &place)?;
    Ok(place)
}

/// What the last run built.
pub(crate) fn last_programs(workplace: &Workplace) -> Result<Programs> {
    let programs = places(workplace);
    for program in [&programs.shipped, &programs.with_points] {
        ensure!(program.is_file(), "{} is not there; run without --no-build once", program.display());
    }
    Ok(programs)
}

fn places(workplace: &Workplace) -> Programs {
    let folder = workplace.root.join("target/faults");
    Programs { shipped: folder.join("cortex"), with_points: folder.join("cortex-with-fault-points") }
}

fn build(workplace: &Workplace, command: &[&str], place: &Path) -> Result<()> {
    println!("build   {}", command.join(" "));
    let name = place.file_name().unwrap_or_default().to_string_lossy();
    let ended = workplace.run(&format!("build {name}"), command)?;
    ensure!(ended.success, "the build failed; the end of {}:\n{}", ended.log.display(), tail(&ended.log));
    replace(&workplace.root.join("target/release/cortex"), place)
        .with_context(|| format!("cannot copy the program to {}", place.display()))
}

fn has_fault_points(program: &Path) -> Result<bool> {
    let bytes = fs::read(program)?;
    Ok(bytes.windows(FAULT_VARIABLE.len()).any(|window| window == FAULT_VARIABLE))
}

/// A program that still runs somewhere cannot be overwritten, only replaced.
fn replace(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to.parent().unwrap_or(to))?;
    let fresh = to.with_extension("new");
    fs::copy(from, &fresh)?;
    fs::rename(fresh, to)
}
