//! Calls to the homeserver.

use super::wire::{JoinedMembers, ProfileName, WhoAmI};
use crate::kit::{Answer, Http, PlatformError, check_token, encoded, seconds_up};
use reqwest::{Method, RequestBuilder};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OnceCell, watch};
use tokio::time::Instant;

/// A wait that was asked for without saying how long.
const RETRY_SECONDS: f64 = 5.0;
/// Longest wait that is believed.
const QUIET_SECONDS_MAX: f64 = 600.0;

#[derive(Debug, Clone)]
pub(super) struct Homeserver {
    http: Http,
    token: SecretString,
    me: Arc<OnceCell<Me>>,
    /// The homeserver told us to be quiet until then. It counts for the whole account: what listens, what sends, and all
    /// the rest.
    quiet_until: watch::Sender<Option<Instant>>,
}

/// Our own account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Me {
    pub(super) id: String,
    pub(super) name: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
struct Refusal {
    #[serde(default)]
    errcode: String,
    #[serde(default)]
    error: String,
    retry_after_ms: Option<f64>,
}

impl Homeserver {
    pub(super) fn new(api_url: &str, token: SecretString) -> Result<Self, PlatformError> {
        check_token(
            &token,
            "connectors.matrix.token is no access token; your client shows one under Help & About",
        )?;
        let http = Http::new("the homeserver", "connectors.matrix.apiUrl", api_url)?;
        Ok(Self { http, token, me: Arc::default(), quiet_until: watch::Sender::new(None) })
    }

    /// Whose token it is; asked once.
    pub(super) async fn me(&self) -> Result<&Me, PlatformError> {
        self.me.get_or_try_init(|| self.ask_me()).await
    }

    async fn ask_me(&self) -> Result<Me, PlatformError> {
        let who: WhoAmI = self.ask(self.get("/v3/account/whoami")).await?;
        let path = format!("/v3/profile/{}/displayname", encoded(&who.user_id));
        let name = match self.ask::<ProfileName>(self.get(&path)).await {
            Ok(profile) => profile.displayname.filter(|name| !name.trim().is_empty()),
            // An account without a profile is still one.
            Err(PlatformError::Permanent(_)) => None,
            Err(error) => return Err(error),
        };
        Ok(Me { id: who.user_id, name })
    }

    pub(super) async fn member_count(&self, room: &str) -> Result<usize, PlatformError> {
        let path = format!("/v3/rooms/{}/joined_members", encoded(room));
        Ok(self.ask::<JoinedMembers>(self.get(&path)).await?.joined.len())
    }

    pub(super) fn get(&self, path: &str) -> RequestBuilder {
        self.request(Method::GET, path)
    }

    pub(super) fn put(&self, path: &str, body: &impl Serialize) -> RequestBuilder {
        self.request(Method::PUT, path).json(body)
    }

    pub(super) fn post(&self, path: &str) -> RequestBuilder {
        self.request(Method::POST, path).json(&NoFields {})
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let path = format!("/_matrix/client{path}");
        self.http.request(method, &path).bearer_auth(self.token.expose_secret())
    }

    pub(super) async fn ask<A: serde::de::DeserializeOwned>(
        &self,
        request: RequestBuilder,
    ) -> Result<A, PlatformError> {
        if let Some(until) = self.quiet_until() {
            tokio::time::sleep_until(until).await;
        }
        self.taken(self.http.send(request).await?)?.expect("a call to the homeserver")
    }

    /// Until when nothing may be asked; `None` when something may be asked now.
    pub(super) fn quiet_until(&self) -> Option<Instant> {
        self.quiet_until.borrow().filter(|until| *until > Instant::now())
    }

    fn be_quiet(&self, seconds: f64) {
        let until = Instant::now() + Duration::from_secs_f64(seconds.clamp(0.0, QUIET_SECONDS_MAX));
        self.quiet_until.send_modify(|quiet| *quiet = Some(quiet.map_or(until, |before| before.max(until))));
    }

    pub(super) async fn download(
        &self,
        request: RequestBuilder,
        bytes_max: u64,
    ) -> Result<Vec<u8>, PlatformError> {
        Ok(self.taken(self.http.download(request, bytes_max).await?)?.body)
    }

    fn taken(&self, answer: Answer) -> Result<Answer, PlatformError> {
        if answer.is_success() {
            return Ok(answer);
        }
        let mut refusal: Refusal = answer.read().unwrap_or_default();
        refusal.error = refusal.error.replace(self.token.expose_secret(), "***");
        let wait = refusal.retry_after_ms.map(|wait| wait / 1_000.0).or(answer.retry_after);
        let error = classify(answer.status, &refusal.errcode, &refusal.error, wait);
        if matches!(error, PlatformError::RetryAfter { .. }) {
            self.be_quiet(wait.unwrap_or(RETRY_SECONDS));
        }
        Err(error)
    }
}

#[derive(Serialize)]
struct NoFields {}

/// What a refusal means for us.
fn classify(status: u16, code: &str, error: &str, wait: Option<f64>) -> PlatformError {
    let reason = format!("the homeserver answered {status} {code}: {error}");
    match (status, code) {
        (429, _) | (_, "M_LIMIT_EXCEEDED") => {
            PlatformError::RetryAfter { seconds: seconds_up(wait.unwrap_or(RETRY_SECONDS)) }
        }
        (_, "M_UNKNOWN_TOKEN" | "M_MISSING_TOKEN" | "M_USER_DEACTIVATED") | (401, _) => {
            PlatformError::Misconfigured(
                "the homeserver refuses the access token; check connectors.matrix.token and apiUrl"
                    .to_owned(),
            )
        }
        // Without a code it is not the homeserver that answers, but a proxy on the way.
        (400..=499, code) if !code.is_empty() => PlatformError::Permanent(reason),
        (_, _) => PlatformError::Transient(reason),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_has_a_meaning() {
        let kind = |status, code: &str, wait| match classify(status, code, "", wait) {
            PlatformError::Transient(_) => "transient",
            PlatformError::RetryAfter { seconds: 3 } => "wait 3",
            PlatformError::RetryAfter { .. } => "wait",
            PlatformError::Permanent(_) => "permanent",
            PlatformError::Misconfigured(_) => "misconfigured",
            PlatformError::CannotFormat(_)
            | PlatformError::Moved { .. }
            | PlatformError::TooBig
            | PlatformError::Conflict(_) => "other",
        };
        assert_eq!(kind(429, "M_LIMIT_EXCEEDED", Some(2.1)), "wait 3");
        assert_eq!(kind(429, "", None), "wait");
        assert_eq!(kind(401, "M_UNKNOWN_TOKEN", None), "misconfigured");
        assert_eq!(kind(403, "M_FORBIDDEN", None), "permanent");
        assert_eq!(kind(404, "M_NOT_FOUND", None), "permanent");
        assert_eq!(kind(413, "M_TOO_LARGE", None), "permanent");
        assert_eq!(kind(502, "", None), "transient");
        assert_eq!(kind(403, "", None), "transient");
        assert_eq!(kind(404, "", None), "transient");
    }
}
