//! Why the store could not do a thing, in terms a caller can branch on.

use crate::engine::capacity::Full;
use rusqlite::ErrorCode;

/// A failure of the store itself. Outcomes such as "no such row" are values of the transitions, not errors.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The disk is full, failing or locked; nothing of the request was kept.
    #[error("storage unavailable: {0}")]
    Unavailable(String),
    /// A stored row does not match its checksum; the rows beside it are whole.
    #[error("stored data is damaged: {0}")]
    Damaged(String),
    /// The file itself is damaged: it is read as far as it can be, and nothing more is written to it.
    #[error("the database is damaged: {0}")]
    FileDamaged(String),
    /// A limit of the settings is reached; nothing new is accepted until there is room.
    #[error("{0}")]
    Full(Full),
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
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::FileDamaged(text),
            // The store wrote every value itself: one that does not read as what it was is damage.
            None if is_unreadable(&error) => Self::Damaged(text),
            _ => Self::Fault(text),
        }
    }
}

impl StoreError {
    /// Whether the whole batch must be given up, because the transaction can no longer be trusted. A damaged row is no
    /// reason: its own request is undone, and the rows beside it are whole (D92).
    pub(crate) fn spoils_batch(&self) -> bool {
        match self {
            Self::Unavailable(_) | Self::FileDamaged(_) => true,
            Self::Damaged(_) | Self::Full(_) | Self::Closed | Self::Fault(_) => false,
        }
    }

    /// Whether it is worth a line in the log. A damaged file is logged once, when it is found; everything fails by it from
    /// then on.
    pub fn is_news(&self) -> bool {
        match self {
            Self::Unavailable(_) | Self::Damaged(_) | Self::Full(_) | Self::Closed | Self::Fault(_) => true,
            Self::FileDamaged(_) => false,
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
