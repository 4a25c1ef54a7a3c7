//! `cortex connector stdio`.

use super::running;
use crate::assemble;
use crate::context::Context;
use crate::exit::{Exit, Failure};
use cortex_connectors::{Stdio, StdioFailure};

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
    running::start_log(&settings, context, None, false)?;
    let client = running::client(context)?;
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
    }
}
