//! Calls to the Bot API. The token is in every address, so no address ever leaves this file.

use super::classify::classify;
use crate::kit::{PlatformError, read_platform};
use secrecy::{ExposeSecret, SecretString};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use std::time::Duration;

const CALL_TIMEOUT: Duration = Duration::from_secs(30);
const DOWNLOAD_TIMEOUT: Duration = Duration::from_secs(300);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const ANSWER_BYTES_MAX: u64 = 16 * 1024 * 1024;

#[derive(Debug, Clone)]
pub(super) struct Bot {
    http: reqwest::Client,
    api_url: String,
    token: SecretString,
}

/// The envelope of every answer.
#[derive(Deserialize)]
struct BotAnswer<A> {
    result: Option<A>,
    error_code: Option<u16>,
    #[serde(default)]
    description: String,
    #[serde(default)]
    parameters: AnswerParameters,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct AnswerParameters {
    pub(super) retry_after: Option<u32>,
    pub(super) migrate_to_chat_id: Option<i64>,
}

impl Bot {
    pub(super) fn new(api_url: &str, token: SecretString) -> Result<Self, PlatformError> {
        let api_url = api_url.trim_end_matches('/').to_owned();
        let wrong =
            |problem: &str| PlatformError::Misconfigured(format!("connectors.telegram.apiUrl {problem}"));
        let url = reqwest::Url::parse(&api_url).map_err(|error| wrong(&error.to_string()))?;
        let is_plain = match url.scheme() {
            "https" => false,
            "http" => true,
            _ => return Err(wrong("must begin with http:// or https://")),
        };
        if token.expose_secret().is_empty() || token.expose_secret().contains(['/', '?', '#', ' ', '\n']) {
            let reason = "connectors.telegram.token is no bot token; BotFather gives one like 123456:ABC-DEF";
            return Err(PlatformError::Misconfigured(reason.to_owned()));
        }
        // No redirects: the token goes to the server that was named and nowhere else.
        let builder = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT);
        // Plain HTTP is for a server nearby: it needs neither certificates nor a proxy.
        let builder = if is_plain { builder.no_proxy().tls_certs_only([]) } else { builder };
        let http = builder.build().map_err(|error| PlatformError::Transient(told(error)))?;
        Ok(Self { http, api_url, token })
    }

    /// A call that answers at once.
    pub(super) async fn ask<A: DeserializeOwned>(
        &self,
        method: &str,
        request: &impl Serialize,
    ) -> Result<A, PlatformError> {
        self.call(method, request, CALL_TIMEOUT).await
    }

    pub(super) async fn call<A: DeserializeOwned>(
        &self,
        method: &str,
        request: &impl Serialize,
        timeout: Duration,
    ) -> Result<A, PlatformError> {
        let url = format!("{}/bot{}/{method}", self.api_url, self.token.expose_secret());
        let sending = self.http.post(url).timeout(timeout).json(request).send();
        let response = sending.await.map_err(|error| PlatformError::Transient(told(error)))?;
        let status = response.status().as_u16();
        let bytes = read(response, ANSWER_BYTES_MAX).await?;
        match read_platform::<BotAnswer<A>>(&bytes) {
            Ok(BotAnswer { result: Some(result), .. }) if status < 300 => Ok(result),
            Ok(_) | Err(_) => Err(self.refusal(status, &bytes)),
        }
    }

    /// What is not the Bot API's answer comes from a proxy on the way, which may say anything for a while.
    fn refusal(&self, status: u16, bytes: &[u8]) -> PlatformError {
        match serde_json::from_slice::<BotAnswer<IgnoredAny>>(bytes) {
            Ok(BotAnswer { error_code: Some(code), description, parameters, .. }) => {
                classify(code, &description.replace(self.token.expose_secret(), "***"), &parameters)
            }
            Ok(BotAnswer { error_code: None, .. }) | Err(_) => match status {
                401 | 429 => classify(status, "no reason given", &AnswerParameters::default()),
                _ => PlatformError::Transient(format!("{status} was answered, but not as the Bot API does")),
            },
        }
    }

    pub(super) async fn download(&self, path: &str, bytes_max: u64) -> Result<Vec<u8>, PlatformError> {
        let url = format!("{}/file/bot{}/{path}", self.api_url, self.token.expose_secret());
        let sending = self.http.get(url).timeout(DOWNLOAD_TIMEOUT).send();
        let response = sending.await.map_err(|error| PlatformError::Transient(told(error)))?;
        match response.status().as_u16() {
            200 => read(response, bytes_max).await,
            status => Err(self.refusal(status, &read(response, ANSWER_BYTES_MAX).await?)),
        }
    }
}

/// Why a call failed, without the address.
fn told(error: reqwest::Error) -> String {
    let what = if error.is_timeout() {
        "Telegram did not answer in time"
    } else if error.is_connect() {
        "Telegram cannot be reached"
    } else {
        "the call to Telegram broke"
    };
    format!("{what}: {}", error.without_url())
}

async fn read(mut response: reqwest::Response, bytes_max: u64) -> Result<Vec<u8>, PlatformError> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| PlatformError::Transient(told(error)))? {
        if (bytes.len() + chunk.len()) as u64 > bytes_max {
            return Err(PlatformError::TooBig);
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_bot_api_itself_refuses_for_good() {
        rustls::crypto::ring::default_provider().install_default().unwrap_or_default();
        let bot = Bot::new("http://127.0.0.1:9", "1:a".to_owned().into()).unwrap();
        let known = br#"{"ok":false,"error_code":403,"description":"Forbidden"}"#;
        assert!(matches!(bot.refusal(403, known), PlatformError::Permanent(_)));
        for body in ["<html>", "", r#"{"message":"no"}"#] {
            for status in [400, 403, 404, 407, 409, 413] {
                let refusal = bot.refusal(status, body.as_bytes());
                assert!(matches!(refusal, PlatformError::Transient(_)), "{status} {body}: {refusal}");
            }
            assert!(matches!(bot.refusal(401, body.as_bytes()), PlatformError::Misconfigured(_)));
            assert!(matches!(bot.refusal(429, body.as_bytes()), PlatformError::RetryAfter { .. }));
        }
    }
}
