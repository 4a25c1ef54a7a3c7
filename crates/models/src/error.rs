//! What can go wrong: while the models are assembled, with one call, and with a whole question.

use std::path::PathBuf;
use std::time::Duration;

/// Why no `Models` could be made of a configuration; each message names the setting to change.
#[derive(Debug, thiserror::Error)]
pub enum ModelsError {
    #[error("providers.profiles: two profiles are named {0:?}; give each its own name")]
    DuplicateProfile(String),
    #[error(
        "providers.profiles {profile:?}: no apiKey and no authToken; set one, or baseUrl for a server that needs none"
    )]
    NoKey { profile: String },
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
