//! `cargo xtask faults`: breaks the server in every way it must survive, and counts.

pub(crate) mod build;
mod checker;
mod client;
pub(crate) mod database;
mod expected;
mod history;
pub(crate) mod http;
mod kills;
mod load;
mod machines;
mod named;
mod points;
mod power;
mod report;
pub(crate) mod server;
mod tools;

use crate::USAGE_ERROR;
use crate::child::Workplace;
use anyhow::Result;
use power::Syncs;
use report::{Findings, Line};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

/// How much of a layer is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    Full,
    Short,
}

/// The builds under test.
pub(crate) struct Programs {
    pub(crate) shipped: PathBuf,
    pub(crate) with_points: PathBuf,
}

/// What the layers run with.
struct Bench {
    workplace: Workplace,
    programs: Programs,
    extent: Extent,
}

impl Bench {
    fn has_strace(&self) -> bool {
        self.workplace.find("strace").is_some()
    }
}

/// A way to break the server.
struct Layer {
    name: &'static str,
    run: fn(&Bench) -> Result<Findings>,
}

const LAYERS: &[Layer] = &[
    Layer { name: "L1", run: |bench| machines::run(&bench.workplace, bench.extent) },
    Layer { name: "L3", run: |bench| points::run(&bench.workplace.root, &bench.programs, bench.extent) },
    Layer { name: "L4", run: |bench| kills::run(&bench.programs, bench.extent) },
    Layer { name: "L5", run: power_loss },
    Layer { name: "tools", run: |bench| tools::run(&bench.programs, bench.extent) },
    Layer { name: "named", run: |bench| named::run(&bench.programs, bench.extent, bench.has_strace()) },
];

/// Run in place of the layers with `--control`: each has a fault planted, and fails when nobody sees it.
const CONTROLS: &[Layer] = &[
    Layer { name: "L5", run: power_loss_control },
    Layer { name: "tools", run: |bench| tools::control(&bench.programs) },
];

const USAGE: &str =
    "usage: cargo xtask faults [--short] [--layer L1|L3|L4|L5|tools|named] [--control] [--no-build]";

#[derive(Debug, PartialEq, Eq)]
struct Options {
    extent: Extent,
    layer: Option<String>,
    control: bool,
    /// Take the programs of the last run as they are.
    no_build: bool,
}

pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<ExitCode> {
    let Some(options) = parse(arguments) else {
        eprintln!("{USAGE}");
        return Ok(ExitCode::from(USAGE_ERROR));
    };
    let search_path = std::env::var_os("PATH").unwrap_or_default();
    let workplace = Workplace { root: root.to_owned(), search_path };
    let programs = match options.no_build {
        true => build::last_programs(&workplace, options.extent)?,
        false => build::programs(&workplace, options.extent)?,
    };
    let bench = Bench { workplace, programs, extent: options.extent };
    let layers = if options.control { CONTROLS } else { LAYERS };
    let is_chosen = |layer: &&Layer| options.layer.as_deref().is_none_or(|chosen| chosen == layer.name);
    let lines: Vec<Line> = layers.iter().filter(is_chosen).map(|layer| perform(layer, &bench)).collect();
    println!("\n{}", report::table(&lines));
    Ok(if lines.iter().all(Line::is_green) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn power_loss(bench: &Bench) -> Result<Findings> {
    traced(bench, Syncs::AsShipped)
}

fn power_loss_control(bench: &Bench) -> Result<Findings> {
    traced(bench, Syncs::TooLate)
}

fn traced(bench: &Bench, syncs: Syncs) -> Result<Findings> {
    if bench.has_strace() {
        return power::run(&bench.programs, bench.extent, syncs);
    }
    let mut findings = Findings::default();
    findings.skip("L5", "strace");
    Ok(findings)
}

fn perform(layer: &Layer, bench: &Bench) -> Line {
    let started = Instant::now();
    let findings = Findings::or_error((layer.run)(bench));
    let line = Line { layer: layer.name, findings, took: started.elapsed() };
    println!("{line}");
    line
}

fn parse(arguments: &[String]) -> Option<Options> {
    let mut options = Options { extent: Extent::Full, layer: None, control: false, no_build: false };
    let mut words = arguments.iter().map(String::as_str);
    while let Some(word) = words.next() {
        match word {
            "--short" => options.extent = Extent::Short,
            "--control" => options.control = true,
            "--no-build" => options.no_build = true,
            "--layer" => {
                let name = words.next()?;
                options.layer = Some(LAYERS.iter().find(|layer| layer.name == name)?.name.to_owned());
            }
            _ => return None,
        }
    }
    Some(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Option<Options> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn a_run_is_full_unless_it_is_asked_to_be_short() {
        let full = Options { extent: Extent::Full, layer: None, control: false, no_build: false };
        assert_eq!(parsed(""), Some(full));
        let short = parsed("--short --layer L5 --no-build").unwrap();
        assert_eq!((short.extent, short.layer.as_deref(), short.no_build), (Extent::Short, Some("L5"), true));
    }

    #[test]
    fn an_unknown_word_or_layer_is_a_usage_error() {
        for line in ["--shorter", "--layer", "--layer L9", "L5"] {
            assert_eq!(parsed(line), None, "{line}");
        }
    }
}
