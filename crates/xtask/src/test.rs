//! `cargo xtask test`: the one test command.

use crate::USAGE_ERROR;
use crate::child::{Workplace, tail};
use crate::suite::{STEPS, Step, Way};
use crate::summary::{Line, Outcome, Summary};
use crate::tool::Toolbox;
use anyhow::Result;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// Set on machines that should have every tool: a skip is then a failure.
const REQUIRE_ALL: &str = "CORTEX_REQUIRE_ALL";

pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<ExitCode> {
    let is_quick = match arguments {
        [] => false,
        [flag] if flag == "--quick" => true,
        _ => {
            eprintln!("usage: cargo xtask test [--quick]");
            return Ok(ExitCode::from(USAGE_ERROR));
        }
    };
    let require_all = requires_all();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut toolbox = Toolbox::new(root, &path, !is_quick)?;
    let mut summary = Summary::default();
    for step in STEPS.iter().filter(|step| step.in_quick || !is_quick) {
        summary.lines.push(perform(step, &mut toolbox)?);
        if !is_quick {
            summary.lines.extend(skipped_inside(step, &mut toolbox));
        }
    }
    println!("\n{}", summary.table());
    Ok(summary.exit_code(require_all))
}

/// Whether this machine should have everything that a suite needs.
pub(crate) fn requires_all() -> bool {
    std::env::var(REQUIRE_ALL).is_ok_and(|value| value == "1")
}

fn perform(step: &Step, toolbox: &mut Toolbox) -> Result<Line> {
    // Suites inside the step look for their tools themselves, so those have to be there before it starts.
    for (_, tool) in step.inside {
        toolbox.has(tool);
    }
    match step.ways.iter().find(|way| way.tool.is_none_or(|tool| toolbox.has(&tool))) {
        Some(way) => run_way(step.name, way, &toolbox.workplace),
        None => {
            let tools = step.ways.iter().filter_map(|way| way.tool);
            let missing = tools.map(|tool| tool.program).next_back().unwrap_or_default();
            Ok(skipped(step.name, missing))
        }
    }
}

fn run_way(name: &'static str, way: &Way, workplace: &Workplace) -> Result<Line> {
    println!("run     {name:<14} {}", way.command.join(" "));
    let ended = workplace.run(name, way.command)?;
    let seconds = ended.took.as_secs_f64();
    let outcome = if ended.success {
        println!("ok      {name:<14} {seconds:.1} s");
        Outcome::Passed
    } else {
        println!(
            "FAILED  {name:<14} {seconds:.1} s; the end of {}:\n{}",
            ended.log.display(),
            tail(&ended.log)
        );
        Outcome::Failed
    };
    Ok(Line { name, outcome, took: ended.took })
}

fn skipped_inside(step: &Step, toolbox: &mut Toolbox) -> Vec<Line> {
    let missing = step.inside.iter().filter(|(_, tool)| !toolbox.has(tool));
    missing.map(|(suite, tool)| skipped(suite, tool.program)).collect()
}

fn skipped(name: &'static str, missing: &'static str) -> Line {
    println!("SKIPPED {name}: {missing}");
    Line { name, outcome: Outcome::Skipped { missing }, took: Duration::ZERO }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::{Origin, Tool};
    use std::ffi::OsString;

    const ABSENT: Tool = Tool { program: "no-such-tool", origin: Origin::Machine };

    fn line_of(ways: &'static [Way]) -> Line {
        let root = tempfile::tempdir().unwrap();
        let mut toolbox = Toolbox::new(root.path(), &OsString::new(), false).unwrap();
        perform(&Step { name: "sample", ways, inside: &[], in_quick: true }, &mut toolbox).unwrap()
    }

    #[test]
    fn a_step_without_its_tool_is_skipped_and_names_it() {
        let line = line_of(&[Way { tool: Some(ABSENT), command: &["no-such-tool"] }]);
        assert!(matches!(line.outcome, Outcome::Skipped { missing: "no-such-tool" }));
    }

    #[test]
    fn a_step_takes_the_next_way_when_a_tool_is_missing() {
        let line = line_of(&[
            Way { tool: Some(ABSENT), command: &["no-such-tool"] },
            Way { tool: None, command: &["cargo", "--version"] },
        ]);
        assert!(matches!(line.outcome, Outcome::Passed));
    }

    #[test]
    fn a_step_that_fails_is_a_failure() {
        let line = line_of(&[Way { tool: None, command: &["cargo", "no-such-command"] }]);
        assert!(matches!(line.outcome, Outcome::Failed));
    }
}
