//! The outbox as connectors meet it: poll, ack, nack, with the settings of this server.

use crate::runtime::Parts;
use cortex_brain::backoff;
use cortex_store::{
    Acked, DiscardOutcome, HandOver, HandedOver, LeaseRefused, Nack, Nacked, OutboxPoll, RepliesOf,
    RequeueOutcome, ReturnedLease, StoreError,
};
use cortex_types::limits::{LEASE_SECONDS_MAX, LEASE_SECONDS_MIN, POLL_BATCH_MAX};
use cortex_types::{Delivery, LeaseToken, OutboxId, TopicRef};
use metrics::counter;
use std::sync::Arc;
use std::time::Duration;

/// Hands out messages and takes back how it went.
#[derive(Clone)]
pub struct OutboxDesk(pub(crate) Arc<Parts>);

impl OutboxDesk {
    /// Leases due messages of `source`; what is not given comes from the settings, which are clamped (D1).
    pub async fn poll(
        &self,
        source: String,
        max: Option<u32>,
        lease: Option<Duration>,
        ordered: bool,
        holder: Option<String>,
    ) -> Result<Vec<Delivery>, StoreError> {
        self.claim(OutboxPoll { holder, ..self.request(source, max, lease, ordered) }).await
    }

    /// A connector that starts again gives back what it held when it ended.
    pub async fn release(&self, source: String, holder: String) -> Result<usize, StoreError> {
        self.0.store.outbox().release(source, holder, self.0.clock.now()).await
    }

    /// Like `poll`, of one topic alone.
    pub async fn poll_topic(
        &self,
        topic: TopicRef,
        max: Option<u32>,
        lease: Option<Duration>,
        ordered: bool,
        holder: Option<String>,
    ) -> Result<Vec<Delivery>, StoreError> {
        let request = self.request(topic.source, max, lease, ordered);
        self.claim(OutboxPoll { topic_key: Some(topic.topic_key), holder, ..request }).await
    }

    fn request(
        &self,
        source: String,
        max: Option<u32>,
        lease: Option<Duration>,
        ordered: bool,
    ) -> OutboxPoll {
        let config = &self.0.config;
        OutboxPoll {
            source,
            max: max.unwrap_or_else(|| config.outbox_poll_default_batch.clamp(1, POLL_BATCH_MAX)),
            lease: lease.unwrap_or_else(|| self.usual_lease()),
            ordered,
            attempts_max: config.outbox_max_attempts,
            pushed: false,
            holder: None,
            topic_key: None,
        }
    }

    async fn claim(&self, request: OutboxPoll) -> Result<Vec<Delivery>, StoreError> {
        let mut deliveries = self.0.store.outbox().claim_due(request, self.0.clock.now()).await?;
        for delivery in &mut deliveries {
            delivery.payload_json = self.handed_out(delivery.payload_json.take());
        }
        counter!("cortex_outbox_leased_total").increment(deliveries.len() as u64);
        Ok(deliveries)
    }

    /// Leases due messages of `source` to a door of this process that pushes them, in order (D5). A restart knows that
    /// nobody holds them any more.
    pub async fn claim_to_push(&self, source: String, max: u32) -> Result<Vec<Delivery>, StoreError> {
        let request = OutboxPoll { pushed: true, ..self.request(source, Some(max), None, true) };
        self.claim(request).await
    }

    /// Leases all that waits in a conversation, and shows the replies of these events that somebody else has. What
    /// others follow, by the source and external id of its event, is left for them.
    pub async fn hand_over(
        &self,
        topic: TopicRef,
        replies_of: Vec<RepliesOf>,
        is_followed: impl Fn(&str, &str) -> bool + Send + 'static,
    ) -> Result<Vec<HandedOver>, StoreError> {
        let attempts_max = self.0.config.outbox_max_attempts;
        let request = HandOver { topic, replies_of, lease: self.usual_lease(), attempts_max };
        let mut handed = self.0.store.outbox().hand_over(request, is_followed, self.0.clock.now()).await?;
        for HandedOver { message, .. } in &mut handed {
            message.payload_json = self.handed_out(message.payload_json.take());
        }
        let leased = handed.iter().filter(|message| message.lease.is_some()).count();
        counter!("cortex_outbox_leased_total").increment(leased as u64);
        Ok(handed)
    }

    /// A payload as who is to have the message gets it: what is kept of a question has no token.
    pub fn handed_out(&self, payload_json: Option<String>) -> Option<String> {
        self.0.config.token_key.handed_out(payload_json)
    }

    /// The reader of these replies stopped them.
    pub async fn stop(&self, replies: RepliesOf) -> Result<usize, StoreError> {
        self.0.store.outbox().stop(replies, self.0.clock.now()).await
    }

    /// Who was to have these messages went away; they wait for him as before.
    pub async fn put_back(&self, leased: Vec<(OutboxId, LeaseToken)>) -> Result<usize, StoreError> {
        let returned = leased.into_iter().map(|(id, lease)| ReturnedLease { id, lease, was_sent: false });
        self.0.store.outbox().give_back(returned.collect(), self.0.clock.now()).await
    }

    fn usual_lease(&self) -> Duration {
        let shortest = Duration::from_secs(u64::from(LEASE_SECONDS_MIN));
        let longest = Duration::from_secs(u64::from(LEASE_SECONDS_MAX));
        self.0.config.outbox_lease.clamp(shortest, longest)
    }

    pub async fn ack(
        &self,
        id: OutboxId,
        lease: LeaseToken,
    ) -> Result<Result<Acked, LeaseRefused>, StoreError> {
        let outcome = self.0.store.outbox().ack(id, lease, self.0.clock.now()).await?;
        if outcome == Ok(Acked::Delivered) {
            counter!("cortex_outbox_delivered_total").increment(1);
        }
        Ok(outcome)
    }

    pub async fn nack(&self, nack: Nack) -> Result<Result<Nacked, LeaseRefused>, StoreError> {
        let luck: f64 = rand::random();
        let now = self.0.clock.now();
        let outcome = self.0.store.outbox().nack(nack, move |attempts| backoff(attempts, luck), now).await?;
        counter!("cortex_outbox_nacked_total").increment(1);
        Ok(outcome)
    }

    pub async fn requeue(&self, id: OutboxId) -> Result<RequeueOutcome, StoreError> {
        self.0.store.outbox().requeue(id, self.0.clock.now()).await
    }

    pub async fn discard(&self, id: OutboxId) -> Result<DiscardOutcome, StoreError> {
        self.0.store.outbox().discard(id, self.0.clock.now()).await
    }
}
