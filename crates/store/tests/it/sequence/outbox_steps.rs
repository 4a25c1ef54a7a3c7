//! The steps of the outbox: each asks the store and the model the same, and compares their answers.

use super::operation::{Lease, OutboxOperation, Poll, SOURCES};
use super::outbox_model::backoff;
use super::world::{Checked, Models, World, same, told};
use cortex_store::{Acked, Nack, OutboxPoll, RequeueOutcome};
use cortex_types::{Delivery, LeaseToken, OutboxId, OutboxStatus};
use futures::future::join_all;
use std::time::Duration;
use tempfile::TempDir;

const ATTEMPTS_MAX: u32 = 3;
const LEASE: Duration = Duration::from_secs(10);

impl World {
    pub(super) async fn outbox_step(&mut self, operation: OutboxOperation) -> Checked {
        match operation {
            OutboxOperation::Poll(poll) => self.poll(&self.request_of(&poll), poll.times).await.map(drop),
            OutboxOperation::Ack { message, lease } => match self.leased_message(message) {
                Some(index) => self.ack(index, &self.token_for(index, lease)).await,
                None => Ok(()),
            },
            OutboxOperation::Nack { message, lease, permanent, retry_after_s } => {
                let Some(index) = self.leased_message(message) else { return Ok(()) };
                let retry_after = Duration::from_secs(retry_after_s);
                self.nack(index, self.token_for(index, lease), permanent, retry_after).await
            }
            OutboxOperation::Requeue { message } => {
                let Some(index) = self.ended_message(message) else { return Ok(()) };
                let expected = self.models.outbox.requeue(index, self.now);
                if expected == RequeueOutcome::Requeued {
                    self.promises.requeued(&self.id_of(index));
                }
                let found = self.store.outbox().requeue(self.id_of(index), self.now).await.map_err(told)?;
                same("requeue", &found, &expected)
            }
            OutboxOperation::Discard { message } => {
                let Some(index) = self.any_message(message) else { return Ok(()) };
                let expected = self.models.outbox.discard(index);
                let found = self.store.outbox().discard(self.id_of(index), self.now).await.map_err(told)?;
                same("discard", &found, &expected)
            }
        }
    }

    fn request_of(&self, poll: &Poll) -> OutboxPoll {
        let source = self.topics[poll.topic].source.clone();
        OutboxPoll {
            source,
            max: poll.max,
            lease: LEASE,
            ordered: poll.ordered,
            attempts_max: ATTEMPTS_MAX,
            pushed: false,
            holder: None,
            topic_key: None,
        }
    }

    /// Pollers at once are answered one after the other, in the order they asked.
    async fn poll(&mut self, request: &OutboxPoll, times: usize) -> Checked<Vec<Delivery>> {
        let outbox = self.store.outbox();
        let answers = join_all((0..times).map(|_| outbox.claim_due(request.clone(), self.now))).await;
        let mut all = Vec::new();
        for answer in answers {
            let deliveries = answer.map_err(told)?;
            let expected = self.models.outbox.poll(request, self.now);
            let ids: Vec<OutboxId> = deliveries.iter().map(|delivery| delivery.id.clone()).collect();
            same("poll", &ids, &expected.iter().map(|index| self.id_of(*index)).collect())?;
            for (delivery, index) in deliveries.iter().zip(expected) {
                self.promises.leased(delivery, ATTEMPTS_MAX, self.now)?;
                let message = &mut self.models.outbox.messages[index];
                same("the attempts of a delivery", &delivery.attempts, &message.attempts)?;
                message.token = Some(delivery.lease.clone());
            }
            all.extend(deliveries);
        }
        Ok(all)
    }

    pub(super) async fn killed_in_poll(&mut self, poll: &Poll, after: &mut Models) -> TempDir {
        let request = self.request_of(poll);
        after.outbox.poll(&request, self.now);
        let outbox = self.store.outbox();
        let (_, image) =
            tokio::join!(outbox.claim_due(request, self.now), async { self.store.crash_image() });
        image
    }

    async fn ack(&mut self, index: usize, token: &LeaseToken) -> Checked {
        let expected = self.models.outbox.ack(index, token, self.now);
        if expected == Ok(Acked::Delivered) {
            self.promises.lease_ended(&self.id_of(index));
        }
        let found = self.store.outbox().ack(self.id_of(index), token.clone(), self.now).await;
        same("ack", &found.map_err(told)?, &expected)
    }

    async fn nack(
        &mut self,
        index: usize,
        lease: LeaseToken,
        permanent: bool,
        retry_after: Duration,
    ) -> Checked {
        let retry_after = Some(retry_after);
        let expected = self.models.outbox.nack(index, &lease, retry_after, permanent, self.now);
        if expected.is_ok() {
            self.promises.lease_ended(&self.id_of(index));
        }
        let nack = Nack { id: self.id_of(index), lease, error: None, retry_after, permanent };
        same("nack", &self.store.outbox().nack(nack, backoff, self.now).await.map_err(told)?, &expected)
    }

    pub(super) async fn deliver_what_is_due(&mut self) -> Checked {
        for topic in 0..SOURCES {
            let request = self.request_of(&Poll { topic, max: 100, ordered: true, times: 1 });
            for delivery in self.poll(&request, 1).await? {
                let place =
                    self.models.outbox.messages.iter().position(|message| message.reply.id == delivery.id);
                let index = place.ok_or_else(|| format!("{} was never sent", delivery.id))?;
                self.ack(index, &delivery.lease).await?;
            }
        }
        Ok(())
    }

    /// A message that never had such a lease is shown one that nobody ever got.
    fn token_for(&self, index: usize, lease: Lease) -> LeaseToken {
        let id = self.id_of(index);
        let tokens = self.promises.tokens_of(&id);
        let found = match lease {
            Lease::Newest => tokens.last(),
            Lease::Stale => tokens.iter().rev().nth(1),
            Lease::Foreign => self.promises.any_token_but_of(&id),
        };
        found.cloned().unwrap_or_else(|| "lease_01ARZ3NDEKTSV4RRFFQ69G5FAV".parse().unwrap())
    }

    /// A leased message if there is one, and sometimes another.
    fn leased_message(&self, message: usize) -> Option<usize> {
        self.message_in(message, &[OutboxStatus::Leased]).or(self.any_message(message))
    }

    fn ended_message(&self, message: usize) -> Option<usize> {
        let ended = [OutboxStatus::Dead, OutboxStatus::Discarded];
        self.message_in(message, &ended).or(self.any_message(message))
    }

    fn message_in(&self, message: usize, states: &[OutboxStatus]) -> Option<usize> {
        let messages = &self.models.outbox.messages;
        let fitting: Vec<usize> =
            (0..messages.len()).filter(|index| states.contains(&messages[*index].status)).collect();
        message.checked_rem(fitting.len()).map(|place| fitting[place]).filter(|_| !message.is_multiple_of(5))
    }

    fn any_message(&self, message: usize) -> Option<usize> {
        message.checked_rem(self.models.outbox.messages.len())
    }

    fn id_of(&self, index: usize) -> OutboxId {
        self.models.outbox.messages[index].reply.id.clone()
    }
}
