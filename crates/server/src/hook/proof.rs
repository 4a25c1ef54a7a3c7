//! What a sender must show before a hook believes it: a key, an HMAC of the body, a Standard Webhooks signature.

use crate::auth::bearer;
use crate::setting_block::SettingBlock;
use crate::signature::{Doubt, SigningSecret, keyed, only};
use hmac::Mac;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName};
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// The header for a key where `Authorization` cannot be set.
const KEY_HEADER: &str = "x-cortex-key";
/// What GitHub and those that do as it does send.
const HMAC_HEADER: HeaderName = HeaderName::from_static("x-hub-signature-256");
/// A secret that others may guess at needs at least this many bytes.
const SECRET_BYTES_MIN: usize = 16;

/// Everything that is set must be right.
#[derive(Debug, Clone)]
pub(crate) struct Proof {
    key: Option<[u8; 32]>,
    hmac: Option<BodyHmac>,
    signing: Option<SigningSecret>,
    secrets: Vec<SecretString>,
}

#[derive(Debug, Clone)]
struct BodyHmac {
    header: HeaderName,
    secret: SecretString,
}

impl Proof {
    /// The fields `key`, `hmac` and `secret` of a hook.
    pub(crate) fn read(block: &SettingBlock<'_>) -> Result<Self, String> {
        let key = block.parsed("key", long_enough)?;
        let signing = block.parsed("secret", SigningSecret::read)?;
        let hmac =
            block.get("hmac").map(|value| BodyHmac::read(&block.name_of("hmac"), value)).transpose()?;
        if key.is_none() && hmac.is_none() && signing.is_none() {
            let wanted = "a sender must prove itself by one of them";
            return Err(format!("{} (or hmac, or secret) is required: {wanted}", block.name_of("key")));
        }
        let signing_text = block.text("secret")?.map(SecretString::from);
        let secrets = [key.clone(), hmac.as_ref().map(|hmac| hmac.secret.clone()), signing_text];
        Ok(Self {
            key: key.map(|key| Sha256::digest(key.expose_secret()).into()),
            hmac,
            signing,
            secrets: secrets.into_iter().flatten().collect(),
        })
    }

    pub(crate) fn secrets(&self) -> &[SecretString] {
        &self.secrets
    }

    /// The key, which needs no body.
    pub(crate) fn check_key(&self, headers: &HeaderMap) -> Result<(), Doubt> {
        let Some(wanted) = &self.key else { return Ok(()) };
        let name = if headers.contains_key(AUTHORIZATION) { AUTHORIZATION.as_str() } else { KEY_HEADER };
        if !headers.contains_key(name) {
            return Err(Doubt::Missing);
        }
        let mut values = headers.get_all(name).iter();
        let (Some(value), None) = (values.next(), values.next()) else { return Err(Doubt::Wrong) };
        let key = if name == KEY_HEADER { Some(value.as_bytes()) } else { bearer(value) };
        let digest: [u8; 32] = Sha256::digest(key.ok_or(Doubt::Wrong)?).into();
        if bool::from(digest.ct_eq(wanted)) { Ok(()) } else { Err(Doubt::Wrong) }
    }

    /// What was made of the raw body.
    pub(crate) fn check_body(&self, headers: &HeaderMap, body: &[u8], now_seconds: i64) -> Result<(), Doubt> {
        if let Some(hmac) = &self.hmac {
            hmac.check(headers, body)?;
        }
        match &self.signing {
            Some(secret) => secret.verify(headers, body, now_seconds),
            None => Ok(()),
        }
    }
}

impl BodyHmac {
    fn read(at: &str, value: &serde_json::Value) -> Result<Self, String> {
        let block = SettingBlock::open(at, value, &["secret", "header"])?;
        let secret = block.parsed("secret", long_enough)?;
        let header =
            block.parsed("header", |name| name.parse().map_err(|_| "is no header name".to_owned()))?;
        Ok(Self {
            header: header.unwrap_or(HMAC_HEADER),
            secret: secret.ok_or_else(|| format!("{} is required", block.name_of("secret")))?,
        })
    }

