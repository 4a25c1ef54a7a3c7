//! `cortex serve`.

use crate::config::check_exposure;
use crate::context::Context;
use crate::credentials::Credentials;
use crate::exit::{Exit, Failure};
use crate::logging::{self, LogSink};
use crate::redact::Redactor;
use crate::{assemble, home};

/// Run the server in the foreground
///
/// On an empty home it makes keys, database and workspace, and says how to talk to it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Leave the terminal and write the log file; `cortex start` does this
    #[arg(long, hide = true)]
    detached: bool,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let home = context.home()?;
    home.prepare()?;
    let effective = context.config()?;
    check_exposure(&effective)?;
    let settings = assemble::settings(&effective)?;
    let credentials = Credentials::read_or_create(&home, settings.ingest_api_key.is_some())?;
    let own = [credentials.token(), credentials.ingest_api_key()].into_iter().flatten().cloned();
    let redactor = Redactor::new(assemble::secrets(&settings, &context.environment).into_iter().chain(own));
    let sink = if args.detached { LogSink::File(home.log_file()) } else { LogSink::Stderr };
    if args.detached {
        leave_terminal()?;
    }
    logging::start(&settings.log_level, sink, redactor)
        .map_err(|error| home::HomeError::from_io(&home.log_file(), error))?;
    let models = assemble::models(&settings, &effective, &context.environment)?;
    drop(models);
    Err(Failure::Coded { code: "no_server", message: "not built in yet".to_owned() })
}

/// A session of its own: closing the terminal does not end the server.
fn leave_terminal() -> Result<(), Failure> {
    match rustix::process::setsid() {
        // A process that leads a group already has no terminal to leave.
        Ok(_) | Err(rustix::io::Errno::PERM) => Ok(()),
        Err(error) => Err(Failure::Coded { code: "cannot_detach", message: error.to_string() }),
    }
}
