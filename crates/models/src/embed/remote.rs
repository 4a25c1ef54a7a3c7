//! An embedding model of an OpenAI-compatible server: `POST /v1/embeddings`.

use super::{EmbedError, normalised};
use crate::ModelsError;
use crate::endpoint::{Credential, Endpoint};
use crate::error::CallError;
use cortex_types::Clock;
use reqwest::Url;
use secrecy::SecretString;
use serde::Deserialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// A question waits for its vector, so a slow server must not hold it for long.
const TIMEOUT: Duration = Duration::from_secs(3);
const TIMEOUT_IN_BACKGROUND: Duration = Duration::from_secs(20);
/// So long a server that is away is not asked again while somebody waits.
const LEFT_ALONE: Duration = Duration::from_secs(30);
const ANSWER_BYTES_MAX: usize = 32 * 1024 * 1024;
const SETTING: &str = "embedding";

/// The block `embedding` of server.json.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EmbeddingSettings {
    pub base_url: String,
    #[serde(default)]
    pub api_key: Option<SecretString>,
    pub model: String,
    /// Asked of models that can give fewer; else the model's own.
    #[serde(default)]
    pub dims: Option<u32>,
}

/// Who waits for the vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    SomebodyWaits,
    NobodyWaits,
}

/// Asks a server for vectors.
#[derive(Clone)]
pub(crate) struct RemoteEmbedder {
    endpoint: Arc<Endpoint>,
    url: Url,
    settings: EmbeddingSettings,
    clock: Arc<dyn Clock>,
    /// Until then, in epoch milliseconds, it counts as away.
    away_until: Arc<AtomicI64>,
    /// What vectors are stored under: a model that is asked for other dimensions is another model.
    name: String,
}

#[derive(Deserialize)]
struct Answer {
    data: Vec<AnsweredVector>,
}

#[derive(Deserialize)]
struct AnsweredVector {
    index: usize,
    embedding: Vec<f32>,
}

impl RemoteEmbedder {
    pub(crate) fn new(
        settings: EmbeddingSettings,
        client: reqwest::Client,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, ModelsError> {
        let credential = settings.api_key.clone().map_or(Credential::None, Credential::Bearer);
        let endpoint =
            Endpoint::new(client, Arc::clone(&clock), &settings.base_url, "v1", credential, SETTING)?;
        let name = match settings.dims {
            Some(dims) => format!("{}@{dims}", settings.model),
            None => settings.model.clone(),
        };
        let url = endpoint.url(&["embeddings"]);
        Ok(Self { endpoint: Arc::new(endpoint), url, settings, clock, away_until: Arc::default(), name })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn dims(&self) -> Option<u32> {
        self.settings.dims
    }

    pub(crate) async fn embed(
        &self,
        texts: &[&str],
        patience: Patience,
    ) -> Result<Vec<Vec<f32>>, EmbedError> {
        let timeout = match patience {
            Patience::SomebodyWaits => TIMEOUT,
            Patience::NobodyWaits => TIMEOUT_IN_BACKGROUND,
        };
        let is_away = self.clock.now().0 < self.away_until.load(Ordering::Relaxed);
        if is_away && patience == Patience::SomebodyWaits {
            return Err(EmbedError::Away("it was away a moment ago and is left alone".to_owned()));
        }
        let made = self.ask(texts, timeout).await;
        let left_alone = i64::try_from(LEFT_ALONE.as_millis()).unwrap_or(i64::MAX);
        let away_until = match &made {
            Ok(_) | Err(EmbedError::Refused(_)) => 0,
            Err(EmbedError::Away(_)) => self.clock.now().0.saturating_add(left_alone),
        };
        self.away_until.store(away_until, Ordering::Relaxed);
        made
    }

    async fn ask(&self, texts: &[&str], timeout: Duration) -> Result<Vec<Vec<f32>>, EmbedError> {
        let mut body =
            serde_json::json!({ "model": self.settings.model, "input": texts, "encoding_format": "float" });
        if let Some(dims) = self.settings.dims {
            body["dimensions"] = dims.into();
        }
        let asked = self.endpoint.post_json(self.url.clone(), &body, ANSWER_BYTES_MAX);
        let answered = tokio::time::timeout(timeout, asked).await;
        let answer = answered.map_err(|_| EmbedError::Away(format!("silent for {} s", timeout.as_secs())))?;
        let answer: Answer = answer.map_err(failed).and_then(|body| {
            serde_json::from_slice(&body).map_err(|_| malformed("it is no list of vectors"))
        })?;
        in_order(answer, texts.len())
    }
}

fn failed(error: CallError) -> EmbedError {
    // What it says of a text it cannot take; a wrong path or model is mended by a person, so it is asked again.
    let is_refused =
        matches!(error, CallError::Rejected { status: 400 | 413 | 422, .. } | CallError::Filtered);
    if is_refused { EmbedError::Refused(error.to_string()) } else { EmbedError::Away(error.to_string()) }
}

fn malformed(what: &str) -> EmbedError {
    EmbedError::Away(format!("the answer was malformed: {what}"))
}

/// One vector for each text, all of the same dimensions.
fn in_order(mut answer: Answer, texts: usize) -> Result<Vec<Vec<f32>>, EmbedError> {
    answer.data.sort_by_key(|item| item.index);
    let is_complete =
        answer.data.len() == texts && answer.data.iter().enumerate().all(|(place, item)| item.index == place);
    let dims = answer.data.first().map_or(0, |item| item.embedding.len());
    let is_even = answer.data.iter().all(|item| item.embedding.len() == dims);
    let is_finite = answer.data.iter().all(|item| item.embedding.iter().all(|part| part.is_finite()));
    if !is_complete {
        return Err(malformed("not one vector for each text"));
    }
    if dims == 0 || !is_even || !is_finite {
        return Err(malformed("a vector is empty, longer than the others, or not of numbers"));
    }
    Ok(answer.data.into_iter().map(|item| normalised(item.embedding)).collect())
}
