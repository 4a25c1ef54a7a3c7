//! `cortex bench`.

use crate::assemble::SKILL_HOST;
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::home::HomeError;
use crate::terminal::talk;
use cortex_bench::{BenchName, BenchOptions, Bound, Figure, Progress, Report, Scale, plot};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::path::PathBuf;
use std::time::Duration;

const ALL: &str = "all";

/// Measure this program against baselines of its own: exit 1 when a goal is missed
///
/// Every figure is a ratio of two measurements that took turns on this machine, with its median and range.
/// Absolute figures say little without the load average and the disk's fdatasync time beside them.
/// docs/benchmarks.md defines them all.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to measure
    #[arg(value_parser = names(), default_value = ALL)]
    name: String,
    /// How often the two sides take turns
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=100))]
    rounds: u16,
    /// How long each side has in a round, in seconds
    #[arg(long, default_value_t = 3.0, value_parser = seconds)]
    seconds: f64,
    /// Only prove that everything runs: one short round, small databases, no verdicts
    #[arg(long, conflicts_with_all = ["rounds", "seconds"])]
    smoke: bool,
    /// A folder on the disk to measure [default: the system's folder for temporary files]
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
    /// Where npm put `ws`, to measure it beside: a node_modules folder
    #[arg(long, value_name = "FOLDER")]
    node_modules: Option<PathBuf>,
    /// Also draw the figures into this file (SVG)
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let options = options(args)?;
    let chosen = BenchName::ALL.into_iter().filter(|name| args.name == ALL || args.name == name.as_str());
    let bar = Bar::new();
    let mut reports = Vec::new();
    for name in chosen {
        let report = cortex_bench::run(name, &options, &|progress| bar.show(progress));
        let failed = |error: cortex_bench::BenchError| Failure::Coded {
            code: "bench_failed",
            message: format!("{}: {error}", name.as_str()),
        };
        reports.push(report.map_err(failed)?);
    }
    bar.0.finish_and_clear();
    if let Some(path) = &args.plot {
        std::fs::write(path, plot(&reports)).map_err(|error| HomeError::from_io(path, error))?;
    }
    match (&reports[..], context.terminal.json) {
        ([only], true) if args.name != ALL => context.terminal.print_json(only)?,
        (all, true) => context.terminal.print_json(&all)?,
        (all, false) => show(all, context)?,
    }
    Ok(if reports.iter().any(Report::is_bad) { Exit::Error } else { Exit::Ok })
}

fn options(args: &Args) -> Result<BenchOptions, Failure> {
    let program = std::env::current_exe().map_err(|error| Failure::Plain(error.to_string()))?;
    let folder = args.dir.clone().unwrap_or_else(std::env::temp_dir);
    let (rounds, seconds, scale) =
        if args.smoke { (1, 0.3, Scale::Smoke) } else { (args.rounds, args.seconds, Scale::Full) };
    let (rounds, time) = (usize::from(rounds), Duration::from_secs_f64(seconds));
    let node_modules = args.node_modules.clone();
    Ok(BenchOptions { rounds, time, scale, folder, program, skill_host: SKILL_HOST, node_modules })
}

fn names() -> clap::builder::PossibleValuesParser {
    BenchName::ALL.map(BenchName::as_str).into_iter().chain([ALL]).collect::<Vec<_>>().into()
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.1..=600.0).contains(&seconds) => Ok(seconds),
        Ok(_) | Err(_) => Err("a number from 0.1 to 600".to_owned()),
    }
}

fn show(reports: &[Report], context: &Context) -> Result<(), Failure> {
    let figures = reports.iter().flat_map(|report| &report.figures);
    let rows: Vec<Vec<String>> = figures.map(row).collect();
    context.terminal.print_table(&["figure", "a", "b", "median", "range", "goal", "verdict"], &rows)?;
    for report in reports {
        let name = report.name.as_str();
        for check in &report.checks {
            let line = format!("{name}: {} {} in {}", check.violations, check.what, check.of);
            context.terminal.print(&line)?;
        }
        for fact in &report.facts {
            let line = format!("{name}: {} {} {}", fact.what, number(fact.value), fact.unit);
            context.terminal.print(&line)?;
        }
        let (load, [before, after]) = (report.load_average(), report.fdatasync_p50_ms());
        let line =
            format!("{name}: load average {load:.2}, fdatasync p50 {before:.3} ms, then {after:.3} ms");
        context.terminal.print(&line)?;
    }
    Ok(())
}

fn row(figure: &Figure) -> Vec<String> {
    let unit = figure.unit.as_str();
    let bound = match figure.goal.bound {
        Bound::AtLeast => "≥",
        Bound::AtMost => "≤",
    };
    let [least, most] = figure.range.map(number);
    vec![
        figure.what.clone(),
        format!("{} {}", number(figure.a), figure.of),
        figure.b.map_or_else(String::new, |b| format!("{} {}", number(b), figure.of)),
        format!("{}{unit}", number(figure.ratio)),
        format!("{least}–{most}"),
        format!("{bound} {}{unit}", figure.goal.value),
        figure.verdict.as_str().to_owned(),
    ]
}

/// Three digits that matter.
fn number(value: f64) -> String {
    match value.abs() {
        large if large >= 100.0 => format!("{value:.0}"),
        middle if middle >= 10.0 => format!("{value:.1}"),
        small if small >= 0.1 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

/// A bar on stderr; draws nothing where no terminal reads.
struct Bar(ProgressBar);

impl Bar {
    fn new() -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        match ProgressStyle::with_template("{msg:20} {bar:30} {pos}/{len} {elapsed}") {
            Ok(style) => Self(bar.with_style(style)),
            Err(error) => {
                talk(&format!("no progress bar: {error}"));
                Self(bar)
            }
        }
    }

    fn show(&self, progress: Progress) {
        match progress {
            Progress::Began { name, steps } => {
                self.0.reset();
                self.0.set_length(steps as u64);
                self.0.set_message(name.as_str());
            }
            Progress::Stepped => self.0.inc(1),
        }
    }
}
