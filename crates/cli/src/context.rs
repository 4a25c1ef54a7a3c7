//! What every command is given: the home, the flags, the environment and the terminal.

use crate::config::{Effective, Flags, load};
use crate::environment::Environment;
use crate::exit::Failure;
use crate::home::Home;
use crate::terminal::Terminal;
use cortex_types::ApprovalId;
use std::path::PathBuf;

#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) home_flag: Option<PathBuf>,
    pub(crate) flags: Flags,
    pub(crate) environment: Environment,
    pub(crate) terminal: Terminal,
}

impl Context {
    pub(crate) fn home(&self) -> Result<Home, Failure> {
        Ok(Home::choose(self.home_flag.as_deref(), &self.environment)?)
    }

    pub(crate) fn config(&self) -> Result<Effective, Failure> {
        Ok(load(self.home()?.path(), &self.flags, &self.environment)?)
    }

    /// How to talk to the server of this home.
    pub(crate) fn first_sentence(&self) -> String {
        format!("Say something: {} send \"hello\"", self.program())
    }

    /// How to answer a question from the shell.
    pub(crate) fn how_to_answer(&self, approval: &ApprovalId) -> String {
        let program = self.program();
        format!(
            "Answer with: {program} approvals approve {approval}   (or: {program} approvals deny {approval})"
        )
    }

    /// This program as it is called for this home.
    pub(crate) fn program(&self) -> String {
        let flag = self.home_flag.as_ref().map(|home| format!(" --home {}", home.display()));
        format!("cortex{}", flag.unwrap_or_default())
    }

    /// The runtime of a short-lived client: one thread is enough.
    pub(crate) fn client_runtime(&self) -> Result<tokio::runtime::Runtime, Failure> {
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(no_runtime)
    }

    /// The runtime of a server. Few threads: work waits on the disk and on models, not on the processor.
    pub(crate) fn server_runtime(&self) -> Result<tokio::runtime::Runtime, Failure> {
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(no_runtime)
    }
}

fn no_runtime(error: std::io::Error) -> Failure {
    Failure::Coded {
        code: "no_runtime",
        message: format!("cannot start: {error}; raise the limits of this process"),
    }
}
