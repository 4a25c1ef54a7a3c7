//! Shares: what each caller may hold at once, so that one that takes much leaves room for the others.
//!
//! The owner, all connectors with a key and everybody without one draw from three separate stocks: what the others
//! use up is never the owner's.

use crate::auth::{Caller, OwnerDoor};
use crate::network::network_of;
use crate::rate::{Rate, Spent};
use crate::refusal::Refusal;
use cortex_api::ErrorCode;
use cortex_types::KeyId;
use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Callers that are remembered before those that hold nothing are forgotten.
const REMEMBERED_MAX: usize = 1_024;
/// When somebody who was refused may try again.
const TRY_AGAIN: Duration = Duration::from_secs(1);
/// Bytes that the requests with one key of the owner may hold; one import of memory at its limit fits in.
const OWNER_BYTES_MAX: usize = 72 * 1024 * 1024;
/// Bytes that the requests and half messages of all connectors may hold, and of one of them.
const CONNECTORS_BYTES_MAX: usize = 48 * 1024 * 1024;
const CONNECTOR_BYTES_MAX: usize = 24 * 1024 * 1024;
/// The same for callers without a key, by their address.
const STRANGERS_BYTES_MAX: usize = 24 * 1024 * 1024;
const STRANGER_BYTES_MAX: usize = 16 * 1024 * 1024;
const STRANGERS_REQUESTS_MAX: usize = 512;
const STRANGER_REQUESTS_MAX: usize = 256;
/// Connections beyond those that requests use, for callers that keep some open.
const IDLE_CONNECTIONS_MAX: usize = 256;
/// How many times what one key may hold all keys of connectors may hold together.
const KEYS_AT_ONCE: usize = 2;
/// The owner's keys (the terminal's and that of his programs), and his sockets.
const OWNER_DOORS_MAX: usize = 3;
const SOCKETS_MAX: usize = 4_096;
const SOCKETS_PER_CALLER_MAX: usize = 2_048;
/// Frames that all sockets of one key may have on their way to the store; the next ones wait in their sockets.
const FRAMES_IN_HAND_MAX: u32 = 512;
/// The same for everybody without a key together.
const STRANGERS_FRAMES_IN_HAND_MAX: u32 = 64;

/// Answers that all sockets of one key are shown while they grow, and those of everybody without one; the answers to other
/// events come when they are whole.
const PREVIEWS_MAX: usize = 64;
const STRANGERS_PREVIEWS_MAX: usize = 64;
const STRANGER_PREVIEWS_MAX: usize = 16;

/// What callers may ask for at once, and how often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallerLimits {
    /// Requests that one key may have running; half of them may be waiting polls.
    pub requests_per_key: u32,
    /// Requests a minute: of the owner, of each connector with a key, of each address without one. 0 is no limit.
    pub owner_per_minute: u32,
    pub key_per_minute: u32,
    pub keyless_per_minute: u32,
}

impl Default for CallerLimits {
    fn default() -> Self {
        Self {
            requests_per_key: 1_024,
            owner_per_minute: 6_000_000,
            key_per_minute: 600_000,
            keyless_per_minute: 60_000,
        }
    }
}

/// What a caller holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Request,
    /// A poll that waits for a message; its request is counted, too.
    Wait,
    Connection,
    Socket,
    /// An answer that a socket is shown while it grows: somebody listens for as long as it does.
    Preview,
    Bytes,
    /// Bytes of what is remembered for it until turns end, such as the events it wants receipts of. They are a number of their
    /// own, so that much that waits keeps no message from coming in.
    FollowedBytes,
}

const KINDS: usize = 7;

/// How much of everything may be held.
#[derive(Debug, Clone, Copy)]
struct Most {
    requests: usize,
    connections: usize,
    sockets: usize,
    previews: usize,
    bytes: usize,
}

