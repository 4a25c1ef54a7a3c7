//! Previews for people who watch: from the live bus to server-sent events.

use cortex_api::{LiveDelta, LiveDone, LiveEvent as Wire};
use cortex_bus::{Bus, Heard, Listener, LiveNews};
use cortex_store::{OutboxMessage, Store, StoreError};
use cortex_types::{EventId, InboxStatus, OutboxStatus};
use futures::Stream;
use futures::stream;

/// What a watcher makes of a turn that already waits for a person when he comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// He stays until it goes on.
    GoesOn,
    /// He has seen enough.
    IsAnEnd,
}

/// What the watcher of one event sees; ends with `done`. `None` when there is no such event.
pub(crate) async fn watch(
    store: &Store,
    bus: &Bus,
    id: EventId,
    waiting: Waiting,
) -> Result<Option<impl Stream<Item = Wire> + use<>>, StoreError> {
    // Listen before looking: a turn that ends in between is then heard, not missed.
    let (so_far, listener) = bus.listen_to(&id);
    let Some(event) = store.inbox().find(id.clone()).await? else { return Ok(None) };
    let watcher = Watcher { store: store.clone(), id, listener };
    let first = match event.status {
        InboxStatus::Done | InboxStatus::Failed => Next::Ended(event.status),
        InboxStatus::Waiting if waiting == Waiting::IsAnEnd => Next::Ended(event.status),
        InboxStatus::Pending | InboxStatus::Processing | InboxStatus::Waiting if so_far.is_empty() => {
            Next::Hear
        }
        InboxStatus::Pending | InboxStatus::Processing | InboxStatus::Waiting => Next::Say(so_far),
    };
    Ok(Some(stream::unfold((watcher, first), |(watcher, next)| watcher.next(next))))
}

struct Watcher {
    store: Store,
    id: EventId,
    listener: Listener,
}

enum Next {
    Say(String),
    Hear,
    Ended(InboxStatus),
    Over,
}

impl Watcher {
    async fn next(mut self, next: Next) -> Option<(Wire, (Self, Next))> {
        match next {
            Next::Say(text) => Some((Wire::Delta(LiveDelta { text }), (self, Next::Hear))),
            Next::Ended(status) => {
                let done = self.done(status).await;
                Some((done, (self, Next::Over)))
            }
            Next::Over => None,
            Next::Hear => match self.hear().await? {
                LiveNews::Delta { text, .. } => Some((Wire::Delta(LiveDelta { text }), (self, Next::Hear))),
                LiveNews::Restarted { .. } => Some((Wire::Restart, (self, Next::Hear))),
                LiveNews::Ended { status: InboxStatus::Pending, .. } => {
                    Some((Wire::Restart, (self, Next::Hear)))
                }
                LiveNews::Ended { status, .. } => {
                    let done = self.done(status).await;
                    Some((done, (self, Next::Over)))
                }
            },
        }
    }

    async fn hear(&mut self) -> Option<LiveNews> {
        loop {
            match self.listener.next().await {
                Heard::Event(event) if *event.event() == self.id => return Some(event),
                Heard::Event(_) => {}
                // What was missed may have been the end: ask the store instead of waiting for ever.
                Heard::Lagged(_) => {
                    let found = self.store.inbox().find(self.id.clone()).await.ok().flatten()?;
                    let has_ended = matches!(
                        found.status,
                        InboxStatus::Done | InboxStatus::Failed | InboxStatus::Waiting
                    );
                    if has_ended {
                        return Some(LiveNews::Ended { event: self.id.clone(), status: found.status });
                    }
                    return Some(LiveNews::Restarted { event: self.id.clone() });
                }
                Heard::Closed => return None,
            }
        }
    }

    async fn done(&self, status: InboxStatus) -> Wire {
        let trace = self.store.trace(self.id.clone()).await.ok().flatten();
        // What a mode held back, and what went elsewhere, is not for who watches here.
        let texts: Vec<String> = trace
            .map(|trace| {
                let here = |reply: &OutboxMessage| {
                    reply.topic == trace.event.topic && reply.status != OutboxStatus::Suppressed
                };
                trace.replies.into_iter().filter(here).map(|reply| reply.text).collect()
            })
            .unwrap_or_default();
        let text = (!texts.is_empty()).then(|| texts.join("\n\n"));
        Wire::Done(LiveDone { status, text })
    }
}
