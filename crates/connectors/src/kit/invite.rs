//! Chats that we are asked into: entered when somebody asks who is allowed, and passed over otherwise.

use super::backoff::Backoff;
use super::platform::{Platform, PlatformError};
use super::run::{Connector, Stopped};
use std::time::Duration;

const TRIES: usize = 5;

impl<P: Platform> Connector<P> {
    pub(super) async fn take_invite(&self, user: &str, chat: &str) -> Result<(), Stopped> {
        if !self.is_allowed(user) {
            tracing::debug!(chat, "a stranger's invitation is passed over");
            return Ok(());
        }
        let mut backoff = Backoff::new();
        for round in 1..=TRIES {
            let wait = match self.platform.join(chat).await {
                Ok(()) => return Ok(()),
                Err(PlatformError::RetryAfter { seconds }) => Duration::from_secs(u64::from(seconds)),
                Err(PlatformError::Transient(_)) if round < TRIES => backoff.wait(),
                Err(error) => {
                    tracing::warn!(%error, chat, "an invitation could not be accepted; invite again");
                    return Ok(());
                }
            };
            self.pause(wait).await?;
        }
        Ok(())
    }
}
