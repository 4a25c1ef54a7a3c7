//! `cortex skill trust`.

use super::{broken, configured, folder_of};
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::{connect, daemon};
use cortex_api::ClientError;
use cortex_store::{HomeLock, HomeUse, Store, StoreConfig};
use cortex_tools::{SkillSet, StoredTrust};
use cortex_types::SystemClock;
use std::sync::Arc;

/// Trust a skill or an MCP server as it is now, after its tools changed
///
/// What server.json names is trusted when it is first seen. A running server trusts what it has loaded: after a change
/// of the files, restart it first.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The skill's id, or the name of an MCP server
    id: String,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let client = connect::client(context)?;
    let runtime = context.client_runtime()?;
    match runtime.block_on(client.trust_tools(&args.id)) {
        Ok(()) => {}
        // A server that was named and is away has a trust of its own; this home's is not meant then.
        Err(ClientError::Unreachable { .. }) if is_about_this_home(context) => {
            runtime.block_on(trust_here(&args.id, context))?;
        }
        Err(error) => {
            let about = Failure::about(format!("skill or MCP server {:?}", args.id), "cortex skill list");
            return Err(about(error));
        }
    }
    if context.terminal.json {
        context.terminal.print_json(&serde_json::json!({"id": args.id, "trusted": true}))?;
    } else {
        context.terminal.print(&format!("trusted {}", args.id))?;
    }
    Ok(Exit::Ok)
}

fn is_about_this_home(context: &Context) -> bool {
    context.flags.is_empty() && context.environment.get_filled("CORTEX_SERVER_URL").is_none()
}

/// Without a server the store is ours, as long as we hold its home.
async fn trust_here(id: &str, context: &Context) -> Result<(), Failure> {
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
    let (skills, _) = SkillSet::load_folder(&folder, &options).await.map_err(|problems| broken(&problems))?;
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
    settled.map_err(|error| Failure::Coded { code: "storage_unavailable", message: error.to_string() })
}
