//! `cortex key`.

use crate::connect;
use crate::context::Context;
use crate::credentials::Credentials;
use crate::escape::one_line;
use crate::exit::{Exit, Failure};
use crate::terminal::talk;
use cortex_api::{KeyInfo, KeyRequest};
use secrecy::ExposeSecret;
use serde_json::json;

/// Keys: the owner's, and one for each connector
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Print a key in the clear
    Show {
        /// ingest: the owner's key for every route
        #[arg(value_enum)]
        name: KeyName,
    },
    /// Make a key that may use one source and nothing else; it is shown once
    ///
    /// From then on nobody uses that source without a key: a connector that was trusted with it no longer is.
    Create {
        /// What to call it, such as the machine it is for
        name: String,
        /// The source of the connector that uses it, such as telegram or urn:connector:matrix-1
        #[arg(long)]
        source: String,
    },
    /// List the keys of connectors, newest first
    List,
    /// End a key: its next call is refused, its sockets are closed
    Revoke {
        /// Its id or its name
        #[arg(value_name = "ID|NAME")]
        key: String,
    },
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum KeyName {
    Ingest,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    match &args.action {
        Action::Show { name: KeyName::Ingest } => show(context)?,
        Action::Create { name, source } => create(name, source, context)?,
        Action::List => list(context)?,
        Action::Revoke { key } => revoke(key, context)?,
    }
    Ok(Exit::Ok)
}

fn show(context: &Context) -> Result<(), Failure> {
    let settings = crate::assemble::settings(&context.config()?)?;
    let credentials = Credentials::read(&context.home()?)?;
    let key =
        settings.ingest_api_key.as_ref().or(credentials.ingest_api_key()).ok_or_else(|| Failure::Coded {
            code: "no_key",
            message: "this home has no ingest key yet; the first `cortex start` makes one".to_owned(),
        })?;
    if context.terminal.json {
        context.terminal.print_json(&json!({"ingest": key.expose_secret()}))
    } else {
        context.terminal.print(key.expose_secret())
    }
}

fn create(name: &str, source: &str, context: &Context) -> Result<(), Failure> {
    let client = connect::client(context)?;
    let request = KeyRequest { name: name.to_owned(), source: source.to_owned() };
    let made = context.client_runtime()?.block_on(client.create_key(&request))?;
    if context.terminal.json {
        return context.terminal.print_json(&made);
    }
    for name in &made.untrusted {
        talk(&format!(
            "{} may no longer use the source {} without a key, also after this key is revoked; its sockets are closed",
            one_line(name, 60),
            one_line(&made.source, 60)
        ));
    }
    // The key alone goes to standard output, so that it can be piped into a file.
    talk(&format!(
        "{}: may use the source {} and nothing else. The key is shown this once:",
        made.id, made.source
    ));
    context.terminal.print(&made.key)
}

fn list(context: &Context) -> Result<(), Failure> {
    let client = connect::client(context)?;
    let list = context.client_runtime()?.block_on(client.keys())?;
    if context.terminal.json {
        return context.terminal.print_json(&list);
    }
    let rows: Vec<Vec<String>> = list.items.iter().map(cells).collect();
    context.terminal.print_table(&["key", "name", "source", "begins", "created", "revoked"], &rows)
}

fn revoke(key: &str, context: &Context) -> Result<(), Failure> {
    let client = connect::client(context)?;
    let about = Failure::about(format!("key {key}"), "cortex key list");
    let revoked = context.client_runtime()?.block_on(client.revoke_key(key)).map_err(about)?;
    if context.terminal.json {
        return context.terminal.print_json(&revoked);
    }
    let line = format!("{} ({}) is revoked; its sockets are closed", revoked.id, revoked.name);
    context.terminal.print(&line)
}

fn cells(key: &KeyInfo) -> Vec<String> {
    vec![
        key.id.to_string(),
        one_line(&key.name, 30),
        one_line(&key.source, 40),
        key.prefix.clone(),
        key.created_at.0.to_rfc3339(),
        key.revoked_at.map(|at| at.0.to_rfc3339()).unwrap_or_default(),
    ]
}
