//! `cortex skill list`.

use super::{asks_first, awaiting, configured, trusted_here};
use crate::config::Settings;
use crate::context::Context;
use crate::escape::{for_log, one_line, shell_word, value};
use crate::exit::{Exit, Failure};
use crate::terminal::talk;
use crate::{connect, daemon};
use cortex_api::{ClientError, ToolList, ToolRow};
use cortex_tools::{SeenTrust, Skill, SkillOptions, SkillSet, SkillState};

/// List the tools that can be called, and what keeps others from it
///
/// A running server is asked: built-in tools, skills and MCP servers. Without one, the skills of skillDirs are read.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(Args {}: &Args, context: &Context) -> Result<Exit, Failure> {
    let client = connect::client(context)?;
    let runtime = context.client_runtime()?;
    let list = match runtime.block_on(client.tools()) {
        Ok(mut list) => {
            // Only the server of this home has the skillDirs of this home.
            if daemon::listening(&context.home()?).is_some_and(|own| own.url() == client.base_url()) {
                let (_, options) = configured(context)?;
                let trusted = trusted_here(context)?;
                list.held_back.extend(runtime.block_on(not_loaded(&list, &options, &trusted)));
            }
            list
        }
        Err(ClientError::Unreachable { .. }) => {
            let (settings, options) = configured(context)?;
            talk("(no server runs; these are the skills of skillDirs)");
            runtime.block_on(on_disk(&settings, &options, &trusted_here(context)?))
        }
        Err(error) => return Err(error.into()),
    };
    show(&list, context)?;
    Ok(Exit::Ok)
}

/// What a start would load.
async fn on_disk(settings: &Settings, options: &SkillOptions, trusted: &SeenTrust) -> ToolList {
    let (skills, problems) = SkillSet::survey(options, trusted).await;
    let rows = skills.skills().flat_map(|skill| {
        let origin = origin(skill);
        skill.tools.iter().map(move |tool| ToolRow {
            name: tool.name.to_string(),
            description: tool.description.clone(),
            origin: origin.clone(),
            asks_first: asks_first(tool.mutation, settings),
        })
    });
    let changed = skills.skills().filter_map(|skill| match &skill.state {
        SkillState::Ready => None,
        state @ (SkillState::Changed(_) | SkillState::CodeChanged) => {
            Some(format!("skill {}: {state}", skill.manifest.id))
        }
    });
    ToolList {
        items: rows.collect(),
        held_back: changed.chain(problems.iter().map(ToString::to_string)).collect(),
        awaiting_trust: skills.awaiting_trust(trusted).into_iter().map(cortex_server::untrusted).collect(),
    }
}

fn origin(skill: &Skill) -> String {
    format!("skill {} {}", skill.manifest.id, skill.manifest.version)
}

/// What lies in skillDirs and the server has not seen, because it came after its start.
async fn not_loaded(seen: &ToolList, options: &SkillOptions, trusted: &SeenTrust) -> Vec<String> {
    let (skills, problems) = SkillSet::survey(options, trusted).await;
    let is_new = |skill: &&Skill| {
        let (origin, held_back) = (origin(skill), format!("skill {}:", skill.manifest.id));
        let is_held_back = seen.held_back.iter().any(|line| line.starts_with(&held_back));
        !is_held_back && !seen.items.iter().any(|tool| tool.origin == origin)
    };
    let told = |skill: &Skill| format!("{}: not loaded yet; `cortex restart` loads it", origin(skill));
    let new = skills.skills().filter(is_new).map(told);
    new.chain(problems.iter().map(ToString::to_string)).collect()
}

fn show(list: &ToolList, context: &Context) -> Result<(), Failure> {
    let terminal = &context.terminal;
    if terminal.json {
        return terminal.print_json(list);
    }
    if list.items.is_empty() && list.held_back.is_empty() {
        talk("no skills; `cortex skill new <id>` makes one");
        return Ok(());
    }
    if !list.items.is_empty() {
        let rows: Vec<Vec<String>> = list.items.iter().map(cells).collect();
        terminal.print_table(&["tool", "from", "asks first", "what it does"], &rows)?;
    }
    for line in &list.held_back {
        terminal.print(&format!("held back: {}", value(line)))?;
    }
    for row in &list.awaiting_trust {
        terminal.print(&format!("waiting for trust: {}", for_log(&row.name)))?;
        for line in awaiting::lines(row) {
            terminal.print(&format!("  {line}"))?;
        }
        if let (Some(name), Some(digest)) = (shell_word(&row.name), shell_word(&row.digest)) {
            terminal
                .print(&format!("  `cortex skill trust {name} --digest {digest}` trusts exactly this"))?;
        }
    }
    Ok(())
}

fn cells(tool: &ToolRow) -> Vec<String> {
    vec![
        tool.name.clone(),
        one_line(&tool.origin, 40),
        if tool.asks_first { "yes" } else { "no" }.to_owned(),
        one_line(&tool.description, 80),
    ]
}
