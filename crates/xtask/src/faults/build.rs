//! The two builds that the fault runs use: the one that ships, and the same with fault points compiled in.

use super::{Extent, Programs};
use crate::child::{Workplace, tail};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};

/// The variable that only the build with fault points knows.
const FAULT_VARIABLE: &[u8] = b"CORTEX_FAULT";

/// Builds both and copies them aside: the next build of either would replace the other.
pub(crate) fn programs(workplace: &Workplace, extent: Extent) -> Result<Programs> {
    let programs = places(workplace, extent);
    build(workplace, extent, &["--features", "fault-points"], &programs.with_points)?;
    build(workplace, extent, &[], &programs.shipped)?;
    let is_right = has_fault_points(&programs.with_points)? && !has_fault_points(&programs.shipped)?;
    ensure!(is_right, "another build came between a build and its copy; run it again");
    Ok(programs)
}

/// Builds the program that ships alone.
pub(crate) fn shipped(workplace: &Workplace, extent: Extent) -> Result<PathBuf> {
    let place = places(workplace, extent).shipped;
    build(workplace, extent, &[], &place)?;
    Ok(place)
}

/// What the last run built.
pub(crate) fn last_programs(workplace: &Workplace, extent: Extent) -> Result<Programs> {
    let programs = places(workplace, extent);
    for program in [&programs.shipped, &programs.with_points] {
        ensure!(program.is_file(), "{} is not there; run without --no-build once", program.display());
    }
    Ok(programs)
}

/// What is built in: a full run breaks the program as it ships; the short one, of every change, saves the minutes that
/// optimizing across crates takes, twice.
fn profile(extent: Extent) -> &'static str {
    match extent {
        Extent::Full => "release",
        Extent::Short => "trial",
    }
}

fn places(workplace: &Workplace, extent: Extent) -> Programs {
    let folder = workplace.root.join("target/faults").join(profile(extent));
    Programs { shipped: folder.join("cortex"), with_points: folder.join("cortex-with-fault-points") }
}

fn build(workplace: &Workplace, extent: Extent, features: &[&str], place: &Path) -> Result<()> {
    let profile = profile(extent);
    let command = [&["cargo", "build", "--profile", profile, "--package", "cortex-cli"], features].concat();
    println!("build   {}", command.join(" "));
    let name = place.file_name().unwrap_or_default().to_string_lossy();
    let ended = workplace.run(&format!("build {name}"), &command)?;
    ensure!(ended.success, "the build failed; the end of {}:\n{}", ended.log.display(), tail(&ended.log));
    replace(&workplace.root.join("target").join(profile).join("cortex"), place)
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
