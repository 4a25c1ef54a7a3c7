//! Connectors: poll a batch, ack every message of it, and watch for what must never happen.

use super::{Connection, Target};
use crate::BenchError;
use cortex_api::{AckAnswer, AckRequest, AckStatus, PollAnswer, PollRequest, PolledMessage};
use cortex_types::OutboxId;
use futures::future::try_join_all;
use std::cell::{Cell, RefCell};
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

/// Connectors that work side by side.
pub(crate) struct Connectors {
    pub(crate) target: Target,
    pub(crate) routes: Routes,
    /// One source for each connector; the same one several times makes them rivals.
    pub(crate) sources: Vec<String>,
    pub(crate) batch: u32,
    /// How many messages of a batch one connector delivers and acks at a time, each on a connection of its own.
    pub(crate) lanes: usize,
    pub(crate) ordered: bool,
    pub(crate) empty: Empty,
    /// Ids that were handed out before; shared, because rivals must not get the same message.
    pub(crate) seen: RefCell<HashSet<OutboxId>>,
    /// Messages acked so far.
    pub(crate) acked: Cell<u64>,
    /// Messages handed out again although their lease was not over.
    pub(crate) double_leases: Cell<u64>,
}

impl Connectors {
    /// Works while `goes_on`, or until nothing comes. `received` is called for each message, in the order of the
    /// answers.
    pub(crate) async fn run(
        &self,
        goes_on: impl Fn() -> bool,
        received: impl Fn(&PolledMessage),
    ) -> Result<(), BenchError> {
        let working = self.sources.iter().map(|source| self.work(source, &goes_on, &received));
        try_join_all(working).await.map(drop)
    }

    async fn work(
        &self,
        source: &str,
        goes_on: &impl Fn() -> bool,
        received: &impl Fn(&PolledMessage),
    ) -> Result<(), BenchError> {
        let opening = (0..self.lanes).map(|_| Connection::open(self.target.clone()));
        let mut connections = try_join_all(opening).await?;
        let poll = PollRequest {
            source: source.to_owned(),
            max: Some(self.batch),
            lease_seconds: Some(300),
            ordered: self.ordered,
            wait_seconds: None,
            holder: None,
            topic_key: None,
        };
        let poll = json(&poll)?;
        loop {
            let messages = self.poll(&mut connections[0], &poll).await?;
            if messages.is_empty() {
                match self.empty {
                    Empty::Ends => return Ok(()),
                    Empty::Waits => tokio::time::sleep(EMPTY_PAUSE).await,
                }
            }
            messages.iter().for_each(received);
            // All of a batch is acked even when time is up, so that the next round finds no lease of this one.
            let acking = connections.iter_mut().enumerate().map(|(lane, connection)| {
                self.ack_all(connection, messages.iter().skip(lane).step_by(self.lanes))
            });
            try_join_all(acking).await?;
            if !goes_on() {
                return Ok(());
            }
        }
    }

    async fn poll(
        &self,
        connection: &mut Connection,
        request: &[u8],
    ) -> Result<Vec<PolledMessage>, BenchError> {
        let answer = connection.post(self.routes.poll, request).await?;
        let polled: PollAnswer =
            serde_json::from_slice(answer.body).map_err(|_| answer.wrong("polled messages"))?;
        let mut seen = self.seen.borrow_mut();
        let twice = polled.messages.iter().filter(|message| !seen.insert(message.message_id.clone())).count();
        self.double_leases.set(self.double_leases.get() + twice as u64);
        Ok(polled.messages)
    }

    async fn ack_all(
        &self,
        connection: &mut Connection,
        messages: impl Iterator<Item = &PolledMessage>,
    ) -> Result<(), BenchError> {
        for message in messages {
            let (message_id, lease_token) = (message.message_id.clone(), message.lease_token.clone());
            let request = json(&AckRequest { message_id, lease_token })?;
            let answer = connection.post(self.routes.ack, &request).await?;
            match serde_json::from_slice(answer.body) {
                Ok(AckAnswer { ok: true, status: AckStatus::Delivered }) => {}
                Ok(AckAnswer { .. }) | Err(_) => return Err(answer.wrong("an ack")),
            }
            self.acked.set(self.acked.get() + 1);
        }
        Ok(())
    }
}

fn json(value: &impl serde::Serialize) -> Result<Vec<u8>, BenchError> {
    serde_json::to_vec(value).map_err(|error| BenchError::Broken(error.to_string()))
}
