//! Connections of clients: those that have proved nothing yet are few, and the oldest of them makes room for the next.

use crate::share::{Full, Kind, Place, Share};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

/// Connections without a credential that may stay; one more closes the oldest, unless it came a moment ago.
const UNPROVEN_MAX: usize = 1_024;
/// One more closes the oldest in any case.
const UNPROVEN_HARD_MAX: usize = 2_048;
/// Within this time a client has sent its credential, also on a busy machine.
const MOMENT: Duration = Duration::from_secs(1);
/// What a socket may have sent of a message without being counted: most messages are smaller.
const UNCOUNTED_BYTES: usize = 4 * 1024;
/// A control frame of a client: two bytes and its mask.
const CONTROL_HEAD_BYTES: usize = 6;

/// All connections that have proved nothing yet, the oldest first.
#[derive(Default)]
pub(crate) struct ClientConnections(Mutex<Unproven>);

#[derive(Default)]
struct Unproven {
    waiting: BTreeMap<u64, Waiting>,
    next: u64,
}

struct Waiting {
    since: Instant,
    closing: CancellationToken,
}

impl ClientConnections {
    /// A connection from the first address to the second.
    pub(crate) fn enter(self: &Arc<Self>, ends: (SocketAddr, SocketAddr)) -> Arc<ClientConnection> {
        let closing = CancellationToken::new();
        let mut unproven = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let id = unproven.next;
        unproven.next += 1;
        unproven.waiting.insert(id, Waiting { since: Instant::now(), closing: closing.clone() });
        let is_old =
            unproven.waiting.first_key_value().is_some_and(|(_, oldest)| oldest.since.elapsed() > MOMENT);
        let count = unproven.waiting.len();
        if count > UNPROVEN_HARD_MAX || (count > UNPROVEN_MAX && is_old) {
            unproven.close_oldest();
        }
        drop(unproven);
        Arc::new(ClientConnection {
            id,
            ends,
            is_own_user: OnceCell::new(),
            all: Arc::clone(self),
            closing,
            proven: OnceLock::new(),
            message: OnceLock::new(),
            half: AtomicUsize::new(0),
            whole: AtomicUsize::new(0),
        })
    }

    /// Closes the connection that has proved nothing for the longest time.
    pub(crate) fn make_room(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).close_oldest();
    }

    fn forget(&self, id: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).waiting.remove(&id);
    }
}

impl Unproven {
    fn close_oldest(&mut self) {
        if let Some((_, oldest)) = self.waiting.pop_first() {
            metrics::counter!("cortex_connections_closed_for_others_total").increment(1);
            oldest.closing.cancel();
        }
    }
}

/// What one connection has proved, and what its socket has sent of a message that is not whole.
pub(crate) struct ClientConnection {
    id: u64,
    ends: (SocketAddr, SocketAddr),
    /// Whether its program runs as the user of this server; looked up once, when it matters.
    is_own_user: OnceCell<bool>,
    all: Arc<ClientConnections>,
    closing: CancellationToken,
    /// Its place among the connections of the caller whose credential came first.
    proven: OnceLock<Place>,
    message: OnceLock<Place>,
    /// Bytes of a message that is not whole yet.
    half: AtomicUsize,
    /// Bytes of whole messages that were not dealt with yet.
    whole: AtomicUsize,
}

impl ClientConnection {
    /// The client's address and ours.
    pub(crate) fn ends(&self) -> (SocketAddr, SocketAddr) {
        self.ends
    }

    /// Whether its program runs as the user of this server, as `look` finds it the first time.
    pub(crate) async fn is_own_user<F: Future<Output = bool>>(&self, look: impl FnOnce() -> F) -> bool {
        *self.is_own_user.get_or_init(look).await
    }

    /// Ends when others need the room.
    pub(crate) async fn closed(&self) {
        self.closing.cancelled().await;
    }

    /// A right credential came over it: it counts as that caller's from now on.
    pub(crate) fn prove(&self, share: &Arc<Share>) -> Result<(), Full> {
        if self.proven.get().is_some() {
            return Ok(());
        }
        let place = share.place(Kind::Connection)?;
        drop(self.proven.set(place));
        self.all.forget(self.id);
        Ok(())
    }

    /// It is over, or it is a socket now, which is counted among those.
    pub(crate) fn leave(&self) {
        self.all.forget(self.id);
        if let Some(place) = self.proven.get() {
            place.clear();
        }
    }

    /// From now on messages come; what is not whole yet is held of this share.
    pub(crate) fn begin_messages(&self, share: &Arc<Share>) {
        drop(self.message.set(share.bytes()));
    }

