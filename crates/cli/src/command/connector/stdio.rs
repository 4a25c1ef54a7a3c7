//! `cortex connector stdio`.

use super::running;
use crate::assemble;
use crate::context::Context;
use crate::exit::{Exit, Failure};
use cortex_api::Client;
use cortex_connectors::{Stdio, StdioFailure};
use cortex_types::is_reserved_source;
use sha2::{Digest, Sha256};
use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::OpenOptionsExt;

/// Bridge a program that speaks JSON lines
///
/// Each line on stdin is an event {"id","topic","user","text"} (and occurredAt, metadata), an {"ack":"out_…"} or a
/// {"nack":"out_…"}. Each message is a line {"messageId","topic","text","payload"} on stdout; a wrong line is answered
/// with {"error","line"}. The bridge ends with its input.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The source of the program's events, and of the messages that it gets
    #[arg(long, default_value = "stdio", value_name = "NAME")]
    source: String,
    /// Acknowledge a message once its line is written, instead of waiting for the program's ack
    #[arg(long)]
    auto_ack: bool,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let settings = assemble::settings(&context.config()?)?;
    check_source(&args.source, &settings.connectors.enabled())?;
    running::start_log(&settings, context, Vec::new(), false)?;
    let client = running::client(context)?;
    let _only = only_bridge(&args.source, &client, context)?;
    let runtime = context.client_runtime()?;
    let ended = runtime.block_on(async {
        let stop = running::stop_when_told(false)?;
        let bridge = Stdio { client, source: args.source.clone(), auto_ack: args.auto_ack, stop };
        let input = tokio::io::BufReader::new(tokio::io::stdin());
        Ok::<_, Failure>(bridge.run(input, tokio::io::stdout()).await)
    })?;
    // A read that waits on stdin would hold up the end.
    runtime.shutdown_background();
    match ended {
        Ok(()) => Ok(Exit::Ok),
        Err(StdioFailure::Output(error)) => Err(Failure::from_output(error)),
        Err(error @ StdioFailure::Input(_)) => Err(Failure::Plain(error.to_string())),
        Err(error @ StdioFailure::NotLetIn(_)) => Err(Failure::Misconfigured(error.to_string())),
    }
}

/// A bridge of a source that somebody else serves would take their messages.
fn check_source(source: &str, enabled: &[&str]) -> Result<(), Failure> {
    let whose = match source {
        source if is_reserved_source(source) => "the server itself".to_owned(),
        source if enabled.contains(&source) => format!("the {source} connector, which is enabled"),
        _ => return Ok(()),
    };
    Err(Failure::Usage(format!("the source {source} belongs to {whose}; choose another --source")))
}

/// Held while a bridge serves its source: what the first has in hand, a second would give back and show again. `None` where
/// the home cannot be written; the server may be elsewhere.
fn only_bridge(source: &str, client: &Client, context: &Context) -> Result<Option<File>, Failure> {
    let served = Sha256::digest([client.base_url(), source].join("\0"));
    let name: String = served.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let folder = context.home()?.path().join("run");
    let path = folder.join(format!("stdio-{name}.lock"));
    let opened = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path);
    let Ok(lock) = opened else { return Ok(None) };
    match lock.try_lock() {
        Ok(()) | Err(TryLockError::Error(_)) => Ok(Some(lock)),
        Err(TryLockError::WouldBlock) => Err(Failure::Coded {
            code: "bridge_runs",
            message: format!(
                "another bridge serves the source {source}; end it first, or choose another --source"
            ),
        }),
    }
}
