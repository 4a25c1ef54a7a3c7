//! Previews for people who watch: from the live bus to server-sent events.

use crate::auth::Caller;
use cortex_api::{LiveDelta, LiveDone, LiveEvent as Wire};
use cortex_bus::{Bus, Heard, Listener, LiveNews};
use cortex_store::{OutboxMessage, Store, StoreError};
use cortex_types::{EventId, InboxStatus, OutboxStatus};
use futures::Stream;
use futures::stream;
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

/// A text that is longer waits for room: a watcher that does not read holds it in memory.
pub(crate) const LONG_BYTES: usize = 16 * 1024;
/// Long texts that watchers of each kind hold at once.
const LONG_TEXTS_MAX: usize = 16;
/// Answers that are read from the store at once; nobody who reads slowly holds one of these.
static READING: Semaphore = Semaphore::const_new(16);
/// How long a watcher waits for room; then it is let go, and what it missed is in the outbox.
const ROOM_MAX: Duration = Duration::from_secs(30);

/// Who watches. Each kind has room of its own: connectors that read slowly keep no answer from the owner, nor do his programs
/// keep one from his terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reader {
    Owner,
    OpenAi,
    Connector,
}

impl Reader {
    fn rooms(self) -> &'static Semaphore {
        static OWNER: Semaphore = Semaphore::const_new(LONG_TEXTS_MAX);
        static OPENAI: Semaphore = Semaphore::const_new(LONG_TEXTS_MAX);
        static CONNECTOR: Semaphore = Semaphore::const_new(LONG_TEXTS_MAX);
        match self {
            Self::Owner => &OWNER,
            Self::OpenAi => &OPENAI,
            Self::Connector => &CONNECTOR,
        }
    }

    /// Waits for room for a long text; none when there is none for too long.
    pub(crate) async fn room(self) -> Room {
        timeout(ROOM_MAX, self.rooms().acquire()).await.ok()?.ok()
    }
}

impl From<&Caller> for Reader {
    fn from(caller: &Caller) -> Self {
        match caller {
            Caller::Owner(_) => Self::Owner,
            Caller::Connector(_) | Caller::Anybody => Self::Connector,
        }
    }
}

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
    reader: Reader,
    waiting: Waiting,
) -> Result<Option<impl Stream<Item = Wire> + use<>>, StoreError> {
    // Listen before looking: a turn that ends in between is then heard, not missed.
    let (mut so_far, mut listener) = bus.listen_to(&id);
    let mut room = None;
    if so_far.len() > LONG_BYTES {
        drop((so_far, listener));
        room = reader.room().await;
        (so_far, listener) = bus.listen_to(&id);
        if room.is_none() {
            so_far = String::new();
        }
    }
    let Some(event) = store.inbox().find(id.clone()).await? else { return Ok(None) };
    let watcher = Watcher { store: store.clone(), id, listener, reader, waiting };
    let first = match event.status {
        InboxStatus::Done | InboxStatus::Failed => Next::Ended(event.status),
        InboxStatus::Waiting if waiting == Waiting::IsAnEnd => Next::Ended(event.status),
        InboxStatus::Pending | InboxStatus::Processing | InboxStatus::Waiting if so_far.is_empty() => {
            Next::Hear
        }
        InboxStatus::Pending | InboxStatus::Processing | InboxStatus::Waiting => Next::Say(so_far, room),
    };
    Ok(Some(stream::unfold((watcher, first), |(watcher, next)| watcher.next(next))))
}

struct Watcher {
    store: Store,
    id: EventId,
    listener: Listener,
    reader: Reader,
    waiting: Waiting,
}

/// Room for a long text, until the watcher comes for more.
pub(crate) type Room = Option<SemaphorePermit<'static>>;

enum Next {
    Say(String, Room),
    Hear,
    /// What was said before is written.
    HearAfter(Room),
    Ended(InboxStatus),
    Over(Room),
}

impl Watcher {
    async fn next(self, next: Next) -> Option<(Wire, (Self, Next))> {
        match next {
            Next::Say(text, room) => Some((Wire::Delta(LiveDelta { text }), (self, Next::HearAfter(room)))),
            Next::Ended(status) => {
                let (done, room) = self.done(status).await?;
                Some((done, (self, Next::Over(room))))
            }
            Next::Over(room) => {
                drop(room);
                None
            }
            Next::HearAfter(room) => {
                drop(room);
                self.heard().await
            }
            Next::Hear => self.heard().await,
        }
    }

    async fn heard(mut self) -> Option<(Wire, (Self, Next))> {
        match self.hear().await? {
            LiveNews::Delta { text, .. } => Some((Wire::Delta(LiveDelta { text }), (self, Next::Hear))),
            LiveNews::Restarted { .. } => Some((Wire::Restart, (self, Next::Hear))),
            LiveNews::Ended { status: InboxStatus::Pending, .. } => Some((Wire::Restart, (self, Next::Hear))),
            LiveNews::Ended { status, .. } => {
                let (done, room) = self.done(status).await?;
                Some((done, (self, Next::Over(room))))
            }
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
            }
        }
    }

    /// None when there was no room for a long answer.
    async fn done(&self, status: InboxStatus) -> Option<(Wire, Room)> {
        let is_long = |text: &Option<String>| text.as_ref().is_some_and(|text| text.len() > LONG_BYTES);
        // Whoever waits for an end reads the answer elsewhere.
        let mut text = match self.waiting {
            Waiting::GoesOn => self.text().await,
            Waiting::IsAnEnd => None,
        };
        let mut room = None;
        if is_long(&text) {
            room = self.reader.rooms().try_acquire().ok();
            if room.is_none() {
                // Not held while it waits.
                drop(text.take());
                room = Some(self.reader.room().await?);
                text = self.text().await;
            }
        }
        Some((Wire::Done(LiveDone { status, text }), room))
    }

    async fn text(&self) -> Option<String> {
        // Never closed.
        let reading = READING.acquire().await;
        let (event, replies) = self.store.outbox().replies_to(self.id.clone()).await.ok().flatten()?;
        drop(reading);
        // What a mode held back, and what went elsewhere, is not for who watches here.
        let here =
            |reply: &OutboxMessage| reply.topic == event.topic && reply.status != OutboxStatus::Suppressed;
        let texts: Vec<String> = replies.into_iter().filter(here).map(|reply| reply.text).collect();
        (!texts.is_empty()).then(|| texts.join("\n\n"))
    }
}
