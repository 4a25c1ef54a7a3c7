//! `cortex connector check`.

use crate::config::host_address;
use crate::connect;
use crate::context::Context;
use crate::escape::one_line;
use crate::exit::{Exit, Failure};
use crate::terminal::talk;
use cortex_api::Client;
use cortex_connectors::{ConformanceCheck, Finding, PromiseState};
use reqwest::Url;
use secrecy::SecretString;
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;

/// Check whether a server speaks the connector protocol: exit 1 when it breaks a promise
///
/// Four short messages are said to its assistant, in a conversation of their own. What the protocol itself asks for
/// must be there; extras that a server does not have are only told, unless --strict. docs/connector-protocol.md says
/// what each line means.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where /connector is below, such as http://localhost:7751
    url: Url,
    /// The key, where the server asks for one
    #[arg(long, value_name = "KEY", conflicts_with = "key_file")]
    key: Option<String>,
    /// A file with the key in it
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// The source of what is said; a connector's key may use only its own
    #[arg(long, default_value = "urn:connector:cortex-check")]
    source: String,
    /// The connectorId of what is said
    #[arg(long, default_value = "cortex-check", value_name = "ID")]
    connector_id: String,
    /// Seconds that an answer of the assistant may take
    #[arg(long, default_value_t = 60, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3_600))]
    timeout: u64,
    /// Count extras that are not there as failures
    #[arg(long)]
    strict: bool,
}

#[derive(Serialize)]
struct Report<'a> {
    checks: &'a [Finding],
    failed: usize,
    absent: usize,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    if !matches!(args.url.scheme(), "http" | "https") {
        return Err(Failure::Usage("give an address that starts with http:// or https://".to_owned()));
    }
    let check = ConformanceCheck {
        url: args.url.clone(),
        key: key(args)?,
        source: args.source.clone(),
        connector_id: args.connector_id.clone(),
        patience: Duration::from_secs(args.timeout),
    };
    let runtime = context.client_runtime()?;
    let guest = runtime.block_on(Guest::enter(args, context));
    let mut shown = Ok(());
    let findings = runtime.block_on(check.run(|finding| {
        if shown.is_ok() && !context.terminal.json {
            shown = context.terminal.print(&line(finding));
        }
    }));
    runtime.block_on(guest.leave());
    shown?;
    let count = |state| findings.iter().filter(|finding| finding.state == state).count();
    let (failed, absent) = (count(PromiseState::Failed), count(PromiseState::Absent));
    if context.terminal.json {
        context.terminal.print_json(&Report { checks: &findings, failed, absent })?;
    } else {
        talk(&format!("failed: {failed}, extras that are not there: {absent}"));
    }
    let is_good = failed == 0 && (absent == 0 || !args.strict);
    Ok(if is_good { Exit::Ok } else { Exit::Error })
}

/// The check at this home's own server, to which it comes without a key like a stranger. It leaves no stranger behind.
struct Guest<'a> {
    name: &'a str,
    /// None elsewhere, with a key, and where somebody of this name was before.
    server: Option<Client>,
}

impl<'a> Guest<'a> {
    async fn enter(args: &'a Args, context: &Context) -> Self {
        let name = args.connector_id.as_str();
        let has_key = args.key.is_some() || args.key_file.is_some();
        let own = connect::client(context).ok().filter(|client| !has_key && is_the_same(client, &args.url));
        let server = match own {
            Some(client) => {
                let known = client.connectors().await;
                let is_new = known.is_ok_and(|list| list.local.iter().all(|row| row.connector_id != name));
                is_new.then_some(client)
            }
            None => None,
        };
        Self { name, server }
    }

    async fn leave(self) {
        if let Some(server) = self.server {
            // Where the check got no further than the door there is nobody to forget.
            drop(server.forget_connector(self.name).await);
        }
    }
}

fn is_the_same(client: &Client, url: &Url) -> bool {
    let place = |url: &Url| {
        let host = url.host_str().and_then(host_address)?;
        Some((if host.is_loopback() { None } else { Some(host) }, url.port_or_known_default()?))
    };
    let own = Url::parse(client.base_url()).ok();
    own.is_some_and(|own| place(&own).is_some() && place(&own) == place(url))
}

fn key(args: &Args) -> Result<Option<SecretString>, Failure> {
    let Some(path) = &args.key_file else { return Ok(args.key.clone().map(Into::into)) };
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::Plain(format!("{} cannot be read: {error}", path.display())))?;
    Ok(Some(text.trim().into()))
}

/// What came from the server is made safe: it may be anybody's.
fn line(finding: &Finding) -> String {
    let seen = finding.seen.as_deref().map(|seen| format!("; seen: {}", one_line(seen, 300)));
    let (state, check) = (finding.state.as_str(), finding.check.as_str());
    format!("{state:<9}  {check:<19}  {}{}", finding.expected, seen.unwrap_or_default())
}
