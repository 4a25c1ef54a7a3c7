//! What the caller read from file and environment, before any provider is chosen.

use crate::model::Wire;
use crate::{ModelsError, PriceTable};
use rustls::ClientConfig;
use secrecy::SecretString;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// What is offered to a server that speaks TLS, the best first.
const HTTP_VERSIONS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// Everything `Models::assemble` needs. This crate reads no environment and no file but `scripted`.
#[derive(Debug)]
pub struct ModelsConfig {
    pub providers: Option<ProviderSettings>,
    pub synapse_url: SynapseSetting,
    /// The `model` setting; `stub` answers every question with silence.
    pub model: Option<String>,
    pub found: FoundKeys,
    /// Where an Ollama may be running, such as `http://127.0.0.1:11434`; `None` does not look.
    pub ollama_probe_url: Option<String>,
    /// The owner named that address: then it does not matter whose the service is.
    pub ollama_is_named: bool,
    /// A file for the scripted model; when given it is the only provider.
    pub scripted: Option<PathBuf>,
    pub prices: PriceTable,
    pub timeouts: Timeouts,
    /// The one client of the process, see [`http_client`].
    pub client: reqwest::Client,
}

impl ModelsConfig {
    /// Nothing configured, nothing probed: the offline model.
    pub fn offline(client: reqwest::Client) -> Self {
        Self {
            providers: None,
            synapse_url: SynapseSetting::Off,
            model: None,
            found: FoundKeys::default(),
            ollama_probe_url: None,
            ollama_is_named: false,
            scripted: None,
            prices: PriceTable::built_in(),
            timeouts: Timeouts::default(),
            client,
        }
    }
}

/// The `providers` block of `server.json`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ProviderSettings {
    /// Tried in this order.
    pub profiles: Vec<Profile>,
    /// Kept as it stands: what it means is for the agents to say.
    pub contexts: BTreeMap<String, serde_json::Value>,
}

/// One way to reach a model. Secrets show as `[REDACTED]` in `Debug` and cannot be serialized.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Profile {
    pub name: String,
    pub kind: ProfileKind,
    #[serde(default)]
    pub base_url: Option<String>,
    #[serde(default)]
    pub api_key: Option<SecretString>,
    /// Sent as `Authorization: Bearer …` on every wire.
    #[serde(default)]
    pub auth_token: Option<SecretString>,
    #[serde(default)]
    pub models: TierModels,
}

/// The wire a profile speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProfileKind {
    Openai,
    Anthropic,
    Google,
    /// A command-line agent: for runs, not for chat.
    Cli,
}

impl ProfileKind {
    pub(crate) fn wire(self) -> Option<Wire> {
        match self {
            Self::Openai => Some(Wire::Openai),
            Self::Anthropic => Some(Wire::Anthropic),
            Self::Google => Some(Wire::Google),
            Self::Cli => None,
        }
    }
}

/// Model names by tier; chat uses `pro`, then `flash`, then `lite`, whichever is named first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TierModels {
    pub pro: Option<String>,
    pub flash: Option<String>,
    pub lite: Option<String>,
}

/// What is known about a Synapse (D25).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SynapseSetting {
    /// Given by file, environment or flag: always used.
    Explicit(String),
    /// The default address: used only when a Synapse answers there at start.
    Probe(String),
    Off,
}

/// Keys the caller found in the environment.
#[derive(Debug, Clone, Default)]
pub struct FoundKeys {
    pub anthropic: Option<FoundKey>,
    pub openai: Option<FoundKey>,
    pub gemini: Option<FoundKey>,
}

/// A key and, when its `…_BASE_URL` twin was set, where to use it.
#[derive(Debug, Clone)]
pub struct FoundKey {
    pub api_key: SecretString,
    pub base_url: Option<String>,
}

/// How long a provider may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    pub connect: Duration,
    /// Longest silence of a provider, also before its first byte.
    pub idle: Duration,
    /// Longest call as a whole.
    pub total: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            // A reasoning model can think for more than a minute before its first byte.
            idle: Duration::from_secs(120),
            total: Duration::from_secs(600),
        }
    }
}

/// The HTTP client the models need; `tls` says whom it trusts. Share it: its pool is per client.
///
/// Redirects are refused, because a redirected request would carry the key to another host.
pub fn http_client(timeouts: &Timeouts, mut tls: ClientConfig) -> Result<reqwest::Client, ModelsError> {
    tls.alpn_protocols = HTTP_VERSIONS.map(Vec::from).into();
    reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .connect_timeout(timeouts.connect)
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("cortex/", env!("CARGO_PKG_VERSION")))
        .no_proxy()
        .build()
        .map_err(|error| ModelsError::Client(error.to_string()))
}
