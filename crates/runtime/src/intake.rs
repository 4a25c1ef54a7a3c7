//! Intake: a checked event becomes a durable inbox row, then the pump is told.

use crate::runtime::Parts;
use crate::{channel, mint};
use cortex_brain::{read_answer, told_relationship};
use cortex_store::{RetryRefused, StoreError};
use cortex_types::{AcceptedEvent, EventId, Millis, NewEvent, Priority, is_machine_channel};
use metrics::counter;
use std::sync::Arc;

/// An event as a door checked it, before it has an id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IncomingEvent {
    pub source: String,
    pub external_message_id: String,
    pub idempotency_key: String,
    pub topic_key: String,
    pub user_id: String,
    pub text: String,
    pub occurred_at: Millis,
    pub metadata_json: Option<String>,
    pub priority: Priority,
    /// Where it came from when that is a machine, or the name of its channel where the source has another (D18).
    pub channel: Option<String>,
}

/// The one way into the inbox, whichever door an event came through.
#[derive(Clone)]
pub struct Intake(pub(crate) Arc<Parts>);

impl Intake {
    /// Returns after the event is on disk.
    pub async fn accept(&self, draft: IncomingEvent) -> Result<AcceptedEvent, StoreError> {
        let now = self.0.clock.now();
        let channel = draft.channel.as_deref().unwrap_or(&draft.source);
        if self.0.channels.borrow().is_off(channel, &draft.source) {
            counter!("cortex_events_channel_off_total").increment(1);
            return Ok(AcceptedEvent::ChannelOff);
        }
        if let Some(channel) = draft.channel.as_deref().filter(|channel| !is_machine_channel(channel)) {
            channel::learn_source(&self.0, &draft.source, channel).await?;
        }
        // An answer to a question goes before the conversation that waits for it (D7).
        let answers = read_answer(&draft.text, draft.metadata_json.as_deref()).is_some();
        let metadata_json = draft.metadata_json.as_deref();
        let relationship = told_relationship(metadata_json)
            .unwrap_or_else(|| self.0.channels.borrow().relationship_of(&draft.user_id).as_str().to_owned());
        let event = NewEvent {
            id: mint::event_id(now),
            source: draft.source,
            external_message_id: draft.external_message_id,
            idempotency_key: draft.idempotency_key,
            topic_key: draft.topic_key,
            user_id: draft.user_id,
            text: draft.text,
            occurred_at: draft.occurred_at,
            metadata_json: draft.metadata_json,
            priority: if answers { Priority::Urgent } else { draft.priority },
            channel: draft.channel,
            relationship: Some(relationship),
        };
        let accepted = self.0.store.inbox().accept(event, now).await?;
        match &accepted {
            AcceptedEvent::Queued(_) => {
                counter!("cortex_events_accepted_total").increment(1);
                self.0.arrived.notify_one();
            }
            AcceptedEvent::Duplicate { first, same_body } => {
                counter!("cortex_events_duplicate_total").increment(1);
                if !same_body {
                    tracing::warn!(event = %first, "An event came again with another body; the first one stands");
                }
            }
            AcceptedEvent::ChannelOff => {}
        }
        Ok(accepted)
    }

    /// A person wants a failed event tried again.
    pub async fn retry(&self, id: EventId) -> Result<Result<(), RetryRefused>, StoreError> {
        let outcome = self.0.store.inbox().retry_failed(id, self.0.clock.now()).await?;
        self.0.arrived.notify_one();
        Ok(outcome)
    }
}
