//! What memory does by itself: indexes what was said, and makes vectors that are missing or of another model.

use super::{MemoryDesk, Reembedding};
use crate::timer::wait_for;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// A start has better things to do first.
const FIRST: Duration = Duration::from_secs(30);
const EVERY: Duration = Duration::from_secs(60);

impl MemoryDesk {
    /// Keeps the index up to date until `stop`; run it once.
    pub(crate) async fn keep_up(&self, stop: CancellationToken) {
        let mut wait = FIRST;
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = wait_for(&*self.0.clock, wait) => {}
            }
            wait = EVERY;
            if let Err(error) = self.catch_up().await {
                tracing::warn!(%error, "What was said is not indexed yet; it is tried again");
            }
            if self.0.is_incomplete.load(Ordering::Relaxed) {
                self.complete(&stop).await;
            }
        }
    }

    async fn complete(&self, stop: &CancellationToken) {
        match self.reembed(stop).await {
            Ok(Reembedding::Done(made)) => {
                if made > 0 {
                    tracing::info!(made, model = self.model(), "Every text has its vector");
                }
            }
            Ok(Reembedding::Interrupted(made)) => {
                tracing::info!(made, model = self.model(), "Vectors are being made anew; the rest follows");
            }
            Err(error) => tracing::warn!(%error, "Vectors could not be made anew; it is tried again"),
        }
    }
}
