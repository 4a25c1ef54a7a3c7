//! The `webhooks` of the settings: where the messages of a source are posted.

use crate::setting_block::{SettingBlock, check_name};
use crate::signature::{ID_HEADER, SIGNATURE_HEADER, SigningSecret, TIMESTAMP_HEADER};
use http::{HeaderMap, HeaderName, HeaderValue};
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::time::Duration;
use url::Url;

const TIMEOUT_MS_DEFAULT: u64 = 10_000;
const TIMEOUT_MS_MIN: u64 = 100;
const TIMEOUT_MS_MAX: u64 = 120_000;
/// Headers that are ours to set.
const OWN_HEADERS: [&str; 7] = [
    ID_HEADER,
    TIMESTAMP_HEADER,
    SIGNATURE_HEADER,
    "content-type",
    "content-length",
    "host",
    "transfer-encoding",
];

/// The webhooks of the settings.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(try_from = "Map<String, Value>")]
pub struct Webhooks(Vec<Webhook>);

/// One receiver of one source.
#[derive(Debug, Clone)]
pub(crate) struct Webhook {
    pub(crate) name: String,
    pub(crate) source: String,
    pub(crate) url: Url,
    pub(crate) secret: SigningSecret,
    pub(crate) timeout: Duration,
    pub(crate) headers: HeaderMap,
    secrets: Vec<SecretString>,
}

impl TryFrom<Map<String, Value>> for Webhooks {
    type Error = String;

    fn try_from(blocks: Map<String, Value>) -> Result<Self, String> {
        let mut takers: BTreeMap<String, &str> = BTreeMap::new();
        let mut webhooks = Vec::new();
        for (name, value) in &blocks {
            let webhook = Webhook::read(name, value)?;
            if let Some(other) = takers.insert(webhook.source.clone(), name) {
                let problem = "both have the source";
                let source = &webhook.source;
                return Err(format!("{other} and {name} {problem} {source:?}; a message is posted to one"));
            }
            webhooks.push(webhook);
        }
        Ok(Self(webhooks))
    }
}

impl Webhooks {
    pub(crate) fn into_list(self) -> Vec<Webhook> {
        self.0
    }

    /// What no log may show.
    pub fn secrets(&self) -> impl Iterator<Item = &SecretString> {
        self.0.iter().flat_map(|webhook| &webhook.secrets)
    }

    /// Whether messages of this source are posted somewhere.
    pub fn take(&self, source: &str) -> bool {
        self.0.iter().any(|webhook| webhook.source == source)
    }
}

impl Webhook {
    fn read(name: &str, value: &Value) -> Result<Self, String> {
        check_name(name)?;
        let block = SettingBlock::open(name, value, &["source", "url", "secret", "timeoutMs", "headers"])?;
        let required = |field: &str| format!("{} is required", block.name_of(field));
        let url = block.parsed("url", read_url)?.ok_or_else(|| required("url"))?;
        let secret = block.parsed("secret", SigningSecret::read)?.ok_or_else(|| required("secret"))?;
        let headers = read_headers(&block)?;
        let values = headers.values().filter_map(|value| value.to_str().ok()).flat_map(|value| {
            // `Bearer abc` hides the whole value and the token alone.
            [Some(value), value.rsplit(' ').next()].into_iter().flatten()
        });
        // Many a receiver knows its senders by the path alone, and some by a password before the host.
        let address = block.text("url")?.and_then(|url| url.split_once("://")).map(|(_, rest)| rest);
        let secrets = values.chain(address).chain(block.text("secret")?).map(SecretString::from).collect();
        Ok(Self {
            name: name.to_owned(),
            source: block.required("source")?.to_owned(),
            url,
            secret,
            timeout: read_timeout(&block)?,
            headers,
            secrets,
        })
    }
}

fn read_url(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    url.ok_or_else(|| "must be an http:// or https:// address".to_owned())
}

