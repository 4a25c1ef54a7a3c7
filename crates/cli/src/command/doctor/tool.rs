//! What the assistant cannot use: skills and MCP servers that are held back, calendars that cannot be read; and what keeps
//! a stopped server from starting.

use super::Check;
use crate::config::{Effective, Settings};
use crate::context::Context;
use crate::escape::one_line;
use crate::home::Home;
use crate::{assemble, connect};
use cortex_tools::{
    CalendarTools, McpServers, SeenTrust, SkillProblem, SkillState, Toolbox, ToolboxConfig, ToolboxError,
};
use cortex_types::{Clock, SystemClock};
use std::sync::Arc;

/// Longest reason that is shown; a dying server may say much.
const REASON_LETTERS_MAX: usize = 300;
/// Longest problem with a skill that is shown: its path, what is wrong and what to do.
const NOT_STARTING_LETTERS_MAX: usize = 1_000;

/// One line for each skill or server whose tools the running server does not offer.
pub(super) async fn held_back(context: &Context) -> Vec<Check> {
    let Ok(client) = connect::client(context) else { return Vec::new() };
    let Ok(tools) = client.tools().await else { return Vec::new() };
    tools.held_back.iter().map(|line| held(line)).collect()
}

fn held(line: &str) -> Check {
    let shown = one_line(line, REASON_LETTERS_MAX);
    let is_server = line.starts_with("mcp ");
    if is_server && line.contains(": is connecting") {
        return Check::warning("tools", format!("{shown}; look again in a moment"));
    }
    let fix = match is_server && line.contains(": is down") {
        true => "mend its command or address in mcpServers and `cortex restart`",
        false => "`cortex skill list` shows it; look at what changed, then `cortex skill trust <name>`",
    };
    Check::problem("tools", format!("{shown}; {fix}"))
}

/// Opens the tools as the next start would, but for the programs of MCP servers: a skill that is broken keeps the server
/// from starting, and one that changed is held back.
pub(super) async fn next_start(
    settings: &Settings,
    effective: &Effective,
    home: &Home,
    context: &Context,
) -> Vec<Check> {
    // What skills keep is in the home, and a look makes none.
    if settings.skill_dirs.is_empty() || !home.path().is_dir() {
        return Vec::new();
    }
    // A skill that nobody trusts yet does not run: without the pins it cannot be told from a new one.
    let pins = match SeenTrust::of(&home.database()) {
        Ok(pins) => Arc::new(pins),
        Err(error) => return vec![Check::warning("skills", format!("none was looked at: {error}"))],
    };
    let config = match assemble::tools(settings, effective, home, &context.environment) {
        Ok(config) => ToolboxConfig { mcp_servers: McpServers::default(), ..config },
        Err(failure) => return vec![not_starting(&failure.to_string())],
    };
    match Toolbox::open(config, pins).await {
        Ok((toolbox, _)) => {
            let skills = toolbox.skills();
            let held_back = skills.skills().filter_map(|skill| match skills.state(skill) {
                SkillState::Ready => None,
                state @ (SkillState::Changed(_) | SkillState::CodeChanged) => {
                    Some(held(&format!("skill {}: {state}", skill.manifest.id)))
                }
            });
            let held_back: Vec<Check> = held_back.collect();
            match held_back.is_empty() {
                true => vec![Check::ok("skills", "all load, and are offered at the next start")],
                false => held_back,
            }
        }
        Err(ToolboxError::Skills(problems)) => problems.iter().map(broken).collect(),
        Err(error @ (ToolboxError::Registry(_) | ToolboxError::Name(_))) => {
            vec![not_starting(&assemble::tools_failure(&error.to_string(), effective).to_string())]
        }
    }
}

fn broken(problem: &SkillProblem) -> Check {
    not_starting(&problem.to_string())
}

fn not_starting(reason: &str) -> Check {
    let shown = one_line(reason, NOT_STARTING_LETTERS_MAX);
    Check::problem("skills", format!("{shown}; until then the server does not start"))
}

/// Reads each calendar as a question about it would.
pub(super) async fn calendars(
    settings: &Settings,
    effective: &Effective,
    home: &Home,
    context: &Context,
) -> Vec<Check> {
    // What is fetched is kept in the home, and a look makes none.
    if settings.calendars.is_empty() || !home.path().is_dir() {
        return Vec::new();
    }
    let config = match assemble::tools(settings, effective, home, &context.environment) {
        Ok(config) => config,
        Err(failure) => return vec![Check::problem("calendars", failure.to_string())],
    };
    let fetch = Arc::clone(&config.skills.egress);
    let calendars = CalendarTools::new(config.calendars, config.timezone, config.calendar_cache, fetch);
    let looked = calendars.look(SystemClock::start().now()).await;
    looked
        .into_iter()
        .map(|calendar| {
            let notes = one_line(&calendar.notes.join("; "), REASON_LETTERS_MAX);
            match (calendar.is_readable, notes.is_empty()) {
                (true, true) => Check::ok("calendars", format!("{} can be read", calendar.name)),
                (true, false) => Check::warning("calendars", format!("{}: {notes}", calendar.name)),
                (false, _) => {
                    Check::problem("calendars", format!("{notes}; mend the file or the address in calendars"))
                }
            }
        })
        .collect()
}
