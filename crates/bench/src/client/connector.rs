//! Connectors: poll a batch, ack every message of it, and watch for what must never happen.

use super::{Connection, Target};
use crate::BenchError;
use cortex_api::{AckAnswer, AckRequest, AckStatus, PollAnswer, PollRequest, PolledMessage};
use cortex_types::OutboxId;
use futures::future::try_join_all;
use std::cell::RefCell;
use std::collections::HashSet;
use std::time::Duration;

/// How long a connector waits after an empty poll.
const EMPTY_PAUSE: Duration = Duration::from_millis(1);

/// The two routes a connector uses.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Routes {
    pub(crate) poll: &'static str,
    pub(crate) ack: &'static str,
}

impl Routes {
    pub(crate) const OUTBOX: Self = Self { poll: "/outbox/poll", ack: "/outbox/ack" };
}

/// When connectors go home.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Empty {
    /// Nothing more will come.
    Ends,
    /// Something may come yet.
    Waits,
}

/// Connectors that work side by side, one connection each.
pub(crate) struct Connectors {
    pub(crate) target: Target,
    pub(crate) routes: Routes,
    /// One source for each connector; the same one several times makes them rivals.
    pub(crate) sources: Vec<String>,
    pub(crate) batch: u32,
    pub(crate) ordered: bool,
    pub(crate) empty: Empty,
    /// Ids that were handed out before; shared, because rivals must not get the same message.
    pub(crate) seen: RefCell<HashSet<OutboxId>>,
}

/// What connectors delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Drained {
    pub(crate) messages: u64,
    /// Messages handed out again although their lease was not over.
    pub(crate) double_leases: u64,
}

impl Connectors {
    /// Works while `goes_on`, or until nothing comes. `delivered` is called for each message after its ack.
    pub(crate) async fn run(
        &self,
        goes_on: impl Fn() -> bool,
        delivered: impl Fn(&PolledMessage),
    ) -> Result<Drained, BenchError> {
        let working = self.sources.iter().map(|source| self.work(source, &goes_on, &delivered));
        let drained = try_join_all(working).await?;
        Ok(drained.into_iter().fold(Drained::default(), |sum, one| Drained {
            messages: sum.messages + one.messages,
            double_leases: sum.double_leases + one.double_leases,
        }))
    }

    async fn work(
        &self,
        source: &str,
        goes_on: &impl Fn() -> bool,
        delivered: &impl Fn(&PolledMessage),
    ) -> Result<Drained, BenchError> {
        let mut connection = Connection::open(self.target.clone()).await?;
        let poll = PollRequest {
            source: source.to_owned(),
            max: Some(self.batch),
            lease_seconds: Some(300),
            ordered: self.ordered,
        };
        let poll = json(&poll)?;
        let mut drained = Drained::default();
        while goes_on() {
            let answer = connection.post(self.routes.poll, &poll).await?;
            let polled: PollAnswer =
                serde_json::from_slice(answer.body).map_err(|_| answer.wrong("polled messages"))?;
            if polled.messages.is_empty() {
                match self.empty {
                    Empty::Ends => break,
                    Empty::Waits => tokio::time::sleep(EMPTY_PAUSE).await,
                }
            }
            // All of a batch is acked even when time is up, so that the next round finds no lease of this one.
            for message in polled.messages {
                let is_first = self.seen.borrow_mut().insert(message.message_id.clone());
                drained.double_leases += u64::from(!is_first);
                self.ack(&mut connection, &message).await?;
                drained.messages += 1;
                delivered(&message);
            }
        }
        Ok(drained)
    }

    async fn ack(&self, connection: &mut Connection, message: &PolledMessage) -> Result<(), BenchError> {
        let (message_id, lease_token) = (message.message_id.clone(), message.lease_token.clone());
        let request = json(&AckRequest { message_id, lease_token })?;
        let answer = connection.post(self.routes.ack, &request).await?;
        match serde_json::from_slice(answer.body) {
            Ok(AckAnswer { ok: true, status: AckStatus::Delivered }) => Ok(()),
            Ok(AckAnswer { .. }) | Err(_) => Err(answer.wrong("an ack")),
        }
    }
}

fn json(value: &impl serde::Serialize) -> Result<Vec<u8>, BenchError> {
    serde_json::to_vec(value).map_err(|error| BenchError::Broken(error.to_string()))
}
