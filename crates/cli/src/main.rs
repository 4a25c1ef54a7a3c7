//! The `cortex` command: reads the environment, picks a role, prints.

mod archive;
mod arguments;
mod assemble;
mod command;
mod config;
mod connect;
mod connector;
mod context;
mod credentials;
mod daemon;
mod duration;
mod environment;
mod escape;
mod exit;
#[cfg(feature = "fault-points")]
mod fault;
mod home;
mod logging;
mod panic_line;
mod question;
mod redact;
mod staging;
mod supervisor;
mod terminal;

use std::process::ExitCode;

fn main() -> ExitCode {
    // Everything this process writes is its owner's alone, whatever the shell's mask says.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    // The first provider of the process stays; there is no other one.
    rustls::crypto::ring::default_provider().install_default().unwrap_or_default();
    let environment = environment::Environment::from_process();
    #[cfg(feature = "fault-points")]
    fault::arm(&environment);
    let exit = arguments::run(std::env::args_os(), environment);
    ExitCode::from(exit.code())
}
