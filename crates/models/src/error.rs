//! What can go wrong: while the models are assembled, with one call, and with a whole question.

use crate::room::NoRoom;
use std::path::PathBuf;
use std::time::Duration;

/// Why no `Models` could be made of a configuration; each message names the setting to change.
#[derive(Debug, thiserror::Error)]
pub enum ModelsError {
    #[error("providers.profiles: two profiles are named {0:?}; give each its own name")]
    DuplicateProfile(String),
    #[error(
        "providers.profiles {0:?}: no apiKey and no authToken; set one, or baseUrl for a server that needs none"
    )]
    NoKey(String),
    #[error("{setting}: not a usable http(s) address: {problem}")]
    BadUrl { setting: String, problem: String },
    #[error("{setting}: the key has characters that no HTTP header may carry")]
    BadKey { setting: String },
    #[error("scripted model {}: {problem}", path.display())]
    Script { path: PathBuf, problem: String },
    #[error("price table: {0}")]
    Prices(String),
    #[error("HTTP client: {0}")]
    Client(String),
}

/// Why a question got no answer from any provider. The message is one line without keys.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// Asking again later may help.
    #[error("{message}")]
    Transient {
        /// How long every provider that could still answer asked to be left alone.
        retry_after: Option<Duration>,
        message: String,
    },
    /// Asking the same again will fail again.
    #[error("{message}")]
    Permanent { message: String },
    /// The caller cancelled; says nothing about the providers.
    #[error("the model call was cancelled")]
    Cancelled,
}

/// Why one call to one provider gave no answer. `said` is the provider's own word; the endpoint
/// redacts it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CallError {
    #[error("rate limited (429): {said}")]
    RateLimited { retry_after: Option<Duration>, said: String },
    #[error("server error ({status}): {said}")]
    Server { status: u16, retry_after: Option<Duration>, said: String },
    #[error("the key was refused ({status}): {said}")]
    Unauthorized { status: u16, said: String },
    #[error("the request was rejected ({status}): {said}")]
    Rejected { status: u16, said: String },
    #[error("the provider's filter refused to answer")]
    Filtered,
    #[error("could not reach the provider: {0}")]
    Network(String),
    #[error("silent for {} ms", .0.as_millis())]
    Idle(Duration),
    #[error("not done after {} ms", .0.as_millis())]
    TooLong(Duration),
    #[error("the answer was cut off: {0}")]
    Cut(String),
    #[error("the answer was malformed: {0}")]
    Malformed(String),
    #[error("the answer was empty")]
    Empty,
    #[error("cancelled")]
    Cancelled,
    #[error(transparent)]
    NoRoom(#[from] NoRoom),
}

/// What a failed call means for the question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Ask the next provider; this one may be fine again later.
    Transient { retry_after: Option<Duration> },
    /// Ask the next provider; this one will refuse again.
    Refused,
    /// The question itself is at fault: no other provider is asked.
    Stop,
}

impl CallError {
    pub(crate) fn verdict(&self) -> Verdict {
        match self {
            Self::RateLimited { retry_after, .. } | Self::Server { retry_after, .. } => {
                Verdict::Transient { retry_after: *retry_after }
            }
            Self::Network(_)
            | Self::Idle(_)
            | Self::TooLong(_)
            | Self::Cut(_)
            | Self::Malformed(_)
            | Self::Empty => Verdict::Transient { retry_after: None },
            Self::Unauthorized { .. } => Verdict::Refused,
            Self::Rejected { .. } | Self::Filtered | Self::Cancelled | Self::NoRoom(_) => Verdict::Stop,
        }
    }

    /// The same error with every word of the provider passed through `redact`.
    pub(crate) fn redacted(self, redact: impl Fn(&str) -> String) -> Self {
        match self {
            Self::RateLimited { retry_after, said } => Self::RateLimited { retry_after, said: redact(&said) },
            Self::Server { status, retry_after, said } => {
                Self::Server { status, retry_after, said: redact(&said) }
            }
            Self::Unauthorized { status, said } => Self::Unauthorized { status, said: redact(&said) },
            Self::Rejected { status, said } => Self::Rejected { status, said: redact(&said) },
            Self::Network(said) => Self::Network(redact(&said)),
            Self::Cut(said) => Self::Cut(redact(&said)),
            Self::Malformed(said) => Self::Malformed(redact(&said)),
            Self::Filtered
            | Self::Idle(_)
            | Self::TooLong(_)
            | Self::Empty
            | Self::Cancelled
            | Self::NoRoom(_) => self,
        }
    }

    /// An error that a provider reported by an HTTP status.
    pub(crate) fn from_status(status: u16, retry_after: Option<Duration>, said: String) -> Self {
        match status {
            429 => Self::RateLimited { retry_after, said },
            401 | 403 => Self::Unauthorized { status, said },
            // 408 is the server giving up waiting, a timeout like any other.
            408 | 500..=599 => Self::Server { status, retry_after, said },
            _ => Self::Rejected { status, said },
        }
    }

    /// An error that a provider reported inside a stream, where there is no status any more.
    pub(crate) fn from_stream(kind: &str, said: String) -> Self {
        let status = match kind.to_ascii_lowercase().as_str() {
            number if number.parse::<u16>().is_ok() => number.parse().unwrap_or(500),
            kind if kind.contains("rate_limit") || kind.contains("resource_exhausted") => 429,
            kind if kind.contains("authentication") || kind.contains("permission") => 401,
            kind if kind.contains("invalid_request") || kind.contains("invalid_argument") => 400,
            _ => 500,
        };
        Self::from_status(status, None, said)
    }
}
