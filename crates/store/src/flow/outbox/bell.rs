//! The bell: who waits for messages of a source hears when there may be one, after it is on disk.

use cortex_types::TopicRef;
use std::cell::RefCell;
use std::sync::Arc;
use tokio::sync::broadcast;

/// Rings that a listener may fall behind; then it looks for itself.
const BACKLOG: usize = 4_096;

thread_local! {
    /// Topics that got something in the transaction at hand. There is one writer thread, so it is that one's.
    static QUEUED: RefCell<Vec<TopicRef>> = const { RefCell::new(Vec::new()) };
}

/// Remembers that this topic has something new to claim once the transaction is committed.
pub(crate) fn queued_for(topic: &TopicRef) {
    QUEUED.with_borrow_mut(|queued| {
        if queued.last().is_none_or(|last| last != topic) {
            queued.push(topic.clone());
        }
    });
}

/// Tells listeners which topics have something to claim.
#[derive(Clone)]
pub(crate) struct OutboxBell(broadcast::Sender<Arc<TopicRef>>);

impl Default for OutboxBell {
    fn default() -> Self {
        Self(broadcast::Sender::new(BACKLOG))
    }
}

impl OutboxBell {
    pub(crate) fn listen(&self) -> OutboxListener {
        OutboxListener(self.0.subscribe())
    }

    /// Called by the writer after a commit.
    pub(crate) fn ring(&self) {
        for topic in QUEUED.take() {
            // Nobody listening is no error.
            drop(self.0.send(Arc::new(topic)));
        }
    }

    /// Called by the writer after a transaction that was given up.
    pub(crate) fn forget(&self) {
        drop(QUEUED.take());
    }
}

/// One listener's place at the bell.
pub struct OutboxListener(broadcast::Receiver<Arc<TopicRef>>);

/// What a listener hears.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ring {
    /// This topic has something to claim.
    For(Arc<TopicRef>),
    /// So much rang that it was not heard: every topic may have something.
    ForAnybody,
    /// The store is closed.
    Over,
}

impl OutboxListener {
    pub async fn next(&mut self) -> Ring {
        match self.0.recv().await {
            Ok(topic) => Ring::For(topic),
            Err(broadcast::error::RecvError::Lagged(_)) => Ring::ForAnybody,
            Err(broadcast::error::RecvError::Closed) => Ring::Over,
        }
    }
}
