//! Ends a turn in the store, patiently: an answer that was paid for is not thrown away over a full disk.

use crate::effect::route_answer::reply_to;
use crate::runtime::Parts;
use cortex_brain::{FailureNotice, notice_text};
use cortex_bus::LiveNews;
use cortex_store::{StoreError, TurnEnd};
use cortex_types::{Event, InboxStatus, ModelCall};
use metrics::counter;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const PATIENCE: Duration = Duration::from_millis(250);

/// Returns once the end is on disk, or once the server stops: then the next start finds the event in flight.
pub(crate) async fn end_turn(
    parts: &Parts,
    event: &Event,
    end: TurnEnd,
    calls: Vec<ModelCall>,
    cancel: &CancellationToken,
) {
    let (status, outcome) = match &end {
        TurnEnd::Answered(_) => (InboxStatus::Done, "answered"),
        TurnEnd::Failed { .. } => (InboxStatus::Failed, "failed"),
        TurnEnd::RetryAt { .. } => (InboxStatus::Pending, "retried"),
        TurnEnd::Parked => (InboxStatus::Pending, "parked"),
        TurnEnd::Waiting => (InboxStatus::Waiting, "waiting"),
        TurnEnd::Handled { .. } => (InboxStatus::Done, "handled"),
    };
    let written = patiently(parts, cancel, || {
        let now = parts.clock.now();
        let (end, calls) = (end.clone(), calls.clone());
        async move { parts.store.turns().finish_turn(event, end, calls, now).await }
    })
    .await;
    match written {
        Ok(()) => {
            counter!("cortex_turns_total", "outcome" => outcome).increment(1);
            if outcome == "answered" {
                parts.answered.send_modify(|count| *count += 1);
            }
            parts.bus.publish(LiveNews::Ended { event: event.id.clone(), status });
        }
        Err(StoreError::FileDamaged(_)) => left_in_flight(parts, event),
        Err(StoreError::Closed | StoreError::Unavailable(_)) => {
            tracing::warn!(event = %event.id, "A turn's end was not written; the next start finds it in flight");
        }
        Err(error @ (StoreError::Damaged(_) | StoreError::Full(_) | StoreError::Fault(_))) => {
            give_up(parts, event, &error, cancel).await
        }
    }
}

/// The end of a turn cannot be written, and trying again would not help: the event fails, so that its topic goes on.
async fn give_up(parts: &Parts, event: &Event, error: &StoreError, cancel: &CancellationToken) {
    tracing::error!(event = %event.id, %error, "A turn's end could not be written; the event fails and its user is told");
    let told = FailureNotice::Broken { reason: "the answer could not be kept".to_owned() };
    let written = patiently(parts, cancel, || {
        let now = parts.clock.now();
        let notice = reply_to(event, notice_text(&told), now);
        let reason = format!("its end could not be written: {error}");
        async move { parts.store.watchdog().give_up(event, reason, notice, now).await }
    })
    .await;
    match written {
        Ok(()) => {
            counter!("cortex_turns_total", "outcome" => "failed").increment(1);
            parts.bus.publish(LiveNews::Ended { event: event.id.clone(), status: InboxStatus::Failed });
        }
        Err(error) => {
            tracing::error!(event = %event.id, %error, "An event could not be ended; the watchdog tries again");
        }
    }
}

/// The database is damaged, so that nothing of the turn is written: the next start on a whole one takes the event up. Those
/// who watch learn that no more comes, instead of waiting for ever.
pub(crate) fn left_in_flight(parts: &Parts, event: &Event) {
    tracing::warn!(event = %event.id, "The database is damaged; a turn ends unwritten and its event stays in flight");
    parts.bus.publish(LiveNews::Ended { event: event.id.clone(), status: InboxStatus::Processing });
}

/// A turn that was put to rest is not ended, but whoever watches should know.
pub(crate) fn suspended(parts: &Parts, event: &Event) {
    counter!("cortex_turns_total", "outcome" => "waiting").increment(1);
    parts.bus.publish(LiveNews::Ended { event: event.id.clone(), status: InboxStatus::Waiting });
}

/// Repeats a write while the disk is unavailable and the server goes on.
pub(crate) async fn patiently<T, F, Fut>(
    parts: &Parts,
    cancel: &CancellationToken,
    mut write: F,
) -> Result<T, StoreError>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<T, StoreError>>,
{
    loop {
        match write().await {
            Err(StoreError::Unavailable(reason)) if !cancel.is_cancelled() => {
                tracing::warn!(reason, health = ?parts.store.health(), "The disk refuses a write; trying again");
                tokio::time::sleep(PATIENCE).await;
            }
            settled => return settled,
        }
    }
}
