//! `cortex skill list`.

use super::{asks_first, configured};
use crate::config::Settings;
use crate::context::Context;
use crate::escape::{one_line, value};
use crate::exit::{Exit, Failure};
use crate::terminal::talk;
use crate::{connect, daemon};
use cortex_api::{ClientError, ToolList, ToolRow};
use cortex_tools::{SkillOptions, SkillSet};

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
                let (settings, options) = configured(context)?;
                list.held_back.extend(runtime.block_on(not_loaded(&list, &settings, &options)));
            }
            list
        }
        Err(ClientError::Unreachable { .. }) => {
            let (settings, options) = configured(context)?;
            talk("(no server runs; these are the skills of skillDirs)");
            runtime.block_on(on_disk(&settings, &options))
        }
        Err(error) => return Err(error.into()),
    };
    show(&list, context)?;
    Ok(Exit::Ok)
}

/// What a start would load.
async fn on_disk(settings: &Settings, options: &SkillOptions) -> ToolList {
    let (skills, problems) = SkillSet::survey(options).await;
    let rows = skills.skills().flat_map(|skill| {
        let origin = format!("skill {} {}", skill.manifest.id, skill.manifest.version);
        skill.tools.iter().map(move |tool| ToolRow {
            name: tool.name.to_string(),
            description: tool.description.clone(),
            origin: origin.clone(),
            asks_first: asks_first(tool.mutation, settings),
        })
    });
    ToolList { items: rows.collect(), held_back: problems.iter().map(ToString::to_string).collect() }
}

/// What lies in skillDirs and the server has not seen, because it came after its start.
async fn not_loaded(seen: &ToolList, settings: &Settings, options: &SkillOptions) -> Vec<String> {
    let ToolList { items, held_back } = on_disk(settings, options).await;
    let mut origins: Vec<String> = items.into_iter().map(|tool| tool.origin).collect();
    origins.dedup();
    let is_new = |origin: &String| {
        let id = origin.split(' ').nth(1).unwrap_or_default();
        let is_held_back = seen.held_back.iter().any(|line| line.starts_with(&format!("skill {id}:")));
        !is_held_back && !seen.items.iter().any(|tool| tool.origin == *origin)
    };
    let told = |origin: String| format!("{origin}: not loaded yet; `cortex restart` loads it");
    origins.into_iter().filter(is_new).map(told).chain(held_back).collect()
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
