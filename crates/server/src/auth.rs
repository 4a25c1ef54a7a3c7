//! Bearer keys: digests compared in constant time, and a budget for wrong ones.

use crate::network::network_of;
use crate::rate::Rate;
use crate::refusal::Refusal;
use axum::extract::FromRequestParts;
use cortex_api::ErrorCode;
use cortex_store::{ConnectorKey, KeyRow};
use cortex_types::{KeyId, is_owners_source};
use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{HeaderMap, HeaderValue};
use sha2::{Digest, Sha256};
use std::convert::Infallible;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use subtle::ConstantTimeEq;
use tokio::sync::watch;

/// Wrong keys that may be tried from a network in a minute.
const WRONG_KEYS_PER_MINUTE: u32 = 10;
/// Budgets for wrong keys. Networks whose hashes meet have one together, which costs them nothing while their keys are right.
const WRONG_KEY_BUDGETS: usize = 4_096;
/// A longer one is wrong unseen: it would cost more to hash than all the rest of the request.
const KEY_BYTES_MAX: usize = 1_024;
const PREFIX_CHARS: usize = 8;

/// A key of the owner; only its digest is kept.
#[derive(Clone)]
pub struct OwnerKey {
    name: String,
    prefix: String,
    sha256: [u8; 32],
}

impl OwnerKey {
    pub fn new(name: &str, plain: &str) -> Self {
        Self {
            name: name.to_owned(),
            prefix: prefix_of(plain),
            sha256: Sha256::digest(plain.as_bytes()).into(),
        }
    }

    pub(crate) fn row(&self) -> KeyRow {
        KeyRow { name: self.name.clone(), prefix: self.prefix.clone(), sha256: self.sha256 }
    }
}

/// As much of a key as may be shown, to recognise it by.
pub(crate) fn prefix_of(plain: &str) -> String {
    plain.chars().take(PREFIX_CHARS.min(plain.chars().count() / 4)).collect()
}

/// Who a request comes from, as far as its credential tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Caller {
    Owner(OwnerDoor),
    Connector(ScopedKey),
    /// A route that needs no credential, and none was brought.
    Anybody,
}

/// Which of his keys the owner used. All may do the same; what a program does with one leaves the others their share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum OwnerDoor {
    Key(usize),
    /// A socket whose session was opened by one of them.
    Socket,
}

/// A connector's key: it may use one source and nothing else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ScopedKey {
    pub(crate) id: KeyId,
    pub(crate) source: String,
}

impl Caller {
    /// Refuses a connector that means another's source.
    pub(crate) fn may_use(&self, source: &str) -> Result<(), Refusal> {
        match self {
            Self::Owner(_) | Self::Anybody => Ok(()),
            // Keys for those could be made once; what is there is the owner's alone.
            Self::Connector(_) if is_owners_source(source) => {
                Err(Refusal::because(ErrorCode::Forbidden, "this source is the owner's alone"))
            }
            Self::Connector(key) if key.source == source => Ok(()),
            Self::Connector(key) => {
                let detail = format!("this key may only use the source {}", key.source);
                Err(Refusal::because(ErrorCode::Forbidden, detail))
            }
        }
    }

    /// The same where something of a source is named by its id: what is another's is not there, as what nobody has.
    pub(crate) fn may_see(&self, source: &str) -> Result<(), Refusal> {
        self.may_use(source).map_err(|_| Refusal::new(ErrorCode::NotFound))
    }

    pub(crate) fn key_id(&self) -> Option<&KeyId> {
        match self {
            Self::Connector(key) => Some(&key.id),
            Self::Owner(_) | Self::Anybody => None,
        }
    }
}

/// What the `Authorization` header of a request amounts to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Known(Caller),
    /// No credential at all; costs the peer nothing.
    Missing,
    Wrong,
    /// Wrong once too often.
    Throttled {
        retry_after: Duration,
    },
}

pub(crate) struct KeyRing {
    owners: Vec<[u8; 32]>,
    /// One change of keys at a time, from the disk to what is in force.
    pub(crate) changes: tokio::sync::Mutex<()>,
    /// Open keys of connectors; whoever holds a socket open by one watches them.
    connectors: watch::Sender<Arc<[ConnectorKey]>>,
    wrong: WrongKeys,
}

/// Counts wrong keys by network, in a place of fixed size: neither memory nor time grows with the number of addresses.
struct WrongKeys {
    budgets: Vec<Rate>,
    /// Nobody outside can choose a network that shares another's budget.
    hasher: RandomState,
}

