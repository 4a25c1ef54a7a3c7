//! What a caller may show while a model is still talking: a preview, never the answer.

/// One piece of a preview.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delta {
    /// More text of the answer that is being written.
    Text(String),
    /// What was shown so far came from a call that failed: forget it, another provider starts over.
    Restarted,
}

/// Takes deltas as they come. It must not block: the model's stream waits for it.
///
/// Every `Fn(Delta)` is one; `&|_| {}` listens to nothing. The text of one call never exceeds
/// `limits::REPLY_BYTES_MAX`, so an unbounded channel behind it stays bounded.
pub trait DeltaSink: Send + Sync {
    fn push(&self, delta: Delta);
}

impl<F: Fn(Delta) + Send + Sync> DeltaSink for F {
    fn push(&self, delta: Delta) {
        self(delta);
    }
}
