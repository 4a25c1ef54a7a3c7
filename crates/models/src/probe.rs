//! Looks for a Synapse and an Ollama on this machine, quickly and without sending anything.

use reqwest::Url;
use serde::Deserialize;
use std::net::IpAddr;
use std::time::Duration;

/// A service on loopback answers at once or is not there.
const PROBE_MAX: Duration = Duration::from_millis(300);
const ANSWER_BYTES_MAX: usize = 1024 * 1024;

/// Whether a Synapse answers `/health` here. A degraded one counts: it may recover before it is needed.
pub(crate) async fn synapse_is_at(client: &reqwest::Client, base_url: &str) -> bool {
    // Many services have a `/health`; the list of providers tells a Synapse from them.
    let health =
        get(client, base_url, "health").await.and_then(|body| serde_json::from_slice::<Health>(&body).ok());
    health.is_some_and(|health| matches!(health.status.as_str(), "healthy" | "degraded"))
}

/// The models an Ollama here can chat with; none when there is no Ollama.
pub(crate) async fn ollama_models(client: &reqwest::Client, base_url: &str) -> Vec<String> {
    let tags =
        get(client, base_url, "api/tags").await.and_then(|body| serde_json::from_slice::<Tags>(&body).ok());
    let names = tags.into_iter().flat_map(|tags| tags.models).map(|model| model.name);
    names.filter(|name| !name.contains("embed")).collect()
}

async fn get(client: &reqwest::Client, base_url: &str, path: &str) -> Option<Vec<u8>> {
    let base = Url::parse(base_url).ok().filter(is_loopback)?;
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

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
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

#[cfg(test)]
mod tests {
    use super::is_loopback;
    use reqwest::Url;

    #[test]
    fn only_this_machine_is_probed() {
        for (url, expected) in [
            ("http://localhost:7750", true),
            ("http://127.0.0.1:7750/v1", true),
            ("http://127.9.9.9", true),
            ("http://[::1]:11434", true),
            ("http://localhost.example.org", false),
            ("http://10.0.0.1", false),
            ("http://0.0.0.0", false),
            ("http://[::2]", false),
        ] {
            assert_eq!(is_loopback(&Url::parse(url).unwrap()), expected, "{url}");
        }
    }
}
