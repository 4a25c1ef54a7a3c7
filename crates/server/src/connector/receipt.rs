//! Receipts: tells a socket that asked for it how the turns of its events ended.

use super::frame;
use crate::share::{Place, Share};
use crate::state::AppState;
use axum::extract::ws::Utf8Bytes;
use cortex_api::{SettledData, SettledOutcome};
use cortex_bus::{EndHeard, EndListener};
use cortex_store::EndedEvent;
use cortex_types::limits::RECEIPTS_MAX;
use cortex_types::{EventId, InboxStatus};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// Receipts that wait for their socket. Each has the words of its event, which may be long.
const UNREAD_MAX: usize = 4;
/// How often the store is asked: not every end is told at once.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// What following one event takes.
const FOLLOWED_BYTES: usize = 256;

/// The receipts of one socket.
pub(super) struct Receipts {
    follow: mpsc::Sender<Followed>,
    told: mpsc::Receiver<Utf8Bytes>,
    share: Arc<Share>,
}

/// An event whose end somebody waits for. Its words are in the database and read from there when it has ended.
struct Followed {
    event: EventId,
    /// The same for all events of a socket, whose session is bound to it.
    connector_id: Arc<str>,
    /// The room that it takes.
    held: Place,
}

impl Receipts {
    pub(super) fn begin(app: &AppState, share: &Arc<Share>) -> Self {
        let (follow, incoming) = mpsc::channel(RECEIPTS_MAX);
        let (to, told) = mpsc::channel(UNREAD_MAX);
        // Listen before anything is accepted: what ends in between then is heard.
        let ends = app.bus.listen_to_ends();
        let follower = Follower { app: app.clone(), open: BTreeMap::new(), connector_id: "".into(), to };
        tokio::spawn(follower.run(incoming, ends));
        Self { follow, told, share: Arc::clone(share) }
    }

    /// Tells how this event ends; over the bound it is left out.
    pub(super) fn follow(&self, event: EventId, connector_id: &str) {
        let held = self.share.followed_bytes();
        if held.grow_to(FOLLOWED_BYTES + connector_id.len()).is_err() {
            return;
        }
        // Waiting here for one that waits for this socket would be for ever.
        drop(self.follow.try_send(Followed { event, connector_id: connector_id.into(), held }));
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
    /// By their ids, which sort by time. One that came again is followed once.
    open: BTreeMap<EventId, Place>,
    connector_id: Arc<str>,
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
                    Some(followed) => {
                        let waiting = std::iter::from_fn(|| incoming.try_recv().ok()).take(RECEIPTS_MAX);
                        let new = std::iter::once(followed).chain(waiting).map(|new| self.add(new)).collect();
                        // They may have ended before they were followed.
                        self.look_at(new).await
                    }
                    None => return,
                },
                end = ends.next() => match end {
                    EndHeard::Of(event) if !self.open.contains_key(&event) => Ok(()),
                    EndHeard::Of(event) => self.look_at(vec![event]).await,
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

    fn add(&mut self, followed: Followed) -> EventId {
        let Followed { event, connector_id, held } = followed;
        self.connector_id = connector_id;
        self.open.insert(event.clone(), held);
        if self.open.len() > RECEIPTS_MAX {
            self.open.pop_first();
        }
        event
    }

    async fn look_at_all(&mut self) -> Result<(), Gone> {
        self.look_at(self.open.keys().cloned().collect()).await
    }

    /// Tells how they ended, those that did; a store that cannot be read is asked again.
    async fn look_at(&mut self, events: Vec<EventId>) -> Result<(), Gone> {
        let Ok(ended) = self.app.store.outbox().ended(events).await else { return Ok(()) };
        for ended in ended {
            self.tell(ended).await?;
        }
        Ok(())
    }

    async fn tell(&mut self, ended: EndedEvent) -> Result<(), Gone> {
        let outcome = match ended.status {
            InboxStatus::Done => SettledOutcome::Done,
            InboxStatus::Failed => SettledOutcome::Failed,
            InboxStatus::Pending | InboxStatus::Processing | InboxStatus::Waiting => return Ok(()),
        };
        if self.open.remove(&ended.event).is_none() {
            return Ok(());
        }
        let data = SettledData {
            connector_id: self.connector_id.to_string(),
            conversation_id: ended.topic_key,
            event_id: ended.event,
            outcome,
            replies: usize::try_from(ended.replies).unwrap_or(usize::MAX),
        };
        let receipt = frame::settled(data, ended.external_message_id, self.app.clock.now());
        self.to.send(receipt.into()).await.map_err(|_| Gone)
    }
}
