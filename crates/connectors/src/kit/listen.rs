//! The listening loop: what happens on the platform is dealt with in order, and the cursor follows behind.

use super::backoff::Backoff;
use super::notebook::NotebookError;
use super::platform::{Ear, Happening, Inbound, Platform, PlatformError};
use super::run::{Connector, ConnectorFailure, Stopped};
use std::time::Duration;

/// Why dealing with something ended early.
pub(super) enum Interrupted {
    Stopped,
    Notebook(NotebookError),
}

impl From<Stopped> for Interrupted {
    fn from(Stopped: Stopped) -> Self {
        Self::Stopped
    }
}

impl From<NotebookError> for Interrupted {
    fn from(error: NotebookError) -> Self {
        Self::Notebook(error)
    }
}

impl<P: Platform> Connector<P> {
    pub(super) async fn listen(&self) -> Result<(), ConnectorFailure> {
        let mut ear = self.platform.ear();
        let mut backoff = Backoff::new();
        loop {
            let cursor = self.notebook.read(|pages| pages.cursor.clone());
            let heard = tokio::select! {
                () = self.stop.cancelled() => return Ok(()),
                heard = ear.next(cursor.as_deref()) => heard,
            };
            let is_away = matches!(&heard, Err(PlatformError::Transient(_)));
            self.is_reachable.send_replace(!is_away);
            let wait = match heard {
                Ok(batch) => match self.take_all(batch).await {
                    Ok(()) => {
                        backoff = Backoff::new();
                        continue;
                    }
                    Err(Interrupted::Stopped) => return Ok(()),
                    Err(Interrupted::Notebook(error)) => {
                        tracing::error!(%error, "what was heard cannot be noted; hearing it again");
                        backoff.wait()
                    }
                },
                Err(PlatformError::Misconfigured(reason)) => {
                    self.note_refusal(&PlatformError::Misconfigured(reason.clone()));
                    return Err(ConnectorFailure::Misconfigured(reason));
                }
                Err(error) => {
                    self.note_refusal(&error);
                    let wait = self.wait_after(&error, &mut backoff);
                    tracing::warn!(%error, wait_s = wait.as_secs_f32(), "cannot listen; trying again");
                    wait
                }
            };
            if self.pause(wait).await.is_err() {
                return Ok(());
            }
        }
    }

    async fn take_all(&self, batch: Vec<Inbound>) -> Result<(), Interrupted> {
        // A person who pressed a button watches it: those hear from us before anything that may take long.
        for inbound in &batch {
            if let Happening::Clicked(click) = &inbound.what {
                self.greet_click(click).await;
            }
        }
        for inbound in batch {
            self.take(inbound).await?;
        }
        Ok(())
    }

    /// Deals with one thing; the cursor is stored only behind what is durable.
    async fn take(&self, inbound: Inbound) -> Result<(), Interrupted> {
        let external_id = match &inbound.what {
            Happening::Said(said) => Some(said.external_id.clone()),
            Happening::Clicked(click) => Some(click.external_id.clone()),
            Happening::Reacted(reaction) => Some(reaction.external_id.clone()),
            Happening::Unreadable { .. }
            | Happening::Invited { .. }
            | Happening::Moved { .. }
            | Happening::Nothing => None,
        };
        let is_known = external_id.as_ref().is_some_and(|id| self.notebook.read(|pages| pages.has_seen(id)));
        match &inbound.what {
            Happening::Said(_) | Happening::Clicked(_) | Happening::Reacted(_) if is_known => {}
            Happening::Said(said) => self.hear(said).await?,
            Happening::Clicked(click) => self.take_click(click).await?,
            Happening::Reacted(reaction) => self.take_reaction(reaction).await?,
            Happening::Unreadable { user, place } => self.tell_unreadable(user, place).await?,
            Happening::Invited { user, chat } => self.take_invite(user, chat).await?,
            Happening::Moved { from, to } => self.notebook.write(|pages| pages.move_chat(from, to))?,
            Happening::Nothing => {}
        }
        self.notebook.write(|pages| {
            if let Some(id) = external_id.filter(|_| !is_known) {
                pages.see(&id);
            }
            if inbound.cursor.is_some() {
                pages.cursor = inbound.cursor;
            }
        })?;
        Ok(())
    }

    fn wait_after(&self, error: &PlatformError, backoff: &mut Backoff) -> Duration {
        match error {
            PlatformError::Conflict(_) => self.settings.conflict_wait,
            PlatformError::RetryAfter { seconds } => Duration::from_secs(u64::from(*seconds)),
            PlatformError::Transient(_)
            | PlatformError::Permanent(_)
            | PlatformError::CannotFormat(_)
            | PlatformError::Moved { .. }
            | PlatformError::TooBig
            | PlatformError::Misconfigured(_) => backoff.wait(),
        }
    }
}
