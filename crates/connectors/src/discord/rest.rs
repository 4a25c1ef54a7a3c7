//! Calls to the REST API, and what its refusals mean.

use crate::kit::{Answer, Http, PlatformError, check_token, seconds_up};
use reqwest::{Method, RequestBuilder};
use secrecy::{ExposeSecret, SecretString};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// A wait that was asked for without saying how long.
const RETRY_SECONDS: f64 = 5.0;
/// Where files lie.
const FILE_HOSTS: [&str; 3] = ["discordapp.com", "discordapp.net", "discord.com"];

#[derive(Debug, Clone)]
pub(super) struct Rest {
    http: Http,
    token: SecretString,
}

#[derive(Debug, Default, Deserialize)]
struct Refusal {
    /// Only Discord itself gives one; a proxy on the way does not.
    code: Option<i64>,
    #[serde(default)]
    message: String,
    retry_after: Option<f64>,
}

impl Rest {
    pub(super) fn new(api_url: &str, token: SecretString) -> Result<Self, PlatformError> {
        check_token(
            &token,
            "connectors.discord.token is no bot token; the page Bot of your application makes one",
        )?;
        Ok(Self { http: Http::new("Discord", "connectors.discord.apiUrl", api_url)?, token })
    }

    pub(super) fn token(&self) -> &str {
        self.token.expose_secret()
    }

    pub(super) async fn get<A: DeserializeOwned>(&self, path: &str) -> Result<A, PlatformError> {
        self.ask(self.http.request(Method::GET, path)).await?.expect(path)
    }

    pub(super) async fn send(
        &self,
        method: Method,
        path: &str,
        body: &impl Serialize,
    ) -> Result<Answer, PlatformError> {
        self.ask(self.http.request(method, path).json(body)).await
    }

    pub(super) async fn download(&self, url: &str, bytes_max: u64) -> Result<Vec<u8>, PlatformError> {
        // A file's address opens itself; the token stays here.
        let request = self.http.request_elsewhere(url, &FILE_HOSTS)?;
        Ok(self.taken(self.http.download(request, bytes_max).await?)?.body)
    }

    /// Where the gateway is.
    pub(super) async fn gateway_url(&self) -> Result<reqwest::Url, PlatformError> {
        #[derive(Deserialize)]
        struct Gateway {
            url: String,
            session_start_limit: Option<StartLimit>,
        }
        #[derive(Deserialize)]
        struct StartLimit {
            remaining: u32,
            /// In milliseconds.
            reset_after: f64,
        }
        let gateway: Gateway = self.get("/gateway/bot").await?;
        // Whoever begins too many sessions in a day loses the token.
        if let Some(limit) = gateway.session_start_limit.filter(|limit| limit.remaining == 0) {
            return Err(PlatformError::RetryAfter { seconds: seconds_up(limit.reset_after / 1_000.0) });
        }
        self.socket_url(&gateway.url)
    }

    pub(super) fn socket_url(&self, url: &str) -> Result<reqwest::Url, PlatformError> {
        let mut url = self.http.socket_url(url)?;
        url.set_query(Some("v=10&encoding=json"));
        Ok(url)
    }

    async fn ask(&self, request: RequestBuilder) -> Result<Answer, PlatformError> {
        let request = request
            .header("authorization", format!("Bot {}", self.token.expose_secret()))
            .header("user-agent", concat!("DiscordBot (cortex, ", env!("CARGO_PKG_VERSION"), ")"));
        self.taken(self.http.send(request).await?)
    }

    fn taken(&self, answer: Answer) -> Result<Answer, PlatformError> {
        if answer.is_success() {
            return Ok(answer);
        }
        let mut refusal: Refusal = answer.read().unwrap_or_default();
        refusal.message = refusal.message.replace(self.token.expose_secret(), "***");
        Err(classify(answer.status, &refusal, answer.retry_after))
    }
}

fn classify(status: u16, refusal: &Refusal, retry_after: Option<f64>) -> PlatformError {
    let reason = format!("Discord answered {status} ({}): {}", refusal.code.unwrap_or(0), refusal.message);
    match status {
        429 => {
            let wait = refusal.retry_after.or(retry_after).unwrap_or(RETRY_SECONDS);
            PlatformError::RetryAfter { seconds: seconds_up(wait) }
        }
        401 => PlatformError::Misconfigured(
            "Discord refuses the bot token; check connectors.discord.token".to_owned(),
        ),
        // 10003 unknown channel, 50001 no access, 50007 takes no direct messages, …: no retry can help.
        400..=499 if refusal.code.is_some() => PlatformError::Permanent(reason),
        _ => PlatformError::Transient(reason),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_has_a_meaning() {
        let kind = |status, body: &str, header| {
            let refusal = serde_json::from_str(body).unwrap_or_default();
            match classify(status, &refusal, header) {
                PlatformError::Transient(_) => "transient",
                PlatformError::RetryAfter { seconds: 2 } => "wait 2",
                PlatformError::RetryAfter { .. } => "wait",
                PlatformError::Permanent(_) => "permanent",
                PlatformError::Misconfigured(_) => "misconfigured",
                PlatformError::CannotFormat(_)
                | PlatformError::Moved { .. }
                | PlatformError::TooBig
                | PlatformError::Conflict(_) => "other",
            }
        };
        assert_eq!(kind(429, r#"{"retry_after":1.3,"global":true}"#, None), "wait 2");
        assert_eq!(kind(429, "<html>", Some(2.0)), "wait 2");
        assert_eq!(kind(429, "", None), "wait");
        assert_eq!(kind(401, r#"{"code":0}"#, None), "misconfigured");
        assert_eq!(
            kind(403, r#"{"code":50007,"message":"Cannot send messages to this user"}"#, None),
            "permanent"
        );
        assert_eq!(kind(404, r#"{"code":10003}"#, None), "permanent");
        assert_eq!(kind(400, r#"{"code":50035}"#, None), "permanent");
        assert_eq!(kind(503, "", None), "transient");
        for body in ["<html>", "{}", ""] {
            assert_eq!(kind(403, body, None), "transient", "a proxy's answer: {body}");
        }
    }
}
