//! Why the store could not do a thing, in terms a caller can branch on.

use rusqlite::ErrorCode;

/// A failure of the store itself. Outcomes such as "no such row" are values of the transitions, not errors.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The disk is full, failing or locked; nothing of the request was kept.
    #[error("storage unavailable: {0}")]
    Unavailable(String),
    /// A stored row does not match its checksum, or the file is malformed.
    #[error("stored data is damaged: {0}")]
    Damaged(String),
    /// The writer thread is gone; only during shutdown.
    #[error("the store is closed")]
    Closed,
    /// A statement that should never fail did.
    #[error("store fault: {0}")]
    Fault(String),
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        let text = error.to_string();
        match error.sqlite_error_code() {
            Some(
                ErrorCode::DiskFull
                | ErrorCode::SystemIoFailure
                | ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::ReadOnly
                | ErrorCode::CannotOpen
                | ErrorCode::OutOfMemory,
            ) => Self::Unavailable(text),
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::Damaged(text),
            // The store wrote every value itself: one that does not read as what it was is damage.
            None if is_unreadable(&error) => Self::Damaged(text),
            _ => Self::Fault(text),
        }
    }
}

impl StoreError {
    /// Whether the whole batch must be given up, because the transaction can no longer be trusted.
    pub(crate) fn spoils_batch(&self) -> bool {
        match self {
            Self::Unavailable(_) | Self::Damaged(_) => true,
            Self::Closed | Self::Fault(_) => false,
        }
    }
}

fn is_unreadable(error: &rusqlite::Error) -> bool {
    matches!(
        error,
        rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::Utf8Error(..)
    )
}
