//! Intake: a checked event becomes a durable inbox row, then the pump is told.

use crate::effect::ask_approval::token_sha256;
use crate::runtime::Parts;
use crate::{channel, mint};
use cortex_brain::{
    forward_apart, is_piece_of, quote_of_another, quoted_as_own, read_answer, told_relationship,
};
use cortex_store::{RetryRefused, StoreError};
use cortex_types::{
    AcceptedEvent, EventId, GivenAnswer, Millis, NewEvent, Priority, Speaker, Standing, TopicRef,
    blank_tokens,
};
use metrics::counter;
use std::sync::Arc;

/// The newest lines of a topic among which a quote is looked for, and its newest messages: people reply to what they see.
const OWN_LINES_LOOKED_AT: u32 = 400;
const OWN_MESSAGES_LOOKED_AT: u32 = 200;
/// And no more of them than this: a reply is judged while its connector waits.
const OWN_BYTES_LOOKED_AT: usize = 1024 * 1024;

/// What somebody says, as a door checked it. Where it comes from is the speaker's (`Speaker`), not the event's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IncomingEvent {
    pub external_message_id: String,
    pub idempotency_key: String,
    pub topic_key: String,
    /// As it was claimed.
    pub user_id: String,
    pub text: String,
    pub occurred_at: Millis,
    pub metadata_json: Option<String>,
    pub priority: Priority,
}

/// The one way into the inbox, whichever door an event came through.
#[derive(Clone)]
pub struct Intake(pub(crate) Arc<Parts>);

impl Intake {
    /// Returns after the event is on disk.
    pub async fn accept(&self, speaker: &Speaker, draft: IncomingEvent) -> Result<AcceptedEvent, StoreError> {
        let now = self.0.clock.now();
        if self.0.channels.borrow().will_be_off(speaker.channel(), speaker.source()) {
            counter!("cortex_events_channel_off_total").increment(1);
            return Ok(AcceptedEvent::ChannelOff);
        }
        if let Err(refusal) = channel::check_known(&self.0, speaker) {
            return Ok(AcceptedEvent::NameRefused(refusal));
        }
        let draft = self.with_quote_judged(speaker, draft).await?;
        let event = self.new_event(speaker, draft, now);
        let accepted = self.0.store.inbox().accept(event, now).await?;
        if matches!(accepted, AcceptedEvent::Queued(_) | AcceptedEvent::Duplicate { .. }) {
            channel::note_learned(&self.0, speaker).await;
        }
        match &accepted {
            AcceptedEvent::Queued(_) => {
                counter!("cortex_events_accepted_total").increment(1);
                self.0.arrived.notify_one();
            }
            AcceptedEvent::Duplicate { first, same_body } => {
                counter!("cortex_events_duplicate_total").increment(1);
                // It may have named the channel that the first one, or others of its topic, waited for.
                self.0.arrived.notify_one();
                if !same_body {
                    tracing::warn!(event = %first, "An event came again with another body; the first one stands");
                }
            }
            AcceptedEvent::ChannelOff | AcceptedEvent::NameRefused(_) => {}
        }
        Ok(accepted)
    }

    /// A reply quotes the assistant's own words only if it wrote them here, and not from what others wrote: an answer that
    /// repeats a page stays the page's words, also when the line itself is in no prompt any more (D21).
    async fn with_quote_judged(
        &self,
        speaker: &Speaker,
        draft: IncomingEvent,
    ) -> Result<IncomingEvent, StoreError> {
        let Some(quote) = quoted_as_own(draft.metadata_json.as_deref()) else { return Ok(draft) };
        if self.are_own_words(speaker, &draft, &quote).await? {
            return Ok(draft);
        }
        let metadata_json = draft.metadata_json.as_deref().and_then(quote_of_another);
        Ok(IncomingEvent { metadata_json, ..draft })
    }

    async fn are_own_words(
        &self,
        speaker: &Speaker,
        draft: &IncomingEvent,
        quote: &str,
    ) -> Result<bool, StoreError> {
        // The word of anybody else is not taken anyway, and costs no look.
        if !speaker.standing().vouches_for_people() {
            return Ok(false);
        }
        // What comes again is as it was judged first: the history is another one now, and the message is the same.
        let (source, external_id) = (speaker.source().to_owned(), draft.external_message_id.clone());
        if let Some(first) = self.0.store.inbox().metadata_of(source, external_id).await? {
            return Ok(quoted_as_own(Some(&first)).is_some());
        }
        let topic = TopicRef { source: speaker.source().to_owned(), topic_key: draft.topic_key.clone() };
        let history = self.0.store.history();
        let said = history.own_words(topic.clone(), OWN_LINES_LOOKED_AT, OWN_BYTES_LOOKED_AT).await?;
        if is_piece_of(quote, said.iter().map(String::as_str)) {
            return Ok(true);
        }
        // Questions, what came of them, and notices are no lines of a history.
        let sent = history.own_messages(topic, OWN_MESSAGES_LOOKED_AT, OWN_BYTES_LOOKED_AT).await?;
        Ok(is_piece_of(quote, sent.iter().map(String::as_str)))
    }

    fn new_event(&self, speaker: &Speaker, draft: IncomingEvent, now: Millis) -> NewEvent {
        // Before anything is read from it: what was passed on is neither an answer nor the person's words.
        let draft = match forward_apart(&draft.text, draft.metadata_json.as_deref()) {
            Some((text, metadata)) => IncomingEvent { text, metadata_json: Some(metadata), ..draft },
            None => draft,
        };
        let answer = read_answer(&draft.text, draft.metadata_json.as_deref());
        let answer = answer.map(|answer| GivenAnswer {
            token_sha256: token_sha256(&answer.token),
            decision: answer.decision,
        });
        let user_id = self.0.channels.borrow().person_of(speaker, &draft.user_id);
        // What a program without a key says of itself is no more than that.
        let is_stranger = speaker.standing() == Standing::Local;
        let told = told_relationship(draft.metadata_json.as_deref()).filter(|_| !is_stranger);
        let known = || self.0.channels.borrow().relationship_of(&user_id);
        let priority = match (&answer, is_stranger) {
            (_, true) => draft.priority.max(Priority::Normal),
            // An answer to a question goes before the conversation that waits for it (D7).
            (Some(_), false) => Priority::Urgent,
            (None, false) => draft.priority,
        };
        NewEvent {
            id: mint::event_id(now),
            source: speaker.source().to_owned(),
            external_message_id: draft.external_message_id,
            idempotency_key: draft.idempotency_key,
            topic_key: draft.topic_key,
            text: blank_tokens(&draft.text).into_owned(),
            occurred_at: draft.occurred_at,
            metadata_json: draft.metadata_json.map(|metadata| blank_tokens(&metadata).into_owned()),
            priority,
            channel: speaker.own_channel().map(str::to_owned),
            relationship: Some(told.unwrap_or_else(|| known().as_str().to_owned())),
            user_id,
            standing: speaker.standing(),
            answer,
        }
    }

    /// A person wants a failed event tried again.
    pub async fn retry(&self, id: EventId) -> Result<Result<(), RetryRefused>, StoreError> {
        let outcome = self.0.store.inbox().retry_failed(id, self.0.clock.now()).await?;
        self.0.arrived.notify_one();
        Ok(outcome)
    }
}
