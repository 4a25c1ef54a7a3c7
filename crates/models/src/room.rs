//! Where the bytes of answers are counted while they are held.

use std::sync::Arc;

/// The bytes that one answer may hold. It counts them until it is dropped.
pub trait Room: Send + Sync {
    /// Holds so many bytes in all; never gives anything back.
    fn hold(&self, bytes: usize) -> Result<(), NoRoom>;
}

/// Too much is held already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("there is no room for the answer")]
pub struct NoRoom;

/// For the assistant's own calls: there are only as many at once as there are turns, and each has its bound.
pub(crate) fn of_the_assistant() -> Arc<dyn Room> {
    Arc::new(Uncounted)
}

struct Uncounted;

impl Room for Uncounted {
    fn hold(&self, _bytes: usize) -> Result<(), NoRoom> {
        Ok(())
    }
}
