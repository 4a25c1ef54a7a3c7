//! What the connectors of platforms share: their flags, their block in server.json, and the way to run one.

use super::running;
use crate::assemble;
use crate::config::{ConfigError, Origin, PlatformBlock, load_handed};
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::terminal::talk;
use cortex_connectors::{
    Connector, ConnectorFailure, ConnectorSettings, Notebook, NotebookError, PairingCode, Platform,
    PlatformError,
};
use cortex_types::{Clock, SystemClock};
use secrecy::SecretString;
use serde_json::json;
use std::path::{Path, PathBuf};

/// The flags of every platform; they win over its block.
#[derive(Debug, clap::Args)]
pub(crate) struct PlatformArgs {
    /// Where the platform's API is [default: apiUrl of its block, else the public one]
    #[arg(long, value_name = "URL")]
    api_url: Option<String>,
    /// A file that holds the token
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// A user id that is heard, besides those of server.json; may be given several times
    #[arg(long, value_name = "USER ID")]
    allow: Vec<String>,
    /// Run below a server: end with it, and log without times
    #[arg(long, hide = true)]
    supervised: bool,
}

#[derive(Debug, Clone, Copy, clap::Subcommand)]
pub(crate) enum PairAction {
    /// Print a code; the first person who sends it to the bot within 10 minutes is allowed from then on
    Pair,
}

/// A platform as the command line knows it.
pub(super) struct Known {
    /// Its name in server.json and on disk.
    pub(super) name: &'static str,
    /// Its name for people.
    pub(super) title: &'static str,
    /// What stands before a user id in Cortex.
    pub(super) prefix: &'static str,
    /// Where a token comes from.
    pub(super) token_help: &'static str,
    /// Whether a person can send a code before being let in.
    pub(super) can_pair: bool,
}

impl Known {
    /// How somebody is let in.
    fn let_in(&self, context: &Context) -> String {
        match self.can_pair {
            true => format!("`{} connector {} pair` lets you in", context.program(), self.name),
            false => format!("connectors.{}.allow lists who is", self.name),
        }
    }
}

/// What a platform is made of.
pub(super) struct Means {
    pub(super) token: SecretString,
    pub(super) api_url: Option<String>,
    pub(super) file_bytes_max: Option<u64>,
}

impl Means {
    /// Puts what was given in the place of the defaults.
    pub(super) fn apply(self, api_url: &mut String, file_bytes_max: &mut u64) {
        if let Some(url) = self.api_url {
            *api_url = url;
        }
        if let Some(bytes) = self.file_bytes_max {
            *file_bytes_max = bytes;
        }
    }
}

pub(super) fn pair(known: &Known, context: &Context) -> Result<Exit, Failure> {
    let home = context.home()?;
    home.prepare()?;
    let now = SystemClock::start().now();
    let code = PairingCode::issue(&home.connector(known.name), now).map_err(unusable)?;
    if context.terminal.json {
        context.terminal.print_json(&json!({ "code": code.to_string() }))?;
    } else {
        context.terminal.print(&code.to_string())?;
        talk("Send this code to your bot within 10 minutes; whoever sends it first is allowed from then on.");
    }
    Ok(Exit::Ok)
}

/// Runs a platform's connector until it is told to stop.
pub(super) fn connect<P: Platform>(
    known: &Known,
    args: &PlatformArgs,
    context: &Context,
    make: impl FnOnce(Means) -> Result<P, PlatformError>,
) -> Result<Exit, Failure> {
    connect_with(known, args, context, |_| Ok(None), |means, _| make(means))
}

/// The same, for a platform that wants a second token.
pub(super) fn connect_with<P: Platform>(
    known: &Known,
    args: &PlatformArgs,
    context: &Context,
    second: impl FnOnce(&PlatformBlock) -> Result<Option<SecretString>, Failure>,
    make: impl FnOnce(Means, Option<SecretString>) -> Result<P, PlatformError>,
) -> Result<Exit, Failure> {
    let home = context.home()?;
    home.prepare()?;
    let effective = match args.supervised {
        true => load_handed(home.path(), &context.environment)?,
        false => context.config()?,
    };
    let settings = assemble::settings(&effective)?;
    let block = settings.connectors.block(known.name).cloned().unwrap_or_default();
    let given = match &args.token_file {
        Some(path) => Some(read_token(path, "--token-file")?),
        None => block.token.clone(),
    };
    let token = given.ok_or_else(|| {
        let problem = format!("connectors.{} has no token", known.name);
        let origin = match args.supervised {
            // The owner wrote it there, whoever handed it on.
            true => Origin::File(effective.file.clone()),
            false => effective.origin("connectors"),
        };
        ConfigError::setting(origin, problem, known.token_help)
    })?;
    let second = second(&block)?;
    let secrets: Vec<SecretString> = [Some(&token), second.as_ref()].into_iter().flatten().cloned().collect();
    running::start_log(&settings, context, secrets, args.supervised)?;
    let means = Means {
        token,
        api_url: args.api_url.clone().or_else(|| block.api_url.clone()),
        file_bytes_max: block.max_file_bytes,
    };
    let platform = make(means, second).map_err(|error| Failure::Misconfigured(error.to_string()))?;
    let client = running::client(context)?;
    let notebook = Notebook::open(&home.connector(known.name)).map_err(unusable)?;
    let named =
        args.allow.iter().map(|id| id.trim().strip_prefix(known.prefix).unwrap_or(id.trim()).to_owned());
    let connector_settings = ConnectorSettings {
        allow: block.allow.iter().map(|account| account.id(known.prefix)).chain(named).collect(),
        groups: block.groups,
        ..ConnectorSettings::default()
    };
    let people = connector_settings.allow.len() + notebook.paired_people();
    let runtime = context.client_runtime()?;
    let ended = runtime.block_on(async {
        let stop = running::stop_when_told(args.supervised)?;
        tracing::info!(people, server = client.base_url(), "{} is listened to", known.title);
        if people == 0 {
            tracing::warn!("Nobody is heard yet; {}", known.let_in(context));
        }
        Ok::<_, Failure>(Connector::new(platform, client, notebook, connector_settings, stop).run().await)
    })?;
    match ended {
        Ok(()) => Ok(Exit::Ok),
        Err(ConnectorFailure::Misconfigured(reason)) => Err(Failure::Misconfigured(reason)),
        Err(ConnectorFailure::Notebook(error)) => Err(unusable(error)),
    }
}

pub(super) fn read_token(path: &Path, flag: &str) -> Result<SecretString, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        Failure::Misconfigured(format!("{}: {error}; {flag} names a file with a token", path.display()))
    })?;
    Ok(SecretString::from(text.trim()))
}

fn unusable(error: NotebookError) -> Failure {
    Failure::Coded { code: "connector_state", message: error.to_string() }
}
