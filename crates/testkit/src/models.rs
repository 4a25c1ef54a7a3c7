//! Models for tests: offline, from a script, or at the address of a far side.

#![expect(clippy::expect_used, reason = "tests fail by panicking")]

use cortex_models::{ModelsConfig, SynapseSetting, Timeouts, http_client};
use cortex_tools::tls_config;
use std::path::Path;
use std::sync::{Arc, Once};

/// Which models a test has; made anew at each start.
#[derive(Clone)]
pub enum TestModels {
    Offline,
    /// The scripted model with this script.
    Script(serde_json::Value),
    /// An OpenAI-compatible server at this address.
    Synapse(String),
    Other(Arc<dyn Fn() -> ModelsConfig + Send + Sync>),
}

impl TestModels {
    /// `folder` takes what must be a file.
    pub(crate) fn config(&self, folder: &Path) -> ModelsConfig {
        match self {
            Self::Offline => offline_models(),
            Self::Script(script) => {
                let path = folder.join("script.json");
                std::fs::write(&path, script.to_string()).expect("a script can be written");
                ModelsConfig { scripted: Some(path), ..offline_models() }
            }
            Self::Synapse(url) => ModelsConfig {
                synapse_url: SynapseSetting::Explicit(url.clone()),
                model: Some("far-1".to_owned()),
                ..offline_models()
            },
            Self::Other(make) => make(),
        }
    }
}

/// Nothing configured and nothing probed, with a client that can reach loopback.
pub fn offline_models() -> ModelsConfig {
    offline_models_within(Timeouts::default())
}

/// The same, for a far side that is waited for so long.
pub fn offline_models_within(timeouts: Timeouts) -> ModelsConfig {
    install_tls();
    let tls = tls_config().expect("TLS can be set up");
    let client = http_client(&timeouts, tls).expect("a client can be made");
    ModelsConfig { timeouts, ..ModelsConfig::offline(client) }
}

/// Clients refuse to be made without a TLS provider, also for plain HTTP.
pub(crate) fn install_tls() {
    static INSTALL: Once = Once::new();
    // Fails only when a provider is there already, which is what is wanted.
    INSTALL.call_once(|| rustls::crypto::ring::default_provider().install_default().unwrap_or_default());
}
