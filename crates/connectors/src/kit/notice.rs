//! What the connector itself says to a person, past the outbox: short, at once, and not worth keeping.

use super::compose::compose;
use super::place::ChatPlace;
use super::platform::{OutgoingPart, PartBody, Platform};
use super::run::Connector;
use ulid::Ulid;

impl<P: Platform> Connector<P> {
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
