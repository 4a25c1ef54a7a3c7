//! Looks for a Synapse and an Ollama on this machine, quickly and without sending anything.

use crate::listener::{is_believed, is_loopback};
use reqwest::Url;
use serde::Deserialize;
use std::time::Duration;

/// A service on loopback answers at once or is not there.
const PROBE_MAX: Duration = Duration::from_millis(300);
const ANSWER_BYTES_MAX: usize = 1024 * 1024;

/// Whether a Synapse answers `/health` here. A degraded one counts: it may recover before it is needed.
pub(crate) async fn synapse_is_at(client: &reqwest::Client, base_url: &str) -> bool {
    // Many services have a `/health`; the list of providers tells a Synapse from them.
    let Some(base) = Url::parse(base_url).ok().filter(|url| is_believed(url, "synapse")) else {
        return false;
    };
    let health =
        get(client, base, "health").await.and_then(|body| serde_json::from_slice::<Health>(&body).ok());
    health.is_some_and(|health| matches!(health.status.as_str(), "healthy" | "degraded"))
}

/// The models an Ollama here can chat with; none when there is no Ollama. Where the owner named the address, whoever
/// listens there is the one that they mean.
pub(crate) async fn ollama_models(client: &reqwest::Client, base_url: &str, is_named: bool) -> Vec<String> {
    let may_be_asked = |url: &Url| if is_named { is_loopback(url) } else { is_believed(url, "ollama") };
    let Some(base) = Url::parse(base_url).ok().filter(may_be_asked) else { return Vec::new() };
    let tags =
        get(client, base, "api/tags").await.and_then(|body| serde_json::from_slice::<Tags>(&body).ok());
    let names = tags.into_iter().flat_map(|tags| tags.models).map(|model| model.name);
    names.filter(|name| !name.contains("embed")).collect()
}

async fn get(client: &reqwest::Client, base: Url, path: &str) -> Option<Vec<u8>> {
    let url = base.join("/").and_then(|root| root.join(path)).ok()?;
    tokio::time::timeout(PROBE_MAX, async {
        let mut response = client.get(url).send().await.ok()?;
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.ok()? {
            body.extend_from_slice(&chunk);
            if body.len() > ANSWER_BYTES_MAX {
                return None;
            }
        }
        Some(body)
    })
    .await
    .ok()
    .flatten()
}

#[derive(Deserialize)]
struct Health {
    status: String,
    #[serde(rename = "providers")]
    _providers: Vec<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
struct Tags {
    models: Vec<Tag>,
}

#[derive(Deserialize)]
struct Tag {
    name: String,
}
