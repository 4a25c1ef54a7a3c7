//! What the outbox should do, said as simply as possible: a list of messages in order of insertion (D2–D5).

use cortex_store::{Acked, DiscardOutcome, LeaseRefused, Nacked, OutboxMessage, OutboxPoll, RequeueOutcome};
use cortex_types::{ChannelMode, LeaseToken, Millis, NewReply, OutboxStatus};
use std::collections::BTreeMap;
use std::time::Duration;

#[derive(Clone)]
pub(super) struct ModelMessage {
    pub(super) reply: NewReply,
    /// The channel of the event that led to it.
    origin: String,
    pub(super) status: OutboxStatus,
    pub(super) attempts: u32,
    next_attempt_at: Millis,
    created_at: Millis,
    lease_expires_at: Option<Millis>,
    /// The last lease; `None` when the answer that carried it was lost in a crash.
    pub(super) token: Option<LeaseToken>,
}

impl ModelMessage {
    fn is_open(&self) -> bool {
        matches!(self.status, OutboxStatus::Pending | OutboxStatus::Leased)
    }

    fn is_due(&self, now: Millis) -> bool {
        // D4: a lease that ends now has ended.
        let is_free = match self.status {
            OutboxStatus::Pending => true,
            OutboxStatus::Leased => self.lease_expires_at.is_some_and(|expires_at| expires_at <= now),
            OutboxStatus::Delivered
            | OutboxStatus::Dead
            | OutboxStatus::Suppressed
            | OutboxStatus::Discarded => false,
        };
        is_free && self.next_attempt_at <= now
    }

    fn is_held_by(&self, token: &LeaseToken, now: Millis) -> bool {
        self.status == OutboxStatus::Leased
            && self.token.as_ref() == Some(token)
            && self.lease_expires_at.is_some_and(|expires_at| expires_at > now)
    }

    fn end_lease(&mut self, status: OutboxStatus) {
        (self.status, self.token, self.lease_expires_at) = (status, None, None);
    }

    fn is_like(&self, row: &OutboxMessage) -> bool {
        let lease = self.lease_expires_at;
        (&self.reply.id, &self.reply.text, &self.reply.topic) == (&row.id, &row.text, &row.topic)
            && (self.status, self.attempts) == (row.status, row.attempts)
            && (self.next_attempt_at, self.created_at) == (row.next_attempt_at, row.created_at)
            && lease == row.lease_expires_at
    }
}

#[derive(Clone, Default)]
pub(super) struct OutboxModel {
    /// In order of insertion.
    pub(super) messages: Vec<ModelMessage>,
    /// Sources and channels that are not live.
    pub(super) held: BTreeMap<String, ChannelMode>,
}

impl OutboxModel {
    /// D18: what may not leave is recorded as suppressed.
    pub(super) fn queue(&mut self, replies: Vec<NewReply>, origin: &str, now: Millis) {
        for reply in replies {
            let is_held_back = self.refusal(origin, &reply.topic.source).is_some();
            self.messages.push(ModelMessage {
                reply,
                origin: origin.to_owned(),
                status: if is_held_back { OutboxStatus::Suppressed } else { OutboxStatus::Pending },
                attempts: 0,
                next_attempt_at: now,
                created_at: now,
                lease_expires_at: None,
                token: None,
            });
        }
    }

    /// Why nothing of `origin` leaves for `target`.
    pub(super) fn refusal(&self, origin: &str, target: &str) -> Option<String> {
        let mut names = [(target, "target"), (origin, "source")].into_iter();
        names.find_map(|(name, role)| {
            self.held.get(name).map(|mode| format!("the {role} channel {name} is {mode}"))
        })
    }

    fn is_held_back(&self, index: usize) -> bool {
        let message = &self.messages[index];
        self.refusal(&message.origin, &message.reply.topic.source).is_some()
    }

    /// What waits and may no longer leave never does.
    pub(super) fn suppress(&mut self) {
        for index in 0..self.messages.len() {
            if self.messages[index].status == OutboxStatus::Pending && self.is_held_back(index) {
                self.messages[index].end_lease(OutboxStatus::Suppressed);
            }
        }
    }

    /// The places of the messages that a poll hands out, in order; their tokens are the store's to choose.
    pub(super) fn poll(&mut self, poll: &OutboxPoll, now: Millis) -> Vec<usize> {
        let mut due: Vec<usize> = (0..self.messages.len())
            .filter(|index| self.messages[*index].reply.topic.source == poll.source)
            .filter(|index| self.messages[*index].is_due(now))
            .collect();
        due.sort_by_key(|index| {
            (self.messages[*index].next_attempt_at, self.messages[*index].created_at, *index)
        });
        let mut handed_out = Vec::new();
        for index in due {
            if handed_out.len() == poll.max as usize {
                break;
            }
            if poll.ordered && self.waits_for_another(index, &handed_out) {
                continue;
            }
            // What waits was looked at when the modes changed; where a name changed, its target is looked at again.
            let message = &self.messages[index];
            let is_looked_at =
                message.status == OutboxStatus::Leased || self.held.contains_key(&message.reply.topic.source);
            if is_looked_at && self.is_held_back(index) {
                self.messages[index].end_lease(OutboxStatus::Suppressed);
                continue;
            }
            let message = &mut self.messages[index];
            // D2: attempts grows at the claim; one claim too many buries the message and takes no place.
            message.attempts += 1;
            if message.attempts > poll.attempts_max {
                message.end_lease(OutboxStatus::Dead);
            } else {
                message.status = OutboxStatus::Leased;
                message.token = None;
                message.lease_expires_at = Some(now.after(poll.lease));
                handed_out.push(index);
            }
        }
        handed_out
    }