impl Most {
    fn times(self, callers: usize) -> Self {
        Self {
            requests: callers * self.requests,
            connections: callers * self.connections,
            sockets: callers * self.sockets,
            previews: callers * self.previews,
            bytes: callers * self.bytes,
        }
    }
}

/// What is held now.
struct Tally {
    held: [AtomicUsize; KINDS],
    most: Most,
}

impl Tally {
    fn new(most: Most) -> Self {
        Self { held: Default::default(), most }
    }

    fn most(&self, kind: Kind) -> usize {
        match kind {
            Kind::Request => self.most.requests,
            Kind::Wait => self.most.requests.div_ceil(2),
            Kind::Connection => self.most.connections,
            Kind::Socket => self.most.sockets,
            Kind::Preview => self.most.previews,
            Kind::Bytes => self.most.bytes,
            Kind::FollowedBytes => self.most.bytes / 2,
        }
    }

    fn take(&self, kind: Kind, amount: usize) -> bool {
        let most = self.most(kind);
        let more = |held: usize| held.checked_add(amount).filter(|held| *held <= most);
        self.held[kind as usize].fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    fn give_back(&self, kind: Kind, amount: usize) {
        self.held[kind as usize].fetch_sub(amount, Ordering::Relaxed);
    }
}

/// Why something cannot be held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Full {
    /// This caller has all that it may have.
    Own,
    /// All callers of its kind together have.
    All,
}

impl From<Full> for Refusal {
    fn from(full: Full) -> Self {
        match full {
            Full::Own => Self::new(ErrorCode::TooManyRequests).retry_after(TRY_AGAIN),
            Full::All => Self::new(ErrorCode::Busy).retry_after(TRY_AGAIN),
        }
    }
}

/// The share of one caller.
pub(crate) struct Share {
    own: Tally,
    /// What all callers of its kind have together.
    all: Arc<Tally>,
    rate: Rate,
    is_stranger: bool,
    frames: Arc<Semaphore>,
}

impl Share {
    /// Waits until so many frames may be on their way to the store; first come, first served.
    pub(crate) async fn frames_in_hand(&self, count: usize) -> Option<OwnedSemaphorePermit> {
        let most = if self.is_stranger { STRANGERS_FRAMES_IN_HAND_MAX } else { FRAMES_IN_HAND_MAX };
        let count = u32::try_from(count).unwrap_or(most).min(most);
        // Never closed.
        Arc::clone(&self.frames).acquire_many_owned(count).await.ok()
    }

    /// Holds one of something until the place is dropped.
    pub(crate) fn place(self: &Arc<Self>, kind: Kind) -> Result<Place, Full> {
        self.take(kind, 1)?;
        Ok(Place { share: Arc::clone(self), kind, amount: AtomicUsize::new(1) })
    }

    /// Holds bytes, none at first.
    pub(crate) fn bytes(self: &Arc<Self>) -> Place {
        Place { share: Arc::clone(self), kind: Kind::Bytes, amount: AtomicUsize::new(0) }
    }

    /// The same for what is remembered until a turn ends.
    pub(crate) fn followed_bytes(self: &Arc<Self>) -> Place {
        Place { share: Arc::clone(self), kind: Kind::FollowedBytes, amount: AtomicUsize::new(0) }
    }

    /// Counts a request; an error says how long to wait.
    pub(crate) fn spend(&self) -> Result<Option<Spent>, Spent> {
        self.rate.spend()
    }

    pub(crate) fn is_stranger(&self) -> bool {
        self.is_stranger
    }

    fn take(&self, kind: Kind, amount: usize) -> Result<(), Full> {
        if !self.own.take(kind, amount) {
            return Err(Full::Own);
        }
        if !self.all.take(kind, amount) {
            self.own.give_back(kind, amount);
            return Err(Full::All);
        }
        Ok(())
    }
}

/// What is held of a share, until it is dropped.
pub(crate) struct Place {
    share: Arc<Share>,
    kind: Kind,
    amount: AtomicUsize,
}

