//! `cortex key`.

use crate::context::Context;
use crate::credentials::Credentials;
use crate::exit::{Exit, Failure};
use secrecy::ExposeSecret;
use serde_json::json;

/// Show a key of this home
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Print a key in the clear
    Show {
        /// ingest: the key that connectors use
        #[arg(value_enum)]
        name: KeyName,
    },
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum KeyName {
    Ingest,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let Action::Show { name: KeyName::Ingest } = args.action;
    let settings = crate::assemble::settings(&context.config()?)?;
    let credentials = Credentials::read(&context.home()?)?;
    let key =
        settings.ingest_api_key.as_ref().or(credentials.ingest_api_key()).ok_or_else(|| Failure::Coded {
            code: "no_key",
            message: "this home has no ingest key yet; the first `cortex start` makes one".to_owned(),
        })?;
    if context.terminal.json {
        context.terminal.print_json(&json!({"ingest": key.expose_secret()}))?;
    } else {
        context.terminal.print(key.expose_secret())?;
    }
    Ok(Exit::Ok)
}
