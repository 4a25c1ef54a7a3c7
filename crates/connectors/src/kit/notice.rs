//! What the connector itself says to a person, past the outbox: short, at once, and not worth keeping.

use super::compose::compose;
use super::notebook::NotebookError;
use super::place::ChatPlace;
use super::platform::{OutgoingPart, PartBody, Platform, PlatformError};
use super::run::Connector;
use cortex_types::Clock;
use ulid::Ulid;

const UNREADABLE: &str = "This room is encrypted, and I cannot read what is said here. Please invite me into a room without encryption.";

impl<P: Platform> Connector<P> {
    /// Notes that the platform did not do something, for whoever asks how this connector is.
    pub(super) fn note_refusal(&self, error: &PlatformError) {
        self.notebook.note(|pages| pages.refuse(&error.to_string(), self.clock.now()));
    }

    /// Says once in a chat that it cannot be read; the assistant hears nothing of it.
    pub(super) async fn tell_unreadable(&self, user: &str, place: &ChatPlace) -> Result<(), NotebookError> {
        // Noted first: a notice that gets lost is better than one after every message.
        if self.is_allowed(user) && self.notebook.write(|pages| pages.finds_unreadable(&place.chat))? {
            tracing::warn!(chat = place.chat, "this chat is encrypted and cannot be read");
            self.tell(place, UNREADABLE).await;
        }
        Ok(())
    }

    /// Says something. What cannot be said now is logged and forgotten: nobody loses a message by it.
    pub(super) async fn tell(&self, place: &ChatPlace, words: &str) {
        for part in compose(words, self.platform.rules()) {
            let once = Ulid::from_parts(0, rand::random()).to_string();
            let address = self.address(place);
            let part = OutgoingPart {
                place: &address,
                body: PartBody::Formatted(&part.formatted),
                plain: &part.plain,
                verbatim: None,
                buttons: &[],
                once: &once,
            };
            if let Err(error) = self.platform.send(&part).await {
                tracing::warn!(%error, "a notice could not be sent");
                return;
            }
        }
    }
}