fn read_timeout(block: &SettingBlock<'_>) -> Result<Duration, String> {
    let Some(value) = block.get("timeoutMs") else { return Ok(Duration::from_millis(TIMEOUT_MS_DEFAULT)) };
    let in_range = value.as_u64().filter(|ms| (TIMEOUT_MS_MIN..=TIMEOUT_MS_MAX).contains(ms));
    in_range.map(Duration::from_millis).ok_or_else(|| {
        format!("{} must be an integer from {TIMEOUT_MS_MIN} to {TIMEOUT_MS_MAX}", block.name_of("timeoutMs"))
    })
}

fn read_headers(block: &SettingBlock<'_>) -> Result<HeaderMap, String> {
    let Some(value) = block.get("headers") else { return Ok(HeaderMap::new()) };
    let at = block.name_of("headers");
    let fields = value.as_object().ok_or_else(|| format!("{at} must be an object of strings"))?;
    let headers = fields.iter().map(|(name, value)| {
        let known: HeaderName =
            name.parse().map_err(|_| format!("{at} has {name:?}, which is no header name"))?;
        if OWN_HEADERS.contains(&known.as_str()) {
            return Err(format!("{at} must not set {name}, which is set by itself"));
        }
        let value = value.as_str().and_then(|text| HeaderValue::from_str(text).ok());
        let mut value = value.ok_or_else(|| format!("{at}.{name} must be text that a header can hold"))?;
        value.set_sensitive(true);
        Ok((known, value))
    });
    headers.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use secrecy::ExposeSecret;
    use serde_json::json;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    fn read(value: Value) -> Result<Webhooks, String> {
        serde_json::from_value(value).map_err(|error| error.to_string())
    }

    #[track_caller]
    fn check_refused(more: Value, expected: &str) {
        let mut block = json!({"source": "a", "url": "https://r.example/s3cret", "secret": SECRET});
        block.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let told = read(json!({ "out": block })).unwrap_err();
        assert!(told.starts_with(expected) && !told.contains("s3cret"), "{told}");
    }

    #[test]
    fn a_webhook_that_cannot_be_meant_is_told_which_field_is_wrong_and_no_secret() {
        check_refused(json!({"uri": "x"}), "out has an unknown \"uri\"; it may have source, url, secret");
        check_refused(json!({"source": null}), "out.source is required");
        check_refused(json!({"url": "ftp://u:s3cret@h"}), "out.url must be an http:// or https:// address");
        check_refused(json!({"url": "s3cret"}), "out.url must be an http:// or https:// address");
        check_refused(json!({"secret": "s3cret"}), "out.secret must start with whsec_");
        check_refused(json!({"timeoutMs": 99}), "out.timeoutMs must be an integer from 100 to 120000");
        check_refused(json!({"headers": ["s3cret"]}), "out.headers must be an object of strings");
        check_refused(json!({"headers": {"X-A": "s3cret\n"}}), "out.headers.X-A must be text that a header");
        check_refused(json!({"headers": {"Webhook-Id": "x"}}), "out.headers must not set Webhook-Id");
    }

    #[test]
    fn two_webhooks_of_one_source_are_refused() {
        let block = json!({"source": "a", "url": "https://r.example/", "secret": SECRET});
        let told = read(json!({"one": block, "two": block})).unwrap_err();
        assert_eq!(told, "one and two both have the source \"a\"; a message is posted to one");
    }

    #[test]
    fn everything_that_opens_the_receiver_is_a_secret() {
        let url = "https://me:pw@r.example/T0/B0?token=x";
        let headers = json!({"Authorization": "Bearer abc"});
        let webhooks =
            read(json!({"out": {"source": "a", "url": url, "secret": SECRET, "headers": headers}})).unwrap();
        let secrets: Vec<&str> = webhooks.secrets().map(ExposeSecret::expose_secret).collect();
        assert_eq!(secrets, ["Bearer abc", "abc", "me:pw@r.example/T0/B0?token=x", SECRET]);
        assert!(webhooks.take("a") && !webhooks.take("b"));
    }
}
