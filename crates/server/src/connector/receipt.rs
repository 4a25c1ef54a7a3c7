//! Receipts: tells a socket that asked for it how the turns of its events ended.

use super::frame::{self, Inbound};
use crate::state::AppState;
use axum::extract::ws::Utf8Bytes;
use cortex_api::{SettledData, SettledOutcome};
use cortex_bus::{EndHeard, EndListener};
use cortex_types::limits::RECEIPTS_MAX;
use cortex_types::{EventId, InboxStatus, OutboxStatus};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::mpsc;

/// Receipts that wait for their socket.
const UNREAD_MAX: usize = 64;
/// How often the store is asked: not every end is told at once.
const LOOK_EVERY: Duration = Duration::from_secs(30);

/// The receipts of one socket.
pub(super) struct Receipts {
    follow: mpsc::Sender<Followed>,
    told: mpsc::Receiver<Utf8Bytes>,
}

/// An event whose end somebody waits for.
struct Followed {
    event: EventId,
    causation: String,
    connector_id: String,
    conversation_id: String,
}

impl Receipts {
    pub(super) fn begin(app: &AppState) -> Self {
        let (follow, incoming) = mpsc::channel(RECEIPTS_MAX);
        let (to, told) = mpsc::channel(UNREAD_MAX);
        // Listen before anything is accepted: what ends in between then is heard.
        let ends = app.bus.listen_to_ends();
        tokio::spawn(Follower { app: app.clone(), open: BTreeMap::new(), to }.run(incoming, ends));
        Self { follow, told }
    }

    /// Tells how this event ends; over the bound it is left out.
    pub(super) fn follow(&self, event: EventId, inbound: &Inbound) {
        let followed = Followed {
            event,
            causation: inbound.event.external_message_id.clone(),
            connector_id: inbound.claim.connector_id.clone(),
            conversation_id: inbound.event.topic_key.clone(),
        };
        // Waiting here for one that waits for this socket would be for ever.
        drop(self.follow.try_send(followed));
    }

    /// The next receipt; never one for a socket that asked for none.
    pub(super) async fn next(receipts: &mut Option<Self>) -> Option<Utf8Bytes> {
        match receipts {
            Some(receipts) => receipts.told.recv().await,
            None => std::future::pending().await,
        }
    }
}

/// Follows the events of one socket until it is gone.
struct Follower {
    app: AppState,
    /// By their ids, which sort by time.
    open: BTreeMap<EventId, Vec<Followed>>,
    to: mpsc::Sender<Utf8Bytes>,
}

/// The socket is gone.
struct Gone;

impl Follower {
    async fn run(mut self, mut incoming: mpsc::Receiver<Followed>, mut ends: EndListener) {
        let mut tick = tokio::time::interval(LOOK_EVERY);
        tick.reset();
        loop {
            let looked = tokio::select! {
                followed = incoming.recv() => match followed {
                    Some(followed) => self.add(followed).await,
                    None => return,
                },
                end = ends.next() => match end {
                    EndHeard::Of(event) if !self.open.contains_key(&event) => Ok(()),
                    EndHeard::Of(event) => self.look_at(event).await,
                    EndHeard::Lagged => self.look_at_all().await,
                    EndHeard::Closed => return,
                },
                _ = tick.tick() => self.look_at_all().await,
            };
            if looked.is_err() {
                return;
            }
        }
    }

    async fn add(&mut self, followed: Followed) -> Result<(), Gone> {
        let event = followed.event.clone();
        self.open.entry(event.clone()).or_default().push(followed);
        if self.open.values().map(Vec::len).sum::<usize>() > RECEIPTS_MAX {
            self.open.pop_first();
        }
        // It may have ended before it was followed.
        self.look_at(event).await
    }

    async fn look_at_all(&mut self) -> Result<(), Gone> {
        let events: Vec<EventId> = self.open.keys().cloned().collect();
        for event in events {
            self.look_at(event).await?;
        }
        Ok(())
    }

    /// Tells how it ended, if it did; a store that cannot be read is asked again.
    async fn look_at(&mut self, event: EventId) -> Result<(), Gone> {
        let Ok(Some((found, replies))) = self.app.store.outbox().replies_to(event.clone()).await else {
            return Ok(());
        };
        let outcome = match found.status {
            InboxStatus::Done => SettledOutcome::Done,
            InboxStatus::Failed => SettledOutcome::Failed,
            InboxStatus::Pending | InboxStatus::Processing | InboxStatus::Waiting => return Ok(()),
        };
        let is_here = |status: OutboxStatus| match status {
            OutboxStatus::Pending | OutboxStatus::Leased | OutboxStatus::Delivered | OutboxStatus::Dead => {
                true
            }
            OutboxStatus::Suppressed | OutboxStatus::Discarded => false,
        };
        let here = replies.iter().filter(|reply| reply.topic == found.topic && is_here(reply.status));
        let replies = here.count();
        for followed in self.open.remove(&event).unwrap_or_default() {
            let data = SettledData {
                connector_id: followed.connector_id,
                conversation_id: followed.conversation_id,
                event_id: followed.event,
                outcome,
                replies,
            };
            let receipt = frame::settled(data, followed.causation, self.app.clock.now());
            self.to.send(receipt.into()).await.map_err(|_| Gone)?;
        }
        Ok(())
    }
}
