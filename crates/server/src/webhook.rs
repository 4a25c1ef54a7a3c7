//! Webhooks that go out: posts the messages of a source, in order and signed, until the receiver has each of them (D72).

mod outcome;
mod setting;

use crate::signature::{ID_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER};
use cortex_api::{WebhookMessage, WireTime};
use cortex_models::parse_retry_after;
use cortex_runtime::{OutboxDesk, wait_for};
use cortex_store::{Nack, Nacked, OutboxListener, ReturnedLease, Ring, Store, StoreError};
use cortex_types::limits::{LEASE_SECONDS_MAX, LEASE_SECONDS_MIN};
use cortex_types::{Clock, Delivery};
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use outcome::{Outcome, judge, unanswered};
use setting::Webhook;
pub use setting::Webhooks;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How long a lease outlives the request, so that its outcome can still be written down.
const LEASE_MARGIN: Duration = Duration::from_secs(15);
/// How long a request that runs when the server stops may still take.
const GOODBYE: Duration = Duration::from_secs(5);
/// Between two looks while something waits for its time, and after a failure of the store.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Between two looks while nothing waits; the bell rings earlier.
const IDLE: Duration = Duration::from_secs(60);

/// Posts the messages of one source.
pub(crate) struct WebhookSender {
    pub(crate) webhook: Webhook,
    pub(crate) outbox: OutboxDesk,
    pub(crate) store: Store,
    pub(crate) client: reqwest::Client,
    pub(crate) clock: Arc<dyn Clock>,
}

impl WebhookSender {
    pub(crate) async fn run(self, stop: CancellationToken) {
        let mut bell = self.store.outbox().listen();
        while !stop.is_cancelled() {
            match self.send_next(&stop).await {
                Ok(true) => {}
                Ok(false) => self.wait(&mut bell, &stop).await,
                Err(error) => {
                    if error.is_news() {
                        tracing::warn!(webhook = self.webhook.name, %error, "A webhook waits for the store");
                    }
                    pause(LOOK_EVERY, &stop).await;
                }
            }
        }
    }

    /// One at a time: a message that fails must not be overtaken by the next of its topic (D5).
    async fn send_next(&self, stop: &CancellationToken) -> Result<bool, StoreError> {
        let lease = (self.webhook.timeout + LEASE_MARGIN).clamp(
            Duration::from_secs(u64::from(LEASE_SECONDS_MIN)),
            Duration::from_secs(u64::from(LEASE_SECONDS_MAX)),
        );
        let source = self.webhook.source.clone();
        let mut claimed = self.outbox.poll(source, Some(1), Some(lease), true, None).await?;
        let Some(delivery) = claimed.pop() else { return Ok(false) };
        let body = self.body(&delivery).await?;
        let goodbye = async {
            stop.cancelled().await;
            tokio::time::sleep(GOODBYE).await;
        };
        tokio::select! {
            outcome = self.post(&delivery, body) => self.settle(&delivery, outcome).await?,
            () = goodbye => {
                let returned = ReturnedLease { id: delivery.id, lease: delivery.lease, was_sent: true };
                self.store.outbox().give_back(vec![returned], self.clock.now()).await?;
            }
        }
        Ok(true)
    }

    async fn body(&self, delivery: &Delivery) -> Result<Vec<u8>, StoreError> {
        let found = self.store.outbox().causes(vec![delivery.id.clone()]).await?;
        let cause = found.into_iter().next().flatten();
        let created_at = cause.as_ref().map_or_else(|| self.clock.now(), |cause| cause.created_at);
        let (event_id, external_message_id) =
            cause.map_or((None, None), |cause| (cause.event, cause.external_message_id));
        let message = WebhookMessage {
            message_id: delivery.id.clone(),
            source: delivery.topic.source.clone(),
            topic_key: delivery.topic.topic_key.clone(),
            text: delivery.text.clone(),
            payload: delivery.payload_json.as_deref().and_then(|payload| serde_json::from_str(payload).ok()),
            event_id,
            external_message_id,
            created_at: WireTime(created_at),
        };
        serde_json::to_vec(&message).map_err(|error| StoreError::Damaged(error.to_string()))
    }

    async fn post(&self, delivery: &Delivery, body: Vec<u8>) -> Outcome {
        let id = delivery.id.as_str();
        let timestamp = self.clock.wall().0.div_euclid(1_000).to_string();
        let signature = self.webhook.secret.sign(id, &timestamp, &body);
        let request = self
            .client
            .post(self.webhook.url.clone())
            .timeout(self.webhook.timeout)
            .headers(self.webhook.headers.clone())
            .header(CONTENT_TYPE, "application/json")
            .header(ID_HEADER, id)
            .header(TIMESTAMP_HEADER, timestamp)
            .header(SIGNATURE_HEADER, signature)
            .body(body);
        match request.send().await {
            Ok(answer) => {
                let wait = answer.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
                judge(answer.status(), wait.and_then(|text| parse_retry_after(text, self.clock.wall())))
            }
            Err(error) => unanswered(&error, self.webhook.timeout),
        }
    }

    async fn settle(&self, delivery: &Delivery, outcome: Outcome) -> Result<(), StoreError> {
        let (error, retry_after, permanent) = match outcome {
            Outcome::Delivered => {
                if self.outbox.ack(delivery.id.clone(), delivery.lease.clone()).await?.is_err() {
                    tracing::debug!(message = %delivery.id, "A webhook's lease ended before it was acked");
                }
                return Ok(());
            }
            Outcome::Again { error, after } => (error, after, false),
            Outcome::Never { error } => (error, None, true),
        };
        tracing::debug!(webhook = self.webhook.name, message = %delivery.id, error, "A webhook was not taken");
        let nack = Nack {
            id: delivery.id.clone(),
            lease: delivery.lease.clone(),
            error: Some(error.clone()),
            retry_after,
            permanent,
        };
        if self.outbox.nack(nack).await? == Ok(Nacked::Dead) {
            let webhook = &self.webhook.name;
            tracing::warn!(webhook, message = %delivery.id, error, "A message is dead: `cortex outbox retry` sends it again");
        }
        Ok(())
    }

    /// Until something may be due.
    async fn wait(&self, bell: &mut OutboxListener, stop: &CancellationToken) {
        let source = &self.webhook.source;
        let longest = match self.store.outbox().next_due(source.clone(), self.clock.now()).await {
            Ok(None) => IDLE,
            Ok(Some(due)) => due.since(self.clock.now()).clamp(Duration::from_millis(10), LOOK_EVERY),
            Err(_) => LOOK_EVERY,
        };
        let rung = async {
            loop {
                match bell.next().await {
                    Ring::For(topic) if topic.source != *source => {}
                    Ring::For(_) | Ring::ForAnybody => return,
                    Ring::Over => stop.cancelled().await,
                }
            }
        };
        tokio::select! {
            () = rung => {}
            () = wait_for(&*self.clock, longest) => {}
            () = stop.cancelled() => {}
        }
    }
}

async fn pause(length: Duration, stop: &CancellationToken) {
    tokio::select! {
        () = stop.cancelled() => {}
        () = tokio::time::sleep(length) => {}
    }
}