    /// D5: an earlier message of its topic is open and does not go out ahead of it in this answer.
    fn waits_for_another(&self, index: usize, handed_out: &[usize]) -> bool {
        let topic = &self.messages[index].reply.topic;
        (0..index).any(|earlier| {
            let message = &self.messages[earlier];
            message.reply.topic == *topic && message.is_open() && !handed_out.contains(&earlier)
        })
    }

    /// D4.
    pub(super) fn ack(
        &mut self,
        index: usize,
        token: &LeaseToken,
        now: Millis,
    ) -> Result<Acked, LeaseRefused> {
        let message = &mut self.messages[index];
        if message.status == OutboxStatus::Delivered && message.token.as_ref() == Some(token) {
            return Ok(Acked::AlreadyDelivered);
        }
        if !message.is_held_by(token, now) {
            return Err(LeaseRefused::Conflict);
        }
        message.status = OutboxStatus::Delivered;
        Ok(Acked::Delivered)
    }

    /// D3: waits for the longer of backoff and the connector's wish; only `permanent` buries at once.
    pub(super) fn nack(
        &mut self,
        index: usize,
        token: &LeaseToken,
        retry_after: Option<Duration>,
        permanent: bool,
        now: Millis,
    ) -> Result<Nacked, LeaseRefused> {
        let is_held_back = self.is_held_back(index);
        let message = &mut self.messages[index];
        if !message.is_held_by(token, now) {
            return Err(LeaseRefused::Conflict);
        }
        if is_held_back && !permanent {
            message.end_lease(OutboxStatus::Suppressed);
            return Ok(Nacked::Suppressed);
        }
        if permanent {
            message.end_lease(OutboxStatus::Dead);
            message.next_attempt_at = now;
            return Ok(Nacked::Dead);
        }
        message.end_lease(OutboxStatus::Pending);
        message.next_attempt_at = now.after(backoff(message.attempts).max(retry_after.unwrap_or_default()));
        Ok(Nacked::Pending { next_attempt_at: message.next_attempt_at })
    }

    pub(super) fn requeue(&mut self, index: usize, now: Millis) -> RequeueOutcome {
        let held_back = self.refusal(&self.messages[index].origin, &self.messages[index].reply.topic.source);
        let message = &mut self.messages[index];
        if !matches!(message.status, OutboxStatus::Dead | OutboxStatus::Discarded) {
            return RequeueOutcome::Is(message.status);
        }
        if let Some(reason) = held_back {
            return RequeueOutcome::HeldBack(reason);
        }
        message.end_lease(OutboxStatus::Pending);
        (message.attempts, message.next_attempt_at) = (0, now);
        RequeueOutcome::Requeued
    }

    pub(super) fn discard(&mut self, index: usize) -> DiscardOutcome {
        let message = &mut self.messages[index];
        if !(message.is_open() || message.status == OutboxStatus::Dead) {
            return DiscardOutcome::Is(message.status);
        }
        message.end_lease(OutboxStatus::Discarded);
        DiscardOutcome::Discarded
    }

    /// After a start: a clock that was set back hides nothing for longer than the horizon.
    pub(super) fn clamp(&mut self, horizon: Duration, now: Millis) {
        let latest = now.after(horizon);
        for message in self.messages.iter_mut().filter(|message| message.is_open()) {
            message.next_attempt_at = message.next_attempt_at.min(latest);
            message.lease_expires_at = message.lease_expires_at.map(|expires_at| expires_at.min(latest));
        }
    }

    pub(super) fn is_at_rest(&self) -> bool {
        !self.messages.iter().any(ModelMessage::is_open)
    }

    pub(super) fn due_times(&self) -> impl Iterator<Item = Millis> {
        let open = self.messages.iter().filter(|message| message.is_open());
        open.flat_map(|message| [Some(message.next_attempt_at), message.lease_expires_at]).flatten()
    }

    /// Compares with the rows of the store, newest first.
    pub(super) fn differs_from(&self, rows: &[OutboxMessage]) -> Option<String> {
        if rows.len() != self.messages.len() {
            let counts = (rows.len(), self.messages.len());
            return Some(format!("the outbox holds {} messages instead of {}", counts.0, counts.1));
        }
        let (message, row) =
            self.messages.iter().rev().zip(rows).find(|(message, row)| !message.is_like(row))?;
        let expected = (message.status, message.attempts, message.next_attempt_at, message.lease_expires_at);
        Some(format!("a message is {row:?} instead of {expected:?}"))
    }
}

/// Short enough that sequences live through it.
pub(super) fn backoff(attempts: u32) -> Duration {
    Duration::from_secs(5 * 2_u64.pow(attempts.saturating_sub(1).min(8)))
}