impl WrongKeys {
    fn new() -> Self {
        let budgets = (0..WRONG_KEY_BUDGETS).map(|_| Rate::per_minute(WRONG_KEYS_PER_MINUTE)).collect();
        Self { budgets, hasher: RandomState::new() }
    }

    /// Counts one; how long to wait when there were too many.
    fn charge(&self, peer: IpAddr) -> Option<Duration> {
        let hash = self.hasher.hash_one(network_of(peer));
        let place = usize::try_from(hash % WRONG_KEY_BUDGETS as u64).unwrap_or_default();
        let spent = self.budgets.get(place)?.spend();
        spent.err().and_then(|spent| spent.wait)
    }
}

impl KeyRing {
    pub(crate) fn new(owners: &[KeyRow], connectors: Vec<ConnectorKey>) -> Self {
        let ring = Self {
            owners: owners.iter().map(|key| key.sha256).collect(),
            changes: tokio::sync::Mutex::new(()),
            connectors: watch::Sender::new(Arc::new([])),
            wrong: WrongKeys::new(),
        };
        ring.replace_connectors(connectors);
        ring
    }

    /// From now on these keys of connectors open, and no others.
    pub(crate) fn replace_connectors(&self, keys: Vec<ConnectorKey>) {
        let open = keys.into_iter().filter(|key| key.revoked_at.is_none()).collect();
        self.connectors.send_replace(open);
    }

    /// The digest of the key that the owner used; none for a socket, whose session has it.
    pub(crate) fn digest_of(&self, door: OwnerDoor) -> Option<[u8; 32]> {
        match door {
            OwnerDoor::Key(place) => self.owners.get(place).copied(),
            OwnerDoor::Socket => None,
        }
    }

    /// Whether a key with this digest is one of the owner's now.
    pub(crate) fn is_owners(&self, digest: &[u8; 32]) -> bool {
        self.owners.iter().any(|known| bool::from(known.ct_eq(digest)))
    }

    /// Whether a connector's key is open for this source: then nobody without a key speaks for it.
    pub(crate) fn guards(&self, source: &str) -> bool {
        self.connectors.borrow().iter().any(|key| key.source == source)
    }

    /// The open key with this id.
    pub(crate) fn connector(&self, id: &KeyId) -> Option<ScopedKey> {
        let keys = self.connectors.borrow();
        let key = keys.iter().find(|key| key.id == *id)?;
        Some(ScopedKey { id: key.id.clone(), source: key.source.clone() })
    }

    /// Returns once the key of this caller is revoked; never for a caller without one.
    pub(crate) async fn revoked(&self, caller: &Caller) {
        let Some(id) = caller.key_id() else { return std::future::pending().await };
        let mut open = self.connectors.subscribe();
        let is_gone = |keys: &Arc<[ConnectorKey]>| keys.iter().all(|key| key.id != *id);
        // The ring lasts as long as the server.
        drop(open.wait_for(is_gone).await);
    }

    pub(crate) fn watch_connectors(&self) -> watch::Receiver<Arc<[ConnectorKey]>> {
        self.connectors.subscribe()
    }

    pub(crate) fn judge(&self, headers: &HeaderMap, peer: IpAddr) -> Verdict {
        let mut given = headers.get_all(AUTHORIZATION).iter();
        match (given.next(), given.next()) {
            (None, _) => Verdict::Missing,
            (Some(only), None) => match self.find(only) {
                Some(caller) => Verdict::Known(caller),
                None => self.charge(peer),
            },
            (Some(_), Some(_)) => self.charge(peer),
        }
    }

    fn find(&self, header: &HeaderValue) -> Option<Caller> {
        let key = bearer(header).filter(|key| key.len() <= KEY_BYTES_MAX)?;
        let digest: [u8; 32] = Sha256::digest(key).into();
        // Every digest is compared, so that the time says nothing about which one matched.
        let mut owner = None;
        for (place, known) in self.owners.iter().enumerate() {
            if bool::from(known.ct_eq(&digest)) {
                owner = Some(Caller::Owner(OwnerDoor::Key(place)));
            }
        }
        let mut scoped = None;
        for key in self.connectors.borrow().iter() {
            if bool::from(key.sha256.ct_eq(&digest)) {
                scoped = Some(ScopedKey { id: key.id.clone(), source: key.source.clone() });
            }
        }
        owner.or(scoped.map(Caller::Connector))
    }

