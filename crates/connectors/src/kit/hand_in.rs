//! Hands an event in until the server has it. A server that is away is waited for; nothing is dropped meanwhile.

use super::backoff::Backoff;
use super::platform::Platform;
use super::run::{Connector, Stopped, pause};
use cortex_api::{Client, ClientError, IngestRequest, IngestStatus};
use cortex_types::EventId;
use tokio_util::sync::CancellationToken;

/// What became of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HandedIn {
    Queued(EventId),
    /// The server had it already, or its channel is off.
    Settled,
    /// The server will never take it.
    Refused(String),
    /// The server takes nothing from us.
    NotLetIn(String),
}

/// What to do while the server lets us in nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WhenNotLetIn {
    /// A key or a setting may be put right meanwhile, and nothing that was said is lost.
    Wait,
    /// Whoever started us is there to see it.
    GiveUp,
}

impl<P: Platform> Connector<P> {
    pub(super) async fn hand_in(&self, event: &IngestRequest) -> Result<HandedIn, Stopped> {
        hand_in(&self.client, event, WhenNotLetIn::Wait, &self.stop).await
    }
}

/// Returns once the event is durable, or once no try can help.
pub(crate) async fn hand_in(
    client: &Client,
    event: &IngestRequest,
    when_not_let_in: WhenNotLetIn,
    stop: &CancellationToken,
) -> Result<HandedIn, Stopped> {
    let mut backoff = Backoff::new();
    loop {
        let error = match client.ingest(event).await {
            Ok(answer) => {
                return Ok(match (answer.status, answer.event_id) {
                    (IngestStatus::Queued, Some(id)) => HandedIn::Queued(id),
                    (
                        IngestStatus::Queued
                        | IngestStatus::DuplicateIgnored
                        | IngestStatus::ChannelOff
                        | IngestStatus::Ignored,
                        _,
                    ) => HandedIn::Settled,
                });
            }
            Err(error) => error,
        };
        if let Some(reason) = refusal(&error) {
            tracing::warn!(event = event.external_message_id, reason, "the server refuses this event");
            return Ok(HandedIn::Refused(reason));
        }
        if when_not_let_in == WhenNotLetIn::GiveUp && is_lasting(&error) {
            return Ok(HandedIn::NotLetIn(error.to_string()));
        }
        let wait = backoff.wait();
        tracing::warn!(%error, wait_ms = wait.as_millis(), "the event is not handed in yet; trying again");
        pause(wait, stop).await?;
    }
}

/// Why no retry of the very same event can help, if that is so.
fn refusal(error: &ClientError) -> Option<String> {
    match error {
        ClientError::Api { status: 400 | 413 | 415 | 422, body } => Some(body.to_string()),
        ClientError::Api { .. }
        | ClientError::Unreachable { .. }
        | ClientError::TimedOut { .. }
        | ClientError::Unauthorized
        | ClientError::Protocol { .. } => None,
    }
}

/// Whether the server will say the same again, whatever it is asked: the key, the source or the address is wrong.
pub(crate) fn is_lasting(error: &ClientError) -> bool {
    match error {
        ClientError::Unauthorized => true,
        ClientError::Api { status, .. } => (400..500).contains(status) && !matches!(status, 408 | 429),
        ClientError::Unreachable { .. } | ClientError::TimedOut { .. } | ClientError::Protocol { .. } => {
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cortex_api::{ErrorBody, ErrorCode};

    #[test]
    fn a_wrong_key_or_source_stays_wrong_and_a_busy_server_does_not_stay_busy() {
        let api =
            |code: ErrorCode| ClientError::Api { status: code.http_status(), body: ErrorBody::new(code) };
        assert!(is_lasting(&api(ErrorCode::Forbidden)) && is_lasting(&ClientError::Unauthorized));
        for code in [ErrorCode::TooManyRequests, ErrorCode::StorageUnavailable, ErrorCode::ShuttingDown] {
            assert!(!is_lasting(&api(code)), "{code}");
        }
    }

    #[test]
    fn only_an_event_that_can_never_be_taken_is_given_up() {
        let api =
            |code: ErrorCode| ClientError::Api { status: code.http_status(), body: ErrorBody::new(code) };
        assert!(refusal(&api(ErrorCode::InvalidRequest)).is_some());
        assert!(refusal(&api(ErrorCode::PayloadTooLarge)).is_some());
        for code in [
            ErrorCode::Forbidden,
            ErrorCode::TooManyRequests,
            ErrorCode::StorageUnavailable,
            ErrorCode::ShuttingDown,
        ] {
            assert_eq!(refusal(&api(code)), None, "{code}");
        }
        assert_eq!(refusal(&ClientError::Unauthorized), None);
    }
}
