//! `cortex skill trust`.

use super::{awaiting, broken, configured, folder_of, trusted_here};
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::terminal::talk;
use crate::{connect, daemon};
use cortex_api::{AwaitingTrust, Client, ClientError, ErrorBody, ErrorCode, ToolList, ToolRow};
use cortex_store::{HomeLock, HomeUse, Store, StoreConfig};
use cortex_tools::{SkillSet, StoredTrust, TrustError};
use cortex_types::SystemClock;
use std::sync::Arc;

/// Trust a skill or an MCP server after its tools changed, as it is shown
///
/// Shows what is new or changed, and trusts exactly that: what changes in the meantime is refused. What server.json names
/// is trusted when it is first seen. A running server trusts what it has loaded: after a change of the files, restart it
/// first.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The skill's id, or the name of an MCP server
    id: String,
    /// Trust only what `cortex skill list` showed with this digest
    #[arg(long)]
    digest: Option<String>,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let client = connect::client(context)?;
    let runtime = context.client_runtime()?;
    match runtime.block_on(client.tools()) {
        Ok(tools) => runtime.block_on(trust_there(args, &tools, &client))?,
        // A server that was named and is away has a trust of its own; this home's is not meant then.
        Err(ClientError::Unreachable { .. }) if is_about_this_home(context) => {
            runtime.block_on(trust_here(args, context))?;
        }
        Err(error) => return Err(error.into()),
    }
    if context.terminal.json {
        context.terminal.print_json(&serde_json::json!({"id": args.id, "trusted": true}))?;
    } else {
        context.terminal.print(&format!("trusted {}", args.id))?;
    }
    Ok(Exit::Ok)
}

async fn trust_there(args: &Args, tools: &ToolList, client: &Client) -> Result<(), Failure> {
    let id = &args.id;
    let about = Failure::about(format!("skill or MCP server {id:?}"), "cortex skill list");
    if let Some(row) = tools.awaiting_trust.iter().find(|row| row.name == *id) {
        show(row, args)?;
        return client.trust_tools(id, &row.digest).await.map_err(about);
    }
    let is_theirs =
        |tool: &ToolRow| tool.origin != "built-in" && tool.name.split('.').next() == Some(id.as_str());
    if !tools.items.iter().any(is_theirs) {
        return Err(about(ClientError::Api { status: 404, body: ErrorBody::new(ErrorCode::NotFound) }));
    }
    refuse_digest(args)?;
    talk(&format!("nothing of {id} changed since it was trusted"));
    Ok(())
}

/// Where nothing waits, nothing has the digest of what somebody looked at.
fn refuse_digest(args: &Args) -> Result<(), Failure> {
    if args.digest.is_none() {
        return Ok(());
    }
    let message = format!(
        "nothing of {:?} with this digest waits to be trusted, so nothing was trusted; `cortex skill list` shows what waits",
        args.id
    );
    Err(Failure::Coded { code: "conflict", message })
}

/// Says what is about to be trusted. Who looked before says with the digest what they saw.
fn show(row: &AwaitingTrust, args: &Args) -> Result<(), Failure> {
    if args.digest.as_ref().is_some_and(|seen| *seen != row.digest) {
        let message = TrustError::NotAsShown(args.id.clone()).to_string();
        return Err(Failure::Coded { code: "conflict", message });
    }
    talk(&format!("{} is trusted with:", row.name));
    for line in awaiting::lines(row) {
        talk(&format!("  {line}"));
    }
    Ok(())
}

fn is_about_this_home(context: &Context) -> bool {
    context.flags.is_empty() && context.environment.get_filled("CORTEX_SERVER_URL").is_none()
}

/// Without a server the store is ours, as long as we hold its home.
async fn trust_here(args: &Args, context: &Context) -> Result<(), Failure> {
    let id = args.id.as_str();
    let home = context.home()?;
    let (_, options) = configured(context)?;
    let folder = folder_of(id, &options).ok_or_else(|| Failure::Coded {
        code: "not_found",
        message: format!(
            "there is no skill {id:?} in skillDirs; an MCP server is trusted while the server runs"
        ),
    })?;
    if !home.database().exists() {
        let message =
            "this home has no database yet; the first start trusts what server.json names".to_owned();
        return Err(Failure::Coded { code: "not_started", message });
    }
    let lock = HomeLock::acquire_for(HomeUse::Command, home.path())
        .map_err(|error| daemon::not_locked(error, &home, daemon::not_answering))?;
    let trusted = trusted_here(context)?;
    let skills = SkillSet::look_at_folder(&folder, &options, &trusted).await;
    let skills = skills.map_err(|problems| broken(&problems))?;
    let unpinned = skills.would_pin(&trusted);
    if unpinned.is_empty() {
        refuse_digest(args)?;
    }
    for row in unpinned {
        show(&cortex_server::untrusted(row), args)?;
    }
    let (store, thread) = Store::open(StoreConfig::at(home.database()))
        .map_err(|error| Failure::Coded { code: "store_unusable", message: error.to_string() })?;
    let trust = StoredTrust { store, clock: Arc::new(SystemClock::start()) };
    let mut settled = Ok(());
    for skill in skills.skills() {
        settled = skills.trust(&skill.manifest.id, &trust).await;
    }
    drop(trust);
    thread.close();
    drop(lock);
    settled.map_err(|error| match error {
        TrustError::Broken(reason) => Failure::Plain(reason),
        TrustError::NoSkill(_) | TrustError::NotAsShown(_) | TrustError::Store(_) => {
            Failure::Coded { code: "storage_unavailable", message: error.to_string() }
        }
    })
}
