//! The Engram memory service, seen from a client: quick, optional, and never a reason for a turn to fail.

mod recalled;

use cortex_models::is_believed;
use cortex_types::Accounts;
use futures::future::join;
use recalled::Recalled;
use reqwest::Url;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A memory that is slower than this is not waited for.
const TIMEOUT: Duration = Duration::from_secs(3);
/// A service on loopback answers at once or is not there.
const PROBE_MAX: Duration = Duration::from_millis(300);
const ANSWER_BYTES_MAX: usize = 1024 * 1024;
/// Memories that each of the two questions asks for, and that both together give.
const EACH_MAX: usize = 4;
const BOTH_MAX: usize = 8;

/// What is set for `engramUrl` (D25).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EngramSetting {
    Off,
    /// Used only when an Engram answers there, on this machine.
    Probe(String),
    /// Used always.
    Explicit(String),
}

/// One Engram service. Clones share its connections.
#[derive(Clone)]
pub struct EngramClient {
    http: reqwest::Client,
    base: Url,
    recalled: Arc<Recalled>,
}

/// Why a call came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum EngramError {
    #[error("engramUrl is no address: {0}")]
    BadUrl(String),
    #[error("the memory service did not answer: {0}")]
    Unreachable(String),
    #[error("the memory service answered {0}")]
    Refused(u16),
    #[error("the memory service gave an answer that cannot be read: {0}")]
    Unreadable(String),
}

/// Something to be kept there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EngramMemory {
    pub content: String,
    pub category: String,
    pub scope_id: String,
    pub idempotency_key: String,
    pub upsert: bool,
}

/// Something that was recalled from there.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct EngramHit {
    pub id: String,
    pub content: String,
    #[serde(default)]
    pub category: Option<String>,
}

#[derive(Serialize)]
struct RecallBody<'a> {
    query: &'a str,
    limit: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    scope_id: Option<&'a str>,
}

#[derive(Serialize)]
struct ForgetBody<'a> {
    id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    scope_id: Option<&'a str>,
}

#[derive(Deserialize)]
struct ForgetAnswer {
    deleted: bool,
}

#[derive(Deserialize)]
struct RecallAnswer {
    memories: Vec<EngramHit>,
}

/// `/health` of an Engram; many services have one, so its capabilities are asked for too.
#[derive(Deserialize)]
struct Health {
    status: Wellness,
}

#[derive(PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Wellness {
    #[serde(alias = "ok")]
    Healthy,
    #[serde(other)]
    Other,
}

impl EngramClient {
    /// The service that is meant, if one is.
    pub async fn find(setting: &EngramSetting, http: reqwest::Client) -> Result<Option<Self>, EngramError> {
        match setting {
            EngramSetting::Off => Ok(None),
            EngramSetting::Explicit(url) => Self::at(url, http).map(Some),
            EngramSetting::Probe(url) => {
                let client = Self::at(url, http)?;
                let answers = is_believed(&client.base, "engram") && client.answers_as_engram().await;
                Ok(answers.then_some(client))
            }
        }
    }

    pub fn at(url: &str, http: reqwest::Client) -> Result<Self, EngramError> {
        let mut base = Url::parse(url).map_err(|error| EngramError::BadUrl(error.to_string()))?;
        // Joining replaces the last segment of a path that does not end in a slash.
        if !base.path().ends_with('/') {
            base.set_path(&format!("{}/", base.path()));
        }
        Ok(Self { http, base, recalled: Arc::default() })
    }

    /// Whether the service answers and is well; the error says what it does instead.
    pub async fn check(&self) -> Result<(), EngramError> {
        let health: Health = self.answer(self.http.get(self.url("health")?).timeout(TIMEOUT)).await?;
        match health.status {
            Wellness::Healthy => Ok(()),
            Wellness::Other => Err(EngramError::Unreadable("it does not call itself healthy".to_owned())),
        }
    }