    fn check(&self, headers: &HeaderMap, body: &[u8]) -> Result<(), Doubt> {
        if !headers.contains_key(&self.header) {
            return Err(Doubt::Missing);
        }
        let given = only(headers, self.header.as_str()).ok_or(Doubt::Wrong)?;
        let hex = given.strip_prefix("sha256=").unwrap_or(given);
        let given = from_hex(hex).ok_or(Doubt::Wrong)?;
        let mac = keyed(self.secret.expose_secret().as_bytes()).chain_update(body);
        mac.verify_slice(&given).map_err(|_| Doubt::Wrong)
    }
}

fn long_enough(text: &str) -> Result<SecretString, String> {
    if text.len() < SECRET_BYTES_MIN {
        let advice = "such as from `openssl rand -hex 32`";
        return Err(format!("must be at least {SECRET_BYTES_MIN} bytes, {advice}"));
    }
    Ok(text.into())
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let bytes = pairs.iter().map(|[high, low]| Some(digit(high)? << 4 | digit(low)?));
    if rest.is_empty() { bytes.collect() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn proof(block: &Value) -> Result<Proof, String> {
        Proof::read(&SettingBlock::open("ci", block, &["key", "hmac", "secret"]).unwrap())
    }

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn the_example_of_github_is_right_and_every_change_of_it_wrong() {
        // From GitHub's page on validating deliveries.
        let proof = proof(&json!({"hmac": {"secret": "It's a Secret to Everybody"}})).unwrap();
        let right = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
        let check = |given: &str, body: &[u8], expected| {
            let headers = headers(&[("X-Hub-Signature-256", given)]);
            assert_eq!(proof.check_body(&headers, body, 0), expected, "{given}");
        };
        check(right, b"Hello, World!", Ok(()));
        check(&right[7..].to_uppercase(), b"Hello, World!", Ok(()));
        check(right, b"Hello, World?", Err(Doubt::Wrong));
        check(&right[..70], b"Hello, World!", Err(Doubt::Wrong));
        check(&right[..69], b"Hello, World!", Err(Doubt::Wrong));
        check("sha256=", b"Hello, World!", Err(Doubt::Wrong));
        assert_eq!(proof.check_body(&HeaderMap::new(), b"Hello, World!", 0), Err(Doubt::Missing));
    }

    #[test]
    fn a_key_is_read_from_either_header_and_must_be_there_once() {
        let proof = proof(&json!({"key": "0123456789abcdef"})).unwrap();
        let check = |pairs: &[(&str, &str)], expected| {
            assert_eq!(proof.check_key(&headers(pairs)), expected, "{pairs:?}");
        };
        check(&[("authorization", "Bearer 0123456789abcdef")], Ok(()));
        check(&[("x-cortex-key", "0123456789abcdef")], Ok(()));
        check(&[], Err(Doubt::Missing));
        check(&[("authorization", "0123456789abcdef")], Err(Doubt::Wrong));
        check(&[("x-cortex-key", "0123456789abcdeF")], Err(Doubt::Wrong));
        let wrong_and_right = [("authorization", "Bearer no"), ("x-cortex-key", "0123456789abcdef")];
        check(&wrong_and_right, Err(Doubt::Wrong));
    }

    #[test]
    fn what_is_wrong_with_a_proof_is_told_without_it() {
        let check = |block: Value, expected: &str| {
            let told = proof(&block).unwrap_err();
            assert!(told.starts_with(expected) && !told.contains("s3cret"), "{told}");
        };
        check(json!({}), "ci.key (or hmac, or secret) is required");
        check(json!({"key": "s3cret"}), "ci.key must be at least 16 bytes");
        check(json!({"key": ["s3cret"]}), "ci.key must be a non-empty string");
        check(json!({"hmac": "s3cret"}), "ci.hmac must be an object");
        check(json!({"hmac": {}}), "ci.hmac.secret is required");
        check(
            json!({"hmac": {"secret": "0123456789abcdef", "header": "a b"}}),
            "ci.hmac.header is no header name",
        );
        check(json!({"secret": "s3cret"}), "ci.secret must start with whsec_");
    }
}
