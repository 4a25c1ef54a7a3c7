//! Calls to the Web API, and what its refusals mean.

use crate::kit::{Answer, Http, PlatformError, query_of, seconds_up};
use reqwest::Method;
use secrecy::{ExposeSecret, SecretString};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// A wait that was asked for without saying how long.
const RETRY_SECONDS: f64 = 5.0;
/// Where files lie; the token goes nowhere else.
const FILE_HOSTS: [&str; 1] = ["slack.com"];

#[derive(Debug, Clone)]
pub(super) struct Web {
    pub(super) http: Http,
    bot_token: SecretString,
    app_token: SecretString,
}

#[derive(Debug, Deserialize)]
struct Verdict {
    ok: bool,
    #[serde(default)]
    error: String,
}

impl Web {
    pub(super) fn new(
        api_url: &str,
        bot_token: SecretString,
        app_token: SecretString,
    ) -> Result<Self, PlatformError> {
        for (token, start, setting) in [(&bot_token, "xoxb-", "token"), (&app_token, "xapp-", "appToken")] {
            let text = token.expose_secret();
            if !text.starts_with(start) || text.contains(char::is_whitespace) {
                return Err(PlatformError::Misconfigured(format!(
                    "connectors.slack.{setting} is none that begins with {start}; the app's page shows it"
                )));
            }
        }
        let http = Http::new("Slack", "connectors.slack.apiUrl", api_url)?;
        Ok(Self { http, bot_token, app_token })
    }

    /// A call that changes something.
    pub(super) async fn call<A: DeserializeOwned>(
        &self,
        method: &str,
        request: &impl Serialize,
    ) -> Result<A, PlatformError> {
        let request = self.http.request(Method::POST, &format!("/{method}")).json(request);
        let answer = self.http.send(request.bearer_auth(self.bot_token.expose_secret())).await?;
        read(method, &answer)
    }

    /// A call that only looks.
    pub(super) async fn look<A: DeserializeOwned>(
        &self,
        method: &str,
        query: &[(&str, &str)],
    ) -> Result<A, PlatformError> {
        let request = self.http.request(Method::GET, &format!("/{method}?{}", query_of(query)));
        let answer = self.http.send(request.bearer_auth(self.bot_token.expose_secret())).await?;
        read(method, &answer)
    }

    /// The address of a socket for us.
    pub(super) async fn open_connection(&self) -> Result<reqwest::Url, PlatformError> {
        #[derive(Deserialize)]
        struct Opened {
            url: String,
        }
        let method = "apps.connections.open";
        let request = self.http.request(Method::POST, &format!("/{method}"));
        let answer = self.http.send(request.bearer_auth(self.app_token.expose_secret())).await?;
        let opened: Opened = read(method, &answer)?;
        self.http.socket_url(&opened.url)
    }

    pub(super) async fn download(&self, url: &str, bytes_max: u64) -> Result<Vec<u8>, PlatformError> {
        let request = self.http.request_elsewhere(url, &FILE_HOSTS)?;
        let request = request.bearer_auth(self.bot_token.expose_secret());
        let answer = self.http.download(request, bytes_max).await?;
        match answer.status {
            200 => Ok(answer.body),
            429 | 500.. => Err(PlatformError::Transient(format!("Slack answered {}", answer.status))),
            // Without the scope Slack leads to a page where a person could log in.
            other => Err(PlatformError::Permanent(format!(
                "Slack answered {other}; the app may lack the scope files:read"
            ))),
        }
    }
}

fn read<A: DeserializeOwned>(method: &str, answer: &Answer) -> Result<A, PlatformError> {
    if answer.status == 429 {
        return Err(flood_wait(answer));
    }
    match answer.read::<Verdict>() {
        Ok(Verdict { ok: true, .. }) => answer.expect(method),
        Ok(Verdict { error, .. }) if error == "ratelimited" || error == "rate_limited" => {
            Err(flood_wait(answer))
        }
        Ok(Verdict { error, .. }) => Err(classify(method, &error)),
        Err(_) => Err(PlatformError::Transient(format!("{method} was answered with {}", answer.status))),
    }
}

fn flood_wait(answer: &Answer) -> PlatformError {
    PlatformError::RetryAfter { seconds: seconds_up(answer.retry_after.unwrap_or(RETRY_SECONDS)) }
}

fn classify(method: &str, error: &str) -> PlatformError {
    let reason = format!("Slack refuses {method}: {error}");
    match error {
        "invalid_auth"
        | "not_authed"
        | "account_inactive"
        | "token_revoked"
        | "token_expired"
        | "not_allowed_token_type" => {
            PlatformError::Misconfigured(format!("{reason}; check connectors.slack.token and appToken"))
        }
        "missing_scope" | "no_permission" => {
            PlatformError::Misconfigured(format!("{reason}; give the app the scope and install it again"))
        }
        "internal_error"
        | "fatal_error"
        | "service_unavailable"
        | "request_timeout"
        | "team_added_to_org" => PlatformError::Transient(reason),
        "invalid_blocks" | "invalid_blocks_format" => PlatformError::CannotFormat(reason),
        // channel_not_found, not_in_channel, is_archived, …: the same request meets the same answer.
        _ => PlatformError::Permanent(reason),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(status: u16, body: &str, retry_after: Option<f64>) -> &'static str {
        let answer = Answer { status, retry_after, body: body.as_bytes().to_vec() };
        match read::<serde::de::IgnoredAny>("chat.postMessage", &answer) {
            Ok(_) => "done",
            Err(PlatformError::Transient(_)) => "transient",
            Err(PlatformError::RetryAfter { seconds: 7 }) => "wait 7",
            Err(PlatformError::RetryAfter { .. }) => "wait",
            Err(PlatformError::Permanent(_)) => "permanent",
            Err(PlatformError::CannotFormat(_)) => "format",
            Err(PlatformError::Misconfigured(_)) => "misconfigured",
            Err(PlatformError::Moved { .. } | PlatformError::TooBig | PlatformError::Conflict(_)) => "other",
        }
    }

    #[test]
    fn every_refusal_has_a_meaning() {
        let refused = |error: &str| kind(200, &format!(r#"{{"ok":false,"error":"{error}"}}"#), None);
        assert_eq!(kind(200, r#"{"ok":true}"#, None), "done");
        assert_eq!(kind(429, "", Some(7.0)), "wait 7");
        assert_eq!(refused("ratelimited"), "wait");
        for permanent in ["channel_not_found", "not_in_channel", "is_archived", "msg_too_long"] {
            assert_eq!(refused(permanent), "permanent", "{permanent}");
        }
        for wrong in ["invalid_auth", "account_inactive", "token_revoked", "missing_scope"] {
            assert_eq!(refused(wrong), "misconfigured", "{wrong}");
        }
        assert_eq!(refused("invalid_blocks"), "format");
        assert_eq!(refused("internal_error"), "transient");
        assert_eq!(kind(502, "<html>", None), "transient");
    }
}
