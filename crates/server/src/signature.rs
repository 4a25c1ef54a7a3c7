//! Standard Webhooks: the secret, the signature of a message, and whether one that came in is right.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
use http::HeaderMap;
use secrecy::{ExposeSecret, SecretSlice};
use sha2::Sha256;
use std::time::Duration;

pub(crate) const ID_HEADER: &str = "webhook-id";
pub(crate) const TIMESTAMP_HEADER: &str = "webhook-timestamp";
pub(crate) const SIGNATURE_HEADER: &str = "webhook-signature";

const SECRET_PREFIX: &str = "whsec_";
/// The least that the specification allows.
const SECRET_BYTES_MIN: usize = 24;
/// How far the clock of a sender may be off.
const TOLERANCE: Duration = Duration::from_secs(5 * 60);

/// The bytes that both sides of a webhook know.
#[derive(Debug, Clone)]
pub(crate) struct SigningSecret(SecretSlice<u8>);

/// Why a message is not believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// Nothing was shown that could be believed.
    Missing,
    Wrong,
    /// Signed rightly, at a moment that is too far from now: a replay, or a clock that is wrong.
    Stale {
        seconds_off: u64,
    },
}

impl SigningSecret {
    /// Reads `whsec_<base64>`; the complaint goes behind the setting's name and holds none of it.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let coded = text.strip_prefix(SECRET_PREFIX).ok_or("must start with whsec_")?;
        let bytes = STANDARD.decode(coded).map_err(|_| "must be whsec_ and base64")?;
        if bytes.len() < SECRET_BYTES_MIN {
            return Err(format!("must be at least {SECRET_BYTES_MIN} bytes before base64"));
        }
        Ok(Self(bytes.into()))
    }

    /// The value of `webhook-signature`.
    pub(crate) fn sign(&self, id: &str, timestamp: &str, body: &[u8]) -> String {
        format!("v1,{}", STANDARD.encode(self.mac(id, timestamp, body).finalize().into_bytes()))
    }

    /// Whether this body came from somebody who knows the secret, about now.
    pub(crate) fn verify(&self, headers: &HeaderMap, body: &[u8], now_seconds: i64) -> Result<(), Doubt> {
        let of = |name| only(headers, name);
        let (Some(id), Some(timestamp), Some(signatures)) =
            (of(ID_HEADER), of(TIMESTAMP_HEADER), of(SIGNATURE_HEADER))
        else {
            return Err(Doubt::Missing);
        };
        let mac = self.mac(id, timestamp, body);
        // Several signatures come while the sender changes its secret.
        let is_right = |signature: &str| {
            let coded = signature.strip_prefix("v1,").and_then(|coded| STANDARD.decode(coded).ok());
            coded.is_some_and(|given| mac.clone().verify_slice(&given).is_ok())
        };
        if !signatures.split(' ').any(is_right) {
            return Err(Doubt::Wrong);
        }
        let sent: i64 = timestamp.parse().map_err(|_| Doubt::Wrong)?;
        let seconds_off = sent.abs_diff(now_seconds);
        if seconds_off > TOLERANCE.as_secs() { Err(Doubt::Stale { seconds_off }) } else { Ok(()) }
    }

    fn mac(&self, id: &str, timestamp: &str, body: &[u8]) -> Hmac<Sha256> {
        keyed(self.0.expose_secret()).chain_update(format!("{id}.{timestamp}.")).chain_update(body)
    }
}

/// HMAC-SHA256 with this key.
pub(crate) fn keyed(key: &[u8]) -> Hmac<Sha256> {
    #[expect(clippy::expect_used, reason = "the only error is a length that is none")]
    Hmac::new_from_slice(key).expect("a key of any length is a key")
}

/// The value of a header that is there once, as text.
pub(crate) fn only<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The example that the specification's own libraries are tested with.
    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const ID: &str = "msg_p5jXN8AQM9LWM0D4loKWxJek";
    const AT: i64 = 1_614_265_330;
    const BODY: &[u8] = br#"{"test": 2432232314}"#;
    const SIGNATURE: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

    fn headers(id: &str, timestamp: &str, signature: &str) -> HeaderMap {
        let pairs = [(ID_HEADER, id), (TIMESTAMP_HEADER, timestamp), (SIGNATURE_HEADER, signature)];
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[track_caller]
    fn check(headers: &HeaderMap, body: &[u8], now: i64, expected: Result<(), Doubt>) {
        assert_eq!(SigningSecret::read(SECRET).unwrap().verify(headers, body, now), expected);
    }

    #[test]
    fn the_published_example_is_signed_and_verified() {
        let secret = SigningSecret::read(SECRET).unwrap();
        assert_eq!(secret.sign(ID, &AT.to_string(), BODY), SIGNATURE);
        check(&headers(ID, &AT.to_string(), SIGNATURE), BODY, AT, Ok(()));
    }

    #[test]
    fn one_right_signature_among_several_is_enough() {
        let several = format!("v1,AAAA v2,zz {SIGNATURE} v1a,x");
        check(&headers(ID, &AT.to_string(), &several), BODY, AT, Ok(()));
        check(&headers(ID, &AT.to_string(), "v1,AAAA v2,zz"), BODY, AT, Err(Doubt::Wrong));
        check(&headers(ID, &AT.to_string(), ""), BODY, AT, Err(Doubt::Wrong));
    }

    #[test]
    fn id_timestamp_and_body_are_all_signed() {
        let at = AT.to_string();
        check(&headers("msg_other", &at, SIGNATURE), BODY, AT, Err(Doubt::Wrong));
        check(&headers(ID, &(AT + 1).to_string(), SIGNATURE), BODY, AT, Err(Doubt::Wrong));
        check(&headers(ID, &at, SIGNATURE), br#"{"test": 2432232315}"#, AT, Err(Doubt::Wrong));
        let mut unsigned = headers(ID, &at, SIGNATURE);
        unsigned.remove(SIGNATURE_HEADER);
        check(&unsigned, BODY, AT, Err(Doubt::Missing));
        let mut twice = headers(ID, &at, SIGNATURE);
        twice.append(ID_HEADER, ID.parse().unwrap());
        check(&twice, BODY, AT, Err(Doubt::Missing));
    }

    #[test]
    fn five_minutes_off_are_believed_and_a_second_more_is_not() {
        let signed = headers(ID, &AT.to_string(), SIGNATURE);
        for now in [AT - 300, AT + 300] {
            check(&signed, BODY, now, Ok(()));
        }
        for now in [AT - 301, AT + 301] {
            check(&signed, BODY, now, Err(Doubt::Stale { seconds_off: 301 }));
        }
    }

    #[test]
    fn a_bad_secret_is_told_what_it_must_be_and_not_repeated() {
        for bad in ["", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_!!", "whsec_c2hvcnQ="] {
            let told = SigningSecret::read(bad).unwrap_err();
            assert!(told.starts_with("must ") && (bad.is_empty() || !told.contains(&bad[6..])), "{told}");
        }
    }
}