    pub(crate) fn hear(&self, bytes: usize) -> Result<(), Full> {
        let Some(message) = self.message.get() else { return Ok(()) };
        let half = self.half.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let held = half + self.whole.load(Ordering::Relaxed);
        if held > UNCOUNTED_BYTES { message.grow_to(held) } else { Ok(()) }
    }

    /// What came last is a whole message of so many bytes. At most one read of the next one is behind it, which is small.
    pub(crate) fn is_whole(&self, bytes: usize) {
        self.half.store(0, Ordering::Relaxed);
        self.whole.fetch_add(bytes, Ordering::Relaxed);
    }

    /// What came last is a control frame, perhaps in the middle of a message: only its own bytes are done with.
    pub(crate) fn is_control(&self, payload: usize) {
        let bytes = payload + CONTROL_HEAD_BYTES;
        let half = self.half.load(Ordering::Relaxed);
        self.half.store(half.saturating_sub(bytes), Ordering::Relaxed);
    }

    /// All whole messages have been dealt with.
    pub(crate) fn settle(&self) {
        self.whole.store(0, Ordering::Relaxed);
        let half = self.half.load(Ordering::Relaxed);
        if let Some(message) = self.message.get() {
            message.shrink_to(if half > UNCOUNTED_BYTES { half } else { 0 });
        }
    }

    /// Whether the beginning of a message waits for its end.
    pub(crate) fn is_in_message(&self) -> bool {
        self.half.load(Ordering::Relaxed) > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::{Caller, OwnerDoor};
    use crate::share::{CallerLimits, Shares};
    use std::net::{IpAddr, Ipv4Addr};

    const HERE: (SocketAddr, SocketAddr) = {
        let here = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7_751);
        (here, here)
    };

    fn share_of(caller: &Caller) -> Arc<Share> {
        Shares::new(CallerLimits::default()).of(caller, IpAddr::V4(Ipv4Addr::LOCALHOST))
    }

    #[test]
    fn the_oldest_connection_without_a_credential_makes_room() {
        let connections = Arc::new(ClientConnections::default());
        let first = connections.enter(HERE);
        first.prove(&share_of(&Caller::Owner(OwnerDoor::Key(0)))).unwrap();
        let open: Vec<_> = (0..UNPROVEN_HARD_MAX).map(|_| connections.enter(HERE)).collect();
        assert!(open.iter().all(|connection| !connection.closing.is_cancelled()));
        let newest = connections.enter(HERE);
        assert!(open[0].closing.is_cancelled() && !open[1].closing.is_cancelled());
        assert!(!first.closing.is_cancelled() && !newest.closing.is_cancelled());
        open[1].leave();
        let another = connections.enter(HERE);
        assert!(!open[2].closing.is_cancelled() && !another.closing.is_cancelled());
    }

    #[test]
    fn a_message_is_held_until_it_is_whole() {
        let connections = Arc::new(ClientConnections::default());
        let (one, other) = (connections.enter(HERE), connections.enter(HERE));
        let share = share_of(&Caller::Anybody);
        one.hear(usize::MAX / 2).unwrap();
        one.begin_messages(&share);
        other.begin_messages(&share);
        let mut sent = 0;
        while one.hear(1024 * 1024).is_ok() {
            sent += 1;
        }
        assert!((8..64).contains(&sent), "{sent} MiB");
        assert!(other.hear(UNCOUNTED_BYTES).is_ok(), "small messages always pass");
        assert!(other.hear(1024 * 1024).is_err());
        one.settle();
        assert!(other.hear(1024 * 1024).is_err(), "half a message is held until it is whole");
        one.is_control(125);
        one.settle();
        assert!(other.hear(1024 * 1024).is_err(), "a ping gives nothing back but itself");
        one.is_whole(1024 * 1024);
        assert!(other.hear(1024 * 1024).is_err(), "it is not dealt with yet");
        one.settle();
        assert!(other.hear(1024 * 1024).is_ok());
    }

    #[test]
    fn a_control_frame_takes_its_own_bytes_along() {
        let connection = Arc::new(ClientConnections::default()).enter(HERE);
        connection.begin_messages(&share_of(&Caller::Anybody));
        connection.hear(6 + 10).unwrap();
        connection.is_control(10);
        assert!(!connection.is_in_message());
        connection.hear(100 + 6).unwrap();
        connection.is_control(0);
        assert!(connection.is_in_message());
        connection.is_control(125);
        assert!(!connection.is_in_message(), "never less than nothing");
    }
}
