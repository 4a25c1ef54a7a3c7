//! `cortex skill check`.

use crate::context::Context;
use crate::exit::{Exit, Failure};
use cortex_tools::{Severity, SkillProblem, check_skill};
use serde::Serialize;
use std::path::PathBuf;

/// Look at a skill as a start of the server would: exit 1 when it would not load
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The skill's folder, with skill.json in it
    dir: PathBuf,
}

/// A finding for programs.
#[derive(Serialize)]
struct Finding<'a> {
    severity: &'static str,
    path: String,
    line: Option<usize>,
    column: Option<usize>,
    message: &'a str,
    help: &'a str,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let found = context.client_runtime()?.block_on(check_skill(&args.dir));
    let has_errors = found.iter().any(|finding| finding.severity == Severity::Error);
    let terminal = &context.terminal;
    if terminal.json {
        let findings: Vec<Finding<'_>> = found.iter().map(finding).collect();
        terminal.print_json(&serde_json::json!({"ok": !has_errors, "findings": findings}))?;
    } else {
        let mut lines: Vec<String> = found.iter().map(line).collect();
        if !has_errors {
            lines.push(format!("{}: the skill is in order", args.dir.display()));
        }
        terminal.print(&lines.join("\n"))?;
    }
    Ok(if has_errors { Exit::Error } else { Exit::Ok })
}

/// `path:line:column: error: message; help`, as compilers write it and editors read it.
fn line(found: &SkillProblem) -> String {
    let place = found.place.map(|place| format!(":{}:{}", place.line, place.column)).unwrap_or_default();
    let Finding { severity, path, message, help, .. } = finding(found);
    format!("{path}{place}: {severity}: {message}; {help}")
}

fn finding(found: &SkillProblem) -> Finding<'_> {
    Finding {
        severity: match found.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        },
        path: found.path.display().to_string(),
        line: found.place.map(|place| place.line),
        column: found.place.map(|place| place.column),
        message: &found.message,
        help: &found.help,
    }
}
