//! What a frame is answered with: an event goes into the inbox, one that came before gets what is on record.

use super::frame::{self, FrameError, Inbound, OutboundMessage};
use crate::state::AppState;
use axum::extract::ws::Utf8Bytes;
use cortex_api::FrameErrorCode;
use cortex_store::StoreError;
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

/// The frames to write, and the event whose answer may be previewed.
pub(super) async fn settle(
    app: &AppState,
    answer: Answer,
) -> (Vec<Utf8Bytes>, Option<(EventId, Box<Spoken>)>) {
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
        Ok(AcceptedEvent::Queued(event)) => (Vec::new(), Some((event, spoken))),
        Ok(AcceptedEvent::Duplicate { first, same_body }) => match recorded(app, &spoken, first).await {
            Ok(Recorded::Ended(frames)) => {
                if same_body {
                    app.connector_door.recent.keep(spoken.speaker.source(), event, frames.clone());
                }
                (frames, None)
            }
            Ok(Recorded::Open { said, event }) => {
                let previewed = said.is_empty().then_some((event, spoken));
                (said, previewed)
            }
            Err(error) => refuse(*spoken, code_of(&error), "the recorded answer cannot be read".to_owned()),
        },
        Ok(AcceptedEvent::ChannelOff) => {
            let message = format!("the channel {} is off; nothing was kept", spoken.speaker.channel());
            refuse(*spoken, FrameErrorCode::ChannelOff, message)
        }
        Ok(AcceptedEvent::NameRefused(refusal)) => {
            refuse(*spoken, FrameErrorCode::Forbidden, refusal.to_string())
        }
        Err(error) => refuse(*spoken, code_of(&error), "nothing was kept; send it again later".to_owned()),
    }
}

/// What is on record for an event that came again.
enum Recorded {
    Ended(Vec<Utf8Bytes>),
    /// More is to come, from its turn or from the outbox.
    Open {
        said: Vec<Utf8Bytes>,
        event: EventId,
    },
}

async fn recorded(app: &AppState, spoken: &Spoken, first: EventId) -> Result<Recorded, StoreError> {
    let (speaker, connector_id) = (&spoken.speaker, spoken.inbound.claim.connector_id.as_str());
    let Some((event, replies)) = app.store.outbox().replies_to(first.clone()).await? else {
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
    Ok(if is_open { Recorded::Open { said, event: first } } else { Recorded::Ended(said) })
}

fn refused(error: FrameError, now: Millis) -> Vec<Utf8Bytes> {
    counter!("cortex_connector_refused_frames_total").increment(1);
    vec![frame::error(error, now).into()]
}

pub(super) fn code_of(error: &StoreError) -> FrameErrorCode {
    match error {
        StoreError::Unavailable(_) | StoreError::Closed => FrameErrorCode::StorageUnavailable,
        StoreError::Damaged(_) | StoreError::Fault(_) => FrameErrorCode::InternalError,
    }
}
