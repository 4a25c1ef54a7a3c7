//! `cortex connector trust`, `untrust` and `forget`.

use crate::connect;
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::terminal::talk;
use cortex_api::TrustRequest;

/// Let a connector on this machine use its source without a key
///
/// A connector without a key sees only its own conversation. Trusted, it speaks, reads and approves for its one source
/// like a connector with a key. Any program on this machine can use its name, so prefer a key where the connector takes
/// one: `cortex key create`.
#[derive(Debug, clap::Args)]
pub(crate) struct TrustArgs {
    /// The connectorId, as `cortex connector status` shows it
    connector_id: String,
    /// The source it may use; needed when programs of this name claimed several
    #[arg(long)]
    source: Option<String>,
}

/// Trust a connector without a key no longer: it sees only its own conversation again
#[derive(Debug, clap::Args)]
pub(crate) struct UntrustArgs {
    /// The connectorId, as `cortex connector status` shows it
    connector_id: String,
}

/// Forget a connector that came without a key
///
/// It leaves the lists and the warnings of `cortex doctor`, its sockets are closed, and it is no longer trusted. If it comes
/// again, it is listed again.
#[derive(Debug, clap::Args)]
pub(crate) struct ForgetArgs {
    /// The connectorId, as `cortex connector status` shows it
    connector_id: String,
}

pub(super) fn trust(args: &TrustArgs, context: &Context) -> Result<Exit, Failure> {
    let client = connect::client(context)?;
    let request = TrustRequest { connector_id: args.connector_id.clone(), source: args.source.clone() };
    let trusted = context.client_runtime()?.block_on(client.trust_connector(&request))?;
    if context.terminal.json {
        context.terminal.print_json(&trusted)?;
        return Ok(Exit::Ok);
    }
    let source = trusted.trusted_source.unwrap_or_default();
    let line = format!(
        "{} is trusted for the source {source}; its open sockets are closed, so that it connects again",
        trusted.connector_id
    );
    context.terminal.print(&line)?;
    talk("every program on this machine can use its name; `cortex key create` makes a key instead");
    Ok(Exit::Ok)
}

pub(super) fn untrust(args: &UntrustArgs, context: &Context) -> Result<Exit, Failure> {
    let client = connect::client(context)?;
    let row = context.client_runtime()?.block_on(client.untrust_connector(&args.connector_id))?;
    if context.terminal.json {
        context.terminal.print_json(&row)?;
        return Ok(Exit::Ok);
    }
    let line = format!("{} is no longer trusted; its sockets are closed", row.connector_id);
    context.terminal.print(&line)?;
    Ok(Exit::Ok)
}

pub(super) fn forget(args: &ForgetArgs, context: &Context) -> Result<Exit, Failure> {
    let client = connect::client(context)?;
    let row = context.client_runtime()?.block_on(client.forget_connector(&args.connector_id))?;
    if context.terminal.json {
        context.terminal.print_json(&row)?;
        return Ok(Exit::Ok);
    }
    let line = format!("{} is forgotten; its sockets are closed", row.connector_id);
    context.terminal.print(&line)?;
    Ok(Exit::Ok)
}
