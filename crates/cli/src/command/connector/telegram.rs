//! `cortex connector telegram`.

use super::running;
use crate::assemble;
use crate::config::{ConfigError, TelegramBlock};
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::terminal::talk;
use cortex_connectors::{
    Connector, ConnectorFailure, ConnectorSettings, Notebook, NotebookError, PairingCode, PlatformError,
    Telegram, TelegramSettings,
};
use cortex_types::{Clock, SystemClock};
use secrecy::SecretString;
use serde_json::json;
use std::collections::BTreeSet;
use std::path::PathBuf;

const NAME: &str = "telegram";
const PREFIX: &str = "tg:";

/// Connect a Telegram bot to the server
///
/// Reads connectors.telegram of server.json, enabled or not; flags win over it. Who is not allowed is not heard:
/// `cortex connector telegram pair` prints a code that lets whoever sends it to the bot in.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    /// Where the Bot API is [default: connectors.telegram.apiUrl, else the public one]
    #[arg(long, value_name = "URL")]
    api_url: Option<String>,
    /// A file that holds the bot's token
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// A user id that is heard, besides those of server.json; may be given several times
    #[arg(long, value_name = "USER ID")]
    allow: Vec<String>,
    /// Run below a server: end with it, and log without times
    #[arg(long, hide = true)]
    supervised: bool,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Print a code; the first person who sends it to the bot within 10 minutes is allowed from then on
    Pair,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    match args.action {
        Some(Action::Pair) => pair(context),
        None => connect(args, context),
    }
}

fn pair(context: &Context) -> Result<Exit, Failure> {
    let home = context.home()?;
    home.prepare()?;
    let now = SystemClock::start().now();
    let code = PairingCode::issue(&home.connector(NAME), now).map_err(unusable)?;
    if context.terminal.json {
        context.terminal.print_json(&json!({ "code": code.to_string() }))?;
    } else {
        context.terminal.print(&code.to_string())?;
        talk("Send this code to your bot within 10 minutes; whoever sends it first is allowed from then on.");
    }
    Ok(Exit::Ok)
}

fn connect(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let home = context.home()?;
    home.prepare()?;
    let effective = context.config()?;
    let settings = assemble::settings(&effective)?;
    let block = settings.connectors.telegram.clone().unwrap_or_default();
    let token = token(args, &block, || {
        let help = "get one from BotFather and put it into server.json, or give --token-file";
        ConfigError::setting(
            effective.origin("connectors"),
            "connectors.telegram has no token".to_owned(),
            help,
        )
    })?;
    running::start_log(&settings, context, Some(&token), args.supervised)?;
    let telegram = platform(args, &block, token)?;
    let client = running::client(context)?;
    let notebook = Notebook::open(&home.connector(NAME)).map_err(unusable)?;
    let connector_settings = ConnectorSettings {
        allow: allowed(args, &block),
        groups: block.groups,
        ..ConnectorSettings::default()
    };
    let runtime = context.client_runtime()?;
    let ended = runtime.block_on(async {
        let stop = running::stop_when_told(args.supervised)?;
        tracing::info!(
            people = connector_settings.allow.len(),
            "Telegram is connected to {}",
            client.base_url()
        );
        Ok::<_, Failure>(Connector::new(telegram, client, notebook, connector_settings, stop).run().await)
    })?;
    match ended {
        Ok(()) => Ok(Exit::Ok),
        Err(ConnectorFailure::Misconfigured(reason)) => Err(Failure::Misconfigured(reason)),
        Err(ConnectorFailure::Notebook(error)) => Err(unusable(error)),
    }
}

fn token(
    args: &Args,
    block: &TelegramBlock,
    missing: impl FnOnce() -> ConfigError,
) -> Result<SecretString, Failure> {
    let Some(path) = &args.token_file else { return Ok(block.token.clone().ok_or_else(missing)?) };
    let text = std::fs::read_to_string(path).map_err(|error| {
        Failure::Misconfigured(format!(
            "{}: {error}; --token-file names a file with the bot's token",
            path.display()
        ))
    })?;
    Ok(SecretString::from(text.trim()))
}

fn platform(args: &Args, block: &TelegramBlock, token: SecretString) -> Result<Telegram, Failure> {
    let mut settings = TelegramSettings::new(token);
    if let Some(url) = args.api_url.as_ref().or(block.api_url.as_ref()) {
        settings.api_url.clone_from(url);
    }
    if let Some(bytes) = block.max_file_bytes {
        settings.file_bytes_max = bytes;
    }
    Telegram::new(settings).map_err(|error: PlatformError| Failure::Misconfigured(error.to_string()))
}

fn allowed(args: &Args, block: &TelegramBlock) -> BTreeSet<String> {
    let given = args.allow.iter().map(|id| id.trim().strip_prefix(PREFIX).unwrap_or(id.trim()).to_owned());
    block.allow.iter().map(|account| account.id(PREFIX)).chain(given).collect()
}

fn unusable(error: NotebookError) -> Failure {
    Failure::Coded { code: "connector_state", message: error.to_string() }
}
