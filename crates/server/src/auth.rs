//! Bearer keys: digests compared in constant time, and a budget for wrong ones.

use cortex_store::KeyRow;
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};
use sha2::{Digest, Sha256};
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::time::Duration;
use subtle::ConstantTimeEq;

/// Wrong keys a peer may try in a minute.
const WRONG_KEYS_PER_MINUTE: NonZeroU32 = NonZeroU32::new(10).expect("ten is not zero");
/// Peers remembered before idle ones are forgotten.
const PEERS_MAX: usize = 10_000;
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
        let prefix = plain.chars().take(PREFIX_CHARS.min(plain.chars().count() / 4)).collect();
        Self { name: name.to_owned(), prefix, sha256: Sha256::digest(plain.as_bytes()).into() }
    }

    pub(crate) fn row(&self) -> KeyRow {
        KeyRow { name: self.name.clone(), prefix: self.prefix.clone(), sha256: self.sha256 }
    }
}

/// What the `Authorization` header of a request amounts to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Owner,
    /// No credential at all; costs the peer nothing.
    Missing,
    Wrong,
    /// Wrong once too often.
    Throttled {
        retry_after: Duration,
    },
}

pub(crate) struct KeyRing {
    digests: Vec<[u8; 32]>,
    wrong: DefaultKeyedRateLimiter<IpAddr>,
}

impl KeyRing {
    pub(crate) fn new(keys: &[KeyRow]) -> Self {
        let wrong = RateLimiter::keyed(Quota::per_minute(WRONG_KEYS_PER_MINUTE));
        Self { digests: keys.iter().map(|key| key.sha256).collect(), wrong }
    }

    pub(crate) fn judge(&self, headers: &HeaderMap, peer: IpAddr) -> Verdict {
        let mut given = headers.get_all(AUTHORIZATION).iter();
        match (given.next(), given.next()) {
            (None, _) => Verdict::Missing,
            (Some(only), None) if self.is_owner(only) => Verdict::Owner,
            (Some(_), _) => self.charge(peer),
        }
    }

    fn is_owner(&self, header: &HeaderValue) -> bool {
        let Some(key) = bearer(header) else { return false };
        let digest: [u8; 32] = Sha256::digest(key).into();
        // Every digest is compared, so that the time says nothing about which one matched.
        let matches = self.digests.iter().fold(0, |found, known| found | known.ct_eq(&digest).unwrap_u8());
        matches == 1
    }

    /// One more wrong credential of a peer.
    pub(crate) fn charge(&self, peer: IpAddr) -> Verdict {
        if self.wrong.len() > PEERS_MAX {
            self.wrong.retain_recent();
        }
        match self.wrong.check_key(&peer) {
            Ok(()) => Verdict::Wrong,
            Err(until) => {
                let now = governor::clock::Clock::now(&governor::clock::DefaultClock::default());
                Verdict::Throttled { retry_after: until.wait_time_from(now) }
            }
        }
    }
}

pub(crate) fn bearer(header: &HeaderValue) -> Option<&[u8]> {
    let (scheme, key) = header.as_bytes().split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then_some(key)
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
        let ring = KeyRing::new(&[OwnerKey::new("owner", "secret-key").row()]);
        let check = |values: &[&str], expected: Verdict| {
            let peer = IpAddr::from([127, 0, 0, values.len() as u8 + 1]);
            assert_eq!(ring.judge(&headers(values), peer), expected, "{values:?}");
        };
        check(&["Bearer secret-key"], Verdict::Owner);
        check(&["bearer secret-key"], Verdict::Owner);
        check(&[], Verdict::Missing);
        check(&["Bearer secret-key2"], Verdict::Wrong);
        check(&["Bearer "], Verdict::Wrong);
        check(&["Basic secret-key"], Verdict::Wrong);
        check(&["Bearer secret-key", "Bearer secret-key"], Verdict::Wrong);
    }

    #[test]
    fn the_eleventh_wrong_key_is_throttled_and_a_right_one_still_served() {
        let ring = KeyRing::new(&[OwnerKey::new("owner", "right").row()]);
        let peer = IpAddr::from([127, 0, 0, 1]);
        for _ in 0..10 {
            assert_eq!(ring.judge(&headers(&["Bearer wrong"]), peer), Verdict::Wrong);
        }
        let eleventh = ring.judge(&headers(&["Bearer wrong"]), peer);
        assert!(matches!(eleventh, Verdict::Throttled { .. }), "{eleventh:?}");
        assert_eq!(ring.judge(&headers(&["Bearer right"]), peer), Verdict::Owner);
    }
}
