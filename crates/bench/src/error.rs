//! Why a benchmark has no figure.

use cortex_models::ModelsError;
use cortex_server::StartError;
use cortex_store::{OpenError, StoreError};

/// A run that could not be measured. A missed goal is not an error: it is in the report.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    #[error(transparent)]
    Start(#[from] StartError),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Models(#[from] ModelsError),
    #[error("a baseline's database failed: {0}")]
    Sql(#[from] rusqlite::Error),
    #[error("the machine refused: {0}")]
    Io(#[from] std::io::Error),
    /// What was measured did not do its work, so its speed means nothing.
    #[error("{0}")]
    Broken(String),
}
