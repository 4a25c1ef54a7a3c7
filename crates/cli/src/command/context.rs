//! `cortex context`.

use crate::connect;
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::terminal::talk;
use cortex_api::{ContextQuery, ContextShown};

/// See what the model would see, summarise it, and take a summary back
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Print what the model would see in a topic now, with the tokens of each section
    Show(Topic),
    /// Let a summary stand for all but the newest exchanges of a topic; every turn stays
    Compact(Topic),
    /// Take the newest summary of a topic back: its turns are seen again as they were
    Undo(Topic),
}

#[derive(Debug, clap::Args)]
struct Topic {
    /// The topic's key
    #[arg(long)]
    topic: String,
    /// Its source; needed only when several have a topic of this key
    #[arg(long)]
    source: Option<String>,
}

impl Topic {
    fn query(&self) -> ContextQuery {
        ContextQuery { topic: self.topic.clone(), source: self.source.clone() }
    }
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let client = connect::client(context)?;
    let runtime = context.client_runtime()?;
    let terminal = &context.terminal;
    match &args.action {
        Action::Show(topic) => {
            let shown = runtime.block_on(client.context(&topic.query()))?;
            if terminal.json { terminal.print_json(&shown)? } else { show(&shown, context)? }
        }
        Action::Compact(topic) => {
            let compacted = runtime.block_on(client.compact_context(&topic.query()))?;
            if terminal.json {
                terminal.print_json(&compacted)?;
            } else {
                talk(&compacted.report);
            }
            if !compacted.done {
                return Ok(Exit::Error);
            }
        }
        Action::Undo(topic) => {
            let undone = runtime.block_on(client.undo_context(&topic.query()))?;
            if terminal.json {
                terminal.print_json(&undone)?;
            } else if undone.summary.is_some() {
                talk("the newest summary no longer stands for its turns");
            } else {
                talk("no summary stands for turns of this topic");
            }
        }
    }
    Ok(Exit::Ok)
}

fn show(shown: &ContextShown, context: &Context) -> Result<(), Failure> {
    let mut text = String::new();
    for section in &shown.sections {
        text.push_str(&format!(
            "--- {}, {} tokens\n{}\n",
            section.name,
            section.tokens,
            section.text.trim_end()
        ));
    }
    text.push_str(&format!("--- tools, {} tokens\n", shown.tool_tokens));
    text.push_str(&format!("--- {} of {} tokens, estimated", shown.tokens, shown.window));
    context.terminal.print(&text)
}
