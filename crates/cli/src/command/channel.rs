//! `cortex channel`.

use crate::config::{EditError, Source, set_channel_mode};
use crate::context::Context;
use crate::escape::one_line;
use crate::exit::{Exit, Failure};
use crate::terminal::talk;
use crate::{connect, daemon};
use cortex_api::{ChannelInfo, ChannelList};
use cortex_types::ChannelMode;

/// Look at channels and say what each may do
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// List channels: what each may do, what waits there, what was said last
    List,
    /// Set what a channel may do: off (not tracked), shadow (recorded, nothing leaves) or live; written to server.json
    Mode {
        /// The channel, which is the source of its events
        name: String,
        mode: ChannelMode,
    },
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    match &args.action {
        Action::List => {
            let client = connect::client(context)?;
            show(&context.client_runtime()?.block_on(client.channels())?, context)?;
        }
        Action::Mode { name, mode } => set_mode(name, *mode, context)?,
    }
    Ok(Exit::Ok)
}

fn set_mode(name: &str, mode: ChannelMode, context: &Context) -> Result<(), Failure> {
    if name.trim().is_empty() {
        return Err(Failure::Usage("a channel has a name".to_owned()));
    }
    let home = context.home()?;
    home.prepare()?;
    let effective = context.config()?;
    if effective.source("channels") == Source::Env {
        let message = "CORTEX_CHANNELS is set and wins over server.json; change it there".to_owned();
        return Err(Failure::Coded { code: "set_elsewhere", message });
    }
    set_channel_mode(&effective.file, name, mode).map_err(|error| match error {
        EditError::Config(error) => Failure::Config(error),
        EditError::Home(error) => Failure::Home(error),
    })?;
    if daemon::listening(&home).is_none() {
        talk(&format!("{name} will be {mode} when the server starts"));
        return Ok(());
    }
    let client = connect::client(context)?;
    let list = context.client_runtime()?.block_on(client.reload_channels())?;
    let in_force = list.items.iter().find(|channel| channel.name == name).map(|channel| channel.mode);
    if in_force != Some(mode) {
        let message =
            format!("server.json says {mode}, but the server was started with another setting of channels");
        return Err(Failure::Coded { code: "set_elsewhere", message });
    }
    if context.terminal.json {
        context.terminal.print_json(&list)
    } else {
        talk(&format!("{name} is {mode}"));
        Ok(())
    }
}

fn show(list: &ChannelList, context: &Context) -> Result<(), Failure> {
    if context.terminal.json {
        return context.terminal.print_json(list);
    }
    let rows: Vec<Vec<String>> = list.items.iter().map(cells).collect();
    context.terminal.print_table(&["channel", "mode", "topic", "unread", "last message", "about"], &rows)?;
    talk(&format!("other channels are {}", list.default_mode));
    if !list.enabled {
        talk("enabled is false: events queue up and are not answered");
    }
    Ok(())
}

fn cells(channel: &ChannelInfo) -> Vec<String> {
    vec![
        one_line(&channel.name, 30),
        channel.mode.to_string(),
        one_line(channel.topic.as_deref().unwrap_or_default(), 30),
        channel.unread_count.to_string(),
        channel.last_message_at.map(|at| at.0.to_rfc3339()).unwrap_or_default(),
        one_line(&channel.summary, 60),
    ]
}