    /// Counts a wrong secret that came otherwise than as a key; says how long to wait when there were too many.
    pub(crate) fn charge_for(&self, peer: IpAddr) -> Option<Duration> {
        self.wrong.charge(peer)
    }

    fn charge(&self, peer: IpAddr) -> Verdict {
        let throttled = |retry_after| Verdict::Throttled { retry_after };
        self.wrong.charge(peer).map_or(Verdict::Wrong, throttled)
    }
}

pub(crate) fn bearer(header: &HeaderValue) -> Option<&[u8]> {
    let (scheme, key) = header.as_bytes().split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then_some(key)
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get::<Self>().cloned().unwrap_or(Self::Anybody))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(values: &[&str]) -> HeaderMap {
        let values = values.iter().map(|value| (AUTHORIZATION, HeaderValue::from_str(value).unwrap()));
        values.collect()
    }

    #[test]
    fn only_the_exact_key_once_opens() {
        let ring = KeyRing::new(&[OwnerKey::new("owner", "secret-key").row()], Vec::new());
        let check = |values: &[&str], expected: Verdict| {
            let peer = IpAddr::from([192, 0, 2, values.len() as u8 + 1]);
            assert_eq!(ring.judge(&headers(values), peer), expected, "{values:?}");
        };
        check(&["Bearer secret-key"], Verdict::Known(Caller::Owner(OwnerDoor::Key(0))));
        check(&["bearer secret-key"], Verdict::Known(Caller::Owner(OwnerDoor::Key(0))));
        check(&[], Verdict::Missing);
        check(&["Bearer secret-key2"], Verdict::Wrong);
        check(&["Bearer "], Verdict::Wrong);
        check(&["Basic secret-key"], Verdict::Wrong);
        check(&["Bearer secret-key", "Bearer secret-key"], Verdict::Wrong);
        check(&[&format!("Bearer {}", "k".repeat(KEY_BYTES_MAX + 1))], Verdict::Wrong);
    }

    #[test]
    fn a_network_has_one_budget_for_wrong_keys_however_many_addresses_it_has() {
        let check = |start: &str, others: &[&str]| {
            let ring = KeyRing::new(&[OwnerKey::new("owner", "right").row()], Vec::new());
            let tried = |address: &str, key: &str| ring.judge(&headers(&[key]), address.parse().unwrap());
            for number in 1..=10 {
                assert_eq!(tried(&format!("{start}{number}"), "Bearer wrong"), Verdict::Wrong);
            }
            for other in others {
                let verdict = tried(other, "Bearer wrong");
                assert!(matches!(verdict, Verdict::Throttled { .. }), "{other}: {verdict:?}");
                let right = tried(other, "Bearer right");
                assert_eq!(right, Verdict::Known(Caller::Owner(OwnerDoor::Key(0))), "{other}");
            }
        };
        check("127.0.0.", &["127.9.9.9", "::1", "::ffff:127.0.0.1"]);
        check("2001:db8:1:2::", &["2001:db8:1:2:3:4:5:6"]);
    }

    #[test]
    fn wrong_keys_from_countless_networks_take_no_more_room_and_few_get_through() {
        let wrong = WrongKeys::new();
        let networks = 200_000_u32;
        let passed = (0..networks)
            .flat_map(|number| [number; 3])
            .filter(|number| wrong.charge(IpAddr::from((0x0a00_0000 + number).to_be_bytes())).is_none());
        let most = WRONG_KEY_BUDGETS * WRONG_KEYS_PER_MINUTE as usize;
        // Some more come in while the test runs.
        assert!(passed.count() <= 2 * most);
        assert_eq!(wrong.budgets.len(), WRONG_KEY_BUDGETS);
    }

    #[test]
    fn the_eleventh_wrong_key_is_throttled_and_a_right_one_still_served() {
        let ring = KeyRing::new(&[OwnerKey::new("owner", "right").row()], Vec::new());
        let peer = IpAddr::from([127, 0, 0, 1]);
        for _ in 0..10 {
            assert_eq!(ring.judge(&headers(&["Bearer wrong"]), peer), Verdict::Wrong);
        }
        let eleventh = ring.judge(&headers(&["Bearer wrong"]), peer);
        assert!(matches!(eleventh, Verdict::Throttled { .. }), "{eleventh:?}");
        assert_eq!(
            ring.judge(&headers(&["Bearer right"]), peer),
            Verdict::Known(Caller::Owner(OwnerDoor::Key(0)))
        );
    }
}