    /// What this conversation and everything else has to say to a question; nothing when the service does not answer.
    /// Where users are several people only this conversation is asked for: the service does not know who told what.
    pub async fn recall(&self, query: &str, scope: &str, people: &Accounts) -> Vec<EngramHit> {
        let all = async {
            match people {
                Accounts::Everyone => self.ask(query, None).await,
                Accounts::Only(_) => Ok(Vec::new()),
            }
        };
        let (own, all) = join(self.ask(query, Some(scope)), all).await;
        let mut known = HashSet::new();
        let mut hits = Vec::new();
        for found in [own, all] {
            match found {
                Ok(found) => hits.extend(found.into_iter().take(EACH_MAX)),
                Err(error) => tracing::warn!(%error, "Nothing is recalled from the memory service"),
            }
        }
        hits.retain(|hit| known.insert(hit.id.clone()));
        hits.truncate(BOTH_MAX);
        self.recalled.note(scope, &hits);
        hits
    }

    /// The words of a memory that was recalled in this scope lately: the service gives none for an id.
    pub fn words_of(&self, id: &str, scope: &str) -> Option<String> {
        self.recalled.words_of(id, scope)
    }

    /// Keeps a memory; the same key again changes nothing.
    pub async fn remember(&self, memory: &EngramMemory) -> Result<(), EngramError> {
        self.post::<IgnoredAny>("remember", memory).await.map(drop)
    }

    /// Forgets a memory of a scope, or one that has none; false when the service knows no such memory there.
    pub async fn forget(&self, id: &str, scope_id: Option<&str>) -> Result<bool, EngramError> {
        Ok(self.post::<ForgetAnswer>("forget", &ForgetBody { id, scope_id }).await?.deleted)
    }

    /// Where the service is, without what opens it.
    pub fn place(&self) -> String {
        let mut place = self.base.clone();
        if place.set_username("").and_then(|()| place.set_password(None)).is_err() {
            return place.host_str().unwrap_or_default().to_owned();
        }
        place.set_query(None);
        place.as_str().trim_end_matches('/').to_owned()
    }

    async fn ask(&self, query: &str, scope_id: Option<&str>) -> Result<Vec<EngramHit>, EngramError> {
        let body = RecallBody { query, limit: EACH_MAX, scope_id };
        Ok(self.post::<RecallAnswer>("recall", &body).await?.memories)
    }

    async fn post<A: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<A, EngramError> {
        self.answer(self.http.post(self.url(path)?).json(body).timeout(TIMEOUT)).await
    }

    async fn answers_as_engram(&self) -> bool {
        let health = async {
            let ask = |path| self.url(path).map(|url| self.http.get(url).timeout(PROBE_MAX));
            let health: Health = self.answer(ask("health")?).await?;
            let capabilities: BTreeMap<String, IgnoredAny> = self.answer(ask("capabilities")?).await?;
            Ok::<bool, EngramError>(health.status == Wellness::Healthy && !capabilities.is_empty())
        };
        health.await.unwrap_or(false)
    }

    async fn answer<A: DeserializeOwned>(&self, request: reqwest::RequestBuilder) -> Result<A, EngramError> {
        let broken = |error: reqwest::Error| EngramError::Unreachable(error.without_url().to_string());
        let mut response = request.send().await.map_err(broken)?;
        if !response.status().is_success() {
            return Err(EngramError::Refused(response.status().as_u16()));
        }
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(broken)? {
            body.extend_from_slice(&chunk);
            if body.len() > ANSWER_BYTES_MAX {
                return Err(EngramError::Unreadable(format!("longer than {ANSWER_BYTES_MAX} bytes")));
            }
        }
        serde_json::from_slice(&body).map_err(|error| EngramError::Unreadable(error.to_string()))
    }

    fn url(&self, path: &str) -> Result<Url, EngramError> {
        self.base.join(path).map_err(|error| EngramError::BadUrl(error.to_string()))
    }
}

/// The address may hold a password.
impl fmt::Debug for EngramClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngramClient").field("host", &self.base.host_str()).finish_non_exhaustive()
    }
}
