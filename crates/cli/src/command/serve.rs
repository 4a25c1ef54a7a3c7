//! `cortex serve`.

use crate::assemble;
use crate::config::{Effective, check_exposure, load};
use crate::connector::forget_gone;
use crate::context::Context;
use crate::credentials::Credentials;
use crate::daemon::{self, Listening, url_of};
use crate::exit::{Exit, Failure};
use crate::home::{Home, HomeError};
use crate::logging::{self, LogSink};
use crate::redact::Redactor;
use crate::supervisor::{self, Supervisor};
use crate::terminal::talk;
use cortex_api::Client;
use cortex_server::{ReadChannels, RunningServer, ServeConfig, StartError};
use cortex_tools::ToolboxError;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::sync::Arc;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Enough for all connections and sockets that the server takes, the database and the children.
const OPEN_FILES: u64 = 65_536;

/// Run the server in the foreground
///
/// On an empty home it makes keys, database and workspace, and says how to talk to it. SIGHUP has it read the modes of
/// channels again; SIGTERM and SIGINT end it.
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
    if args.detached {
        leave_terminal()?;
    }
    let own = [credentials.token(), credentials.ingest_api_key(), credentials.approval_secret()];
    let own = own.into_iter().flatten().cloned();
    let redactor = Redactor::new(assemble::secrets(&settings, &context.environment).into_iter().chain(own));
    let sink = if args.detached { LogSink::File(home.log_file()) } else { LogSink::Stderr };
    logging::start(&settings.log_level, sink, redactor)
        .map_err(|error| HomeError::from_io(&home.log_file(), error))?;
    let read_channels = read_channels(&home, context);
    let config =
        assemble::server(&settings, &effective, &credentials, &home, &context.environment, read_channels)?;
    let connectors = settings.connectors.enabled();
    let serving = serve(config, &connectors, &effective, credentials, &home, args, context);
    context.server_runtime()?.block_on(serving)
}

/// Reads the settings again as this start read them, with its flags and its environment.
fn read_channels(home: &Home, context: &Context) -> ReadChannels {
    let (home, flags, environment) = (home.clone(), context.flags.clone(), context.environment.clone());
    Arc::new(move || {
        let effective = load(home.path(), &flags, &environment).map_err(|error| error.to_string())?;
        let settings = assemble::settings(&effective).map_err(|failure| failure.to_string())?;
        Ok(settings.channel_settings())
    })
}

async fn serve(
    config: ServeConfig,
    connectors: &[&'static str],
    effective: &Effective,
    mut credentials: Credentials,
    home: &Home,
    args: &Args,
    context: &Context,
) -> Result<Exit, Failure> {
    // Before anything is started: a signal that comes early must not end the process in the middle.
    let mut signals = Signals::listen()?;
    allow_many_connections();
    let board = config.connectors.clone();
    let running = cortex_server::start(config).await.map_err(|error| told(error, home, effective))?;
    forget_gone(home);
    let announced = announce(&running, &mut credentials, home, args, context);
    let supervised = async {
        announced?;
        let client = Client::new(&url_of(running.address()), credentials.token().cloned())?;
        let handed = |name: &str| supervisor::handed(name, effective, &context.environment);
        Supervisor::start(connectors, home, &client, &board, handed).await
    };
    let supervisor = match supervised.await {
        Ok(supervisor) => supervisor,
        Err(failure) => {
            running.stop().await;
            return Err(failure);
        }
    };
    while let Asked::Reload = signals.next().await {
        match running.reload_channels().await {
            Ok(()) => tracing::info!("The modes of channels were read again"),
            Err(problem) => {
                tracing::error!(problem, "The settings cannot be read; those before stay in force")
            }
        }
    }
    tracing::info!("The server stops");
    Listening::forget(home);
    // Connectors first: what they have in hand they give back to a server that is still there.
    let stopping = async {
        supervisor.stop().await;
        running.stop().await;
    };
    tokio::select! {
        () = stopping => Ok(Exit::Ok),
        () = signals.stop() => {
            talk("cortex: stopped at once; what was running goes on at the next start");
            Ok(Exit::Error)
        }
    }
}

/// Every connection is an open file, and systems often begin with far fewer than they allow.
fn allow_many_connections() {
    let files = getrlimit(Resource::Nofile);
    let wanted = files.maximum.map_or(OPEN_FILES, |most| most.min(OPEN_FILES));
    if files.current.is_some_and(|now| now < wanted)
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), ..files })
    {
        tracing::warn!(%error, "The limit of open files cannot be raised; few connections are possible");
    }
}

/// Tells clients and people where the server listens.
fn announce(
    running: &RunningServer,
    credentials: &mut Credentials,
    home: &Home,
    args: &Args,
    context: &Context,
) -> Result<(), Failure> {
    let url = url_of(running.address());
    credentials.remember_url(&url)?;
    Listening::write(home, running.address(), &context.flags)?;
    tracing::info!(%url, "The server listens");
    if !args.detached {
        talk(&format!("Cortex listens on {url}"));
        talk(&context.first_sentence());
    }
    Ok(())
}

fn told(error: StartError, home: &Home, effective: &Effective) -> Failure {
    match error {
        StartError::Lock(error) => daemon::not_locked(error, home, |pid| Failure::AlreadyRunning { pid }),
        StartError::Open(error) => Failure::Coded { code: "store_unusable", message: error.to_string() },
        StartError::Store(error) => {
            Failure::Coded { code: "storage_unavailable", message: error.to_string() }
        }
        error @ StartError::Listen { .. } => {
            Failure::Coded { code: "cannot_listen", message: error.to_string() }
        }
        StartError::Engram(error) => assemble::engram_failure(&error.to_string(), effective),
        StartError::Models(error) => assemble::models_failure(&error, effective),
        // Each line names its own file and fix.
        StartError::Tools(ToolboxError::Skills(problems)) => Failure::Skills(problems),
        StartError::Tools(error @ (ToolboxError::Registry(_) | ToolboxError::Name(_))) => {
            assemble::tools_failure(&error.to_string(), effective)
        }
        StartError::Registry(error) => assemble::tools_failure(&error.to_string(), effective),
    }
}

/// What a signal asks for.
enum Asked {
    Stop,
    /// Read the modes of channels again.
    Reload,
}

/// The signals that a server listens to.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Signals {
    fn listen() -> Result<Self, Failure> {
        let listen = |kind| {
            signal(kind).map_err(|error| Failure::Coded { code: "no_signals", message: error.to_string() })
        };
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            hang_up: listen(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.terminate.recv() => Asked::Stop,
            _ = self.interrupt.recv() => Asked::Stop,
            _ = self.hang_up.recv() => Asked::Reload,
        }
    }

    async fn stop(&mut self) {
        while let Asked::Reload = self.next().await {}
    }
}

/// A session of its own: closing the terminal does not end the server.
fn leave_terminal() -> Result<(), Failure> {
    match rustix::process::setsid() {
        // A process that leads a group already has no terminal to leave.
        Ok(_) | Err(rustix::io::Errno::PERM) => Ok(()),
        Err(error) => Err(Failure::Coded { code: "cannot_detach", message: error.to_string() }),
    }
}
