//! What a frame is answered with: an event goes into the inbox, one that came before gets what is on record.

use super::frame::{self, FrameError, Inbound, OutboundMessage};
use crate::refusal::DAMAGED_WORDS;
use crate::state::AppState;
use axum::extract::ws::Utf8Bytes;
use cortex_api::FrameErrorCode;
use cortex_store::{Full, StoreError};
use cortex_types::{AcceptedEvent, EventId, InboxStatus, Millis, OutboxStatus, Speaker};
use metrics::counter;

/// What a frame comes to, before it is on disk.
pub(super) enum Answer {
    Nothing,
    Say(Vec<Utf8Bytes>),
    Refuse(FrameError),
    Accept(Box<Spoken>),
}

/// An event, and who says it.
pub(super) struct Spoken {
    pub(super) speaker: Speaker,
    pub(super) inbound: Inbound,
}

impl Spoken {
    /// The refusal of this event.
    pub(super) fn refused(self, code: FrameErrorCode, message: String) -> FrameError {
        self.inbound.refused(code, message)
    }
}

/// An event that is on disk.
pub(super) struct Accepted {
    pub(super) event: EventId,
    pub(super) spoken: Box<Spoken>,
    pub(super) is_duplicate: bool,
    /// Whether its answer still may grow.
    pub(super) is_open: bool,
}

/// The frames to write, and the event that was accepted.
pub(super) async fn settle(app: &AppState, answer: Answer) -> (Vec<Utf8Bytes>, Option<Accepted>) {
    let now = app.clock.now();
    let spoken = match answer {
        Answer::Nothing => return (Vec::new(), None),
        Answer::Say(frames) => return (frames, None),
        Answer::Refuse(error) => return (refused(error, now), None),
        Answer::Accept(spoken) => spoken,
    };
    let refuse = |spoken: Spoken, code, message: String| (refused(spoken.refused(code, message), now), None);
    let event = &spoken.inbound.event;
    match app.intake.accept(&spoken.speaker, event.clone()).await {
        Ok(AcceptedEvent::Queued(event)) => {
            let accepted = Accepted { event, spoken, is_duplicate: false, is_open: true };
            (Vec::new(), Some(accepted))
        }
        Ok(AcceptedEvent::Duplicate { first, same_body }) => {
            let again =
                |spoken, is_open| Accepted { event: first.clone(), spoken, is_duplicate: true, is_open };
            match recorded(app, &spoken, first.clone()).await {
                Ok(Recorded::Ended(frames)) => {
                    if same_body {
                        app.connector_door.recent.keep(spoken.speaker.source(), event, frames.clone());
                    }
                    (frames, Some(again(spoken, false)))
                }
                Ok(Recorded::Open(said)) => {
                    let is_open = said.is_empty();
                    (said, Some(again(spoken, is_open)))
                }
                Err(error) => {
                    refuse(*spoken, code_of(&error), "the recorded answer cannot be read".to_owned())
                }
            }
        }
        Ok(AcceptedEvent::ChannelOff) => {
            let message = format!("the channel {} is off; nothing was kept", spoken.speaker.channel());
            refuse(*spoken, FrameErrorCode::ChannelOff, message)
        }
        Ok(AcceptedEvent::NameRefused(refusal)) => {
            refuse(*spoken, FrameErrorCode::Forbidden, refusal.to_string())
        }
        Err(error) => refuse(*spoken, code_of(&error), words_of(&error)),
    }
}

/// What is on record for an event that came again.
enum Recorded {
    Ended(Vec<Utf8Bytes>),
    /// More is to come, from its turn or from the outbox.
    Open(Vec<Utf8Bytes>),
}

async fn recorded(app: &AppState, spoken: &Spoken, first: EventId) -> Result<Recorded, StoreError> {
    let (speaker, connector_id) = (&spoken.speaker, spoken.inbound.claim.connector_id.as_str());
    let Some((event, replies)) = app.store.outbox().replies_to(first).await? else {
        return Ok(Recorded::Ended(Vec::new()));
    };
    let mut said = Vec::new();
    let mut is_open = !matches!(event.status, InboxStatus::Done | InboxStatus::Failed);
    let may_say = app.runtime.channels().settings().may_say(speaker.channel(), speaker.source());
    for reply in replies.iter().filter(|reply| reply.topic == event.topic) {
        let payload_json = app.outbox.handed_out(reply.payload_json.clone());
        match reply.status {
            // One that was written a moment ago may not be settled yet: whoever asks again does not have it.
            OutboxStatus::Delivered | OutboxStatus::Dead | OutboxStatus::Leased if may_say => {
                is_open |= reply.status == OutboxStatus::Leased;
                let message = OutboundMessage {
                    id: &reply.id,
                    conversation: &reply.topic.topic_key,
                    text: &reply.text,
                    payload_json: payload_json.as_deref(),
                    metadata_json: event.metadata_json.as_deref(),
                    created_at: reply.created_at,
                };
                said.push(frame::outbound(connector_id, &message, Some(&event.external_message_id)).into());
            }
            // The dispatcher will have it.
            OutboxStatus::Pending | OutboxStatus::Leased => is_open = true,
            OutboxStatus::Delivered
            | OutboxStatus::Dead
            | OutboxStatus::Suppressed
            | OutboxStatus::Discarded => {}
        }
    }
    Ok(if is_open { Recorded::Open(said) } else { Recorded::Ended(said) })
}

fn refused(error: FrameError, now: Millis) -> Vec<Utf8Bytes> {
    counter!("cortex_connector_refused_frames_total").increment(1);
    vec![frame::error(error, now).into()]
}

pub(super) fn code_of(error: &StoreError) -> FrameErrorCode {
    match error {
        StoreError::Unavailable(_) | StoreError::Closed => FrameErrorCode::StorageUnavailable,
        StoreError::FileDamaged(_) => FrameErrorCode::StorageDamaged,
        StoreError::Full(
            Full::QueuedEvents { .. } | Full::EventsOfSource { .. } | Full::EventsOfStrangers { .. },
        ) => FrameErrorCode::QueueFull,
        StoreError::Full(Full::Database { .. } | Full::DatabaseOfStrangers { .. }) => {
            FrameErrorCode::StorageFull
        }
        StoreError::Damaged(_) | StoreError::Fault(_) => FrameErrorCode::InternalError,
    }
}

/// Why an event was not kept, and what to do.
fn words_of(error: &StoreError) -> String {
    match error {
        StoreError::FileDamaged(_) => DAMAGED_WORDS.to_owned(),
        StoreError::Full(full) => full.to_string(),
        StoreError::Unavailable(_) | StoreError::Closed | StoreError::Damaged(_) | StoreError::Fault(_) => {
            "nothing was kept; send it again later".to_owned()
        }
    }
}