impl Place {
    /// Holds so much in all; never gives anything back.
    pub(crate) fn grow_to(&self, amount: usize) -> Result<(), Full> {
        let held = self.amount.load(Ordering::Relaxed);
        let more = amount.saturating_sub(held);
        if more > 0 {
            self.share.take(self.kind, more)?;
            self.amount.fetch_add(more, Ordering::Relaxed);
        }
        Ok(())
    }

    pub(crate) fn clear(&self) {
        self.shrink_to(0);
    }

    /// Holds no more than so much; never takes anything.
    pub(crate) fn shrink_to(&self, amount: usize) {
        let held = self.amount.fetch_min(amount, Ordering::Relaxed);
        let less = held.saturating_sub(amount);
        if less > 0 {
            self.share.own.give_back(self.kind, less);
            self.share.all.give_back(self.kind, less);
        }
    }

    pub(crate) fn share(&self) -> &Arc<Share> {
        &self.share
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Callers of one kind.
struct Crowd<K> {
    all: Arc<Tally>,
    each: Most,
    per_minute: u32,
    is_strangers: bool,
    /// Strangers share one: a further name or address costs them nothing.
    strangers_frames: Arc<Semaphore>,
    members: RwLock<HashMap<K, Arc<Share>>>,
}

impl<K: Eq + Hash + Clone> Crowd<K> {
    fn new(all: Most, each: Most, per_minute: u32, is_strangers: bool) -> Self {
        let all = Arc::new(Tally::new(all));
        let strangers_frames = Arc::new(Semaphore::new(STRANGERS_FRAMES_IN_HAND_MAX as usize));
        Self { all, each, per_minute, is_strangers, strangers_frames, members: RwLock::default() }
    }

    fn share_of(&self, member: &K) -> Arc<Share> {
        let members = self.members.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(share) = members.get(member) {
            return Arc::clone(share);
        }
        drop(members);
        let mut members = self.members.write().unwrap_or_else(PoisonError::into_inner);
        if members.len() >= REMEMBERED_MAX {
            members.retain(|_, share| Arc::strong_count(share) > 1);
        }
        let new = || self.new_share();
        Arc::clone(members.entry(member.clone()).or_insert_with(new))
    }

    fn new_share(&self) -> Arc<Share> {
        Arc::new(Share {
            own: Tally::new(self.each),
            all: Arc::clone(&self.all),
            rate: Rate::per_minute(self.per_minute),
            is_stranger: self.is_strangers,
            frames: if self.is_strangers {
                Arc::clone(&self.strangers_frames)
            } else {
                Arc::new(Semaphore::new(FRAMES_IN_HAND_MAX as usize))
            },
        })
    }
}

/// The shares of all callers.
pub(crate) struct Shares {
    owner: Crowd<OwnerDoor>,
    connectors: Crowd<KeyId>,
    strangers: Crowd<IpAddr>,
}

impl Shares {
    pub(crate) fn new(limits: CallerLimits) -> Self {
        let requests = limits.requests_per_key as usize;
        let each = Most {
            requests,
            connections: requests + IDLE_CONNECTIONS_MAX,
            sockets: SOCKETS_PER_CALLER_MAX,
            previews: PREVIEWS_MAX,
            bytes: CONNECTOR_BYTES_MAX,
        };
        let connectors = Most { bytes: CONNECTORS_BYTES_MAX, ..each.times(KEYS_AT_ONCE) };
        let owner = Most { bytes: OWNER_BYTES_MAX, ..each };
        // Each of them may have all of its share: what a program does with one is nothing to the others.
        let owners = owner.times(OWNER_DOORS_MAX);
        // The connections of strangers are counted where they are accepted.
        let stranger = Most {
            requests: STRANGER_REQUESTS_MAX,
            connections: usize::MAX,
            sockets: SOCKETS_PER_CALLER_MAX,
            previews: STRANGER_PREVIEWS_MAX,
            bytes: STRANGER_BYTES_MAX,
        };
        let strangers = Most {
            requests: STRANGERS_REQUESTS_MAX,
            sockets: SOCKETS_MAX,
            previews: STRANGERS_PREVIEWS_MAX,
            bytes: STRANGERS_BYTES_MAX,
            ..stranger
        };
        Self {
            owner: Crowd::new(owners, owner, limits.owner_per_minute, false),
            connectors: Crowd::new(connectors, each, limits.key_per_minute, false),
            strangers: Crowd::new(strangers, stranger, limits.keyless_per_minute, true),
        }
    }

    /// The share of a caller; those without a key are told apart by their address.
    pub(crate) fn of(&self, caller: &Caller, peer: IpAddr) -> Arc<Share> {
        match caller {
            Caller::Owner(door) => self.owner.share_of(door),
            Caller::Connector(key) => self.connectors.share_of(&key.id),
            Caller::Anybody => self.strangers.share_of(&network_of(peer)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::ScopedKey;
    use futures::FutureExt;

    fn connector(id: u64) -> Caller {
        let id = KeyId::from_ulid(ulid::Ulid::from_parts(id, 0));
        Caller::Connector(ScopedKey { id, source: "m".to_owned() })
    }

    const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    #[test]
    fn one_caller_runs_out_alone_and_all_of_a_kind_leave_the_owner_room() {
        let shares = Shares::new(CallerLimits { requests_per_key: 2, ..CallerLimits::default() });
        let place = |caller: &Caller| shares.of(caller, PEER).place(Kind::Request);
        let first = [place(&connector(1)).unwrap(), place(&connector(1)).unwrap()];
        assert_eq!(place(&connector(1)).err(), Some(Full::Own));
        let second = [place(&connector(2)).unwrap(), place(&connector(2)).unwrap()];
        assert_eq!(place(&connector(3)).err(), Some(Full::All));
        assert!(place(&Caller::Owner(OwnerDoor::Key(0))).is_ok() && place(&Caller::Anybody).is_ok());
        drop(first);
        assert!(place(&connector(3)).is_ok());
        drop(second);
    }

    #[test]
    fn a_program_with_one_key_of_the_owner_leaves_his_terminal_its_share() {
        let shares = Shares::new(CallerLimits { requests_per_key: 2, ..CallerLimits::default() });
        let place = |door| shares.of(&Caller::Owner(door), PEER).place(Kind::Request);
        let program = [place(OwnerDoor::Key(0)).unwrap(), place(OwnerDoor::Key(0)).unwrap()];
        assert_eq!(place(OwnerDoor::Key(0)).err(), Some(Full::Own));
        assert!(place(OwnerDoor::Key(1)).is_ok() && place(OwnerDoor::Socket).is_ok());
        drop(program);
    }

    #[test]
    fn bytes_are_held_until_their_place_is_dropped() {
        let shares = Shares::new(CallerLimits::default());
        let share = shares.of(&connector(1), PEER);
        let (first, second) = (share.bytes(), share.bytes());
        first.grow_to(CONNECTOR_BYTES_MAX - 1).unwrap();
        first.grow_to(1).unwrap();
        second.grow_to(1).unwrap();
        assert_eq!(second.grow_to(2), Err(Full::Own));
        drop(first);
        second.grow_to(2).unwrap();
    }

    #[tokio::test]
    async fn frames_of_strangers_wait_for_each_other_and_for_nobody_else() {
        let shares = Shares::new(CallerLimits::default());
        let elsewhere = IpAddr::from([192, 0, 2, 7]);
        let (here, there) = (shares.of(&Caller::Anybody, PEER), shares.of(&Caller::Anybody, elsewhere));
        let held = here.frames_in_hand(1_000).await;
        assert!(there.frames_in_hand(1).now_or_never().is_none(), "they have one number together");
        assert!(shares.of(&connector(1), PEER).frames_in_hand(30).now_or_never().is_some());
        drop(held);
        assert!(there.frames_in_hand(1).now_or_never().is_some());
    }
}
