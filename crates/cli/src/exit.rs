//! How a command ends: the exit codes, and the failures that lead to them.

use crate::config::ConfigError;
use crate::home::HomeError;
use cortex_api::ClientError;
use cortex_tools::SkillProblem;
use std::fmt::Display;
use std::io;

/// The exit codes of every command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Ok,
    Error,
    /// Already running, or nothing runs.
    Running,
    Usage,
    Config,
}

impl Exit {
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Error => 1,
            Self::Running => 2,
            Self::Usage => 64,
            Self::Config => 78,
        }
    }
}

/// Why a command did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("{0}")]
    Usage(String),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("{}", lines(.0))]
    Skills(Vec<SkillProblem>),
    #[error("already running, pid {pid}")]
    AlreadyRunning { pid: u32 },
    #[error("not running; `cortex start` starts it")]
    NotRunning,
    #[error("no server answers at {url}; `cortex start` starts one")]
    Unreachable { url: String },
    #[error(transparent)]
    Home(#[from] HomeError),
    #[error("{code}: {message}")]
    Coded { code: &'static str, message: String },
    /// What a connector found wrong with its settings while it ran.
    #[error("misconfigured: {0}")]
    Misconfigured(String),
    #[error("{0}")]
    Plain(String),
    /// The reader of our output went away; nothing is wrong.
    #[error("output closed")]
    OutputClosed,
}

fn lines(problems: &[SkillProblem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

impl Failure {
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Usage(_) => Exit::Usage,
            Self::Config(_) | Self::Skills(_) | Self::Misconfigured(_) => Exit::Config,
            Self::AlreadyRunning { .. } | Self::NotRunning | Self::Unreachable { .. } => Exit::Running,
            Self::Home(_) | Self::Coded { .. } | Self::Plain(_) => Exit::Error,
            Self::OutputClosed => Exit::Ok,
        }
    }

    /// A refusal about a row that was named; one that is not there is told by its name.
    pub(crate) fn about(what: impl Display, where_to_look: &str) -> impl FnOnce(ClientError) -> Self {
        let missing = format!("there is no {what}; `{where_to_look}` shows them");
        move |error| {
            let is_missing = matches!(error, ClientError::Api { status: 404, .. });
            if is_missing { Self::Coded { code: "not_found", message: missing } } else { Self::from(error) }
        }
    }

    /// Writing to stdout or stderr failed.
    pub(crate) fn from_output(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::OutputClosed;
        }
        Self::Coded { code: "output_failed", message: error.to_string() }
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Unreachable { url, .. } => {
                let base = url.splitn(4, '/').take(3).collect::<Vec<_>>().join("/");
                Self::Unreachable { url: base }
            }
            ClientError::Unauthorized => Self::Coded {
                code: "unauthorized",
                message:
                    "the server refused the token; set CORTEX_TOKEN, or use the home of the server (--home)"
                        .to_owned(),
            },
            ClientError::Api { status, body } => {
                let details = body.details.join("; ");
                let message =
                    if details.is_empty() { format!("the server answered {status}") } else { details };
                Self::Coded { code: body.error.as_str(), message }
            }
            error @ (ClientError::TimedOut { .. } | ClientError::Protocol { .. }) => {
                Self::Plain(error.to_string())
            }
        }
    }
}
